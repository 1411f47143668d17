/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of HLO arithmetic that compiled models rarely show: ends of ranges, ties, narrow types, bounds.
 * Values by hand from XLA's definitions where no source is named. */
#include <math.h>
#include <zlib.h>

#include "hlo_build.h"
#include "runtime/host/types.h"

/* One element-wise instruction over n elements, as a kernel. */
static td_status_t each(td_opcode_t op, td_type_t from, td_type_t to, int64_t n, void *out, const void *a,
                        const void *b) {
    comp_begin();
    td_hlo_instr_t *x = param(0, SHAPE(from, n)), *y = b ? param(1, SHAPE(from, n)) : NULL;
    td_hlo_instr_t *r = node(op, SHAPE(to, n), b ? 2 : 1, (td_hlo_instr_t *[]){x, y});
    return COMP(r, out, a, b);
}

START_TEST(shifts_by_the_width) {
    const int32_t x[5] = {-16, -16, -16, -16, 5}, by[5] = {31, 32, 33, -1, 1};
    int32_t y[5];
    ck_assert_int_eq(each(TD_HLO_SHIFT_LEFT, TD_S32, TD_S32, 5, y, x, by), TD_OK);
    EXPECT(y, 0, 0, 0, 0, 10);
    ck_assert_int_eq(each(TD_HLO_SHIFT_RIGHT_LOGICAL, TD_S32, TD_S32, 5, y, x, by), TD_OK);
    EXPECT(y, 1, 0, 0, 0, 2);
    ck_assert_int_eq(each(TD_HLO_SHIFT_RIGHT_ARITHMETIC, TD_S32, TD_S32, 5, y, x, by), TD_OK);
    EXPECT(y, -1, -1, -1, -1, 2);
    const uint8_t u[4] = {0x81, 0x81, 0x81, 0x81}, n[4] = {1, 7, 8, 255};
    uint8_t v[4];
    ck_assert_int_eq(each(TD_HLO_SHIFT_RIGHT_ARITHMETIC, TD_U8, TD_U8, 4, v, u, n), TD_OK);
    EXPECT(v, 0xc0, 0xff, 0xff, 0xff);
    ck_assert_int_eq(each(TD_HLO_SHIFT_LEFT, TD_U8, TD_U8, 4, v, u, n), TD_OK);
    EXPECT(v, 2, 0x80, 0, 0);
}
END_TEST

START_TEST(narrow_integers) {
    const int8_t x[6] = {-8, -1, 7, 1, 0, 5}, by[6] = {1, 3, 4, -1, 2, 3};
    int8_t y[6];
    ck_assert_int_eq(each(TD_HLO_CLZ, TD_S4, TD_S4, 6, y, x, NULL), TD_OK);
    EXPECT(y, 0, 0, 1, 3, 4, 1);
    ck_assert_int_eq(each(TD_HLO_POPCNT, TD_S4, TD_S4, 6, y, x, NULL), TD_OK);
    EXPECT(y, 1, 4, 3, 1, 0, 2);
    ck_assert_int_eq(each(TD_HLO_SHIFT_RIGHT_LOGICAL, TD_S4, TD_S4, 6, y, x, by), TD_OK);
    EXPECT(y, 4, 1, 0, 0, 0, 0);
    ck_assert_int_eq(each(TD_HLO_SHIFT_RIGHT_ARITHMETIC, TD_S4, TD_S4, 6, y, x, by), TD_OK);
    EXPECT(y, -4, -1, 0, 0, 0, 0);
    ck_assert_int_eq(each(TD_HLO_SHIFT_LEFT, TD_S4, TD_S4, 6, y, x, by), TD_OK);
    EXPECT(y, 0, -8, 0, 0, 0, -8);
    ck_assert_int_eq(each(TD_HLO_MULHI, TD_S4, TD_S4, 6, y, x, by), TD_OK);
    EXPECT(y, -1, -1, 1, -1, 0, 0);
    ck_assert_int_eq(each(TD_HLO_DIVIDE, TD_S4, TD_S4, 6, y, x, (const int8_t[]){-1, 0, -2, 0, 0, 7}), TD_OK);
    EXPECT(y, -8, -1, -3, -1, -1, 0);
    const uint8_t u[4] = {3, 2, 1, 0};
    uint8_t v[4];
    ck_assert_int_eq(each(TD_HLO_NOT, TD_U2, TD_U2, 4, v, u, NULL), TD_OK);
    EXPECT(v, 0, 1, 2, 3);
    ck_assert_int_eq(each(TD_HLO_MULTIPLY, TD_U2, TD_U2, 4, v, u, u), TD_OK);
    EXPECT(v, 1, 0, 1, 0);
}
END_TEST

START_TEST(high_products) {
    const int32_t a[3] = {INT32_MIN, -1, 1 << 30}, b[3] = {INT32_MIN, 1, 12};
    int32_t y[3];
    ck_assert_int_eq(each(TD_HLO_MULHI, TD_S32, TD_S32, 3, y, a, b), TD_OK);
    EXPECT(y, 1 << 30, -1, 3);
    const uint64_t u[2] = {UINT64_MAX, 1ull << 63}, w[2] = {UINT64_MAX, 6};
    uint64_t z[2];
    ck_assert_int_eq(each(TD_HLO_MULHI, TD_U64, TD_U64, 2, z, u, w), TD_OK);
    EXPECT(z, UINT64_MAX - 1, 3);
}
END_TEST

START_TEST(floats_to_integers_saturate) {
    const float x[8] = {NAN, INFINITY, -INFINITY, 1e10f, -1e10f, -0.9f, 127.9f, 300};
    int8_t s8[8];
    uint8_t u8[8];
    int32_t s32[8];
    uint32_t u32[8];
    int64_t s64[8];
    uint64_t u64[8];
    ck_assert_int_eq(each(TD_HLO_CONVERT, TD_F32, TD_S8, 8, s8, x, NULL), TD_OK);
    EXPECT(s8, 0, 127, -128, 127, -128, 0, 127, 127);
    ck_assert_int_eq(each(TD_HLO_CONVERT, TD_F32, TD_U8, 8, u8, x, NULL), TD_OK);
    EXPECT(u8, 0, 255, 0, 255, 0, 0, 127, 255);
    ck_assert_int_eq(each(TD_HLO_CONVERT, TD_F32, TD_S32, 8, s32, x, NULL), TD_OK);
    EXPECT(s32, 0, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 0, 127, 300);
    ck_assert_int_eq(each(TD_HLO_CONVERT, TD_F32, TD_U32, 8, u32, x, NULL), TD_OK);
    EXPECT(u32, 0, UINT32_MAX, 0, UINT32_MAX, 0, 0, 127, 300);
    ck_assert_int_eq(each(TD_HLO_CONVERT, TD_F32, TD_S64, 8, s64, x, NULL), TD_OK);
    EXPECT(s64, 0, INT64_MAX, INT64_MIN, 10000000000, -10000000000, 0, 127, 300);
    ck_assert_int_eq(each(TD_HLO_CONVERT, TD_F32, TD_U64, 8, u64, x, NULL), TD_OK);
    EXPECT(u64, 0, UINT64_MAX, 0, 10000000000, 0, 0, 127, 300);
    ck_assert_int_eq(each(TD_HLO_CONVERT, TD_F32, TD_S4, 8, s8, x, NULL), TD_OK);
    EXPECT(s8, 0, 7, -8, 7, -8, 0, 7, 7);
    ck_assert_int_eq(each(TD_HLO_CONVERT, TD_F32, TD_U4, 8, u8, x, NULL), TD_OK);
    EXPECT(u8, 0, 15, 0, 15, 0, 0, 15, 15);
    ck_assert_int_eq(each(TD_HLO_CONVERT, TD_F32, TD_PRED, 8, u8, x, NULL), TD_OK);
    EXPECT(u8, 1, 1, 1, 1, 1, 1, 1, 1);
}
END_TEST

START_TEST(rounding_ties) {
    const float x[8] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 0.49999997f, 8388609};
    float y[8];
    ck_assert_int_eq(each(TD_HLO_ROUND_EVEN, TD_F32, TD_F32, 8, y, x, NULL), TD_OK);
    EXPECT(y, 0, 2, 2, -0.0f, -2, -2, 0, 8388609);
    ck_assert_int_eq(each(TD_HLO_ROUND_AFZ, TD_F32, TD_F32, 8, y, x, NULL), TD_OK);
    EXPECT(y, 1, 2, 3, -1, -2, -3, 0, 8388609);
}
END_TEST

/* jax.lax.reduce_precision of jaxlib 0.12.0.1 on CPU */
START_TEST(reduced_precision) {
    const float x[14] = {70000,  65519.9f, 65520,  6.2e-5f,        6.1035e-05f,    3e-5f,        1e-8f,
                         -1e-8f, INFINITY, -70000, 1.00048828125f, 1.00146484375f, 0x1.ffep-15f, 0x1.ffcp-15f};
    static const struct { int e, m; float want[14];
    } rows[3] = {{5,
                  10,
                  {INFINITY, 65504, INFINITY, 6.19888306e-05f, 6.10351562e-05f, 0, 0, -0.0f, INFINITY, -INFINITY, 1,
                   1.00195312f, 6.10351562e-05f, 0}},
                 {4, 3, {INFINITY, INFINITY, INFINITY, 0, 0, 0, 0, -0.0f, INFINITY, -INFINITY, 1, 1, 0, 0}},
                 {8,
                  0,
                  {65536, 65536, 65536, 6.10351562e-05f, 6.10351562e-05f, 3.05175781e-05f, 7.4505806e-09f,
                   -7.4505806e-09f, INFINITY, -65536, 1, 1, 6.10351562e-05f, 6.10351562e-05f}}};
    float y[14];
    for (int r = 0; r < 3; r++) {
        comp_begin();
        td_hlo_instr_t *i = NODE(TD_HLO_REDUCE_PRECISION, SHAPE(TD_F32, 14), param(0, SHAPE(TD_F32, 14)));
        i->exponent_bits = rows[r].e;
        i->mantissa_bits = rows[r].m;
        ck_assert_int_eq(COMP(i, y, x), TD_OK);
        for (int k = 0; k < 14; k++)
            ck_assert_msg(!memcmp(&y[k], &rows[r].want[k], 4), "e%dm%d of %g: %g", rows[r].e, rows[r].m, (double)x[k],
                          (double)y[k]);
    }
}
END_TEST

START_TEST(negative_padding) {
    const int32_t x[6] = {1, 2, 3, 4, 5, 6}, z = 9;
    int32_t y[10];
    td_pad_dim_t p[2] = {{-1, 2, 0}, {1, -2, 1}};
    comp_begin();
    td_hlo_instr_t *i = NODE(TD_HLO_PAD, SHAPE(TD_S32, 3, 4), param(0, SHAPE(TD_S32, 2, 3)), param(1, SHAPE(TD_S32)));
    i->pad = p;
    i->n_pad = 2;
    int32_t out[12];
    ck_assert_int_eq(RUN(i, out, x, &z), TD_OK); /* columns _ 4 _ 5, then 6 cut off */
    EXPECT(out, 9, 4, 9, 5, 9, 9, 9, 9, 9, 9, 9, 9);
    p[0] = (td_pad_dim_t){0, 0, 0}, p[1] = (td_pad_dim_t){-2, 1, 1}; /* cuts an element and the hole after it */
    i->shape = SHAPE(TD_S32, 2, 4);
    ck_assert_int_eq(RUN(i, y, x, &z), TD_OK);
    EXPECT(y, 2, 9, 3, 9, 5, 9, 6, 9);
}
END_TEST

/* Windows of two rows: what does not fit whole is not written at all, also below zero. */
START_TEST(scatter_windows) {
    int32_t y[8];
    const int32_t x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, at[4] = {2, 3, -1, 0},
                  u[16] = {10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33, 40, 41, 42, 43};
    td_scatter_dims_t d = {
        .update_window_dims = INTS(1, 2), .scatter_dims_to_operand_dims = INTS(0), .index_vector_dim = 1};
    td_hlo_instr_t *p = param(0, SHAPE(TD_S32, 4, 2));
    td_hlo_instr_t *i = NODE(TD_HLO_SCATTER, p->shape, p, param(1, SHAPE(TD_S32, 4)), param(2, SHAPE(TD_S32, 4, 2, 2)));
    i->scatter = &d;
    CALL(i, scalar2(TD_HLO_SUBTRACT, TD_S32, TD_S32, 1, 0));
    memcpy(y, x, sizeof y);
    ck_assert_int_eq(RUN(i, y, y, at, u), TD_OK);
    EXPECT(y, 40, 40, 40, 40, 6, 6, 6, 6);
}
END_TEST

/* Packed on the device, the first element in the low half. */
START_TEST(packed_order) {
    uint8_t packed[3], bytes[5] = {1, 2, 3, 4, 5};
    td_subbyte_pack(TD_U4, bytes, packed, 5);
    EXPECT(packed, 0x21, 0x43, 0x05);
    td_subbyte_unpack(TD_S4, (const uint8_t[]){0x8f, 0x70}, bytes, 4);
    EXPECT(bytes, 0xff, 0xf8, 0, 7);
    td_subbyte_pack(TD_U2, (const uint8_t[]){1, 2, 3, 0, 1}, packed, 5);
    EXPECT(packed, 0x39, 0x01);
}
END_TEST

/* Every value of each small float, and its nearest from f32: CRC-32 of what ml_dtypes 0.6 gives (NaN as 0).
 * Inputs: all upper halves of f32 with lower halves 0, 0x8000 and 0x8001, NaNs left out. */
START_TEST(small_floats) {
    static const struct { td_type_t type; uint32_t encoded, decoded; int nans;
    } rows[] = {{TD_F8E5M2, 0x16039785, 0xd73df2ea, 6},        {TD_F8E4M3FN, 0x0a5be1ee, 0xbcca99f4, 2},
                {TD_F8E4M3B11FNUZ, 0x945ea312, 0x8cf4e874, 1}, {TD_F8E5M2FNUZ, 0x1ccc1d71, 0x30b9970e, 1},
                {TD_F8E4M3FNUZ, 0x82cd70de, 0xcba13cd8, 1},    {TD_F8E4M3, 0x6c90426f, 0x960fd46c, 14},
                {TD_F8E3M4, 0x8ea2f446, 0xd61f5b0b, 30},       {TD_F4E2M1FN, 0x161d33fd, 0x866770b6, 0},
                {TD_F8E8M0FNU, 0x7a9f7246, 0x7ad9c259, 1},     {TD_BF16, 0x6fc8c672, 0xb6ca4a2a, 254},
                {TD_F16, 0xcbcc509c, 0xef9d25e2, 2046}};
    enum { N = 3 << 16 };
    static const uint16_t lower[3] = {0, 0x8000, 0x8001};
    float *x = malloc(N * sizeof *x);
    char *y = malloc(N * 4);
    size_t n = 0;
    for (uint32_t i = 0; i < N; i++) {
        float f = td_bits_f32(i << 16 | lower[i >> 16]);
        if (f == f) x[n++] = f;
    }
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        td_type_t t = rows[r].type;
        size_t bits = td_type_bits(t), count = (size_t)1 << bits;
        td_convert_array(TD_F32, x, t, y, n);
        ck_assert_msg(crc32(0, (const Bytef *)y, (uInt)(n * td_type_bytes(t))) == rows[r].encoded, "encoding %s",
                      td_type_name(t));
        uint16_t *codes = malloc(count * 2);
        for (size_t i = 0; i < count; i++)
            if (bits == 16) codes[i] = (uint16_t)i;
            else ((uint8_t *)codes)[i] = (uint8_t)i;
        float *back = (float *)(void *)y;
        int nans = 0;
        td_convert_array(t, codes, TD_F32, back, count);
        for (size_t i = 0; i < count; i++)
            if (back[i] != back[i]) back[i] = 0, nans++;
        ck_assert_msg(nans == rows[r].nans && crc32(0, (const Bytef *)back, (uInt)(count * 4)) == rows[r].decoded,
                      "decoding %s: %d NaNs", td_type_name(t), nans);
        free(codes);
    }
    free(x);
    free(y);
}
END_TEST

START_TEST(arc_tangents) {
    const double x[4] = {0.5, -3, INFINITY, -0.0};
    double y[4];
    ck_assert_int_eq(each(TD_HLO_ATAN, TD_F64, TD_F64, 4, y, x, NULL), TD_OK);
    NEAR(y, 1e-15, 0.46364760900080612, -1.2490457723982544, 1.5707963267948966, 0);
    ck_assert(signbit(y[3]));
    const float z[4] = {1, 1, -2, 0.5f};
    float w[4];
    ck_assert_int_eq(each(TD_HLO_ATAN, TD_C64, TD_C64, 2, w, z, NULL), TD_OK);
    NEAR(w, 1e-6, 1.0172219, 0.4023595, -1.1265564, 0.09641562);
}
END_TEST

SUITE("host_rules", shifts_by_the_width, narrow_integers, high_products, floats_to_integers_saturate, rounding_ties,
      reduced_precision, negative_padding, scatter_windows, packed_order, small_floats, arc_tangents)
