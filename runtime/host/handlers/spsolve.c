/* SPDX-License-Identifier: Apache-2.0 */
/* cusolver_csrlsvqr_ffi: values [nnz], columns s32 [nnz], row pointers s32 [n+1], b [n] -> x, A x = b for a CSR
 * matrix, indices from 0; attributes tol f64, reorder s32 (an ordering of the sparse method: no effect here).
 * Repeated entries add up. The host solves by dense QR (geqrf, ormqr, trtrs), hence the limit on n. A diagonal
 * entry of R of at most tol, or an entry outside the matrix, fails the run. Facts: jaxlib/gpu/solver_kernels_ffi.cc. */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "runtime/host/handlers/families.h"
#include "runtime/host/handlers/lapack.h"

typedef struct spsolve {
    td_type_t type;
    int n, lwork;
    int64_t nnz;
    double tol;
    uint64_t a_at, tau_at, work_at;
} spsolve_t;

static lapack_int factor(const spsolve_t *p, void *a, void *tau, void *work, int lwork) {
    return TD_LAPACK(p->type, sgeqrf, dgeqrf, cgeqrf, zgeqrf, p->n, p->n, a, p->n, tau, work, lwork);
}
static lapack_int apply(const spsolve_t *p, void *a, void *tau, void *x, void *work, int lwork) {
    char t = td_type_is_complex(p->type) ? 'C' : 'T';
    return TD_LAPACK(p->type, sormqr, dormqr, cunmqr, zunmqr, 'L', t, p->n, 1, p->n, a, p->n, tau, x, p->n, work,
                     lwork);
}

td_status_t td_csrlsvqr_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                                td_err_t *err) {
    spsolve_t p = {0};
    td_spsolve_t v = {0};
    td_status_t s = td_linalg_csrlsvqr(d, &v, err);
    if (s) return s;
    int64_t n = v.n;
    p.type = v.type, p.nnz = v.nnz, p.tol = v.tol;
    if (n > TD_LIMIT_SPSOLVE_ROWS)
        return td_fail(err, TD_LIMIT, "%lld equations, at most %d are solved (densely)", (long long)n,
                       TD_LIMIT_SPSOLVE_ROWS);
    p.n = (int)n;
    *scratch = 0;
    if (n) {
        td_query_t w = {{0}}, x = {{0}};
        int more = 0;
        uint64_t size = td_type_bytes(p.type);
        if ((s = td_lwork(p.type, &w, factor(&p, &x, &x, &w, -1), &p.lwork, err)) ||
            (s = td_lwork(p.type, &w, apply(&p, &x, &x, &x, &w, -1), &more, err)))
            return s;
        p.lwork = more > p.lwork ? more : p.lwork;
        if ((s = td_hc_scratch(scratch, (uint64_t)n * (uint64_t)n, size, &p.a_at, err)) ||
            (s = td_hc_scratch(scratch, (uint64_t)n, size, &p.tau_at, err)) ||
            (s = td_hc_scratch(scratch, (uint64_t)p.lwork, size, &p.work_at, err)))
            return s;
    }
    return td_hc_state(arena, &p, sizeof p, state, err);
}

#define SCATTER(T)                                                                    \
    do {                                                                              \
        const T *v = values;                                                          \
        for (int64_t i = ptr[r]; i < ptr[r + 1]; i++) ((T *)a)[(size_t)col[i] * (size_t)p->n + r] += v[i]; \
    } while (0)

/* The CSR matrix, column-major. */
static td_status_t scatter(const spsolve_t *p, const void *values, const int32_t *col, const int32_t *ptr, void *a,
                           td_err_t *err) {
    memset(a, 0, (size_t)p->n * (size_t)p->n * td_type_bytes(p->type));
    for (size_t r = 0; r < (size_t)p->n; r++) {
        if (ptr[r] < 0 || ptr[r + 1] < ptr[r] || ptr[r + 1] > p->nnz)
            return td_fail(err, TD_MISMATCH, "row %zu has entries %d to %d of %lld", r, ptr[r], ptr[r + 1],
                           (long long)p->nnz);
        for (int64_t i = ptr[r]; i < ptr[r + 1]; i++)
            if (col[i] < 0 || col[i] >= p->n)
                return td_fail(err, TD_MISMATCH, "row %zu has an entry in column %d of %d", r, col[i], p->n);
        switch (p->type) {
        case TD_F32: SCATTER(float); break;
        case TD_F64: SCATTER(double); break;
        case TD_C64: SCATTER(float complex); break;
        default: SCATTER(double complex); break;
        }
    }
    return TD_OK;
}

static double size_of(td_type_t t, const void *p, size_t i) {
    switch (t) {
    case TD_F32: return fabs((double)((const float *)p)[i]);
    case TD_F64: return fabs(((const double *)p)[i]);
    case TD_C64: return cabs((double complex)((const float complex *)p)[i]);
    default: return cabs(((const double complex *)p)[i]);
    }
}

td_status_t td_csrlsvqr_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const spsolve_t *p = state;
    size_t n = (size_t)p->n;
    void *a = td_at(scratch, p->a_at), *tau = td_at(scratch, p->tau_at), *work = td_at(scratch, p->work_at),
        *x = bufs[4];
    if (!n) return TD_OK;
    td_status_t s = scatter(p, bufs[0], bufs[1], bufs[2], a, err);
    if (s) return s;
    td_copy_bytes(x, bufs[3], n * td_type_bytes(p->type));
    if (factor(p, a, tau, work, p->lwork)) return td_fail(err, TD_INTERNAL, "geqrf");
    for (size_t i = 0; i < n; i++)
        if (size_of(p->type, a, i * (n + 1)) <= p->tol)
            return td_fail(err, TD_MISMATCH, "singular matrix: R[%zu,%zu] is %g, the tolerance is %g", i, i,
                           size_of(p->type, a, i * (n + 1)), p->tol);
    if (apply(p, a, tau, x, work, p->lwork) ||
        TD_LAPACK(p->type, strtrs, dtrtrs, ctrtrs, ztrtrs, 'U', 'N', 'N', p->n, 1, a, p->n, x, p->n))
        return td_fail(err, TD_MISMATCH, "singular matrix");
    return TD_OK;
}
