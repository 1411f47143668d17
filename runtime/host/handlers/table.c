/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in custom-call targets, sorted by name; docs/handlers.md is made from this table. */
#include "runtime/host/handlers/table.h"

#include <string.h>

#include "runtime/host/handlers/families.h"

#define ROW(target, name, what) {target, td_##name##_prepare, td_##name##_run, what}
static const td_handler_t rows[] = {
    ROW("__xla_gpu_assert", assert, "ends the run when its condition is false"),
    ROW("cu_cholesky_update_ffi", cholesky_update, "rank-1 update of an upper Cholesky factor: f32, f64, one matrix"),
    ROW("cu_lu_pivots_to_permutation", lu_pivots, "LU pivots (from 0) as a permutation"),
    ROW("cu_threefry2x32_ffi", threefry, "Threefry 2x32, 20 rounds, element by element"),
    ROW("cu_tridiagonal_solve_perturbed", tridiagonal_perturbed, "tridiagonal systems, tiny pivots perturbed"),
    ROW("cuhybrid_eig_comp", eig, "eigenvalues and vectors of general complex matrices"),
    ROW("cuhybrid_eig_real", eig, "eigenvalues and vectors of general real matrices, as complex arrays"),
    ROW("cuhybrid_geqp3", geqp3, "QR factorization with column pivots (from 1)"),
    ROW("cusolver_csrlsvqr_ffi", csrlsvqr, "sparse (CSR) system of at most 8192 equations, by dense QR"),
    ROW("cusolver_geev_ffi", geev, "eigenvalues and vectors of general matrices"),
    ROW("cusolver_geqrf_ffi", geqrf, "QR factorization: R, reflectors and tau"),
    ROW("cusolver_gesvd_ffi", gesvd, "singular value decomposition, U and V^H, at least as many rows as columns"),
    ROW("cusolver_gesvdj_ffi", gesvdj, "singular value decomposition, U and V"),
    ROW("cusolver_gesvdp_ffi", gesvdj, "singular value decomposition, U and V"),
    ROW("cusolver_getrf_ffi", getrf, "LU factorization with row pivots (from 1)"),
    ROW("cusolver_orgqr_ffi", orgqr, "Q of a QR factorization"),
    ROW("cusolver_ormqr_ffi", ormqr, "product with Q or its adjoint, from the left or the right"),
    ROW("cusolver_potrf_ffi", potrf, "Cholesky factorization, lower or upper"),
    ROW("cusolver_syevd_ffi", syevd, "eigenvalues (ascending) and vectors of symmetric and Hermitian matrices"),
    ROW("cusolver_syrk_ffi", syrk, "symmetric rank-k update of one triangle"),
    ROW("cusolver_sytrd_ffi", sytrd, "reduction of symmetric and Hermitian matrices to tridiagonal form"),
    ROW("cusparse_coo_fromdense_ffi", sparse, "dense matrix as COO"),
    ROW("cusparse_coo_matmat_ffi", sparse, "product of a COO matrix and a dense one"),
    ROW("cusparse_coo_matvec_ffi", sparse, "product of a COO matrix and a vector"),
    ROW("cusparse_coo_todense_ffi", sparse, "COO matrix as a dense one"),
    ROW("cusparse_csr_fromdense_ffi", sparse, "dense matrix as CSR"),
    ROW("cusparse_csr_matmat_ffi", sparse, "product of a CSR matrix and a dense one"),
    ROW("cusparse_csr_matvec_ffi", sparse, "product of a CSR matrix and a vector"),
    ROW("cusparse_csr_todense_ffi", sparse, "CSR matrix as a dense one"),
    ROW("cusparse_gtsv2_ffi", gtsv2, "tridiagonal systems, with pivoting"),
    ROW("dce_sink", dce_sink, "nothing: keeps a value alive"),
    ROW("xla.gpu.ext.cub_scan", cub_scan, "running sums of rows"),
    ROW("xla.gpu.ext.cub_sort_keys", cub_sort, "stable sort of rows"),
    ROW("xla.gpu.ext.cub_sort_pairs", cub_sort, "stable sort of rows and of values with them"),
};

const td_handler_t *td_handler_find(const char *target) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].target, target) == 0) return &rows[i];
    return NULL;
}

const td_handler_t *td_handler_at(uint32_t i) { return i < sizeof rows / sizeof *rows ? &rows[i] : NULL; }
