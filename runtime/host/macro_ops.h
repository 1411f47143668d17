/* SPDX-License-Identifier: Apache-2.0 */
/* What the macro ops share: strided copies, element offsets, combiners.
 *
 * All strides count elements. Plans are made at prepare and immutable afterwards;
 * running needs no memory but the caller's scratch. Thread: any. */
#ifndef TD_RUNTIME_HOST_MACRO_OPS_H
#define TD_RUNTIME_HOST_MACRO_OPS_H

#include "base/checked.h"
#include "base/limits.h"
#include "runtime/host/host_op.h"
#include "runtime/host/pw.h"

/* In a prepare function (instr and err in scope): refuse unless c. */
#define TD_NEED_AS(code, c, ...)                                        \
    do {                                                                \
        if (!(c)) {                                                     \
            td_status_t st_need_ = td_fail(err, (code), __VA_ARGS__);   \
            return td_prefix(err, st_need_, "%s", instr->name);         \
        }                                                               \
    } while (0)
#define TD_NEED(c, ...) TD_NEED_AS(TD_MALFORMED, c, __VA_ARGS__)

/* An N-dimensional copy, dimensions merged and ordered for the destination. */
typedef struct td_strided {
    uint32_t rank, size; /* size: bytes of an element */
    uint64_t bytes;
    bool empty, tiled;   /* tiled: the two innermost dimensions are a transposition */
    int64_t n[TD_LIMIT_RANK], dst[TD_LIMIT_RANK], src[TD_LIMIT_RANK]; /* strides in bytes */
} td_strided_t;
/* Source strides may be zero or negative; destination strides are positive. */
void td_strided_plan(td_strided_t *p, uint32_t size, uint32_t rank, const int64_t *dims, const int64_t *dst,
                     const int64_t *src);
void td_strided_copy(const td_strided_t *p, void *dst, const void *src);

/* A dimension list walked in row-major order. */
typedef struct td_dims {
    uint32_t rank;
    int64_t n[TD_LIMIT_RANK], stride[TD_LIMIT_RANK];
} td_dims_t;
void td_dims_add(td_dims_t *d, int64_t n, int64_t stride);
/* Product of the sizes; that of an array's dimensions, so it cannot overflow. */
int64_t td_dims_count(const td_dims_t *d);
/* out[i] = offset of element first+i. */
void td_dims_offsets(const td_dims_t *d, int64_t first, size_t n, int64_t *out);

/* One stride for all of it, in *stride (that of a single element: `single`); false if there is none. */
bool td_dims_join(const td_dims_t *d, int64_t single, int64_t *stride);

/* Is d in the list? At *at. */
static inline bool td_ints_find(td_ints_t v, int64_t d, uint32_t *at) {
    for (uint32_t i = 0; i < v.n; i++)
        if (v.v[i] == d) {
            *at = i;
            return true;
        }
    return false;
}
/* Dimension numbers of an array: each within the rank, none twice. */
td_status_t td_check_dims(const td_hlo_instr_t *instr, td_ints_t v, uint32_t rank, td_err_t *err);

/* Adds the listed dimensions of s to out; seen: those that some list had already, each may stand once. */
td_status_t td_dims_take(const td_hlo_instr_t *instr, td_ints_t v, const td_shape_t *s, const int64_t *strides,
                         uint64_t *seen, td_dims_t *out, td_err_t *err);

/* dst[i] = src[off[i]], and dst[off[i]] = src[i]. */
void td_take(uint32_t size, const void *src, const int64_t *off, size_t n, void *dst);
void td_put(uint32_t size, const void *src, const int64_t *off, size_t n, void *dst);
void td_fill(uint32_t size, const void *element, size_t n, void *dst);

bool td_is_index_type(td_type_t t);
/* An index of any integer type; what does not fit is INT64_MAX. */
int64_t td_index_at(td_type_t t, const void *base, int64_t at);
static inline int64_t td_clamp_index(int64_t x, int64_t max) { return x < 0 ? 0 : x > max ? max : x; }

/* Operands of one reduction, sort or scatter; XLA's own programs stay below 10. */
enum { TD_MACRO_ARRAYS = 32 };

/* A reducer or combiner over `n` arrays: acc = f(acc, x). */
typedef struct td_combiner {
    uint32_t n;
    td_pw_fn_t fn;  /* one plain operation on registers of type reg; else pw */
    td_pw_t *pw;
    td_type_t reg;  /* with fn: what accumulators are held in */
    uint64_t scratch;
} td_combiner_t;
/* types: element type of each array. wide: accumulate f32 sums in f64 and small floats in f32. */
td_status_t td_combiner_make(td_combiner_t *c, const td_hlo_comp_t *comp, uint32_t n, const td_type_t *types, bool wide,
                             td_arena_t *arena, td_err_t *err);
/* n at most TD_PW_TILE; out may equal acc or x. */
void td_combine(const td_combiner_t *c, void *const *acc, const void *const *x, void *const *out, size_t n,
                void *scratch);

/* Result leaf k of an instruction with n results. */
static inline const td_shape_t *td_result(const td_hlo_instr_t *instr, uint32_t k) {
    return instr->shape->type == TD_TUPLE ? instr->shape->elements[k] : instr->shape;
}
static inline const td_shape_t *td_operand(const td_hlo_instr_t *instr, uint32_t k) { return instr->operands[k]->shape; }
static inline uint32_t td_elem(const td_shape_t *s) { return td_type_bytes(s->type); }
/* Reserves bytes in a scratch area, aligned to 64; false on overflow. */
static inline bool td_reserve(uint64_t *total, uint64_t count, uint64_t size, uint64_t *at) {
    uint64_t b;
    if (!td_mul_u64(count, size, &b) || b > (1ull << 60) || *total > (1ull << 60)) return false;
    *at = *total;
    *total += (b + 63) & ~63ull;
    return true;
}

/* Of reduce and reduce-window: n operands, then n initial values, one computation, n results. */
static inline td_status_t td_reduction_arity(const td_hlo_instr_t *instr, uint32_t *out_n, td_err_t *err) {
    uint32_t n = instr->n_operands / 2;
    TD_NEED(n && instr->n_operands % 2 == 0 && instr->n_called == 1, "%u operands", instr->n_operands);
    TD_NEED(instr->shape->type == TD_TUPLE ? instr->shape->rank == n : n == 1, "result does not have %u arrays", n);
    TD_NEED_AS(TD_UNSUPPORTED, n <= TD_MACRO_ARRAYS, "%u arrays at once", n);
    *out_n = n;
    return TD_OK;
}

#define TD_MACRO(name)                                                                                        \
    td_status_t td_##name##_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state,         \
                                    uint64_t *out_scratch, td_err_t *err);                                    \
    void td_##name##_run(const void *state, const void *const *in, void *const *out, void *scratch)
TD_MACRO(move);
TD_MACRO(reshape);
TD_MACRO(concat);
TD_MACRO(pad);
TD_MACRO(dynamic_slice);
TD_MACRO(dynamic_update);
TD_MACRO(gather);
TD_MACRO(scatter);
TD_MACRO(reduce);
TD_MACRO(window);
TD_MACRO(dot);
TD_MACRO(convolution);
TD_MACRO(sort);
TD_MACRO(fft_op);
TD_MACRO(triangular);
TD_MACRO(cholesky);
TD_MACRO(topk);
TD_MACRO(while);
TD_MACRO(conditional);
TD_MACRO(scan);
TD_MACRO(map);
TD_MACRO(bitcast);
TD_MACRO(select_scatter);
TD_MACRO(random_bits);
TD_MACRO(rng);
TD_MACRO(rng_state);
TD_MACRO(batch_norm);
TD_MACRO(stochastic);
TD_MACRO(ragged_dot);
TD_MACRO(scaled_dot);

#endif
