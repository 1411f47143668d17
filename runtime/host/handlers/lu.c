/* SPDX-License-Identifier: Apache-2.0 */
/* cusolver_getrf_ffi: a [B,m,n] -> LU, pivots s32 [B,min(m,n)] counted from 1, info s32 [B]
 * (i > 0: U[i,i] is exactly zero).
 * cu_lu_pivots_to_permutation: pivots s32 [B,p] counted from 0 -> permutation s32 [B,q], q >= p: the
 * transpositions applied in ascending order to 0…q-1; a pivot outside 0…q-1 changes nothing.
 * Facts: jaxlib/gpu/solver_kernels_ffi.cc, jaxlib/gpu/linalg_kernels.cu.cc. */
#include "runtime/host/handlers/families.h"
#include "runtime/host/handlers/lapack.h"

typedef struct lu {
    td_mats_t a;
    uint64_t bytes; /* of one matrix */
    int64_t k;
} lu_t;

td_status_t td_getrf_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                             td_err_t *err) {
    td_linalg_t v = {0};
    td_status_t s = td_linalg_getrf(d, &v, err);
    if (s) return s;
    lu_t l = {.a = v.a, .k = v.k};
    l.bytes = (uint64_t)l.a.rows * (uint64_t)l.a.cols * td_type_bytes(l.a.type);
    *scratch = 0;
    return td_hc_state(arena, &l, sizeof l, state, err);
}

td_status_t td_getrf_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const lu_t *l = state;
    int m = l->a.rows, n = l->a.cols;
    int32_t *pivots = bufs[2], *info = bufs[3];
    (void)scratch, (void)err;
    td_copy_bytes(bufs[1], bufs[0], l->bytes * (uint64_t)l->a.batch);
    for (int64_t b = 0; b < l->a.batch; b++) {
        void *a = td_at(bufs[1], (uint64_t)b * l->bytes);
        info[b] = l->k == 0 ? 0 : TD_LAPACK(l->a.type, sgetrf, dgetrf, cgetrf, zgetrf, m, n, a, m, pivots + b * l->k);
    }
    return TD_OK;
}

td_status_t td_lu_pivots_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                                 td_err_t *err) {
    td_pivots_t v = {0};
    td_status_t s = td_linalg_pivots(d, &v, err);
    *scratch = 0;
    return s ? s : td_hc_state(arena, &v, sizeof v, state, err);
}

td_status_t td_lu_pivots_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const td_pivots_t *v = state;
    (void)scratch, (void)err;
    for (int64_t b = 0; b < v->batch; b++) {
        const int32_t *pivot = (const int32_t *)bufs[0] + b * v->p;
        int32_t *perm = (int32_t *)bufs[1] + b * v->q;
        for (int64_t i = 0; i < v->q; i++) perm[i] = (int32_t)i;
        for (int64_t i = 0; i < v->p; i++) {
            if (pivot[i] < 0 || pivot[i] >= v->q) continue;
            int32_t was = perm[i];
            perm[i] = perm[pivot[i]];
            perm[pivot[i]] = was;
        }
    }
    return TD_OK;
}
