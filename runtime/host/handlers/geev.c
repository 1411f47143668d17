/* SPDX-License-Identifier: Apache-2.0 */
/* Eigenvalues of general matrices; eigenvectors have norm 1 and a real largest component.
 * cusolver_geev_ffi: a [B,n,n] -> out (junk), w, vl, vr, info; attributes left, right. w is complex [B,n]; for a
 *   real a it may be real [B,2n]: n real, then n imaginary parts. Vectors of a real a are real: a conjugate
 *   pair's real and imaginary parts are two columns.
 * cuhybrid_eig_real: x -> wr, wi, vl, vr, info; cuhybrid_eig_comp: x -> w, vl, vr, info. Vectors are complex;
 *   the attribute magma only chooses a library.
 * Vectors that are not asked for are set to zero. Failure (info > 0, or -4 for an input that is not finite)
 * gives NaN. Facts: jaxlib/gpu/{solver_kernels_ffi,hybrid_kernels}.cc; the order in a real w is cusolverDnXgeev's. */
#include <string.h>

#include "runtime/host/handlers/families.h"
#include "runtime/host/handlers/lapack.h"

typedef enum w_form { W_COMPLEX, W_REAL_2N, W_TWO_ARRAYS } w_form_t;

typedef struct geev {
    td_mats_t a;
    bool left, right, in_place, unpack; /* in_place: the first result takes a */
    w_form_t form;
    int lwork;
    uint32_t w, vl, vr, info; /* buffers */
    uint64_t bytes, v_bytes, vl_all, vr_all;
    uint64_t a_at, wr_at, wi_at, vl_at, vr_at, work_at, rwork_at;
} geev_t;

typedef struct geev_bufs { /* of one item */
    void *a, *wr, *wi, *vl, *vr;
} geev_bufs_t;

/* Complex types: wr takes the complex values and wi is unused. */
static lapack_int geev(const geev_t *g, const geev_bufs_t *p, void *work, int lwork, void *rwork) {
    int n = g->a.rows;
    char l = g->left ? 'V' : 'N', r = g->right ? 'V' : 'N';
    if (td_type_is_complex(g->a.type))
        return TD_LAPACK2(g->a.type, cgeev, zgeev, l, r, n, p->a, n, p->wr, p->vl, n, p->vr, n, work, lwork, rwork);
    return TD_LAPACK2(g->a.type, sgeev, dgeev, l, r, n, p->a, n, p->wr, p->wi, p->vl, n, p->vr, n, work, lwork);
}

static td_status_t plan(geev_t *g, const td_custom_call_desc_t *d, uint64_t *scratch, td_err_t *err) {
    uint64_t n = (uint64_t)g->a.rows, size = td_type_bytes(g->a.type), real = td_type_bytes(td_real_of(g->a.type));
    uint32_t first = d->n_operands;
    bool complex_a = td_type_is_complex(g->a.type);
    td_status_t s = TD_OK;
    g->bytes = n * n * size;
    g->v_bytes = n * n * (complex_a || !g->unpack ? size : 2 * size);
    g->vl_all = d->results[g->vl - first]->bytes;
    g->vr_all = d->results[g->vr - first]->bytes;
    *scratch = 0;
    if (!n) return TD_OK;
    td_query_t w = {{0}}, x = {{0}};
    geev_bufs_t q = {&x, &x, &x, &x, &x};
    if ((s = td_lwork_fits(66.0 * (double)n + (double)n * 4, err)) ||
        (s = td_lwork(g->a.type, &w, geev(g, &q, &w, -1, &x), &g->lwork, err)) ||
        (s = td_hc_scratch(scratch, (uint64_t)g->lwork, size, &g->work_at, err)) ||
        (s = td_hc_scratch(scratch, 2 * n, real, &g->rwork_at, err)) ||
        (s = td_hc_scratch(scratch, complex_a ? 0 : n, real, &g->wr_at, err)) ||
        (s = td_hc_scratch(scratch, complex_a ? 0 : n, real, &g->wi_at, err)) ||
        (s = td_hc_scratch(scratch, g->in_place ? 0 : g->bytes, 1, &g->a_at, err)) ||
        (s = td_hc_scratch(scratch, g->unpack && g->left ? g->bytes : 0, 1, &g->vl_at, err)) ||
        (s = td_hc_scratch(scratch, g->unpack && g->right ? g->bytes : 0, 1, &g->vr_at, err)))
        return s;
    return TD_OK;
}

static td_type_t complex_of(td_type_t t) { return td_real_of(t) == TD_F32 ? TD_C64 : TD_C128; }

/* Vectors, when asked for, and info: the last three results. */
static td_status_t check_rest(geev_t *g, const td_custom_call_desc_t *d, td_type_t vectors, td_err_t *err) {
    uint32_t first = d->n_operands;
    int n = g->a.rows;
    td_status_t s = TD_OK;
    g->info = first + d->n_results - 1;
    g->vr = g->info - 1;
    g->vl = g->info - 2;
    if ((g->left && (s = td_hc_expect("vl", d->results[g->vl - first], vectors, TD_COL_MAJOR, g->a.batch, 2, n, n,
                                      err))) ||
        (g->right && (s = td_hc_expect("vr", d->results[g->vr - first], vectors, TD_COL_MAJOR, g->a.batch, 2, n, n,
                                       err))))
        return s;
    return td_hc_batch("info", d->results[g->info - first], TD_S32, g->a.batch, err);
}

static td_status_t operand(geev_t *g, const td_custom_call_desc_t *d, td_err_t *err) {
    td_status_t s = TD_OK;
    if ((s = td_hc_bool(d, "left", &g->left, err)) || (s = td_hc_bool(d, "right", &g->right, err)) ||
        (s = td_hc_mats("a", d->operands[0], TD_COL_MAJOR, &g->a, err)))
        return s;
    if (g->a.rows != g->a.cols) return td_fail(err, TD_MISMATCH, "a matrix of %d x %d is not square", g->a.rows,
                                               g->a.cols);
    return TD_OK;
}

td_status_t td_geev_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                            td_err_t *err) {
    td_linalg_t l = {0};
    td_status_t s = td_linalg_geev(d, &l, err);
    if (s) return s;
    geev_t g = {.a = l.a, .left = l.left, .right = l.vectors, .in_place = true, .w = 2, .vl = 3, .vr = 4, .info = 5,
                .form = l.algorithm ? W_REAL_2N : W_COMPLEX};
    if ((s = plan(&g, d, scratch, err))) return s;
    return td_hc_state(arena, &g, sizeof g, state, err);
}

td_status_t td_eig_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                           td_err_t *err) {
    bool real = strcmp(d->target, "cuhybrid_eig_real") == 0;
    geev_t g = {.w = 1, .unpack = real, .form = real ? W_TWO_ARRAYS : W_COMPLEX};
    td_status_t s = td_hc_arity(d, 1, real ? 5 : 4, err);
    if (s || (s = operand(&g, d, err))) return s;
    if (td_type_is_complex(g.a.type) == real)
        return td_fail(err, TD_MISMATCH, "element type %s of %s matrices", td_type_name(g.a.type), real ? "real"
                       : "complex");
    for (uint32_t i = 0; i < (real ? 2u : 1u); i++)
        if ((s = td_hc_vec("w", d->results[i], g.a.type, g.a.batch, g.a.rows, err))) return s;
    if ((s = check_rest(&g, d, complex_of(g.a.type), err)) || (s = plan(&g, d, scratch, err))) return s;
    return td_hc_state(arena, &g, sizeof g, state, err);
}

/* Real eigenvalues to where they belong. */
#define PUT_W(T)                                                                                                  \
    do {                                                                                                          \
        const T *wr = p->wr, *wi = p->wi;                                                                         \
        if (g->form == W_COMPLEX) {                                                                               \
            T *out = (T *)bufs[g->w] + 2 * b * n;                                                                 \
            for (uint64_t i = 0; i < n; i++) out[2 * i] = wr[i], out[2 * i + 1] = wi[i];                          \
        } else {                                                                                                  \
            T *re = (T *)bufs[g->w] + (g->form == W_REAL_2N ? 2 * b * n : b * n);                                 \
            T *im = g->form == W_REAL_2N ? re + n : (T *)bufs[g->w + 1] + b * n;                                  \
            for (uint64_t i = 0; i < n; i++) re[i] = wr[i], im[i] = wi[i];                                        \
        }                                                                                                         \
    } while (0)

/* Columns j and j+1 of a pair are the real and the imaginary part of the first vector. */
#define UNPACK(T)                                                                                                 \
    do {                                                                                                          \
        const T *wi = p->wi, *in = packed;                                                                        \
        T *out = vectors;                                                                                         \
        for (uint64_t j = 0; j < n; j++) {                                                                        \
            bool pair = wi[j] != 0 && j + 1 < n;                                                                  \
            for (uint64_t i = 0; i < n; i++) {                                                                    \
                T re = in[j * n + i], im = pair ? in[(j + 1) * n + i] : 0;                                        \
                out[2 * (j * n + i)] = re, out[2 * (j * n + i) + 1] = im;                                         \
                if (pair) out[2 * ((j + 1) * n + i)] = re, out[2 * ((j + 1) * n + i) + 1] = -im;                  \
            }                                                                                                     \
            j += pair;                                                                                            \
        }                                                                                                         \
    } while (0)

static void put_w(const geev_t *g, const geev_bufs_t *p, void *const *bufs, uint64_t b) {
    uint64_t n = (uint64_t)g->a.rows;
    if (g->a.type == TD_F32) PUT_W(float);
    else PUT_W(double);
}
static void unpack(const geev_t *g, const geev_bufs_t *p, const void *packed, void *vectors) {
    uint64_t n = (uint64_t)g->a.rows;
    if (g->a.type == TD_F32) UNPACK(float);
    else UNPACK(double);
}

static int32_t one_item(const geev_t *g, void *const *bufs, uint64_t b, void *scratch) {
    uint64_t n = (uint64_t)g->a.rows, size = td_type_bytes(g->a.type);
    bool real = !td_type_is_complex(g->a.type);
    void *vl = g->left ? td_at(bufs[g->vl], b * g->v_bytes) : NULL, *vr = g->right ? td_at(bufs[g->vr], b * g->v_bytes)
        : NULL;
    geev_bufs_t p = {.a = td_at(g->in_place ? bufs[1] : scratch, g->in_place ? b * g->bytes : g->a_at),
                     .wr = real ? td_at(scratch, g->wr_at) : td_at(bufs[g->w], b * n * size), .wi = td_at(scratch,
                                                                                                          g->wi_at),
                     .vl = g->left && g->unpack ? td_at(scratch, g->vl_at) : vl,
                     .vr = g->right && g->unpack ? td_at(scratch, g->vr_at) : vr};
    td_copy_bytes(p.a, td_at(bufs[0], b * g->bytes), g->bytes);
    int32_t info = -4;
    if (td_all_finite(g->a.type, p.a, n * n))
        info = geev(g, &p, td_at(scratch, g->work_at), g->lwork, td_at(scratch, g->rwork_at));
    if (info) {
        td_fill_nan(g->a.type, p.wr, n);
        if (real) td_fill_nan(g->a.type, p.wi, n);
        uint64_t reals = g->v_bytes / td_type_bytes(td_real_of(g->a.type));
        if (vl) td_fill_nan(td_real_of(g->a.type), vl, reals);
        if (vr) td_fill_nan(td_real_of(g->a.type), vr, reals);
    }
    if (real) put_w(g, &p, bufs, b);
    if (!info && g->unpack && g->left) unpack(g, &p, p.vl, vl);
    if (!info && g->unpack && g->right) unpack(g, &p, p.vr, vr);
    return info;
}

td_status_t td_geev_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const geev_t *g = state;
    int32_t *info = bufs[g->info];
    (void)err;
    if (!g->left && g->vl_all) memset(bufs[g->vl], 0, (size_t)g->vl_all);
    if (!g->right && g->vr_all) memset(bufs[g->vr], 0, (size_t)g->vr_all);
    for (int64_t b = 0; b < g->a.batch; b++) info[b] = g->a.rows ? one_item(g, bufs, (uint64_t)b, scratch) : 0;
    return TD_OK;
}
td_status_t td_eig_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    return td_geev_run(state, bufs, scratch, err);
}
