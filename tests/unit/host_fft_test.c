/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms of the host device. Expected numbers: numpy 2.4 (numpy.fft), printed with %.10g. */
#include "runtime/fft_desc.h"
#include "tests/unit/host_case.h"

static td_hlo_instr_t *fft(int kind, td_ints_t length, const td_shape_t *in, const td_shape_t *out) {
    td_hlo_instr_t *i = node(TD_HLO_FFT, out, in, NULL);
    i->fft_type = kind;
    i->fft_length = length;
    return i;
}

START_TEST(fft_complex) {
    const double x[20] = {-2, 0, -1, 1, 0, 2, 1, 0, 2, 1, 3, 2, 4, 0, -2, 1, -1, 2, 0, 0};
    const double forward[] = {0,
                              4,
                              -1.324429495,
                              2.440954801,
                              -4.402113033,
                              -0.1877007594,
                              -0.5978869674,
                              -1.812299241,
                              -3.675570505,
                              -4.440954801,
                              4,
                              5,
                              6.075333708,
                              -3.643491796,
                              -0.2120624443,
                              -0.3751465423,
                              -2.114175477,
                              6.229248509,
                              7.250904213,
                              2.78938983};
    const double turned[] = {0,
                             4,
                             4,
                             5,
                             -1.324429495,
                             2.440954801,
                             6.075333708,
                             -3.643491796,
                             -4.402113033,
                             -0.1877007594,
                             -0.2120624443,
                             -0.3751465423,
                             -0.5978869674,
                             -1.812299241,
                             -2.114175477,
                             6.229248509,
                             -3.675570505,
                             -4.440954801,
                             7.250904213,
                             2.78938983};
    const double inverse[] = {0,
                              0.8,
                              -0.7351141009,
                              -0.8881909602,
                              -0.1195773935,
                              -0.3624598481,
                              -0.8804226065,
                              -0.03754015188,
                              -0.2648858991,
                              0.4881909602,
                              0.8,
                              1,
                              1.450180843,
                              0.557877966,
                              -0.4228350954,
                              1.245849702,
                              -0.04241248887,
                              -0.07502930847,
                              1.215066742,
                              -0.7286983592};
    double y[21];
    float xf[20], yf[21];
    narrow(x, xf, 20);
    const td_shape_t *d = shape(TD_C128, NULL, DIMS(2, 5)), *s = shape(TD_C64, NULL, DIMS(2, 5));
    ck_assert_int_eq(run(fft(0, INTS(5), d, d), x, NULL, y, NULL), TD_OK);
    CLOSE(y, TD_F64, forward);
    ck_assert_int_eq(run(fft(0, INTS(5), s, s), xf, NULL, yf + 1, NULL), TD_OK); /* unaligned for vector code */
    CLOSE(yf + 1, TD_F32, forward);
    ck_assert_int_eq(run(fft(1, INTS(5), d, d), x, NULL, y, NULL), TD_OK);
    CLOSE(y, TD_F64, inverse);
    ck_assert_int_eq(run(fft(1, INTS(5), s, s), xf, NULL, yf, NULL), TD_OK);
    CLOSE(yf, TD_F32, inverse);
    ck_assert_int_eq(run(fft(0, INTS(5), d, shape(TD_C128, LAYOUT(0, 1), DIMS(2, 5))), x, NULL, y, NULL), TD_OK);
    CLOSE(y, TD_F64, turned);
}
END_TEST

START_TEST(fft_real) {
    const double x[] = {1, -2, 3, 0, 5, 4}, fx[] = {11, 0, -2, 6.92820323, -4, 3.464101615, 7, 0};
    /* imaginary parts of the first and, if n is even, last element do not count */
    const double z[] = {1, 9, 2, -1, 0.5, 3}, odd[] = {1.2, -0.03950949961, 0.9909717238, -1.761792117, 0.6103298929},
                 even[] = {1.375, 0.625, -0.625, -0.375};
    double y[8], keep[6];
    float xf[6], yf[8];
    narrow(x, xf, 6);
    ck_assert_int_eq(
        run(fft(2, INTS(6), shape(TD_F64, NULL, DIMS(6)), shape(TD_C128, NULL, DIMS(4))), x, NULL, y, NULL), TD_OK);
    CLOSE(y, TD_F64, fx);
    ck_assert_int_eq(
        run(fft(2, INTS(6), shape(TD_F32, NULL, DIMS(1, 6)), shape(TD_C64, NULL, DIMS(1, 4))), xf, NULL, yf, NULL),
        TD_OK);
    CLOSE(yf, TD_F32, fx);
    memcpy(keep, z, sizeof keep);
    ck_assert_int_eq(
        run(fft(3, INTS(5), shape(TD_C128, NULL, DIMS(3)), shape(TD_F64, NULL, DIMS(5))), keep, NULL, y, NULL), TD_OK);
    CLOSE(y, TD_F64, odd);
    ck_assert_mem_eq(keep, z, sizeof keep);
    ck_assert_int_eq(
        run(fft(3, INTS(4), shape(TD_C128, NULL, DIMS(3)), shape(TD_F64, NULL, DIMS(4))), z, NULL, y, NULL), TD_OK);
    CLOSE(y, TD_F64, even);
}
END_TEST

START_TEST(fft_dimensions) {
    const double w[] = {-3, 2, 7, 1, 6, 0, 5, -1, 4, -2, 3, -3};
    const double fw[] = {19, 0, -8, -3, 25, 0, 1, -6.92820323, -11, 0, -11, 0, 1, 6.92820323, -11, 0, -11, 0};
    const double turned[] = {19, 0, 1, -6.92820323, 1, 6.92820323, -8, -3, -11, 0, -11, 0, 25, 0, -11, 0, -11, 0};
    const double h[] = {19.5, 0, -8, -3, 25, 1, 1, -6.92820323, -10, 0, -11, 0, 1, 8.92820323, -11, 0, -10, 0};
    const double fh[] = {-2.708333333, 1.958333333,   6.958333333, 0.9583333333, 6.061004234, 0.08333333333,
                         5.227670901,  -0.6279915321, 3.772329099, -1.916666667, 2.938995766, -3.205341801};
    const double v[] = {-5, 0, 2, 1, -4, 0, 3, 1, -3, 0, 4, 1, -2, 0, 5, 1, -1, 0, 6, 1, 0, 0, 7, 1};
    const double fv[] = {12, 6, -42, -6, -6, 3.464101615, 0, 0, -6, -3.464101615, 0, 0, -18, 0, 0,
                         0,  0, 0,   0,  0,  0,           0, 0, 0};
    double y[24];
    const td_shape_t *r = shape(TD_F64, NULL, DIMS(3, 4)), *c = shape(TD_C128, NULL, DIMS(3, 3)),
                     *b = shape(TD_C128, NULL, DIMS(2, 3, 2));
    ck_assert_int_eq(run(fft(2, INTS(3, 4), r, c), w, NULL, y, NULL), TD_OK);
    CLOSE(y, TD_F64, fw);
    ck_assert_int_eq(run(fft(2, INTS(3, 4), r, shape(TD_C128, LAYOUT(0, 1), DIMS(3, 3))), w, NULL, y, NULL), TD_OK);
    CLOSE(y, TD_F64, turned);
    double kept[18];
    memcpy(kept, h, sizeof kept);
    ck_assert_int_eq(run(fft(3, INTS(3, 4), c, r), kept, NULL, y, NULL),
                     TD_OK); /* not the transform of anything real */
    CLOSE(y, TD_F64, fh);
    ck_assert_mem_eq(kept, h, sizeof kept); /* FFTW alone would use it up */
    ck_assert_int_eq(run(fft(0, INTS(2, 3, 2), b, b), v, NULL, y, NULL), TD_OK);
    CLOSE(y, TD_F64, fv);
    ck_assert_int_eq(run(fft(1, INTS(2, 3, 2), b, b), y, NULL, y, NULL), TD_OK); /* in place */
    CLOSE(y, TD_F64, v);
}
END_TEST

START_TEST(fft_refusals) {
    const td_shape_t *c = shape(TD_C64, NULL, DIMS(2, 5)), *r = shape(TD_F32, NULL, DIMS(2, 5)),
                     *half = shape(TD_C64, NULL, DIMS(2, 3));
    const td_shape_t *wide = shape(TD_C128, NULL, DIMS(2, 5)), *scalar = shape(TD_C64, NULL, DIMS());
    td_fft_desc_t d;
    const int64_t five[] = {5}, six[] = {6}, minus[] = {-5}, four[4] = {1, 1, 1, 1};
    ck_assert_int_eq(td_fft_describe(0, five, 1, c, c, &d, NULL), TD_OK);
    ck_assert_int_eq(td_fft_describe(2, five, 1, r, half, &d, NULL), TD_OK);
    ck_assert_int_eq(td_fft_describe(3, five, 1, half, r, &d, NULL), TD_OK);
    ck_assert_int_eq(td_fft_describe(4, five, 1, c, c, &d, NULL), TD_UNSUPPORTED);
    ck_assert_int_eq(td_fft_describe(-1, five, 1, c, c, &d, NULL), TD_UNSUPPORTED);
    ck_assert_int_eq(td_fft_describe(0, six, 1, c, c, &d, NULL), TD_MISMATCH);
    ck_assert_int_eq(td_fft_describe(0, minus, 1, c, c, &d, NULL), TD_MISMATCH);
    ck_assert_int_eq(td_fft_describe(0, five, 0, c, c, &d, NULL), TD_UNSUPPORTED);
    ck_assert_int_eq(td_fft_describe(0, four, 4, c, c, &d, NULL), TD_UNSUPPORTED);
    ck_assert_int_eq(td_fft_describe(0, four, 3, c, c, &d, NULL), TD_MALFORMED);
    ck_assert_int_eq(td_fft_describe(0, five, 1, c, scalar, &d, NULL), TD_MALFORMED);
    ck_assert_int_eq(td_fft_describe(0, five, 1, r, c, &d, NULL), TD_UNSUPPORTED);
    ck_assert_int_eq(td_fft_describe(0, five, 1, c, wide, &d, NULL), TD_UNSUPPORTED);
    ck_assert_int_eq(td_fft_describe(2, five, 1, r, c, &d, NULL), TD_MISMATCH);
    ck_assert_int_eq(td_fft_describe(3, six, 1, half, r, &d, NULL), TD_MISMATCH);
    const td_shape_t *none = shape(TD_C64, NULL, DIMS(0, 5));
    ck_assert_int_eq(run(fft(0, INTS(5), none, none), NULL, NULL, NULL, NULL), TD_OK);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {fft_complex, fft_real, fft_dimensions, fft_refusals};
    return run_tests("host fft", tests, sizeof tests / sizeof *tests);
}
