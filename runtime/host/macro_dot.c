/* SPDX-License-Identifier: Apache-2.0 */
/* dot: batches of matrix products through oneDNN and BLAS, exact loops for integers.
 *
 * Each array is seen as [batch, rows, columns] with strides. An array whose rows
 * and columns each have one stride, one of them 1, is used where it lies; others
 * are copied to scratch first. Types that BLAS lacks are widened whole. */
#include <cblas.h>
#include <string.h>

#include "runtime/host/macro_ops.h"
#include "runtime/host/matmul.h"
#include "runtime/host/pool.h"

typedef struct side {
    td_type_t type;
    uint64_t count;
    bool convert, copy;
    td_strided_t pack;       /* copy: between the array and [batch, rows, columns] */
    uint64_t wide_at, pack_at;
    td_dims_t batch;
    int64_t rows, cols, row_stride, col_stride;
} side_t;

typedef struct dot {
    td_type_t type; /* that of the sums */
    bool bf16;      /* operands multiplied as bf16, sums in f32 */
    int64_t batches, m, n, k;
    side_t a, b, c; /* [m,k], [k,n], [m,n] */
    td_matmul_t *mm; /* NULL: integers, and one-row f32 and f64 products */
    uint64_t mm_at, mm_scratch; /* of one worker */
} dot_t;

static bool fits(const side_t *s) {
    bool r = s->col_stride == 1 && (s->rows <= 1 || s->row_stride >= s->cols);
    bool c = s->row_stride == 1 && (s->cols <= 1 || s->col_stride >= s->rows);
    return r || c;
}

static void packed(side_t *s, uint32_t size, const td_dims_t *parts, bool into) {
    int64_t dims[TD_LIMIT_RANK], here[TD_LIMIT_RANK], there[TD_LIMIT_RANK], step = 1;
    uint32_t rank = 0;
    for (int p = 0; p < 3; p++)
        for (uint32_t i = 0; i < parts[p].rank; i++) {
            dims[rank] = parts[p].n[i];
            here[rank++] = parts[p].stride[i];
        }
    for (uint32_t i = rank; i-- > 0;) {
        there[i] = step;
        if (s->count) step *= dims[i];
    }
    if (into) td_strided_plan(&s->pack, size, rank, dims, there, here);
    else td_strided_plan(&s->pack, size, rank, dims, here, there);
    s->copy = true;
    for (uint32_t i = 0; i < parts[0].rank; i++) s->batch.stride[i] = there[i];
    s->row_stride = s->cols;
    s->col_stride = 1;
}

/* parts: batch, rows, columns. into: an operand (else the result). */
static bool plan_side(side_t *s, const td_shape_t *shape, td_type_t type, const td_dims_t *parts, bool into,
                      bool row_major, uint64_t *scratch) {
    s->type = shape->type;
    s->count = (uint64_t)shape->count;
    s->convert = shape->type != type;
    s->batch = parts[0];
    s->rows = td_dims_count(&parts[1]), s->cols = td_dims_count(&parts[2]);
    bool ok = td_dims_join(&parts[1], 1, &s->row_stride);
    ok = td_dims_join(&parts[2], 1, &s->col_stride) && ok;
    /* A dimension of one element may have any stride. */
    if (s->cols == 1) s->col_stride = s->rows > 1 && s->row_stride == 1 ? s->rows : 1;
    if (s->rows == 1) s->row_stride = s->col_stride == 1 ? s->cols : 1;
    if (row_major && s->col_stride != 1) ok = false;
    uint32_t size = td_type_bytes(type);
    if (!ok || !fits(s)) packed(s, size, parts, into);
    return (!s->convert || td_reserve(scratch, s->count, size, &s->wide_at)) &&
           (!s->copy || td_reserve(scratch, s->count, size, &s->pack_at));
}

static td_type_t sum_type(td_type_t a, td_type_t b, td_type_t c) {
    const td_type_t t[3] = {a, b, c};
    bool f = false, d = false, z = false, zz = false, l = false;
    for (int i = 0; i < 3; i++) {
        f |= td_type_is_float(t[i]);
        d |= t[i] == TD_F64;
        z |= t[i] == TD_C64;
        zz |= t[i] == TD_C128;
        l |= t[i] == TD_S64 || t[i] == TD_U64;
    }
    if (zz || (z && d)) return TD_C128;
    return z ? TD_C64 : d ? TD_F64 : f ? TD_F32 : l ? TD_S64 : TD_S32;
}

static td_status_t split(const td_hlo_instr_t *instr, const td_shape_t *s, td_ints_t batch, td_ints_t contract,
                         td_dims_t *b, td_dims_t *free_dims, td_dims_t *k, td_err_t *err) {
    int64_t strides[TD_LIMIT_RANK];
    uint64_t seen = 0;
    uint32_t at = 0;
    td_shape_strides(s, strides);
    td_status_t st = td_dims_take(instr, batch, s, strides, &seen, b, err);
    if (!st) st = td_dims_take(instr, contract, s, strides, &seen, k, err);
    if (st) return st;
    for (uint32_t i = 0; i < s->rank; i++)
        if (!td_ints_find(batch, i, &at) && !td_ints_find(contract, i, &at)) td_dims_add(free_dims, s->dims[i], strides[i]);
    return TD_OK;
}

static bool same_sizes(const td_dims_t *a, const td_dims_t *b) {
    return a->rank == b->rank && (!a->rank || !memcmp(a->n, b->n, a->rank * sizeof *a->n));
}

static td_status_t result_parts(const td_hlo_instr_t *instr, const td_dims_t *l, const td_dims_t *r, td_dims_t *parts,
                                td_err_t *err) {
    const td_shape_t *o = instr->shape;
    const td_dims_t *want[3] = {&l[0], &l[1], &r[2]};
    int64_t strides[TD_LIMIT_RANK];
    uint32_t at = 0;
    td_shape_strides(o, strides);
    TD_NEED(o->rank == want[0]->rank + want[1]->rank + want[2]->rank, "result rank %u", o->rank);
    for (int p = 0; p < 3; p++)
        for (uint32_t i = 0; i < want[p]->rank; i++, at++) {
            TD_NEED(o->dims[at] == want[p]->n[i], "result dimension %u", at);
            td_dims_add(&parts[p], o->dims[at], strides[at]);
        }
    return TD_OK;
}

static td_mat_t mat(const side_t *s) { return (td_mat_t){s->rows, s->cols, s->row_stride, s->col_stride}; }

/* bf16 operands that lie well are multiplied as they are; everything else in the type of the sums. */
static td_status_t make_product(dot_t *x, td_arena_t *arena, uint64_t *scratch, td_err_t *err) {
    if (!x->a.count || !x->b.count || x->type == TD_S32 || x->type == TD_S64) return TD_OK;
    if ((x->m == 1 || x->n == 1) && (x->type == TD_F32 || x->type == TD_F64) && !x->bf16) return TD_OK;
    td_mat_t a = mat(&x->a), b = mat(&x->b), c = mat(&x->c);
    td_status_t st = td_matmul_make(x->bf16 ? TD_BF16 : x->type, x->bf16 ? x->c.type : x->type, &a, &b, &c, arena, &x->mm, &x->mm_scratch, err);
    if (st) return st;
    if (!td_reserve(scratch, (uint64_t)td_host_threads(), x->mm_scratch, &x->mm_at)) return td_fail(err, TD_LIMIT, "scratch of a dot overflows");
    return TD_OK;
}

/* Where the sides lie, and the product of one batch element. p: parts of left, right and result. */
static td_status_t plan(dot_t *x, const td_hlo_instr_t *instr, td_dims_t *parts, td_arena_t *arena, uint64_t *out_scratch, td_err_t *err) {
    td_dims_t *p = TD_NEW_N(arena, td_dims_t, 9);
    if (!p) return td_arena_fail(arena, err);
    memcpy(p, parts, 9 * sizeof *p);
    bool integer = x->type == TD_S32 || x->type == TD_S64;
    td_type_t in = x->bf16 ? TD_BF16 : x->type, result = x->bf16 ? instr->shape->type : x->type;
    *out_scratch = 0;
    bool ok = plan_side(&x->a, td_operand(instr, 0), in, p, true, false, out_scratch) &&
              plan_side(&x->b, td_operand(instr, 1), in, p + 3, true, integer, out_scratch) &&
              plan_side(&x->c, instr->shape, result, p + 6, false, integer, out_scratch);
    TD_NEED_AS(TD_LIMIT, ok, "scratch of a dot overflows");
    const side_t *sides[3] = {&x->a, &x->b, &x->c};
    for (int i = 0; i < 3; i++)
        TD_NEED_AS(TD_UNSUPPORTED, integer || !x->a.count || !x->b.count || (sides[i]->rows <= INT32_MAX && sides[i]->cols <= INT32_MAX &&
                    sides[i]->row_stride <= INT32_MAX && sides[i]->col_stride <= INT32_MAX), "a matrix is larger than BLAS can index");
    td_status_t st = make_product(x, arena, out_scratch, err);
    return st ? td_prefix(err, st, "%s", instr->name) : TD_OK;
}

td_status_t td_dot_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                           td_err_t *err) {
    const td_dot_dims_t *d = instr->dot;
    TD_NEED(d && instr->n_operands == 2, "no dimension numbers, or %u operands", instr->n_operands);
    const td_shape_t *l = td_operand(instr, 0), *r = td_operand(instr, 1), *o = instr->shape;
    TD_NEED(td_type_is_array(l->type) && td_type_is_array(r->type) && td_type_is_array(o->type), "not arrays");
    dot_t *x = TD_NEW(arena, dot_t);
    td_dims_t *p = TD_NEW_N(arena, td_dims_t, 9);
    if (!x || !p) return td_arena_fail(arena, err);
    td_status_t st = split(instr, l, d->lhs_batch, d->lhs_contracting, &p[0], &p[1], &p[2], err);
    if (!st) st = split(instr, r, d->rhs_batch, d->rhs_contracting, &p[3], &p[5], &p[4], err);
    if (st) return st;
    TD_NEED(same_sizes(&p[0], &p[3]) && same_sizes(&p[2], &p[4]), "batch or contracting dimensions differ");
    if ((st = result_parts(instr, p, p + 3, p + 6, err))) return st;
    x->type = sum_type(l->type, r->type, o->type);
    x->batches = td_dims_count(&p[0]);
    x->m = td_dims_count(&p[1]);
    x->k = td_dims_count(&p[2]);
    x->n = td_dims_count(&p[5]);
    x->bf16 = l->type == TD_BF16 && r->type == TD_BF16 && (o->type == TD_BF16 || o->type == TD_F32);
    if ((st = plan(x, instr, p, arena, out_scratch, err))) return st;
    if (x->bf16 && !x->mm) { /* no such kernel: widen */
        x->bf16 = false;
        x->a = x->b = x->c = (side_t){0};
        if ((st = plan(x, instr, p, arena, out_scratch, err))) return st;
    }
    *out_state = x;
    return TD_OK;
}

#define INT_DOT(name, T)                                                                                           \
    static void name(const dot_t *d, const T *a, const T *b, T *c) {                                               \
        for (int64_t i = 0; i < d->m; i++) {                                                                       \
            T *row = c + i * d->c.row_stride;                                                                      \
            memset(row, 0, (size_t)d->n * sizeof(T));                                                              \
            for (int64_t k = 0; k < d->k; k++) {                                                                   \
                T x = a[i * d->a.row_stride + k * d->a.col_stride];                                                \
                const T *y = b + k * d->b.row_stride;                                                              \
                for (int64_t j = 0; j < d->n; j++) row[j] += x * y[j];                                             \
            }                                                                                                      \
        }                                                                                                          \
    }
INT_DOT(dot_u32, uint32_t)
INT_DOT(dot_u64, uint64_t)

/* Order, transposition and leading dimension of a matrix as BLAS wants them, the result being row-major. */
static CBLAS_TRANSPOSE form(int64_t rs, int64_t cs, int64_t rows, int64_t cols, int *ld) {
    bool plain = cs == 1 && (rows <= 1 || rs >= cols);
    int64_t x = plain ? (rows <= 1 && rs < cols ? cols : rs) : (cols <= 1 && cs < rows ? rows : cs);
    *ld = (int)(x < 1 ? 1 : x);
    return plain ? CblasNoTrans : CblasTrans;
}

static void matrix_vector(const dot_t *d, const void *a, const void *b, void *c) {
    bool left = d->n == 1; /* else m == 1: c^T = b^T a^T */
    const side_t *s = left ? &d->a : &d->b;
    const void *mat = left ? a : b, *vec = left ? b : a;
    int ld, inc = (int)(left ? d->b.row_stride : d->a.col_stride), out = (int)(left ? d->c.row_stride : d->c.col_stride);
    if (d->k == 1) inc = 1;
    if ((left ? d->m : d->n) == 1) out = 1;
    CBLAS_TRANSPOSE t = form(s->row_stride, s->col_stride, s->rows, s->cols, &ld);
    bool plain = t == CblasNoTrans;
    int rows = (int)(plain ? s->rows : s->cols), cols = (int)(plain ? s->cols : s->rows);
    t = plain == left ? CblasNoTrans : CblasTrans;
    if (d->type == TD_F32) cblas_sgemv(CblasRowMajor, t, rows, cols, 1, mat, ld, vec, inc, 0, c, out);
    else cblas_dgemv(CblasRowMajor, t, rows, cols, 1, mat, ld, vec, inc, 0, c, out);
}

static const void *ready(const side_t *s, td_type_t type, const void *p, char *scratch) {
    if (s->convert) {
        td_convert_array(s->type, p, type, scratch + s->wide_at, s->count);
        p = scratch + s->wide_at;
    }
    if (s->copy) {
        td_strided_copy(&s->pack, scratch + s->pack_at, p);
        p = scratch + s->pack_at;
    }
    return p;
}

typedef struct work {
    const dot_t *d;
    const char *a, *b;
    char *c, *scratch;
} work_t;

static void batches(void *ctx, int64_t first, int64_t last, int worker) {
    const work_t *w = ctx;
    const dot_t *d = w->d;
    int64_t in = td_type_bytes(d->bf16 ? TD_BF16 : d->type), result = d->bf16 ? td_type_bytes(d->c.type) : td_type_bytes(d->type);
    for (int64_t i = first; i < last; i++) {
        int64_t ao, bo, co;
        td_dims_offsets(&d->a.batch, i, 1, &ao);
        td_dims_offsets(&d->b.batch, i, 1, &bo);
        td_dims_offsets(&d->c.batch, i, 1, &co);
        const void *ap = w->a + ao * in, *bp = w->b + bo * in;
        void *cp = w->c + co * result;
        if (d->type == TD_S32) dot_u32(d, ap, bp, cp);
        else if (d->type == TD_S64) dot_u64(d, ap, bp, cp);
        else if (d->mm) td_matmul_run(d->mm, ap, bp, cp, w->scratch + d->mm_at + d->mm_scratch * (uint64_t)worker);
        else matrix_vector(d, ap, bp, cp);
    }
}

void td_dot_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const dot_t *d = state;
    if (!d->c.count) return;
    if (!d->k) {
        memset(out[0], 0, d->c.count * td_type_bytes(d->c.type));
        return;
    }
    td_type_t type = d->bf16 ? TD_BF16 : d->type;
    work_t w = {.d = d, .scratch = scratch};
    w.a = ready(&d->a, type, in[0], scratch), w.b = ready(&d->b, type, in[1], scratch);
    char *wide = d->c.convert ? (char *)scratch + d->c.wide_at : out[0];
    w.c = d->c.copy ? (char *)scratch + d->c.pack_at : wide;
    enum { WORTH_A_TEAM = 1 << 18 }; /* multiplications */
    double work = (double)d->batches * (double)d->m * (double)d->n * (double)d->k;
    if (d->batches > 1 && work >= WORTH_A_TEAM) {
        td_pool_run(d->batches, batches, &w);
    } else {
        int team = td_pool_enter(work);
        batches(&w, 0, d->batches, 0);
        td_pool_leave(team);
    }
    if (d->c.copy) td_strided_copy(&d->c.pack, wide, w.c);
    if (d->c.convert) td_convert_array(d->type, wide, d->c.type, out[0], d->c.count);
}
