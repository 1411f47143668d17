/* SPDX-License-Identifier: Apache-2.0 */
/* The host kernel compiler's two halves, and the seam between them.
 *
 * A kernel is an HLO instruction compiled into a list of steps over dense arrays
 * (layout of each = the instruction's shape layout). *Pointwise* steps (pw.h)
 * run many element-wise instructions tile by tile; every other instruction is a
 * *macro op*: prepare decides everything at load, run only computes. */
#ifndef TD_RUNTIME_HOST_HOST_OP_H
#define TD_RUNTIME_HOST_HOST_OP_H

#include "base/arena.h"
#include "runtime/hlo/hlo.h"

/* A scalar computation (reducer, comparator, map body) compiled to run over vectors:
 * parameter p is in[p], an array of n elements of its type; root leaf r goes to out[r].
 * Element types as stored one per element (sub-byte: one byte each). */
typedef struct td_pw td_pw_t;
td_status_t td_pw_compile_scalar(const td_hlo_comp_t *comp, td_arena_t *arena, td_pw_t **out, td_err_t *err);
/* n at most TD_PW_TILE; scratch holds td_pw_scratch(pw) bytes, 64-byte aligned. out[] may equal in[] exactly. */
enum { TD_PW_TILE = 1024 };
uint64_t td_pw_scratch(const td_pw_t *pw);
void td_pw_run(const td_pw_t *pw, const void *const *in, void *const *out, size_t n, void *scratch);
/* If the computation is exactly one binary op of its two parameters (add, maximum, …), that opcode; else UNKNOWN. */
td_opcode_t td_pw_simple_op(const td_hlo_comp_t *comp);

/* Whole-array conversion between element types with HLO convert semantics (used by dot etc.). */
void td_convert_array(td_type_t from, const void *src, td_type_t to, void *dst, size_t n);

/* ---- macro ops: one file each, one row in macro_ops.c ---- */
typedef struct td_host_op td_host_op_t; /* prepared; in the arena */
typedef struct td_host_op_kind {
    td_opcode_t opcode;
    /* Fills state for run; out_scratch = bytes run needs (64-byte aligned scratch).
     * All operands and results are dense arrays in their shapes' layouts, sub-byte types ONE BYTE PER ELEMENT
     * (the compiler unpacks and packs at the kernel's borders). */
    td_status_t (*prepare)(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                           td_err_t *err);
    /* in: one address per operand leaf; out: one per result leaf. out never overlaps in, except
     * for ops with in_place set, where out[0] may equal in[0] exactly (operand 0 updated in place). */
    void (*run)(const void *state, const void *const *in, void *const *out, void *scratch);
    bool in_place;
} td_host_op_kind_t;
/* NULL when no macro op implements the opcode. */
const td_host_op_kind_t *td_host_op_find(td_opcode_t op);

#endif
