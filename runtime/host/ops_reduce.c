/* SPDX-License-Identifier: Apache-2.0 */
/* reduce: any computation over several operands.
 *
 * Operands are arranged as rows [kept, reduced] or columns [reduced, kept] (read in place
 * when they lie so). One operand with a plain add, maximum… of f32, f64 or an integer has a
 * loop of its own; f16 and bf16 are widened to f32 and rounded once. Everything else runs the
 * computation over vectors of kept elements. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/host/box.h"

enum { OPERANDS_MAX = 32 };

typedef struct operand {
    const td_box_t *pack; /* NULL: in place */
    td_type_t type;
    uint64_t pack_at, wide_at;
    uint32_t elem;
} operand_t;

typedef struct reduce {
    uint32_t n;
    operand_t op[OPERANDS_MAX];
    int64_t kept, reduced;
    bool columns;
    td_opcode_t simple; /* UNKNOWN: run pw */
    td_type_t compute;
    const td_pw_t *pw;
    uint64_t pw_at, acc_at;
    uint64_t acc_of[OPERANDS_MAX];
} reduce_t;

static td_status_t wrong(const td_hlo_instr_t *instr, const char *what, td_err_t *err) {
    return td_fail(err, TD_MALFORMED, "reduce %s: %s", instr->name, what);
}
static void take(uint64_t *total, uint64_t bytes, uint64_t *at) {
    *at = *total;
    *total += td_align_up(bytes, 64);
}

/* kept dimensions in the result's memory order, then reduced ones by the operand's memory order. */
static td_status_t split_dims(const td_hlo_instr_t *instr, const td_shape_t *s, const td_shape_t *r, int64_t *kept, int64_t *gone,
                              td_err_t *err) {
    uint64_t used = 0;
    int64_t in_order[TD_BOX_RANK_MAX];
    if (s->rank > TD_BOX_RANK_MAX - 1) return wrong(instr, "rank is too high", err);
    for (uint32_t i = 0; i < instr->dimensions.n; i++) {
        int64_t d = instr->dimensions.v[i];
        if (d < 0 || d >= (int64_t)s->rank || (used >> d & 1)) return wrong(instr, "bad dimension", err);
        used |= 1ull << d;
    }
    uint32_t n = 0, g = 0;
    for (uint32_t d = 0; d < s->rank; d++)
        if (!(used >> d & 1)) in_order[n++] = d;
    for (uint32_t i = s->rank; i-- > 0;)
        if (used >> s->minor_to_major[i] & 1) gone[g++] = s->minor_to_major[i];
    if (n != r->rank) return wrong(instr, "result rank does not fit", err);
    for (uint32_t i = 0; i < n; i++)
        if (r->dims[i] != s->dims[in_order[i]]) return wrong(instr, "result shape does not fit", err);
    for (uint32_t i = 0; i < n; i++) kept[i] = in_order[r->minor_to_major[n - 1 - i]];
    return TD_OK;
}

static td_status_t prepare_operand(const td_shape_t *s, const int64_t *perm, td_arena_t *arena, operand_t *o, uint64_t *scratch, td_err_t *err) {
    int64_t strides[TD_BOX_RANK_MAX], dims[TD_BOX_RANK_MAX], src[TD_BOX_RANK_MAX], dst[TD_BOX_RANK_MAX], acc = 1;
    bool in_place = true;
    td_shape_strides(s, strides);
    for (uint32_t i = s->rank; i-- > 0;) {
        dims[i] = s->dims[perm[i]], src[i] = strides[perm[i]], dst[i] = acc;
        in_place &= dims[i] == 1 || src[i] == acc;
        acc *= dims[i];
    }
    o->type = s->type;
    o->elem = td_type_bytes(s->type);
    if (in_place) return TD_OK;
    take(scratch, (uint64_t)s->count * o->elem, &o->pack_at);
    return td_box_make(arena, s->rank, dims, o->elem, dst, src, 0, 0, &o->pack, err);
}

static const td_shape_t *leaf(const td_hlo_instr_t *instr, uint32_t i) {
    return instr->shape->type == TD_TUPLE ? instr->shape->elements[i] : instr->shape;
}

static td_type_t simple_type(td_opcode_t op, td_type_t t) {
    bool arith = op == TD_HLO_ADD || op == TD_HLO_MULTIPLY || op == TD_HLO_MAXIMUM || op == TD_HLO_MINIMUM;
    if (t == TD_F32 || t == TD_F16 || t == TD_BF16) return arith ? TD_F32 : TD_TYPE_INVALID;
    if (t == TD_F64) return arith ? t : TD_TYPE_INVALID;
    if (t == TD_S32 || t == TD_U32 || t == TD_S64 || t == TD_U64)
        return arith || op == TD_HLO_AND || op == TD_HLO_OR || op == TD_HLO_XOR ? t : TD_TYPE_INVALID;
    return TD_TYPE_INVALID;
}

static td_status_t prepare_body(const td_hlo_instr_t *instr, td_arena_t *arena, reduce_t *r, uint64_t *scratch, td_err_t *err) {
    const td_hlo_comp_t *c = instr->called[0];
    td_opcode_t op = r->n == 1 ? td_pw_simple_op(c) : TD_HLO_UNKNOWN;
    td_type_t t = op == TD_HLO_UNKNOWN ? TD_TYPE_INVALID : simple_type(op, r->op[0].type);
    if (t != TD_TYPE_INVALID && c->root->shape->type == r->op[0].type) {
        r->simple = op;
        r->compute = t;
        take(scratch, (uint64_t)r->kept * 8, &r->acc_at);
        if (t != r->op[0].type) take(scratch, (uint64_t)(r->kept * r->reduced) * 4, &r->op[0].wide_at);
        return TD_OK;
    }
    td_pw_t *pw;
    td_status_t st = td_pw_compile_scalar(c, arena, &pw, err);
    if (st != TD_OK) return td_prefix(err, st, "reduce %s", instr->name);
    r->pw = pw;
    take(scratch, td_pw_scratch(pw), &r->pw_at);
    for (uint32_t i = 0; i < r->n; i++) take(scratch, (uint64_t)r->kept * r->op[i].elem, &r->acc_of[i]);
    return TD_OK;
}

static td_status_t prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch, td_err_t *err) {
    uint32_t n = instr->n_operands / 2;
    if (n == 0 || instr->n_operands % 2 || n > OPERANDS_MAX || instr->n_called != 1) return wrong(instr, "operand count", err);
    if (instr->shape->type == TD_TUPLE ? instr->shape->rank != n : n != 1) return wrong(instr, "result count", err);
    if (instr->called[0]->n_params != 2 * n) return wrong(instr, "the computation has another parameter count", err);
    reduce_t *r = TD_NEW(arena, reduce_t);
    if (!r) return td_arena_fail(arena, err);
    const td_shape_t *s = instr->operands[0]->shape, *out = leaf(instr, 0);
    int64_t kept[TD_BOX_RANK_MAX], gone[TD_BOX_RANK_MAX], perm[TD_BOX_RANK_MAX];
    if (!td_type_is_array(s->type) || !td_type_is_array(out->type)) return wrong(instr, "not arrays", err);
    td_status_t st = split_dims(instr, s, out, kept, gone, err);
    if (st != TD_OK) return st;
    uint32_t nk = out->rank, ng = s->rank - nk;
    r->n = n;
    r->kept = out->count;
    r->reduced = 1;
    for (uint32_t i = 0; i < ng; i++) r->reduced *= s->dims[gone[i]];
    td_opcode_t op = n == 1 ? td_pw_simple_op(instr->called[0]) : TD_HLO_UNKNOWN;
    bool simple = op != TD_HLO_UNKNOWN && simple_type(op, s->type) != TD_TYPE_INVALID;
    bool minor_kept = s->rank && nk && s->minor_to_major[0] == kept[nk - 1];
    r->columns = !simple || minor_kept;
    memcpy(perm + (r->columns ? ng : 0), kept, nk * sizeof *kept);
    memcpy(perm + (r->columns ? 0 : nk), gone, ng * sizeof *gone);
    uint64_t scratch = 0;
    for (uint32_t i = 0; i < n; i++) {
        const td_shape_t *si = instr->operands[i]->shape, *li = leaf(instr, i), *init = instr->operands[n + i]->shape;
        if (!td_type_is_array(si->type) || si->rank != s->rank || li->rank != out->rank) return wrong(instr, "operands differ in rank", err);
        if (init->count != 1 || init->type != si->type || li->type != si->type) return wrong(instr, "initial value does not fit", err);
        for (uint32_t d = 0; d < s->rank; d++)
            if (si->dims[d] != s->dims[d]) return wrong(instr, "operands differ in shape", err);
        for (uint32_t d = 0; d < out->rank; d++)
            if (li->dims[d] != out->dims[d] || li->minor_to_major[d] != out->minor_to_major[d])
                return wrong(instr, "results differ in shape or layout", err);
        if ((st = prepare_operand(si, perm, arena, &r->op[i], &scratch, err)) != TD_OK) return st;
    }
    if ((st = prepare_body(instr, arena, r, &scratch, err)) != TD_OK) return st;
    *out_state = r;
    *out_scratch = scratch;
    return TD_OK;
}

/* ---- plain loops ---- */

#define NANMAX(a, b) ((a) != (a) ? (a) : (b) != (b) ? (b) : (a) > (b) ? (a) : (b))
#define NANMIN(a, b) ((a) != (a) ? (a) : (b) != (b) ? (b) : (a) < (b) ? (a) : (b))
#define IMAX(a, b) ((a) > (b) ? (a) : (b))
#define IMIN(a, b) ((a) < (b) ? (a) : (b))
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))
#define XOR(a, b) ((a) ^ (b))

/* Rows: LANES running values per row, so that sums stay accurate and vectorise. Columns: one pass per row of
 * the reduced index, in blocks whose partial results are joined afterwards (as accurate as a two-level tree). */
enum { LANES = 16, BLOCK = 128 };
#define LOOPS(NAME, T, OP, NEUTRAL)                                                                              \
    static void rows_##NAME(const T *x, int64_t kept, int64_t n, T init, T *acc) {                              \
        for (int64_t i = 0; i < kept; i++, x += n) {                                                             \
            T l[LANES], total = init;                                                                            \
            for (int k = 0; k < LANES; k++) l[k] = NEUTRAL;                                                      \
            int64_t j = 0;                                                                                       \
            for (; j + LANES <= n; j += LANES)                                                                   \
                for (int k = 0; k < LANES; k++) l[k] = OP(l[k], x[j + k]);                                       \
            for (int k = 0; j < n; j++, k++) l[k] = OP(l[k], x[j]);                                              \
            for (int w = LANES / 2; w; w /= 2)                                                                   \
                for (int k = 0; k < w; k++) l[k] = OP(l[k], l[k + w]);                                           \
            acc[i] = OP(total, l[0]);                                                                            \
        }                                                                                                        \
    }                                                                                                            \
    static void columns_##NAME(const T *x, int64_t kept, int64_t n, T init, T *acc) {                           \
        enum { W = 256 };                                                                                        \
        for (int64_t i = 0; i < kept; i += W) {                                                                  \
            int64_t w = kept - i < W ? kept - i : W;                                                             \
            T part[W];                                                                                           \
            for (int64_t k = 0; k < w; k++) acc[i + k] = init;                                                   \
            for (int64_t j = 0; j < n; j += BLOCK) {                                                             \
                int64_t end = n - j < BLOCK ? n : j + BLOCK;                                                     \
                for (int64_t k = 0; k < w; k++) part[k] = NEUTRAL;                                               \
                for (int64_t q = j; q < end; q++)                                                                \
                    for (int64_t k = 0; k < w; k++) part[k] = OP(part[k], x[q * kept + i + k]);                  \
                for (int64_t k = 0; k < w; k++) acc[i + k] = OP(acc[i + k], part[k]);                            \
            }                                                                                                    \
        }                                                                                                        \
    }
#define FLOATS(S, T)                                                                                             \
    LOOPS(add_##S, T, ADD, (T)-0.0) LOOPS(mul_##S, T, MUL, 1) LOOPS(max_##S, T, NANMAX, (T)-INFINITY)            \
    LOOPS(min_##S, T, NANMIN, (T)INFINITY)
#define INTS(S, T, U, LOW, HIGH)                                                                                 \
    LOOPS(max_##S, T, IMAX, LOW) LOOPS(min_##S, T, IMIN, HIGH)
#define WRAPPING(S, T)                                                                                           \
    LOOPS(add_##S, T, ADD, 0) LOOPS(mul_##S, T, MUL, 1) LOOPS(and_##S, T, AND, (T)~(T)0) LOOPS(or_##S, T, OR, 0) \
    LOOPS(xor_##S, T, XOR, 0)
FLOATS(f32, float)
FLOATS(f64, double)
WRAPPING(u32, uint32_t)
WRAPPING(u64, uint64_t)
INTS(s32, int32_t, uint32_t, INT32_MIN, INT32_MAX)
INTS(s64, int64_t, uint64_t, INT64_MIN, INT64_MAX)
INTS(u32, uint32_t, uint32_t, 0, UINT32_MAX)
INTS(u64, uint64_t, uint64_t, 0, UINT64_MAX)

#define CALL(NAME, T)                                                                                            \
    do {                                                                                                         \
        T init_value;                                                                                            \
        memcpy(&init_value, init, sizeof init_value);                                                            \
        if (r->columns) columns_##NAME(x, r->kept, r->reduced, init_value, acc);                                 \
        else rows_##NAME(x, r->kept, r->reduced, init_value, acc);                                               \
    } while (0)
#define PICK(S, U, T, UT)                                                                                        \
    switch (r->simple) {                                                                                         \
    case TD_HLO_ADD: CALL(add_##U, UT); break;                                                                   \
    case TD_HLO_MULTIPLY: CALL(mul_##U, UT); break;                                                              \
    case TD_HLO_AND: CALL(and_##U, UT); break;                                                                   \
    case TD_HLO_OR: CALL(or_##U, UT); break;                                                                     \
    case TD_HLO_XOR: CALL(xor_##U, UT); break;                                                                   \
    case TD_HLO_MAXIMUM: CALL(max_##S, T); break;                                                                \
    default: CALL(min_##S, T); break;                                                                            \
    }
#define PICK_FLOAT(S, T)                                                                                         \
    switch (r->simple) {                                                                                         \
    case TD_HLO_ADD: CALL(add_##S, T); break;                                                                    \
    case TD_HLO_MULTIPLY: CALL(mul_##S, T); break;                                                               \
    case TD_HLO_MAXIMUM: CALL(max_##S, T); break;                                                                \
    default: CALL(min_##S, T); break;                                                                            \
    }
static void run_simple(const reduce_t *r, const void *x, const void *init, void *acc) {
    switch (r->compute) {
    case TD_F32: PICK_FLOAT(f32, float) break;
    case TD_F64: PICK_FLOAT(f64, double) break;
    case TD_S32: PICK(s32, u32, int32_t, uint32_t) break;
    case TD_U32: PICK(u32, u32, uint32_t, uint32_t) break;
    case TD_S64: PICK(s64, u64, int64_t, uint64_t) break;
    default: PICK(u64, u64, uint64_t, uint64_t) break;
    }
}

/* ---- any computation: acc (+) x over tiles of kept elements ---- */
static void run_general(const reduce_t *r, const char *const *x, const void *const *init, void *const *out, char *scratch) {
    const void *args[2 * OPERANDS_MAX];
    void *res[OPERANDS_MAX];
    for (uint32_t i = 0; i < r->n; i++) {
        char *acc = scratch + r->acc_of[i];
        for (int64_t k = 0; k < r->kept; k++) memcpy(acc + (size_t)k * r->op[i].elem, init[i], r->op[i].elem);
    }
    for (int64_t t = 0; t < r->kept; t += TD_PW_TILE) {
        size_t n = (size_t)(r->kept - t < TD_PW_TILE ? r->kept - t : TD_PW_TILE);
        for (int64_t j = 0; j < r->reduced; j++) {
            for (uint32_t i = 0; i < r->n; i++) {
                res[i] = scratch + r->acc_of[i] + (size_t)t * r->op[i].elem;
                args[i] = res[i];
                args[r->n + i] = x[i] + (size_t)(j * r->kept + t) * r->op[i].elem;
            }
            td_pw_run(r->pw, args, res, n, scratch + r->pw_at);
        }
    }
    for (uint32_t i = 0; i < r->n; i++) memcpy(out[i], scratch + r->acc_of[i], (size_t)r->kept * r->op[i].elem);
}

static void run(const void *state, const void *const *in, void *const *out, void *scratch_v) {
    const reduce_t *r = state;
    char *scratch = scratch_v;
    const char *x[OPERANDS_MAX];
    if (r->kept == 0) return;
    for (uint32_t i = 0; i < r->n; i++) {
        x[i] = in[i];
        if (!r->op[i].pack) continue;
        td_box_copy(r->op[i].pack, scratch + r->op[i].pack_at, in[i]);
        x[i] = scratch + r->op[i].pack_at;
    }
    if (r->pw) {
        run_general(r, x, in + r->n, out, scratch);
        return;
    }
    td_type_t t = r->op[0].type;
    if (t == r->compute) {
        run_simple(r, x[0], in[1], out[0]);
        return;
    }
    float init;
    td_convert_array(t, in[1], TD_F32, &init, 1);
    td_convert_array(t, x[0], TD_F32, scratch + r->op[0].wide_at, (size_t)(r->kept * r->reduced));
    run_simple(r, scratch + r->op[0].wide_at, &init, scratch + r->acc_at);
    td_convert_array(TD_F32, scratch + r->acc_at, t, out[0], (size_t)r->kept);
}

const td_host_op_kind_t td_macro_reduce = {TD_HLO_REDUCE, prepare, run, false};
