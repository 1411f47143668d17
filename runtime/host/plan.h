/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel is compiled from and into: values (flat, operands first), then steps.
 *
 * Values of equal element count share one linear space: position i of memory. A
 * bitcast or a reshape between equal orders is therefore no value at all; a
 * change of layout or a broadcast is a *map*: strides over the source's memory.
 * Built at load, immutable afterwards. */
#ifndef TD_RUNTIME_HOST_PLAN_H
#define TD_RUNTIME_HOST_PLAN_H

#include "runtime/device.h"
#include "runtime/host/host_op.h"
#include "runtime/host/pw.h"

typedef enum td_val_kind { TD_VAL_PARAM, TD_VAL_CONST, TD_VAL_PW, TD_VAL_MAP, TD_VAL_IOTA, TD_VAL_ALIAS, TD_VAL_MACRO } td_val_kind_t;

typedef struct td_buf {
    enum { TD_BUF_NONE, TD_BUF_SCRATCH, TD_BUF_CONST, TD_BUF_ARG } space;
    uint64_t offset; /* scratch: bytes; arg: its number */
    const void *bytes;
} td_buf_t;

/* Output-order dimensions, fastest last, over the source's memory; strides in elements. */
typedef struct td_map {
    uint32_t rank;
    int64_t *sizes, *strides;
    bool splat; /* every stride is 0 */
} td_map_t;

typedef struct td_val {
    td_val_kind_t kind;
    td_type_t type;
    int64_t count;
    const td_hlo_instr_t *instr;
    uint32_t src[3], n_src; /* PW operands; MAP and ALIAS source */
    td_map_t map;
    int64_t iota_inner, iota_size;
    uint32_t macro;
    const td_shape_t *shape; /* PARAM: as it lies in the argument */
    bool packed;
    uint32_t stage;
    bool mat;
    int32_t def, last; /* steps */
    td_buf_t buf;
} td_val_t;

typedef struct td_macro {
    const td_hlo_instr_t *instr;
    const td_host_op_kind_t *kind;
    void *state;
    uint64_t scratch;
    uint32_t *in, n_in, first_out, n_out, stage;
    bool fused;              /* a reduction done by the loop that makes its operand */
    int64_t reduced, inner;  /* fused: the operand's memory is [outer][reduced][inner] */
    td_opcode_t op;
} td_macro_t;

typedef struct td_plan {
    td_arena_t *arena;
    td_val_t *vals;
    td_macro_t *macros;
    uint32_t *roots;
    uint32_t n_vals, cap_vals, n_macros, cap_macros, n_roots, n_params;
} td_plan_t;

/* The values of an instruction's array leaves, depth first. */
typedef struct td_leaves {
    uint32_t *v, n;
} td_leaves_t;

/* For plan.c and plan_ops.c. NULL when memory ended. */
td_val_t *td_plan_add(td_plan_t *p, td_val_kind_t kind, td_type_t type, int64_t count, uint32_t *id);
/* The value that lies as `from`, laid out as `to` (same dimensions). */
td_status_t td_plan_relayout(td_plan_t *p, uint32_t src, const td_shape_t *from, const td_shape_t *to, uint32_t *id,
                             td_err_t *err);
/* The computation's root, its instructions added to the plan; args by parameter number. */
td_status_t td_plan_walk(td_plan_t *p, const td_hlo_comp_t *comp, const td_leaves_t *args, td_leaves_t *root, int depth,
                         td_err_t *err);
td_status_t td_plan_unsupported(const td_hlo_instr_t *in, td_err_t *err);
/* plan_ops.c: opcodes that compute nothing but decide which values are meant. vals: by instruction index. */
bool td_plan_is_structural(const td_hlo_instr_t *in);
td_status_t td_plan_structural(td_plan_t *p, const td_hlo_instr_t *in, const td_leaves_t *vals, td_leaves_t *r, int depth,
                               td_err_t *err);
/* Array leaf i, depth first; i is below td_shape_leaf_count. */
const td_shape_t *td_shape_leaf(const td_shape_t *s, uint32_t i);

/* The instruction flattened into values and macro ops. */
td_status_t td_plan_build(const td_kernel_desc_t *desc, td_arena_t *arena, td_plan_t *out, td_err_t *err);

typedef struct td_step {
    enum { TD_STEP_LOOP, TD_STEP_GEMV, TD_STEP_MACRO, TD_STEP_COPY, TD_STEP_UNPACK, TD_STEP_PACK } kind;
    struct td_loop *loop; /* LOOP */
    struct td_gemv *gemv; /* GEMV */
    int64_t count;
    /* MACRO */
    const td_macro_t *macro;
    bool copy_first; /* operand 0 goes to the output before the op updates it */
    uint64_t bytes;
    /* all */
    td_type_t type;
    uint32_t *in_vals, *out_vals, n_in, n_out;
    td_buf_t *in, *out;
    uint64_t scratch, scratch_at; /* size; offset */
} td_step_t;

struct td_kernel {
    td_status_t (*run)(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err);
    /* NULL: nothing to pack; see td_device_ops */
    uint64_t (*pack_bytes)(const td_kernel_t *k, uint32_t arg);
    td_status_t (*pack)(td_kernel_t *k, uint32_t arg, const void *from, void *to, void *scratch, td_err_t *err);
    bool packed;
    void (*release)(td_kernel_t *k); /* NULL: nothing outside the arena */
    td_step_t *steps;
    uint32_t n_steps;
    const void *library; /* state of a library operation */
};

td_status_t td_host_kernel_lower(td_device_t *dev, const td_kernel_desc_t *desc, td_arena_t *arena, td_kernel_t **out,
                                 uint64_t *out_scratch, td_err_t *err);
td_status_t td_host_kernel_run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err);
/* library.c: the row of the operation, or a refusal. */
td_status_t td_host_library_lower(td_device_t *dev, td_library_op_t op, const void *desc, td_arena_t *arena,
                                  td_kernel_t **out, uint64_t *out_scratch, td_err_t *err);

#endif
