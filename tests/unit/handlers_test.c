/* SPDX-License-Identifier: Apache-2.0 */
/* Factorizations and eigenvalues. Expected numbers: numpy 2.4 and scipy 1.17 (scipy.linalg.lapack), printed with 10
 * digits; matrices below are written column by column. */
#include "handler_case.h"

static const double a43[] = {2, 4, -6, 1, 1, 3, 5, 2, 3, 7, 1, 3}; /* 4 x 3 */
static const double s33[] = {4, 1, -2, 1, 3, 0, -2, 0, 5};         /* symmetric */

START_TEST(cholesky) {
    double a[32] = {4, 6, 8, 10, 6, 45, 54, 63, 8, 54, 146, 166, 10, 63, 166, 310}, out[32];
    for (int i = 16; i < 32; i++) a[i] = 1; /* the second matrix of the batch is singular */
    int32_t info[2] = {7, 7};
    CALL("cusolver_potrf_ffi", ATTRS(YES("lower")), IN(COL(TD_F64, a, 2, 4, 4)),
        OUT(COL(TD_F64, out, 2, 4, 4), ROW(TD_S32, info, 2)));
    NEAR(out, 2, 3, 4, 5, 6, 6, 7, 8, 8, 54, 9, 10, 10, 63, 166, 11);
    ck_assert_int_eq(info[0], 0);
    ck_assert_int_eq(info[1], 2);
    CALL("cusolver_potrf_ffi", ATTRS(NO("lower")), IN(COL(TD_F64, a, 4, 4)),
        OUT(COL(TD_F64, a, 4, 4), ROW(TD_S32, info)));
    NEAR(a, 2, 6, 8, 10, 3, 6, 54, 63, 4, 7, 9, 166, 5, 8, 10, 11); /* in place */
    double z[8] = {4, 0, 1, -2, 1, 2, 6, 0};
    CALL("cusolver_potrf_ffi", ATTRS(YES("lower")), IN(COL(TD_C128, z, 2, 2)),
        OUT(COL(TD_C128, z, 2, 2), ROW(TD_S32, info)));
    NEAR(z, 2, 0, 0.5, -1, 1, 2, 2.179449472, 0);
    CALL("cusolver_potrf_ffi", ATTRS(YES("lower")), IN(COL(TD_F32, NULL, 3, 0, 0)),
        OUT(COL(TD_F32, NULL, 3, 0, 0), ROW(TD_S32, I(5, 5, 5), 3)));
}
END_TEST

START_TEST(cholesky_checks) {
    double a[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, out[9];
    int32_t info[2];
    const char *t = "cusolver_potrf_ffi";
    REFUSED(TD_MISMATCH, "column-major", t, ATTRS(YES("lower")), IN(ROW(TD_F64, a, 3, 3)),
        OUT(COL(TD_F64, out, 3, 3), ROW(TD_S32, info)));
    REFUSED(TD_MISMATCH, "column-major", t, ATTRS(YES("lower")), IN(COL(TD_F64, a, 3, 3)),
        OUT(ROW(TD_F64, out, 3, 3), ROW(TD_S32, info)));
    REFUSED(TD_MISMATCH, "'lower' is missing", t, NO_ATTRS, IN(COL(TD_F64, a, 3, 3)),
        OUT(COL(TD_F64, out, 3, 3), ROW(TD_S32, info)));
    REFUSED(TD_MISMATCH, "of another kind", t, ATTRS(INT("lower", 1)), IN(COL(TD_F64, a, 3, 3)),
        OUT(COL(TD_F64, out, 3, 3), ROW(TD_S32, info)));
    REFUSED(TD_MISMATCH, "info is s32[2]", t, ATTRS(YES("lower")), IN(COL(TD_F64, a, 3, 3)),
        OUT(COL(TD_F64, out, 3, 3), ROW(TD_S32, info, 2)));
    REFUSED(TD_MISMATCH, "info is u32[]", t, ATTRS(YES("lower")), IN(COL(TD_F64, a, 3, 3)),
        OUT(COL(TD_F64, out, 3, 3), ROW(TD_U32, info)));
    REFUSED(TD_MISMATCH, "out is f32", t, ATTRS(YES("lower")), IN(COL(TD_F64, a, 3, 3)),
        OUT(COL(TD_F32, out, 3, 3), ROW(TD_S32, info)));
    REFUSED(TD_MISMATCH, "not square", t, ATTRS(YES("lower")), IN(COL(TD_F64, a, 3, 2)),
        OUT(COL(TD_F64, out, 3, 2), ROW(TD_S32, info)));
    REFUSED(TD_MISMATCH, "a matrix or a batch", t, ATTRS(YES("lower")), IN(ROW(TD_F64, a, 3)),
        OUT(ROW(TD_F64, out, 3), ROW(TD_S32, info)));
    REFUSED(TD_MISMATCH, "1 results", t, ATTRS(YES("lower")), IN(COL(TD_F64, a, 3, 3)), OUT(COL(TD_F64, out, 3, 3)));
    REFUSED(TD_UNSUPPORTED, "f16", t, ATTRS(YES("lower")), IN(COL(TD_F16, a, 3, 3)),
        OUT(COL(TD_F16, out, 3, 3), ROW(TD_S32, info)));
    ck_assert_ptr_null(td_handler_find("cusolver_potrf"));
    ck_assert_ptr_null(td_handler_find("mosaic_gpu_v2"));
}
END_TEST

START_TEST(cholesky_update) {
    double r[9] = {2, 0.5, -1, 0, 1.658312395, 0.3015113446, 0, 0, 1.977142106}, x[3] = {1, 2, -1}; /* row-major */
    CALL("cu_cholesky_update_ffi", NO_ATTRS, IN(ROW(TD_F64, r, 3, 3), ROW(TD_F64, x, 3)),
        OUT(ROW(TD_F64, r, 3, 3), ROW(TD_F64, x, 3)));
    NEAR(r, 2.236067977, 1.341640786, -1.341640786, 0, 2.28035085, -0.08770580193, 0, 0, 2.047512562);
    REFUSED(TD_UNSUPPORTED, "batch of 2", "cu_cholesky_update_ffi", NO_ATTRS,
        IN(ROW(TD_F64, r, 2, 1, 1), ROW(TD_F64, x, 2, 1)), OUT(ROW(TD_F64, r, 2, 1, 1), ROW(TD_F64, x, 2, 1)));
    REFUSED(TD_UNSUPPORTED, "c64", "cu_cholesky_update_ffi", NO_ATTRS, IN(ROW(TD_C64, r, 1, 1), ROW(TD_C64, x, 1)),
        OUT(ROW(TD_C64, r, 1, 1), ROW(TD_C64, x, 1)));
}
END_TEST

START_TEST(lu) {
    double a[12], out[12];
    int32_t p[4], info[1], perm[4];
    memcpy(a, a43, sizeof a);
    CALL("cusolver_getrf_ffi", NO_ATTRS, IN(COL(TD_F64, a, 4, 3)),
        OUT(COL(TD_F64, out, 4, 3), ROW(TD_S32, p, 3), ROW(TD_S32, info)));
    NEAR(out, -6, -0.6666666667, -0.1666666667, -0.3333333333, 5, 6.333333333, 0.4473684211, 0.4210526316, 1,
         7.666666667,
         -0.2631578947, -0.4);
    ck_assert(p[0] == 3 && p[1] == 2 && p[2] == 4 && info[0] == 0);
    CALL("cu_lu_pivots_to_permutation", NO_ATTRS, IN(ROW(TD_S32, I(2, 1, 3), 3)), OUT(ROW(TD_S32, perm, 4)));
    ck_assert(perm[0] == 2 && perm[1] == 1 && perm[2] == 3 && perm[3] == 0);
    CALL("cu_lu_pivots_to_permutation", NO_ATTRS, IN(ROW(TD_S32, I(1, 1, -1, 9), 2, 2)), OUT(ROW(TD_S32, perm, 2, 2)));
    ck_assert(perm[0] == 1 && perm[1] == 0 && perm[2] == 0 && perm[3] == 1); /* out of range: skipped */
    double w[12] = {2, 1, 3, 4, 3, 7, -6, 5, 1, 1, 2, 3};
    CALL("cusolver_getrf_ffi", NO_ATTRS, IN(COL(TD_F64, w, 3, 4)),
        OUT(COL(TD_F64, out, 3, 4), ROW(TD_S32, p, 3), ROW(TD_S32, info)));
    NEAR(out, 3, 0.3333333333, 0.6666666667, 7, 0.6666666667, -1, 1, 4.666666667, -2, 3, 1, 0);
    double zero[4] = {0, 0, 0, 0};
    CALL("cusolver_getrf_ffi", NO_ATTRS, IN(COL(TD_F64, zero, 2, 2)),
        OUT(COL(TD_F64, zero, 2, 2), ROW(TD_S32, p, 2), ROW(TD_S32, info)));
    ck_assert_int_eq(info[0], 1);
    REFUSED(TD_MISMATCH, "ipiv is s32[4]", "cusolver_getrf_ffi", NO_ATTRS, IN(COL(TD_F64, a, 4, 3)),
        OUT(COL(TD_F64, out, 4, 3), ROW(TD_S32, p, 4), ROW(TD_S32, info)));
    REFUSED(TD_MISMATCH, "permutation of 2", "cu_lu_pivots_to_permutation", NO_ATTRS, IN(ROW(TD_S32, p, 3)),
        OUT(ROW(TD_S32, perm, 2)));
}
END_TEST

START_TEST(qr) {
    double a[12], h[12], tau[3], q[12], x[8], c[8] = {1, 3, 5, 7, 2, 4, 6, 8}, ct[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    memcpy(a, a43, sizeof a);
    CALL("cusolver_geqrf_ffi", NO_ATTRS, IN(COL(TD_F64, a, 4, 3)), OUT(COL(TD_F64, h, 4, 3), ROW(TD_F64, tau, 3)));
    NEAR(h, -7.549834435, 0.4188554291, -0.6282831436, 0.1047138573, 1.8543453, -5.963338286, 0.4788263544,
         0.2241626671,
         -4.106050307, -7.146003303, -0.27383876, -0.635411861);
    NEAR(tau, 1.264906471, 1.563081785, 1.424756914);
    CALL("cusolver_orgqr_ffi", NO_ATTRS, IN(COL(TD_F64, h, 4, 3), ROW(TD_F64, tau, 3)), OUT(COL(TD_F64, q, 4, 3)));
    NEAR(q, -0.2649064714, -0.5298129428, 0.7947194142, -0.1324532357, -0.2500659863, -0.6678232811, -0.5913325088,
         -0.3765699559, -0.4575989806, -0.1909665037, -0.13691938, 0.8575476959);
    CALL("cusolver_ormqr_ffi", ATTRS(YES("left"), NO("transpose")),
        IN(COL(TD_F64, h, 4, 3), ROW(TD_F64, tau, 3), COL(TD_F64, c, 4, 2)), OUT(COL(TD_F64, x, 4, 2)));
    NEAR(x, 2.374650406, -6.894765149, -1.663875012, 5.296675272, 2.213186074, -8.77003214, -1.597407487, 5.969642619);
    CALL("cusolver_ormqr_ffi", ATTRS(YES("left"), YES("transpose")),
        IN(COL(TD_F64, h, 4, 3), ROW(TD_F64, tau, 3), COL(TD_F64, c, 4, 2)), OUT(COL(TD_F64, x, 4, 2)));
    NEAR(x, 1.192079121, -7.846188065, 4.28773848, 1.622214211, 1.059625886, -9.731979797, 4.359801311, 2.271099896);
    CALL("cusolver_ormqr_ffi", ATTRS(NO("left"), NO("transpose")),
        IN(COL(TD_F64, h, 4, 3), ROW(TD_F64, tau, 3), COL(TD_F64, ct, 2, 4)), OUT(COL(TD_F64, x, 2, 4)));
    NEAR(x, 1.192079121, 1.059625886, -7.846188065, -9.731979797, 4.28773848, 4.359801311, 1.622214211, 2.271099896);
    REFUSED(TD_MISMATCH, "3 reflectors in 4 x 3 for c of 2 x 4", "cusolver_ormqr_ffi",
        ATTRS(YES("left"), NO("transpose")), IN(COL(TD_F64, h, 4, 3), ROW(TD_F64, tau, 3), COL(TD_F64, ct, 2, 4)),
        OUT(COL(TD_F64, x, 2, 4)));
    REFUSED(TD_MISMATCH, "k <= n <= m", "cusolver_orgqr_ffi", NO_ATTRS, IN(COL(TD_F64, h, 3, 4), ROW(TD_F64, tau, 3)),
        OUT(COL(TD_F64, q, 3, 4)));
    REFUSED(TD_MISMATCH, "tau is f64[4]", "cusolver_geqrf_ffi", NO_ATTRS, IN(COL(TD_F64, a, 4, 3)),
        OUT(COL(TD_F64, h, 4, 3), ROW(TD_F64, x, 4)));
}
END_TEST

START_TEST(complex_qr) {
    double a[12] = {1, 1, 0, 0, 0, 3, 2, 0, 1, -2, 1, 0}, h[12], tau[4], c[12] = {1, 0, 2, 0, 0, 0, 0, 1, 0, 0, 1, 1},
        x[12];
    CALL("cusolver_geqrf_ffi", NO_ATTRS, IN(COL(TD_C128, a, 3, 2)), OUT(COL(TD_C128, h, 3, 2), ROW(TD_C128, tau, 2)));
    NEAR(h, -3.31662479, 0, 0, 0, 0.1528020101, 0.6595889447, -0.6030226892, 1.507556723, -2.713602101, 0,
         0.08526725067,
         -0.3543817441);
    NEAR(tau, 1.301511345, 0.3015113446, 1.368513866, -0.7370277312);
    CALL("cusolver_ormqr_ffi", ATTRS(YES("left"), YES("transpose")),
        IN(COL(TD_C128, h, 3, 2), ROW(TD_C128, tau, 2), COL(TD_C128, c, 3, 2)), OUT(COL(TD_C128, x, 3, 2)));
    NEAR(x, -0.3015113446, 0.3015113446, -1.239546639, -1.373551681, -1.160735975, 0.2185262578, -1.206045378,
         0.6030226892,
         0.2345088236, -0.5695214286, 0.8957236129, 0.01217969835);
}
END_TEST

START_TEST(pivoted_qr) {
    double a[12], out[12], tau[3];
    int32_t j[3];
    memcpy(a, a43, sizeof a);
    CALL("cuhybrid_geqp3", ATTRS(STR("magma", "auto", 4)), IN(COL(TD_F64, a, 4, 3), ROW(TD_S32, I(0, 0, 0), 3)),
        OUT(COL(TD_F64, out, 4, 3), ROW(TD_S32, j, 3), ROW(TD_F64, tau, 3)));
    NEAR(out, -8.246211251, 0.6224318434, 0.08891883477, 0.2667565043, -3.759302188, -6.54733893, -0.9353032457,
         -0.07703069964,
         -4.244373438, 4.575275952, -0.2283507879, 0.9687897706);
    NEAR(tau, 1.363803438, 1.063419189, 1.031697024);
    ck_assert(j[0] == 3 && j[1] == 1 && j[2] == 2);
}
END_TEST

START_TEST(symmetric_eigenvalues) {
    double a[18], v[18], w[6];
    int32_t info[2];
    memcpy(a, s33, sizeof s33);
    memcpy(a + 9, s33, sizeof s33);
    a[3] = a[6] = a[7] = 77;  /* above the diagonal: not read */
    a[9] = (double)NAN;       /* the second matrix fails alone */
    CALL("cusolver_syevd_ffi", ATTRS(U8("algorithm", 0), YES("lower")), IN(COL(TD_F64, a, 2, 3, 3)),
        OUT(COL(TD_F64, v, 2, 3, 3), ROW(TD_F64, w, 2, 3), ROW(TD_S32, info, 2)));
    NEAR(w, 1.854897309, 3.476023603, 6.669079088);
    for (int j = 0; j < 3; j++) /* A v = w v */
        for (int i = 0; i < 3; i++) {
            double sum = 0;
            for (int k = 0; k < 3; k++) sum += s33[i + 3 * k] * v[k + 3 * j];
            ck_assert_double_eq_tol(sum, w[j] * v[i + 3 * j], 1e-12);
        }
    ck_assert(info[0] == 0 && info[1] != 0 && isnan(w[3]) && isnan(v[9]));
    double z[8] = {2, 0, 1, 1, 1, -1, 3, 0}, zv[8]; /* [[2, 1-i], [1+i, 3]]: 1 and 4 */
    CALL("cusolver_syevd_ffi", ATTRS(U8("algorithm", 2), NO("lower")), IN(COL(TD_C128, z, 2, 2)),
        OUT(COL(TD_C128, zv, 2, 2), ROW(TD_F64, w, 2), ROW(TD_S32, info)));
    NEAR(w, 1, 4);
    REFUSED(TD_UNSUPPORTED, "algorithm 3", "cusolver_syevd_ffi", ATTRS(U8("algorithm", 3), NO("lower")),
        IN(COL(TD_C128, z, 2, 2)), OUT(COL(TD_C128, zv, 2, 2), ROW(TD_F64, w, 2), ROW(TD_S32, info)));
    REFUSED(TD_MISMATCH, "w is c128[2]", "cusolver_syevd_ffi", ATTRS(U8("algorithm", 0), NO("lower")),
        IN(COL(TD_C128, z, 2, 2)), OUT(COL(TD_C128, zv, 2, 2), ROW(TD_C128, w, 2), ROW(TD_S32, info)));
}
END_TEST

START_TEST(tridiagonal_form) {
    double a[9], out[9], d[3], e[2], tau[2];
    int32_t info[1];
    memcpy(a, s33, sizeof a);
    CALL("cusolver_sytrd_ffi", ATTRS(YES("lower")), IN(COL(TD_F64, a, 3, 3)),
        OUT(COL(TD_F64, out, 3, 3), ROW(TD_F64, d, 3), ROW(TD_F64, e, 2), ROW(TD_F64, tau, 2), ROW(TD_S32, info)));
    NEAR(out, 4, -2.236067977, -0.6180339887, 1, 4.6, 0.8, -2, 0, 3.4);
    NEAR(d, 4, 4.6, 3.4);
    NEAR(e, -2.236067977, 0.8);
    NEAR(tau, 1.447213595, 0);
}
END_TEST

START_TEST(rank_k_update) {
    double a[6] = {1, 2, 3, 4, 5, 6}, c[4] = {10, 20, 30, 40}, out[4]; /* row-major 2 x 3 */
    CALL("cusolver_syrk_ffi", ATTRS(NO("transpose")), IN(ROW(TD_F64, a, 2, 3), ROW(TD_F64, c, 2, 2),
        ROW(TD_F64, F(2)), ROW(TD_F64, F(0.5))), OUT(ROW(TD_F64, out, 2, 2)));
    NEAR(out, 33, 20, 79, 174);
    CALL("cusolver_syrk_ffi", ATTRS(YES("transpose")), IN(ROW(TD_F64, a, 3, 2), ROW(TD_F64, c, 2, 2),
        ROW(TD_F64, F(1)), ROW(TD_F64, F(0))), OUT(ROW(TD_F64, out, 2, 2)));
    NEAR(out, 35, 20, 44, 56);
}
END_TEST

START_TEST(table) {
    static const char *const stable[] = { /* JAX promises these names (jax.export) */
        "cu_lu_pivots_to_permutation", "cu_threefry2x32_ffi", "cusolver_geqrf_ffi", "cusolver_gesvd_ffi",
            "cusolver_gesvdj_ffi",
        "cusolver_getrf_ffi", "cusolver_orgqr_ffi", "cusolver_potrf_ffi", "cusolver_syevd_ffi", "cusolver_sytrd_ffi",
        "cusparse_gtsv2_ffi"};
    for (size_t i = 0; i < sizeof stable / sizeof *stable; i++) ck_assert_ptr_nonnull(td_handler_find(stable[i]));
}
END_TEST

int main(void) {
    TCase *t = tcase_create("handlers");
    tcase_add_test(t, cholesky);
    tcase_add_test(t, cholesky_checks);
    tcase_add_test(t, cholesky_update);
    tcase_add_test(t, lu);
    tcase_add_test(t, qr);
    tcase_add_test(t, complex_qr);
    tcase_add_test(t, pivoted_qr);
    tcase_add_test(t, symmetric_eigenvalues);
    tcase_add_test(t, tridiagonal_form);
    tcase_add_test(t, rank_k_update);
    tcase_add_test(t, table);
    Suite *s = suite_create("handlers");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
