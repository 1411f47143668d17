/* SPDX-License-Identifier: Apache-2.0 */
/* One element type of the perturbing tridiagonal solver; included once per type with T (element), R (its real
 * type), ABS, REAL_PART, R_MIN, R_MAX, R_EPS and NAME(f) defined, which it undefines.
 *
 * Gaussian elimination with row exchanges after LAPACK's xLAGTF and xLAGTS: the factor U keeps a diagonal and two
 * superdiagonals, the forward solve happens during elimination. A pivot below 1 that would overflow the division
 * grows by eps * max|U| (doubled each time), or it and its row are scaled up. x and rhs: n x k, column-major. */

/* Makes 1 / *pivot and row / *pivot finite. */
static void NAME(guard)(R perturb, T *pivot, T *row, int64_t k) {
    const R small = 1 / R_MAX, safe = small < R_MIN ? R_MIN : small * (1 + R_EPS), big = 1 / safe;
    R size = ABS(*pivot), most = 0;
    if (size >= 1) return;
    if (perturb < 0) perturb = -perturb;
    if (perturb < safe) perturb = safe;
    if (signbit(REAL_PART(*pivot))) perturb = -perturb;
    for (int64_t j = 0; j < k; j++)
        if (ABS(row[j]) > most) most = ABS(row[j]);
    for (bool done = false; size < 1 && !done; size = ABS(*pivot)) {
        if (size < safe ? size == 0 || most * safe > size : most > size * big) {
            *pivot += perturb;
            perturb *= 2;
        } else {
            if (size < safe) {
                *pivot *= big;
                for (int64_t j = 0; j < k; j++) row[j] *= big;
            }
            done = true;
        }
    }
}

/* Eliminates row i+1's first entry with row i; *scale is the norm of what is left of row i, then of row i+1. */
static void NAME(eliminate)(int64_t i, int64_t n, int64_t k, const T *sub, const T *diag, const T *sup, const T *rhs,
                            T *x,
                            T *u, R *scale) {
    T *u0 = u, *u1 = u + n, *u2 = u + 2 * n;
    bool inner = i < n - 2;
    T below = sub[i + 1];
    R next = ABS(below) + ABS(diag[i + 1]) + (inner ? ABS(sup[i + 1]) : 0);
    u0[i + 1] = diag[i + 1];
    R here = u0[i] == 0 ? 0 : ABS(u0[i]) / *scale;
    if (below == 0 || ABS(below) / next <= here) { /* rows stay */
        T f = below == 0 ? 0 : below / u0[i];
        if (below != 0) u0[i + 1] -= f * u1[i];
        u1[i + 1] = sup[i + 1];
        u2[i] = 0;
        for (int64_t j = 0; j < k; j++)
            x[j * n + i + 1] = below == 0 ? rhs[j * n + i + 1] : rhs[j * n + i + 1] - f * x[j * n + i];
        *scale = next;
        return;
    }
    T f = u0[i] / below, was = u1[i];
    u0[i] = below;
    u1[i] = diag[i + 1];
    u0[i + 1] = was - f * diag[i + 1];
    if (inner) {
        u2[i] = sup[i + 1];
        u1[i + 1] = -f * sup[i + 1];
    }
    for (int64_t j = 0; j < k; j++) {
        x[j * n + i + 1] = x[j * n + i] - f * rhs[j * n + i + 1];
        x[j * n + i] = rhs[j * n + i + 1];
    }
    *scale = ABS(u0[i + 1]) + ABS(u1[i + 1]);
}

/* u: 3n, row: k elements of work. */
static void NAME(solve)(int64_t n, int64_t k, const T *sub, const T *diag, const T *sup, const T *rhs, T *x, T *u,
                        T *row) {
    T *u0 = u, *u1 = u + n, *u2 = u + 2 * n;
    for (int64_t i = 0; i < 3 * n; i++) u[i] = 0;
    u0[0] = diag[0];
    if (n > 1) u1[0] = sup[0];
    R scale = ABS(u0[0]) + ABS(u1[0]), most = n > 1 && ABS(u1[0]) > ABS(u0[0]) ? ABS(u1[0]) : ABS(u0[0]);
    for (int64_t j = 0; j < k; j++) x[j * n] = rhs[j * n];
    for (int64_t i = 0; i < n - 1; i++) {
        NAME(eliminate)(i, n, k, sub, diag, sup, rhs, x, u, &scale);
        if (i >= n - 2) continue;
        if (ABS(u0[i]) > most) most = ABS(u0[i]);
        if (ABS(u1[i]) > most) most = ABS(u1[i]);
        if (ABS(u2[i]) > most) most = ABS(u2[i]);
    }
    if (ABS(u0[n - 1]) > most) most = ABS(u0[n - 1]);
    for (int64_t i = n - 1; i >= 0; i--) {
        T p = u0[i];
        for (int64_t j = 0; j < k; j++) {
            T *c = x + j * n + i;
            row[j] = c[0];
            if (i < n - 1) row[j] -= u1[i] * c[1];
            if (i < n - 2) row[j] -= u2[i] * c[2];
        }
        NAME(guard)(R_EPS * most, &p, row, k);
        T inverse = 1 / p;
        for (int64_t j = 0; j < k; j++) x[j * n + i] = n == 1 ? row[j] / p : row[j] * inverse;
    }
}
#undef T
#undef R
#undef ABS
#undef REAL_PART
#undef R_MIN
#undef R_MAX
#undef R_EPS
#undef NAME
