/* SPDX-License-Identifier: Apache-2.0 */
/* Singular values, general eigenvalues, tridiagonal and sparse systems, random bits, sorts and scans.
 * Expected numbers: numpy 2.4 and scipy 1.17, printed with 10 digits; sorts and sparse results by hand. */
#include "handler_case.h"

static const double b23[] = {1, 4, 2, 5, 3, 6}; /* [[1,2,3],[4,5,6]], column by column */

/* u (m x k) diag(s) v^H, all column-major. */
static void check_product(const double *a, const double *u, const double *s, const double *v, size_t ldv_row,
                          size_t ldv_col,
                          size_t m, size_t n, size_t k) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t l = 0; l < k; l++) sum += u[i + m * l] * s[l] * v[j * ldv_row + l * ldv_col];
            ck_assert_double_eq_tol(sum, a[i + m * j], 1e-12);
        }
}

START_TEST(singular_values) {
    double a[6], out[6], s[2], u[4], v[9];
    int32_t info[1];
    memcpy(a, b23, sizeof a);
    CALL("cusolver_gesvdj_ffi", ATTRS(YES("compute_uv"), YES("full_matrices")), IN(COL(TD_F64, a, 2, 3)),
        OUT(COL(TD_F64, out, 2, 3), ROW(TD_F64, s, 2), COL(TD_F64, u, 2, 2), COL(TD_F64, v, 3, 3), ROW(TD_S32, info)));
    NEAR(s, 9.508032001, 0.7728696357);
    check_product(b23, u, s, v, 1, 3, 2, 3, 2);                                  /* V, not its transpose */
    ck_assert_double_eq_tol(fabs(v[0 + 3 * 2]), 0.4082482905, 1e-9); /* the null vector is the last column */
    ck_assert_double_eq_tol(fabs(v[1 + 3 * 2]), 0.8164965809, 1e-9);
    CALL("cusolver_gesvdp_ffi", ATTRS(YES("compute_uv"), NO("full_matrices")), IN(COL(TD_F64, a, 2, 3)),
        OUT(COL(TD_F64, out, 2, 3), ROW(TD_F64, s, 2), COL(TD_F64, u, 2, 2), COL(TD_F64, v, 3, 2), ROW(TD_S32, info)));
    check_product(b23, u, s, v, 1, 3, 2, 3, 2);
    u[0] = v[0] = 5;
    CALL("cusolver_gesvdj_ffi", ATTRS(NO("compute_uv"), NO("full_matrices")), IN(COL(TD_F64, a, 2, 3)),
        OUT(COL(TD_F64, out, 2, 3), ROW(TD_F64, s, 2), COL(TD_F64, u, 2, 2), COL(TD_F64, v, 3, 2), ROW(TD_S32, info)));
    NEAR(s, 9.508032001, 0.7728696357);
    ck_assert(u[0] == 0 && v[0] == 0 && info[0] == 0);
    a[0] = (double)INFINITY;
    CALL("cusolver_gesvdj_ffi", ATTRS(YES("compute_uv"), NO("full_matrices")), IN(COL(TD_F64, a, 2, 3)),
        OUT(COL(TD_F64, out, 2, 3), ROW(TD_F64, s, 2), COL(TD_F64, u, 2, 2), COL(TD_F64, v, 3, 2), ROW(TD_S32, info)));
    ck_assert(isnan(s[0]) && isnan(u[3]) && isnan(v[5]) && info[0] == -4);
    REFUSED(TD_MISMATCH, "v is f64[2,3]", "cusolver_gesvdj_ffi", ATTRS(YES("compute_uv"), NO("full_matrices")),
        IN(COL(TD_F64, a, 2, 3)), OUT(COL(TD_F64, out, 2, 3), ROW(TD_F64, s, 2), COL(TD_F64, u, 2, 2),
        COL(TD_F64, v, 2, 3), ROW(TD_S32, info)));
    CALL("cusolver_gesvdj_ffi", ATTRS(YES("compute_uv"), YES("full_matrices")), IN(COL(TD_F64, a, 2, 0)),
        OUT(COL(TD_F64, out, 2, 0), ROW(TD_F64, s, 0), COL(TD_F64, u, 2, 2), COL(TD_F64, v, 0, 0), ROW(TD_S32, info)));
    NEAR(u, 1, 0, 0, 1);
}
END_TEST

START_TEST(singular_values_transposed) {
    double a[6] = {1, 2, 3, 4, 5, 6}, out[6], s[2], u[6], vt[4]; /* 2 x 3 row-major = 3 x 2 column-major */
    int32_t info[1];
    CALL("cusolver_gesvd_ffi", ATTRS(YES("compute_uv"), NO("full_matrices"), YES("transposed")),
        IN(ROW(TD_F64, a, 2, 3)), OUT(ROW(TD_F64, out, 2, 3), ROW(TD_F64, s, 2), ROW(TD_F64, u, 2, 3),
        ROW(TD_F64, vt, 2, 2), ROW(TD_S32, info)));
    NEAR(s, 9.508032001, 0.7728696357);
    check_product(a, u, s, vt, 2, 1, 3, 2, 2);
    CALL("cusolver_gesvd_ffi", ATTRS(NO("compute_uv"), NO("full_matrices"), NO("transposed")),
        IN(COL(TD_F64, a, 3, 2)), OUT(COL(TD_F64, out, 3, 2), ROW(TD_F64, s, 2), ROW(TD_F64, u), ROW(TD_F64, vt),
        ROW(TD_S32, info)));
    NEAR(s, 9.508032001, 0.7728696357);
    REFUSED(TD_UNSUPPORTED, "2 x 3", "cusolver_gesvd_ffi", ATTRS(NO("compute_uv"), NO("full_matrices"),
        NO("transposed")), IN(COL(TD_F64, a, 2, 3)), OUT(COL(TD_F64, out, 2, 3), ROW(TD_F64, s, 2), ROW(TD_F64, u),
        ROW(TD_F64, vt), ROW(TD_S32, info)));
    REFUSED(TD_MISMATCH, "'transposed' is missing", "cusolver_gesvd_ffi",
        ATTRS(NO("compute_uv"), NO("full_matrices")), IN(COL(TD_F64, a, 3, 2)),
        OUT(COL(TD_F64, out, 3, 2), ROW(TD_F64, s, 2), ROW(TD_F64, u), ROW(TD_F64, vt), ROW(TD_S32, info)));
}
END_TEST

/* [[1,-2,0],[2,1,0],[1,1,3]]: 3 and 1 ± 2i. Vectors of a pair lie in two real columns. */
START_TEST(general_eigenvalues) {
    double g[9] = {1, 2, 1, -2, 1, 1, 0, 0, 3}, out[9], w[6], vl[18], vr[18];
    int32_t info[1];
    CALL("cusolver_geev_ffi", ATTRS(NO("left"), YES("right")), IN(COL(TD_F64, g, 3, 3)),
        OUT(COL(TD_F64, out, 3, 3), ROW(TD_C128, w, 3), COL(TD_F64, vl, 3, 3), COL(TD_F64, vr, 3, 3),
        ROW(TD_S32, info)));
    NEAR(w, 3, 0, 1, 2, 1, -2);
    NEAR(vr, 0, 0, 1, 0.6666666667, 0, -0.3333333333, 0, -0.6666666667, 0);
    ck_assert(vl[0] == 0 && vl[8] == 0 && info[0] == 0);
    CALL("cusolver_geev_ffi", ATTRS(YES("left"), NO("right")), IN(COL(TD_F64, g, 3, 3)),
        OUT(COL(TD_F64, out, 3, 3), ROW(TD_F64, w, 6), COL(TD_F64, vl, 3, 3), COL(TD_F64, vr, 3, 3),
        ROW(TD_S32, info)));
    NEAR(w, 3, 1, 1, 0, 2, -2); /* real parts, then imaginary ones */
    NEAR(vl, 0.4472135955, 0, 0.894427191, 0, 0.7071067812, 0, 0.7071067812, 0, 0);
    double wi[3];
    CALL("cuhybrid_eig_real", ATTRS(NO("left"), STR("magma", "off", 3), YES("right")), IN(COL(TD_F64, g, 3, 3)),
        OUT(ROW(TD_F64, w, 3), ROW(TD_F64, wi, 3), COL(TD_C128, vl, 3, 3), COL(TD_C128, vr, 3, 3), ROW(TD_S32, info)));
    NEAR(w, 3, 1, 1);
    NEAR(wi, 0, 2, -2);
    NEAR(vr, 0, 0, 0, 0, 1, 0, 0.6666666667, 0, 0, -0.6666666667, -0.3333333333, 0, 0.6666666667, 0, 0, 0.6666666667,
         -0.3333333333, 0);
    double z[2] = {3, 4}, zw[2], one[2];
    CALL("cuhybrid_eig_comp", ATTRS(NO("left"), STR("magma", "off", 3), YES("right")), IN(COL(TD_C128, z, 1, 1)),
        OUT(ROW(TD_C128, zw, 1), COL(TD_C128, vl, 1, 1), COL(TD_C128, one, 1, 1), ROW(TD_S32, info)));
    NEAR(zw, 3, 4);
    NEAR(one, 1, 0);
    REFUSED(TD_MISMATCH, "f64 of complex", "cuhybrid_eig_comp", ATTRS(NO("left"), YES("right")),
        IN(COL(TD_F64, g, 3, 3)), OUT(ROW(TD_F64, w, 3), COL(TD_C128, vl, 3, 3), COL(TD_C128, vr, 3, 3),
        ROW(TD_S32, info)));
}
END_TEST

START_TEST(tridiagonal_systems) {
    static const char *const targets[] = {"cusparse_gtsv2_ffi", "cu_tridiagonal_solve_perturbed"};
    double b[8] = {1, 3, 5, 7, 2, 4, 6, 8}, x[8];
    for (int i = 0; i < 2; i++) { /* the corners 99 are not part of the matrix */
        CALL(targets[i], NO_ATTRS, IN(ROW(TD_F64, F(99, 1, 2, -1), 4), ROW(TD_F64, F(4, 5, 6, 7), 4),
            ROW(TD_F64, F(1, -1, 2, 99), 4), COL(TD_F64, b, 4, 2)), OUT(COL(TD_F64, x, 4, 2)));
        NEAR(x, 0.09080717489, 0.6367713004, 0.2746636771, 1.039237668, 0.298206278, 0.8071748879, 0.3340807175,
             1.19058296);
        REFUSED(TD_MISMATCH, "du is f64[3]", targets[i], NO_ATTRS,
            IN(ROW(TD_F64, b, 4), ROW(TD_F64, b, 4), ROW(TD_F64, b, 3), COL(TD_F64, b, 4, 2)),
            OUT(COL(TD_F64, x, 4, 2)));
    }
    double zero[3] = {0}, ones[3] = {1, 1, 1};
    CALL(targets[0], NO_ATTRS, IN(ROW(TD_F64, zero, 3), ROW(TD_F64, zero, 3), ROW(TD_F64, zero, 3),
        COL(TD_F64, ones, 3, 1)), OUT(COL(TD_F64, x, 3, 1)));
    ck_assert(isnan(x[0]) && isnan(x[2]));
    CALL(targets[1], NO_ATTRS, IN(ROW(TD_F64, zero, 3), ROW(TD_F64, zero, 3), ROW(TD_F64, zero, 3),
        COL(TD_F64, ones, 3, 1)), OUT(COL(TD_F64, x, 3, 1)));
    ck_assert(isfinite(x[0]) && x[0] > 1e300);
}
END_TEST

/* [[0,2,0],[3,0,4]] */
START_TEST(sparse_products) {
    float v[3] = {2, 3, 4}, d[6], y[4], x[3] = {1, 10, 100};
    int8_t work[4];
    int32_t col[3] = {1, 0, 2}, row[3] = {0, 1, 1}, ptr[3] = {0, 1, 3};
    int32_t matrix[] = {0, 2, 2, 3, 3, 1, 0};
    int32_t product[] = {0, 2, 2, 3, 3, 1, 0, 0, 3, 0, 2, 0}, transposed[] = {0, 2, 2, 3, 3, 1, 0, 0, 2, 0, 3, 1};
    CALL("cusparse_csr_todense_ffi", ATTRS(STR("opaque", matrix, 28)),
        IN(ROW(TD_F32, v, 3), ROW(TD_S32, col, 3), ROW(TD_S32, ptr, 3)),
        OUT(ROW(TD_F32, d, 2, 3), ROW(TD_S8, work, 4)));
    SAME(d, float, 0, 2, 0, 3, 0, 4);
    CALL("cusparse_coo_matvec_ffi", ATTRS(STR("opaque", product, 48)),
        IN(ROW(TD_F32, v, 3), ROW(TD_S32, row, 3), ROW(TD_S32, col, 3), ROW(TD_F32, x, 3)),
        OUT(ROW(TD_F32, y, 2), ROW(TD_S8, work, 4)));
    ck_assert(y[0] == 20 && y[1] == 403);
    CALL("cusparse_csr_matvec_ffi", ATTRS(STR("opaque", transposed, 48)),
        IN(ROW(TD_F32, v, 3), ROW(TD_S32, col, 3), ROW(TD_S32, ptr, 3), ROW(TD_F32, x, 2)),
        OUT(ROW(TD_F32, y, 3), ROW(TD_S8, work, 4)));
    ck_assert(y[0] == 30 && y[1] == 2 && y[2] == 40);
    float f[6] = {0, 2, -0.0f, 3, 0, 4}, values[4];
    int32_t i1[4], i2[4], padded[] = {0, 2, 2, 3, 4, 1, 0};
    CALL("cusparse_coo_fromdense_ffi", ATTRS(STR("opaque", padded, 28)), IN(ROW(TD_F32, f, 2, 3)),
        OUT(ROW(TD_F32, values, 4), ROW(TD_S32, i1, 4), ROW(TD_S32, i2, 4), ROW(TD_S8, work, 4)));
    SAME(values, float, 2, 3, 4, 0);
    SAME(i1, int32_t, 0, 1, 1, 2);
    SAME(i2, int32_t, 1, 0, 2, 3);
    int32_t wild_col[3] = {1, 7, -1}, wild_ptr[3] = {0, -5, 1000}; /* dropped, never read */
    CALL("cusparse_csr_todense_ffi", ATTRS(STR("opaque", matrix, 28)),
        IN(ROW(TD_F32, v, 3), ROW(TD_S32, wild_col, 3), ROW(TD_S32, wild_ptr, 3)),
        OUT(ROW(TD_F32, d, 2, 3), ROW(TD_S8, work, 4)));
    SAME(d, float, 0, 0, 0, 0, 2, 0);
    REFUSED(TD_MISMATCH, "has 27 bytes", "cusparse_csr_todense_ffi", ATTRS(STR("opaque", matrix, 27)),
        IN(ROW(TD_F32, v, 3), ROW(TD_S32, col, 3), ROW(TD_S32, ptr, 3)),
        OUT(ROW(TD_F32, d, 2, 3), ROW(TD_S8, work, 4)));
    REFUSED(TD_MISMATCH, "at least 3 elements", "cusparse_csr_todense_ffi", ATTRS(STR("opaque", matrix, 28)),
        IN(ROW(TD_F32, v, 2), ROW(TD_S32, col, 3), ROW(TD_S32, ptr, 3)),
        OUT(ROW(TD_F32, d, 2, 3), ROW(TD_S8, work, 4)));
    product[8] = 4;
    REFUSED(TD_MISMATCH, "product of 2 x 3", "cusparse_coo_matvec_ffi", ATTRS(STR("opaque", product, 48)),
        IN(ROW(TD_F32, v, 3), ROW(TD_S32, row, 3), ROW(TD_S32, col, 3), ROW(TD_F32, x, 3)),
        OUT(ROW(TD_F32, y, 2), ROW(TD_S8, work, 4)));
}
END_TEST

START_TEST(sparse_systems) { /* [[2,1],[0,4]] x = [4,8] */
    double v[3] = {2, 1, 4}, b[2] = {4, 8}, x[2];
    const char *t = "cusolver_csrlsvqr_ffi";
    CALL(t, ATTRS(S32("reorder", 1), F64("tol", 1e-6)), IN(ROW(TD_F64, v, 3), ROW(TD_S32, I(0, 1, 1), 3),
        ROW(TD_S32, I(0, 2, 3), 3), ROW(TD_F64, b, 2)), OUT(ROW(TD_F64, x, 2)));
    NEAR(x, 1, 2);
    REFUSED(TD_MISMATCH, "singular matrix", t, ATTRS(S32("reorder", 1), F64("tol", 1e-6)),
        IN(ROW(TD_F64, v, 3), ROW(TD_S32, I(0, 0, 0), 3), ROW(TD_S32, I(0, 2, 3), 3), ROW(TD_F64, b, 2)),
        OUT(ROW(TD_F64, x, 2)));
    REFUSED(TD_MISMATCH, "column 2 of 2", t, ATTRS(S32("reorder", 1), F64("tol", 1e-6)),
        IN(ROW(TD_F64, v, 3), ROW(TD_S32, I(0, 1, 2), 3), ROW(TD_S32, I(0, 2, 3), 3), ROW(TD_F64, b, 2)),
        OUT(ROW(TD_F64, x, 2)));
    REFUSED(TD_MISMATCH, "entries 2 to 9", t, ATTRS(S32("reorder", 1), F64("tol", 1e-6)),
        IN(ROW(TD_F64, v, 3), ROW(TD_S32, I(0, 1, 1), 3), ROW(TD_S32, I(0, 2, 9), 3), ROW(TD_F64, b, 2)),
        OUT(ROW(TD_F64, x, 2)));
    REFUSED(TD_LIMIT, "9000 equations", t, ATTRS(S32("reorder", 1), F64("tol", 1e-6)),
        IN(ROW(TD_F64, v, 3), ROW(TD_S32, v, 3), ROW(TD_S32, v, 9001), ROW(TD_F64, b, 9000)),
        OUT(ROW(TD_F64, x, 9000)));
}
END_TEST

START_TEST(threefry) { /* the authors' known answers */
    int32_t key0[3] = {0, -1, 0x13198a2e}, key1[3] = {0, -1, 0x03707344}, data0[3] = {0, -1, 0x243f6a88};
    uint32_t data1[3] = {0, 0xffffffffu, 0x85a308d3u}, o0[3], o1[3];
    CALL("cu_threefry2x32_ffi", NO_ATTRS, IN(ROW(TD_U32, key0, 3), ROW(TD_U32, key1, 3), ROW(TD_U32, data0, 3),
        ROW(TD_U32, data1, 3)), OUT(ROW(TD_U32, o0, 3), ROW(TD_U32, o1, 3)));
    SAME(o0, uint32_t, 0x6b200159u, 0x1cb996fcu, 0xc4923a9cu);
    SAME(o1, uint32_t, 0x99ba4efeu, 0xbb002be7u, 0x483df7a0u);
    REFUSED(TD_MISMATCH, "data1 is s32[3]", "cu_threefry2x32_ffi", NO_ATTRS,
        IN(ROW(TD_U32, key0, 3), ROW(TD_U32, key1, 3), ROW(TD_U32, data0, 3), ROW(TD_S32, data1, 3)),
        OUT(ROW(TD_U32, o0, 3), ROW(TD_U32, o1, 3)));
}
END_TEST

START_TEST(sorts) {
    float k[6] = {0.0f, NAN, -0.0f, -INFINITY, 2, -1}, sorted[6];
    int16_t v[6] = {0, 1, 2, 3, 4, 5}, w[6];
    uint8_t work[1];
    CALL("xla.gpu.ext.cub_sort_pairs", ATTRS(INT("batch_size", 1), NO("descending")),
        IN(ROW(TD_F32, k, 6), ROW(TD_S16, v, 6)), OUT(ROW(TD_F32, sorted, 6), ROW(TD_S16, w, 6), ROW(TD_U8, work, 1)));
    SAME(w, int16_t, 3, 5, 0, 2, 4, 1); /* 0 and -0 are equal and stay in order */
    ck_assert(sorted[0] == -INFINITY && isnan(sorted[5]) && signbit(sorted[3]));
    CALL("xla.gpu.ext.cub_sort_pairs", ATTRS(INT("batch_size", 2), YES("descending")),
        IN(ROW(TD_F32, k, 2, 3), ROW(TD_S16, v, 2, 3)), OUT(ROW(TD_F32, sorted, 2, 3), ROW(TD_S16, w, 2, 3),
        ROW(TD_U8, work, 1)));
    SAME(w, int16_t, 1, 0, 2, 4, 5, 3);
    int8_t s[5] = {3, -128, 127, 0, -1};
    CALL("xla.gpu.ext.cub_sort_keys", ATTRS(INT("batch_size", 0), NO("descending")), IN(ROW(TD_S8, s, 5)),
        OUT(ROW(TD_S8, s, 5), ROW(TD_U8, work, 1)));
    SAME(s, int8_t, -128, -1, 0, 3, 127);
    REFUSED(TD_MISMATCH, "5 keys in a batch of 2", "xla.gpu.ext.cub_sort_keys",
        ATTRS(INT("batch_size", 2), NO("descending")), IN(ROW(TD_S8, s, 5)),
        OUT(ROW(TD_S8, s, 5), ROW(TD_U8, work, 1)));
    REFUSED(TD_UNSUPPORTED, "keys of type c64", "xla.gpu.ext.cub_sort_keys",
        ATTRS(INT("batch_size", 1), NO("descending")), IN(ROW(TD_C64, s, 1)),
        OUT(ROW(TD_C64, s, 1), ROW(TD_U8, work, 1)));
    REFUSED(TD_MISMATCH, "keys_out", "xla.gpu.ext.cub_sort_keys", ATTRS(INT("batch_size", 1), NO("descending")),
        IN(ROW(TD_F32, k, 2, 3)), OUT(COL(TD_F32, sorted, 2, 3), ROW(TD_U8, work, 1)));
}
END_TEST

#define SCAN(vector, n, rows, reverse) \
    ATTRS(INT("column_length", rows), reverse("is_reverse"), S32("kind", 1), INT("row_length", n), \
          INT("vector_length", vector))
START_TEST(scans) {
    float a[6] = {1, 2, 3, 10, 20, 30};
    CALL("xla.gpu.ext.cub_scan", SCAN(1, 3, 2, NO), IN(ROW(TD_F32, a, 2, 3)),
        OUT(ROW(TD_F32, a, 2, 3), ROW(TD_U8, NULL, 0)));
    SAME(a, float, 1, 3, 6, 10, 30, 60);
    uint16_t bf[4] = {0x4380, 0x3f80, 0x3f80, 0x4040}, out[4]; /* 256, 1, 1, 3: 257 is no bf16 */
    CALL("xla.gpu.ext.cub_scan", SCAN(1, 4, 1, NO), IN(ROW(TD_BF16, bf, 4)),
        OUT(ROW(TD_BF16, out, 4), ROW(TD_U8, NULL, 0)));
    SAME(out, uint16_t, 0x4380, 0x4380, 0x4380, 0x4382);
    REFUSED(TD_UNSUPPORTED, "reversed", "xla.gpu.ext.cub_scan", SCAN(1, 3, 2, YES), IN(ROW(TD_F32, a, 2, 3)),
        OUT(ROW(TD_F32, a, 2, 3), ROW(TD_U8, NULL, 0)));
    REFUSED(TD_MISMATCH, "2 rows of 4", "xla.gpu.ext.cub_scan", SCAN(1, 4, 2, NO), IN(ROW(TD_F32, a, 2, 3)),
        OUT(ROW(TD_F32, a, 2, 3), ROW(TD_U8, NULL, 0)));
}
END_TEST

START_TEST(assertions) {
    uint8_t yes = 1, no = 0;
    CALL("dce_sink", NO_ATTRS, IN(ROW(TD_PRED, &yes)), NULL, 0);
    CALL("__xla_gpu_assert", ATTRS(STR("error_msg", "x > 0", 5)), IN(ROW(TD_PRED, &yes)), NULL, 0);
    REFUSED(TD_MISMATCH, "assertion failed: x > 0", "__xla_gpu_assert", ATTRS(STR("error_msg", "x > 0", 5)),
        IN(ROW(TD_PRED, &no)), NULL, 0);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("handlers_more");
    tcase_add_test(t, singular_values);
    tcase_add_test(t, singular_values_transposed);
    tcase_add_test(t, general_eigenvalues);
    tcase_add_test(t, tridiagonal_systems);
    tcase_add_test(t, sparse_products);
    tcase_add_test(t, sparse_systems);
    tcase_add_test(t, threefry);
    tcase_add_test(t, sorts);
    tcase_add_test(t, scans);
    tcase_add_test(t, assertions);
    Suite *s = suite_create("handlers_more");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
