/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on the CUDA device through the stand-in for cuDNN: what the host device computes, with every mask, bias and
 * kind of result; what is refused by name; and mistakes that the stand-in must notice, made on purpose. */
#include "runtime/cuda/dnn.h"
#include "runtime/host/host_op.h"
#include "tests/unit/cuda_op_case.h"

enum { B = 2, H = 4, TQ = 5, TK = 7, D = 8, DV = 16, STATS = 5, BIAS = 6, Q_LENGTHS = 7, KV_LENGTHS = 8, BUFFERS = 8 };
static int32_t q_lengths[B] = {3, 5}, kv_lengths[B] = {7, 2};

static void setup(void) {
    op_library("libcuda.so.1");
    op_library("libcudnn.so.9");
}

static op_buffer_t fill(td_type_t type, int64_t count, uint32_t seed) {
    uint64_t n = (uint64_t)count;
    float *f = malloc((n + 1) * sizeof *f);
    void *p = calloc(1, n * td_type_bytes(type) + 16);
    for (uint64_t i = 0; i < n; i++) seed = seed * 1664525u + 1013904223u, f[i] = (float)(int)(seed >> 24) / 64 - 2;
    td_convert_array(TD_F32, f, type, p, n);
    free(f);
    return (op_buffer_t){.host = p, .bytes = n * td_type_bytes(type)};
}
/* Tokens outside of heads, as models have them, or heads outside of tokens. */
static td_attention_array_t array(uint32_t buffer, td_type_t type, bool heads_first, int64_t b, int64_t h, int64_t t,
                                  int64_t d) {
    td_attention_array_t a = {
        .buffer = buffer, .type = type, .dims = {b, h, t, d}, .strides = {h * t * d, d, h * d, 1}};
    if (heads_first) a.strides[1] = t * d, a.strides[2] = d;
    return a;
}

enum {
    CAUSAL = 1,
    WINDOW = 2,
    LENGTHS = 4,
    WITH_STATS = 8,
    WITH_BIAS = 16,
    SHARED = 32,
    HEADS_FIRST = 64,
    CHOICES = 128
};
static td_attention_desc_t attention(td_type_t type, int how) {
    int64_t kv = how & SHARED ? 2 : H;
    bool f = how & HEADS_FIRST;
    td_attention_desc_t d = {.batch = B,
                             .heads = H,
                             .kv_heads = kv,
                             .q_tokens = TQ,
                             .kv_tokens = TK,
                             .qk_depth = D,
                             .v_depth = DV,
                             .scale = 0.25,
                             .causal = how & CAUSAL,
                             .window = how & WINDOW ? 2 : 0};
    d.arrays[TD_ATT_Q] = array(1, type, f, B, H, TQ, D);
    d.arrays[TD_ATT_K] = array(2, type, f, B, kv, TK, D);
    d.arrays[TD_ATT_V] = array(3, type, f, B, kv, TK, DV);
    d.arrays[TD_ATT_O] = array(4, type, f, B, H, TQ, DV);
    if (how & WITH_STATS) d.arrays[TD_ATT_STATS] = array(STATS, TD_F32, true, B, H, TQ, 1);
    if (how & WITH_BIAS)
        d.arrays[TD_ATT_BIAS] = array(BIAS, type, true, how & CAUSAL ? B : 1, how & WINDOW ? H : 1, TQ, TK);
    for (int i = 0; i < 4; i++)
        if (d.arrays[TD_ATT_BIAS].dims[i] == 1) d.arrays[TD_ATT_BIAS].strides[i] = 0;
    if (how & LENGTHS) d.q_lengths = Q_LENGTHS, d.kv_lengths = KV_LENGTHS;
    return d;
}
static void buffers(const td_attention_desc_t *d, op_buffer_t *v) {
    static const int which[] = {TD_ATT_Q, TD_ATT_K, TD_ATT_V, TD_ATT_O, TD_ATT_STATS, TD_ATT_BIAS};
    memset(v, 0, OP_BUFFERS * sizeof *v);
    for (uint32_t i = 0; i < 6; i++) {
        const int64_t *n = d->arrays[which[i]].dims;
        td_type_t type = d->arrays[which[i]].buffer ? d->arrays[which[i]].type : TD_F32;
        v[i] = fill(type, n[0] * n[1] * n[2] * n[3], i + 1);
    }
    for (uint32_t i = 6; i < BUFFERS; i++) {
        v[i] = (op_buffer_t){.host = malloc(sizeof q_lengths), .bytes = sizeof q_lengths};
        memcpy(v[i].host, i == 6 ? q_lengths : kv_lengths, sizeof q_lengths);
    }
}
static void drop(op_buffer_t *v) {
    for (uint32_t i = 0; i < BUFFERS; i++) free(v[i].host);
}

START_TEST(test_forms)
{
    static const td_type_t types[] = {TD_BF16, TD_F16};
    char what[40];
    op_open();
    for (int i = 0; i < 2 * CHOICES; i++) {
        td_attention_desc_t d = attention(types[i / CHOICES], i % CHOICES);
        op_buffer_t v[OP_BUFFERS];
        buffers(&d, v);
        snprintf(what, sizeof what, "%s, choices %#x", td_type_name(types[i / CHOICES]), (unsigned)(i % CHOICES));
        op_same(TD_OP_ATTENTION, &d, v, BUFFERS, what);
        drop(v);
    }
    op_close();
}
END_TEST

START_TEST(test_refused)
{
    static const char *const words[] = {"gradients", "8-bit floats",       "packed sequences",     "pages",
                                        "alone",     "takes f16 and bf16", "nothing to attend to", "too large"};
    op_open();
    for (int i = 0; i < 8; i++) {
        td_attention_desc_t d = attention(i == 5 ? TD_F32 : TD_BF16, 0);
        if (i == 0) d.backward = true;
        if (i == 1) d.eight_bit = true;
        if (i == 2) d.q_offsets = d.kv_offsets = Q_LENGTHS;
        if (i == 3) d.k_pages = d.v_pages = Q_LENGTHS;
        if (i == 4) d.q_lengths = Q_LENGTHS;
        if (i == 6) d.kv_tokens = 0;
        if (i == 7) d.kv_tokens = INT64_MAX / 2;
        op_t o;
        td_status_t st = op_lower(&o, gpu, TD_OP_ATTENTION, &d);
        ck_assert_int_eq(st, i == 7 ? TD_LIMIT : TD_UNSUPPORTED);
        ck_assert_msg(strstr(err.text, words[i]) != NULL, "%d: %s", i, err.text);
    }
    op_close();
}
END_TEST

/* Without a use for the logarithms they go to the scratch. */
START_TEST(test_scratch)
{
    op_open();
    td_attention_desc_t with = attention(TD_BF16, WITH_STATS), without = attention(TD_BF16, 0);
    op_t o;
    ck_assert_msg(!op_lower(&o, gpu, TD_OP_ATTENTION, &with), "%s", err.text);
    uint64_t bytes = o.scratch_bytes;
    op_release(&o, gpu);
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_ATTENTION, &without), 0);
    ck_assert_uint_eq(o.scratch_bytes, bytes + 256);
    op_release(&o, gpu);
    op_close();
}
END_TEST

static void mistake(int which, td_dnn_kernel_t *k, op_buffer_t *v) {
    float high = 0;
    switch (which) {
    case 0: memcpy(&k->values[k->n_values - 1], &high, sizeof high); break; /* what is masked counts */
    case 1: k->n_tensors--; break;
    case 2: v[3].device = (char *)v[0].device + 16; break;
    default: break;
    }
}
START_TEST(test_mistakes)
{
    static const char *const words[] = {"not very low", "no address for tensor", "partly over"};
    op_open();
    td_attention_desc_t d = attention(TD_BF16, CAUSAL);
    op_buffer_t b[OP_BUFFERS], wrong[OP_BUFFERS];
    buffers(&d, b);
    op_t o;
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_ATTENTION, &d), 0);
    op_up(b, BUFFERS);
    memcpy(wrong, b, sizeof b);
    mistake(_i, (td_dnn_kernel_t *)o.kernel, wrong);
    ck_assert_int_ne(op_launch(&o, wrong, BUFFERS), 0);
    op_expect("bad-arguments", words[_i]);
    (void)gpu->ops->stream_sync(stream, &err);
    op_free(b, BUFFERS);
    op_release(&o, gpu);
    drop(b);
    op_close();
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_attention");
    TCase *t = tcase_create("cuda_attention");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, test_forms);
    tcase_add_test(t, test_refused);
    tcase_add_test(t, test_scratch);
    tcase_add_loop_test(t, test_mistakes, 0, 3);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
