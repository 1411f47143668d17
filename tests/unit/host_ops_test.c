/* SPDX-License-Identifier: Apache-2.0 */
/* Less common macro ops of the host device. Values: numpy on the definitions, unless a test says otherwise. */
#include <math.h>
#include <zlib.h>

#include "hlo_build.h"

/* x[i] = i * a mod m - m / 2, as the expected values were made from. */
static void seq(float *x, int n, int a, int m) {
    for (int i = 0; i < n; i++) x[i] = (float)(i * a % m - m / 2);
}

/* jax.lax.rng_bit_generator of jaxlib 0.12.0.1 on CPU: CRC-32 of the array's bytes, counter afterwards. */
START_TEST(random_bits) {
    static const struct {
        int algorithm;
        td_type_t type;
        int shape;
        uint64_t counter;
        uint32_t crc;
    } want[] = {
        {1, TD_U8, 0, UINT64_MAX, 0x62d277af},  {1, TD_U16, 0, UINT64_MAX, 0xff62d277},
        {1, TD_U32, 0, UINT64_MAX, 0x5aa722eb}, {1, TD_U64, 0, UINT64_MAX, 0x3d2b6729},
        {1, TD_U8, 1, 1, 0x2aee27c5},           {1, TD_U16, 1, 1, 0xd8393e13},
        {1, TD_U32, 1, 1, 0xd6246873},          {1, TD_U64, 1, 3, 0x62ba41e4},
        {1, TD_U8, 2, 4, 0x71048222},           {1, TD_U32, 2, 4, 0x85d85e1d},
        {1, TD_U64, 2, 10, 0x90c03a7d},         {1, TD_U16, 3, 7, 0x98433745},
        {1, TD_U32, 3, 7, 0xb53e0d79},          {1, TD_U32, 4, 1, 0xf131b783},
        {1, TD_U64, 4, 4, 0x85d85e1d},          {2, TD_U8, 0, UINT64_MAX, 0xff000000},
        {2, TD_U64, 0, UINT64_MAX, 0xbc7219b9}, {2, TD_U8, 1, 0, 0x22c9b129},
        {2, TD_U16, 1, 0, 0x5953d8cc},          {2, TD_U32, 1, 0, 0x71a90d1b},
        {0, TD_U64, 1, 1, 0xcd4e5ecf},          {2, TD_U32, 2, 1, 0x3320869a},
        {0, TD_U64, 2, 4, 0xf1a2cb16},          {2, TD_U8, 3, 2, 0x567711bc},
        {2, TD_U32, 3, 2, 0x7e86c3e4},          {2, TD_U32, 4, 0, 0x8aa1e519},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        td_type_t t = want[i].type;
        const td_shape_t *s[5] = {SHAPE(t), SHAPE(t, 5), SHAPE(t, 3, 4), SHAPE(t, 3, 5), SHAPE(t, 2, 3)};
        const td_shape_t *o = s[want[i].shape], *k = SHAPE(TD_U64, 2);
        const uint64_t key[2] = {0x123456789abcdef0, 0xfffffffffffffffe};
        uint64_t next[2], out[15];
        comp_begin();
        td_hlo_instr_t *r = NODE(TD_HLO_RNG_BIT_GENERATOR, TUPLE(k, o), param(0, k));
        r->rng_algorithm = want[i].algorithm;
        ck_assert_int_eq(run_op(r, (const void *[]){key}, (void *[]){next, out}), TD_OK);
        ck_assert_uint_eq(crc32(0, (const Bytef *)out, (uInt)o->bytes), want[i].crc);
        EXPECT(next, key[0], want[i].counter);
    }
}
END_TEST

/* Philox with a state of three words carries into the third; other layouts hold the same elements. */
START_TEST(random_bits_state) {
    const uint64_t key[3] = {7, UINT64_MAX, 9};
    uint64_t next[3];
    uint32_t a[8], b[8];
    const td_shape_t *k = SHAPE(TD_U64, 3);
    comp_begin();
    td_hlo_instr_t *r = NODE(TD_HLO_RNG_BIT_GENERATOR, TUPLE(k, SHAPE(TD_U32, 2, 4)), param(0, k));
    ck_assert_int_eq(run_op(r, (const void *[]){key}, (void *[]){next, a}), TD_OK);
    EXPECT(next, 7, 1, 10);
    r->shape = TUPLE(k, shape(TD_U32, LAYOUT(0, 1), DIMS(2, 4)));
    ck_assert_int_eq(run_op(r, (const void *[]){key}, (void *[]){next, b}), TD_OK);
    for (int i = 0; i < 8; i++) ck_assert_uint_eq(a[i], b[i % 4 * 2 + i / 4]);
    r->rng_algorithm = 1;
    ck_assert_int_eq(run_op(r, (const void *[]){key}, (void *[]){next, b}), TD_MALFORMED);
    r->rng_algorithm = 3;
    ck_assert_int_eq(run_op(r, (const void *[]){key}, (void *[]){next, b}), TD_UNSUPPORTED);
}
END_TEST

START_TEST(hidden_state) {
    comp_begin();
    td_hlo_instr_t *i = node(TD_HLO_RNG_GET_AND_UPDATE_STATE, SHAPE(TD_U64, 2), 0, NULL);
    i->delta = 100;
    const td_host_op_kind_t *k = td_host_op_find(i->opcode);
    void *state = NULL;
    uint64_t scratch, x[2];
    ck_assert_int_eq(k->prepare(i, &arena, &state, &scratch, NULL), TD_OK);
    k->run(state, NULL, (void *[]){x}, NULL);
    EXPECT(x, 0x7012395, 0);
    k->run(state, NULL, (void *[]){x}, NULL);
    EXPECT(x, 0x7012395 + 100, 0);
}
END_TEST

/* Means and spreads of 4096 values; standard errors are 0.0045 and 0.016. */
START_TEST(distributions) {
    static float x[4096];
    static int32_t n[4096];
    const float a = 2, b = 3;
    const int32_t lo = -3, hi = 4;
    comp_begin();
    td_hlo_instr_t *p = param(0, SHAPE(TD_F32)), *r = NODE(TD_HLO_RNG, SHAPE(TD_F32, 64, 64), p, p);
    for (int d = 1; d <= 2; d++) {
        double sum = 0, squares = 0;
        r->rng_distribution = d;
        ck_assert_int_eq(RUN(r, x, &a, &b), TD_OK);
        for (int i = 0; i < 4096; i++) sum += (double)x[i], squares += (double)x[i] * (double)x[i];
        double mean = sum / 4096, deviation = sqrt(squares / 4096 - mean * mean);
        ck_assert_double_le(fabs(mean - (d == 1 ? 2.5 : 2)), d == 1 ? 0.02 : 0.2);
        ck_assert_double_le(fabs(deviation - (d == 1 ? sqrt(1.0 / 12) : 3)), d == 1 ? 0.02 : 0.2);
        for (int i = 0; d == 1 && i < 4096; i++) ck_assert(x[i] >= 2 && x[i] < 3);
    }
    p = param(0, SHAPE(TD_S32)), r = NODE(TD_HLO_RNG, SHAPE(TD_S32, 4096), p, p);
    r->rng_distribution = 1;
    ck_assert_int_eq(RUN(r, n, &lo, &hi), TD_OK);
    int seen = 0;
    for (int i = 0; i < 4096; i++) {
        ck_assert(n[i] >= lo && n[i] < hi);
        seen |= 1 << (n[i] - lo);
    }
    ck_assert_int_eq(seen, 127);
    r->rng_distribution = 2;
    ck_assert_int_eq(RUN(r, n, &lo, &hi), TD_UNSUPPORTED);
}
END_TEST

START_TEST(bit_casts) {
    const uint32_t w[2] = {0x04030201, 0x08070605};
    uint8_t b[16];
    uint32_t back[2];
    comp_begin();
    td_hlo_instr_t *p = param(0, SHAPE(TD_U32, 2)), *i = NODE(TD_HLO_BITCAST_CONVERT, SHAPE(TD_U8, 2, 4), p);
    ck_assert_int_eq(RUN(i, b, w), TD_OK);
    EXPECT(b, 1, 2, 3, 4, 5, 6, 7, 8);
    i->shape = shape(TD_U8, LAYOUT(0, 1), DIMS(2, 4)); /* the logical array is the same */
    ck_assert_int_eq(RUN(i, b, w), TD_OK);
    EXPECT(b, 1, 5, 2, 6, 3, 7, 4, 8);
    i = NODE(TD_HLO_BITCAST_CONVERT, p->shape, param(0, i->shape));
    ck_assert_int_eq(RUN(i, back, b), TD_OK);
    EXPECT(back, 0x04030201, 0x08070605);
    i = NODE(TD_HLO_BITCAST_CONVERT, SHAPE(TD_S4, 2, 8), p); /* low half first */
    ck_assert_int_eq(RUN(i, b, (const uint32_t[]){0xf7654321, 0x80}), TD_OK);
    EXPECT(b, 1, 2, 3, 4, 5, 6, 7, 0xff, 0, 0xf8, 0, 0, 0, 0, 0, 0);
    i = NODE(TD_HLO_BITCAST, SHAPE(TD_U16, 4), param(0, SHAPE(TD_U4, 16)));
    ck_assert_int_eq(RUN(i, b, (const uint8_t[16]){1, 2, 3, 4}), TD_OK);
    EXPECT(b, 0x21, 0x43, 0);
    i->shape = SHAPE(TD_U16, 5);
    ck_assert_int_eq(RUN(i, b, w), TD_MALFORMED);
    i = NODE(TD_HLO_BITCAST_CONVERT, SHAPE(TD_U8, 4, 2), p);
    ck_assert_int_eq(RUN(i, b, w), TD_MALFORMED);
}
END_TEST

/* jax select_and_gather_add's relative: lax._select_and_scatter(ge, add) on CPU. */
START_TEST(select_and_scatter) {
    float x[20], s[6], y[20];
    const float init = 0.5f;
    seq(x, 20, 7, 11);
    seq(s, 6, 5, 13);
    const td_hlo_comp_t *ge = scalar2(TD_HLO_COMPARE, TD_F32, TD_PRED, 0, TD_CMP_GE),
                        *add = scalar2(TD_HLO_ADD, TD_F32, TD_F32, 0, 0);
    td_hlo_instr_t *a = param(0, SHAPE(TD_F32, 4, 5));
    td_hlo_instr_t *i =
        NODE(TD_HLO_SELECT_AND_SCATTER, a->shape, a, param(1, SHAPE(TD_F32, 2, 3)), param(2, SHAPE(TD_F32)));
    td_window_dim_t w[2] = {
        {.size = 2, .stride = 2, .window_dilation = 1, .base_dilation = 1},
        {.size = 3, .stride = 2, .pad_low = 1, .pad_high = 1, .window_dilation = 1, .base_dilation = 1}};
    i->window = (td_window_t){w, 2};
    CALL(i, ge, add);
    ck_assert_int_eq(RUN(i, y, x, s, &init), TD_OK);
    EXPECT(y, 0.5f, 0.5f, 0.5f, 3.5f, 0.5f, 0.5f, -5.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 6.5f, -3.5f, 0.5f,
           1.5f, 0.5f, 0.5f);
    CALL(i, ge, scalar2(TD_HLO_ADD, TD_F64, TD_F64, 0, 0));
    ck_assert_int_ne(RUN(i, y, x, s, &init), TD_OK);
    CALL(i, add, add);
    ck_assert_int_eq(RUN(i, y, x, s, &init), TD_MALFORMED);
}
END_TEST

/* The initial value counts once, the padding not at all. */
START_TEST(window_padding) {
    const float x[3] = {1, 2, 4}, init = 10;
    float y[4];
    const td_hlo_comp_t *add = scalar2(TD_HLO_ADD, TD_F32, TD_F32, 0, 0),
                        *sub = scalar2(TD_HLO_SUBTRACT, TD_F32, TD_F32, 0, 0);
    td_hlo_instr_t *i =
        NODE(TD_HLO_REDUCE_WINDOW, SHAPE(TD_F32, 4), param(0, SHAPE(TD_F32, 3)), param(1, SHAPE(TD_F32)));
    td_window_dim_t w = {.size = 3, .stride = 1, .pad_low = 2, .pad_high = 1, .window_dilation = 1, .base_dilation = 1};
    i->window = (td_window_t){&w, 1};
    CALL(i, add);
    ck_assert_int_eq(RUN(i, y, x, &init), TD_OK);
    EXPECT(y, 11, 13, 17, 16);
    CALL(i, sub);
    ck_assert_int_eq(RUN(i, y, x, &init), TD_OK);
    EXPECT(y, 9, 7, 3, 4);
}
END_TEST

SUITE("host_ops", random_bits, random_bits_state, hidden_state, distributions, bit_casts, select_and_scatter,
      window_padding)
