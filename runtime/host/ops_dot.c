/* SPDX-License-Identifier: Apache-2.0 */
/* dot: any batch and contracting dimensions, any layout.
 *
 * Both operands become [batch, free, contracted] matrices of the compute type (f32 for
 * the narrow floats, 64-bit integers for integers); an operand that lies so already, or
 * transposed, is read in place. Products go to BLAS, integers to an exact loop. The result
 * is rounded once. */
#include <cblas.h>
#include <limits.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/host/box.h"

typedef struct side {
    const td_box_t *pack; /* NULL: read in place */
    bool transposed;      /* in place as [batch, contracted, free] */
    td_type_t type;
    size_t count;
    uint64_t pack_at, wide_at; /* scratch offsets */
} side_t;

typedef struct dot {
    side_t a, b;
    int64_t batch, m, n, k;
    td_type_t compute, result;
    size_t count;        /* result elements */
    bool direct;         /* the product goes straight to the output */
    uint64_t product_at, rounded_at;
    const td_box_t *spread; /* NULL: the result's layout is row-major */
} dot_t;

static td_status_t wrong(const td_hlo_instr_t *instr, const char *what, td_err_t *err) {
    return td_fail(err, TD_MALFORMED, "dot %s: %s", instr->name, what);
}

static td_type_t compute_type(td_type_t a, td_type_t b, td_type_t r) {
    if (a == TD_C128 || b == TD_C128 || r == TD_C128) return TD_C128;
    if (td_type_is_complex(a) || td_type_is_complex(b) || td_type_is_complex(r)) return TD_C64;
    if (a == TD_F64 || b == TD_F64 || (r == TD_F64 && td_type_is_float(a))) return TD_F64;
    if (td_type_is_float(a) || td_type_is_float(b)) return TD_F32;
    return TD_S64;
}

/* The operand's dimensions in the order batch, free, contracted. */
static td_status_t order(const td_hlo_instr_t *instr, const td_shape_t *s, td_ints_t batch, td_ints_t contracting, int64_t *perm,
                         uint32_t *n_free, td_err_t *err) {
    uint64_t used = 0;
    if (s->rank > TD_BOX_RANK_MAX - 1) return wrong(instr, "rank is too high", err);
    if (batch.n + contracting.n > s->rank) return wrong(instr, "too many dimension numbers", err);
    uint32_t at = 0;
    for (uint32_t pass = 0; pass < 2; pass++) {
        td_ints_t l = pass ? contracting : batch;
        if (pass) at = s->rank - contracting.n;
        for (uint32_t i = 0; i < l.n; i++) {
            if (l.v[i] < 0 || l.v[i] >= (int64_t)s->rank || (used >> l.v[i] & 1)) return wrong(instr, "bad dimension number", err);
            used |= 1ull << l.v[i];
            perm[at++] = l.v[i];
        }
    }
    at = batch.n;
    for (uint32_t d = 0; d < s->rank; d++)
        if (!(used >> d & 1)) perm[at++] = d;
    *n_free = s->rank - batch.n - contracting.n;
    return TD_OK;
}

static bool contiguous(const td_shape_t *s, const int64_t *strides, const int64_t *perm) {
    int64_t expect = 1;
    for (uint32_t i = s->rank; i-- > 0;) {
        int64_t d = perm[i];
        if (s->dims[d] != 1 && strides[d] != expect) return false;
        expect *= s->dims[d];
    }
    return true;
}

static int64_t product(const td_shape_t *s, const int64_t *perm, uint32_t from, uint32_t n) {
    int64_t p = 1;
    for (uint32_t i = from; i < from + n; i++) p *= s->dims[perm[i]];
    return p;
}

static void take(uint64_t *total, uint64_t bytes, uint64_t *at) {
    *at = *total;
    *total += td_align_up(bytes, 64);
}

static td_status_t prepare_side(const td_shape_t *s, const int64_t *perm, uint32_t nb, uint32_t nf, td_type_t compute, td_arena_t *arena,
                                side_t *out, uint64_t *scratch, td_err_t *err) {
    int64_t strides[TD_BOX_RANK_MAX], dims[TD_BOX_RANK_MAX], src[TD_BOX_RANK_MAX], dst[TD_BOX_RANK_MAX], swapped[TD_BOX_RANK_MAX];
    uint32_t nc = s->rank - nb - nf;
    td_shape_strides(s, strides);
    out->type = s->type;
    out->count = (size_t)s->count;
    memcpy(swapped, perm, s->rank * sizeof *perm);
    memcpy(swapped + nb, perm + nb + nf, nc * sizeof *perm);
    memcpy(swapped + nb + nc, perm + nb, nf * sizeof *perm);
    if (contiguous(s, strides, perm)) {
        out->transposed = false;
    } else if (contiguous(s, strides, swapped)) {
        out->transposed = true;
    } else {
        int64_t acc = 1;
        for (uint32_t i = s->rank; i-- > 0;) {
            dims[i] = s->dims[perm[i]], src[i] = strides[perm[i]], dst[i] = acc;
            acc *= dims[i];
        }
        td_status_t st = td_box_make(arena, s->rank, dims, td_type_bytes(s->type), dst, src, 0, 0, &out->pack, err);
        if (st != TD_OK) return st;
        take(scratch, (uint64_t)s->count * td_type_bytes(s->type), &out->pack_at);
    }
    if (s->type != compute) take(scratch, (uint64_t)s->count * td_type_bytes(compute), &out->wide_at);
    return TD_OK;
}

static td_status_t prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch, td_err_t *err) {
    if (instr->n_operands != 2 || !instr->dot) return wrong(instr, "two operands and dimension numbers are needed", err);
    const td_shape_t *a = instr->operands[0]->shape, *b = instr->operands[1]->shape, *r = instr->shape;
    const td_dot_dims_t *d = instr->dot;
    if (!td_type_is_array(a->type) || !td_type_is_array(b->type) || !td_type_is_array(r->type)) return wrong(instr, "not arrays", err);
    if (d->lhs_batch.n != d->rhs_batch.n || d->lhs_contracting.n != d->rhs_contracting.n)
        return wrong(instr, "dimension numbers of the sides differ in count", err);
    int64_t pa[TD_BOX_RANK_MAX], pb[TD_BOX_RANK_MAX];
    uint32_t fa, fb, nb = d->lhs_batch.n, nc = d->lhs_contracting.n;
    td_status_t st = order(instr, a, d->lhs_batch, d->lhs_contracting, pa, &fa, err);
    if (st == TD_OK) st = order(instr, b, d->rhs_batch, d->rhs_contracting, pb, &fb, err);
    if (st != TD_OK) return st;
    for (uint32_t i = 0; i < nb; i++)
        if (a->dims[pa[i]] != b->dims[pb[i]]) return wrong(instr, "batch sizes differ", err);
    for (uint32_t i = 0; i < nc; i++)
        if (a->dims[pa[nb + fa + i]] != b->dims[pb[nb + fb + i]]) return wrong(instr, "contracted sizes differ", err);
    if (r->rank != nb + fa + fb) return wrong(instr, "result rank does not fit", err);
    for (uint32_t i = 0; i < r->rank; i++) {
        int64_t want = i < nb + fa ? a->dims[pa[i]] : b->dims[pb[i - fa]];
        if (r->dims[i] != want) return wrong(instr, "result shape does not fit", err);
    }
    dot_t *t = TD_NEW(arena, dot_t);
    if (!t) return td_arena_fail(arena, err);
    t->compute = compute_type(a->type, b->type, r->type);
    t->result = r->type;
    t->count = (size_t)r->count;
    t->batch = product(a, pa, 0, nb);
    t->m = product(a, pa, nb, fa);
    t->k = product(a, pa, nb + fa, nc);
    t->n = product(b, pb, nb, fb);
    if (t->m > INT_MAX || t->n > INT_MAX || t->k > INT_MAX) return td_fail(err, TD_LIMIT, "dot %s: a side is over 2^31", instr->name);
    uint64_t scratch = 0;
    if ((st = prepare_side(a, pa, nb, fa, t->compute, arena, &t->a, &scratch, err)) != TD_OK) return st;
    if ((st = prepare_side(b, pb, nb, fb, t->compute, arena, &t->b, &scratch, err)) != TD_OK) return st;
    int64_t strides[TD_BOX_RANK_MAX], lin[TD_BOX_RANK_MAX], identity[TD_BOX_RANK_MAX], acc = 1;
    td_shape_strides(r, strides);
    for (uint32_t i = r->rank; i-- > 0;) identity[i] = i, lin[i] = acc, acc *= r->dims[i];
    bool plain = contiguous(r, strides, identity);
    t->direct = plain && r->type == t->compute;
    if (!t->direct) take(&scratch, (uint64_t)r->count * td_type_bytes(t->compute), &t->product_at);
    if (!plain) {
        if (r->type != t->compute) take(&scratch, (uint64_t)r->count * td_type_bytes(r->type), &t->rounded_at);
        else t->rounded_at = t->product_at;
        if ((st = td_box_make(arena, r->rank, r->dims, td_type_bytes(r->type), strides, lin, 0, 0, &t->spread, err)) != TD_OK) return st;
    }
    *out_state = t;
    *out_scratch = scratch;
    return TD_OK;
}

static const void *ready(const side_t *s, td_type_t compute, const void *in, char *scratch) {
    if (s->pack) {
        td_box_copy(s->pack, scratch + s->pack_at, in);
        in = scratch + s->pack_at;
    }
    if (s->type == compute) return in;
    td_convert_array(s->type, in, compute, scratch + s->wide_at, s->count);
    return scratch + s->wide_at;
}

static void integers(const dot_t *t, const uint64_t *a, const uint64_t *b, uint64_t *c) {
    int64_t as_m = t->a.transposed ? 1 : t->k, as_k = t->a.transposed ? t->m : 1;
    int64_t bs_n = t->b.transposed ? 1 : t->k, bs_k = t->b.transposed ? t->n : 1;
    for (int64_t i = 0; i < t->m; i++)
        for (int64_t j = 0; j < t->n; j++) {
            uint64_t sum = 0;
            for (int64_t l = 0; l < t->k; l++) sum += a[i * as_m + l * as_k] * b[j * bs_n + l * bs_k];
            c[i * t->n + j] = sum;
        }
}

/* One batch element: C[m,n] = A B with A as [m,k] or [k,m], B as [n,k] or [k,n]. */
static void multiply(const dot_t *t, const char *a, const char *b, char *c) {
    int m = (int)t->m, n = (int)t->n, k = (int)t->k;
    CBLAS_TRANSPOSE ta = t->a.transposed ? CblasTrans : CblasNoTrans, tb = t->b.transposed ? CblasNoTrans : CblasTrans;
    int lda = t->a.transposed ? m : k, ldb = t->b.transposed ? n : k;
    static const float one_c[2] = {1, 0}, zero_c[2] = {0, 0};
    static const double one_z[2] = {1, 0}, zero_z[2] = {0, 0};
    switch (t->compute) {
    case TD_F32: cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1, (const float *)a, lda, (const float *)b, ldb, 0, (float *)c, n); break;
    case TD_F64: cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1, (const double *)a, lda, (const double *)b, ldb, 0, (double *)c, n); break;
    case TD_C64: cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, one_c, a, lda, b, ldb, zero_c, c, n); break;
    case TD_C128: cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, one_z, a, lda, b, ldb, zero_z, c, n); break;
    default: integers(t, (const uint64_t *)(const void *)a, (const uint64_t *)(const void *)b, (uint64_t *)(void *)c); break;
    }
}

static void run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const dot_t *t = state;
    if (t->count == 0) return;
    size_t e = td_type_bytes(t->compute);
    char *c = t->direct ? out[0] : (char *)scratch + t->product_at;
    if (t->k == 0) {
        memset(c, 0, t->count * e);
    } else {
        const char *a = ready(&t->a, t->compute, in[0], scratch), *b = ready(&t->b, t->compute, in[1], scratch);
        size_t am = (size_t)(t->m * t->k) * e, bm = (size_t)(t->n * t->k) * e, cm = (size_t)(t->m * t->n) * e;
        for (size_t i = 0; i < (size_t)t->batch; i++) multiply(t, a + i * am, b + i * bm, c + i * cm);
    }
    if (t->direct) return;
    void *rounded = t->spread ? (char *)scratch + t->rounded_at : out[0];
    if (t->result != t->compute) td_convert_array(t->compute, c, t->result, rounded, t->count);
    if (t->spread) td_box_copy(t->spread, out[0], rounded);
}

const td_host_op_kind_t td_macro_dot = {TD_HLO_DOT, prepare, run, false};
