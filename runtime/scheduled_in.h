/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of scheduled*.c: from a scheduled module and its buffer assignment to thunk messages.
 *
 * A value's place is the slice of an allocation that the buffer assignment gives it. It is recorded where the value
 * is made (logical buffer); instructions that only pass values on (tuple, get-tuple-element, bitcast, loops, …) are
 * followed here. Places are kept per leaf: the arrays of an instruction's shape, depth first.
 * Messages live in the module's arena. Thread: that of td_module_open. */
#ifndef TD_RUNTIME_SCHEDULED_IN_H
#define TD_RUNTIME_SCHEDULED_IN_H

#include <jansson.h>

#include "executable.pb-c.h"
#include "runtime/module.h"
#include "runtime/thunk/thunk.h"

typedef struct td_place {
    bool set;
    uint32_t allocation;
    uint64_t offset, size;
} td_place_t;

typedef struct td_sched_instr {
    const td_hlo_instr_t *in;
    const Xla__HloInstructionProto *msg;
    uint32_t n_leaves;
    const uint32_t *first; /* tuples: the number of leaves before each element, and in all */
    td_place_t *places; /* first what the buffer assignment records, then what it passes on as well */
} td_sched_instr_t;

typedef struct td_sched_comp {
    const td_hlo_comp_t *comp;
    td_sched_instr_t *instrs; /* in the order of comp->instrs */
    uint32_t *order;          /* indices into instrs, as scheduled; NULL: not in the schedule */
    bool used;                /* thunks were made for it */
} td_sched_comp_t;

typedef struct td_sched {
    td_module_t *m;
    const td_artifact_t *a;
    td_arena_t *arena;
    td_err_t *err;
    const Xla__HloModuleProto *hlo;
    td_sched_comp_t *comps; /* in the order of m->hlo->comps */
    const td_sched_comp_t **by_comp; /* sorted by the address of comp */
    td_sched_instr_t **by_id;        /* open addressing */
    size_t id_mask;
    Xla__BufferAllocationProto **allocations; /* the buffer assignment's, then temporary ones */
    const td_literal_t **literals;            /* of each constant one */
    uint32_t n_allocations, cap_allocations;
    bool plain_ids; /* the buffer assignment's instruction ids are those of the module as they stand */
} td_sched_t;

/* A sequence of thunk messages that grows. */
typedef struct td_sched_out {
    Xla__Gpu__ThunkProto **v;
    size_t n, cap;
} td_sched_out_t;

/* ---- scheduled_order.c ---- */
/* Fills comps' instrs and order from the module and its schedule; both tables. */
td_status_t td_sched_index(td_sched_t *s);
td_sched_comp_t *td_sched_comp(const td_sched_t *s, const td_hlo_comp_t *comp);
td_sched_instr_t *td_sched_instr(const td_sched_t *s, const td_hlo_instr_t *in);
/* By the id or, in messages without one, the name of a logical buffer's location; NULL: none. */
td_sched_instr_t *td_sched_find(const td_sched_t *s, const Xla__LogicalBufferProto__Location *at);

/* ---- scheduled_places.c ---- */
/* Places that the buffer assignment records. */
td_status_t td_sched_places(td_sched_t *s);
/* Places that an instruction has from its operands alone (tuple, get-tuple-element, bitcast, …). */
td_status_t td_sched_pass_on(td_sched_t *s, td_sched_instr_t *i);
/* `to` takes over from's places, where it has its own they must be the same. what: "loop state", for messages. */
td_status_t td_sched_same(td_sched_t *s, const char *what, const td_sched_instr_t *of, td_place_t *to, uint32_t n_to,
                          const td_place_t *from, uint32_t n_from);
/* Leaves of a shape, and the number of leaves before element k of a tuple. */
uint32_t td_sched_leaves_before(const td_shape_t *s, uint32_t k);

/* ---- scheduled_msg.c: NULL is memory gone, or *st tells ---- */
td_status_t td_sched_add(td_sched_t *s, td_sched_out_t *out, const char *name, Xla__Gpu__ThunkProto__ImplCase impl,
                         Xla__Gpu__ThunkProto **thunk);
/* The slice of a leaf; an error names the instruction when it has no place. */
td_status_t td_sched_slice(td_sched_t *s, const td_sched_instr_t *i, uint32_t leaf,
                           Xla__BufferAssignment__BufferAllocationSliceProto **out);
td_status_t td_sched_shaped(td_sched_t *s, const td_sched_instr_t *i, uint32_t leaf, Xla__ShapedSliceProto **out);
/* The message of a leaf's shape. */
const Xla__ShapeProto *td_sched_shape(const td_sched_instr_t *i, uint32_t leaf);
/* An instruction as a kernel: operand leaves, then result leaves. */
td_status_t td_sched_kernel(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i);
/* The same slices for a cuDNN thunk. */
td_status_t td_sched_cudnn(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i);
/* Copies leaf `from` of a to leaf `to` of b; nothing where both are in one place. */
td_status_t td_sched_copy(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *a, uint32_t from,
                          const td_sched_instr_t *b, uint32_t to);

/* ---- scheduled_config.c: backend configurations ---- */
/* The JSON object of a backend configuration, or its member `part` if that is not NULL. *out must be released. */
td_status_t td_sched_config(td_sched_t *s, const td_sched_instr_t *i, const char *part, json_t **out);
/* Members as JSON of protobuf messages writes them: numbers may be strings, "NaN" and "Infinity" too; absent ones are
 * the default. */
td_status_t td_sched_number(td_sched_t *s, json_t *o, const char *name, double dflt, double *out);
td_status_t td_sched_integer(td_sched_t *s, json_t *o, const char *name, int64_t dflt, int64_t *out);
td_status_t td_sched_bool(td_sched_t *s, json_t *o, const char *name, bool dflt, bool *out);
/* By name or number; names: one for each number, NULL: none. */
td_status_t td_sched_enum(td_sched_t *s, json_t *o, const char *name, const char *const *names, int n, int dflt,
                          int *out);
/* A list of dimensions below rank, each once. *out in the arena. */
td_status_t td_sched_dims(td_sched_t *s, json_t *o, const char *name, uint32_t rank, td_ints_t *out);

/* ---- scheduled.c ---- */
/* The thunks of one instruction; its operands' places are known. */
td_status_t td_sched_instruction(td_sched_t *s, td_sched_out_t *out, td_sched_instr_t *i);
/* Gives the parameters of a called computation the places of what the caller passes, one parameter per operand from
 * the first-th on. */
td_status_t td_sched_bind(td_sched_t *s, const td_sched_instr_t *i, uint32_t first, const td_hlo_comp_t *comp);

/* ---- one file each ---- */
td_status_t td_sched_fusion(td_sched_t *s, td_sched_out_t *out, td_sched_instr_t *i);
td_status_t td_sched_custom_call(td_sched_t *s, td_sched_out_t *out, td_sched_instr_t *i);
td_status_t td_sched_gemm(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i);
td_status_t td_sched_convolution(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i);
/* Any other custom call: an FFI handler by its name. */
td_status_t td_sched_ffi(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i);
/* An attribute dictionary as MLIR writes it ({a = 1 : i32, b = "x"}) as the message of a typed custom call. */
td_status_t td_sched_attributes(td_sched_t *s, const char *text, Xla__Ffi__AttributesMapProto **out);

#endif
