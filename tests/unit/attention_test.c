/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of the host device, and its reading from instructions. Expected values: numpy in f64 (einsum, exp, sums
 * as in the definition) on x[i] = ((37 i + 11 seed) mod 23 - 11) / 8 with seeds q 1, k 2, v 3, bias 4, dO 5; two
 * sequences, two query heads, one key head, three queries, five keys, depth 2, scale 0.5. The gradients were
 * compared with differences. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/host/library.h"
#include "runtime/host/types.h"
#include "runtime/thunk/attention.h"

enum { B = 2, N = 2, NK = 1, T = 3, S = 5, H = 2 };

static const float o_plain[] = {
    0.061378f, 0.132265f, -0.104214f, 0.0691795f, -0.203509f, -0.0451671f, 0.168849f, -0.200647f, 0.0859736f,
    -0.248764f, -0.0119386f, 0.113632f, 0.0910358f, -0.296632f, 0.353108f, -0.502679f, 0.326384f, -0.509316f,
    0.345457f, -0.0918935f, 0.179965f, -0.20779f, 0.0382858f, -0.362206f};
static const float stats_plain[] = {
    1.83178f, 1.81248f, 1.92498f, 1.52252f, 1.56706f, 1.8077f, 1.69671f, 1.84486f, 1.81197f, 1.70397f, 1.67339f,
    1.72988f};
static const float o_causal[] = {
    -0.125f, -1.25f, 0.0609187f, -1.06408f, 0.2342f, -0.8908f, -0.125f, -1.25f, 0.313059f, -0.811941f, 0.627795f,
    -0.497205f, 0.125f, -1, 0.389065f, -0.735935f, 0.558625f, -0.566375f, 0.125f, -1, 0.431397f, -0.693603f,
    0.893546f, -0.231454f};
static const float o_window[] = {
    -0.125f, -1.25f, 0.0609187f, -1.06408f, 0.85136f, -0.27364f, -0.125f, -1.25f, 0.313059f, -0.811941f, 0.96448f,
    -0.16052f, 0.125f, -1, 0.389065f, -0.735935f, 0.877714f, -0.247286f, 0.125f, -1, 0.431397f, -0.693603f, 1.11687f,
    -0.00812723f};
static const float o_padding[] = {
    0.722491f, -0.402509f, 0.47406f, -0.65094f, 0, 0, 0.523005f, -0.601995f, 0.408198f, -0.716802f, 0, 0, 0.0910358f,
    -0.296632f, 0.353108f, -0.502679f, 0.326384f, -0.509316f, 0.345457f, -0.0918935f, 0.179965f, -0.20779f,
    0.0382858f, -0.362206f};
static const float stats_padding[] = {
    1.29399f, 1.2117f, 0, 1.21765f, 1.24565f, 0, 1.69671f, 1.84486f, 1.81197f, 1.70397f, 1.67339f, 1.72988f};
static const float o_biased[] = {
    -0.369473f, -0.15131f, -0.344054f, -0.370642f, -0.548653f, 0.409956f, -0.045275f, -0.0738636f, -0.0498485f,
    -0.0802923f, -0.517677f, 0.413948f, -0.20872f, -0.15112f, 0.15184f, -0.696913f, 0.198078f, -0.160068f,
    -0.227314f, 0.296294f, -0.295014f, 0.203208f, -0.329315f, 0.0740784f};
static const float dq_causal[] = {
    0, 0, 0.0551026f, -0.0153063f, -0.173126f, -0.119275f, 0, 0, -0.073702f, 0.0204728f, 0.204673f, 0.241349f, 0, 0,
    0.0655259f, 0.0655259f, -0.021869f, 0.0126676f, 0, 0, -0.0305059f, -0.0305059f, 0.0765671f, -0.120173f};
static const float dk_causal[] = {
    -0.0638641f, -0.184204f, -0.000987124f, 0.0484642f, 0.0648512f, 0.135739f, 0, 0, 0, 0, 0.0904928f, -0.0468438f,
    -0.176487f, 0.0588565f, 0.0859947f, -0.0120127f, 0, 0, 0, 0};
static const float dv_causal[] = {
    -0.791389f, -1.49208f, -0.165434f, 0.345625f, 0.206823f, -0.603546f, 0, 0, 0, 0, 0.872405f, 0.762792f, 0.472336f,
    -0.112373f, 0.280259f, -0.0254192f, 0, 0, 0, 0};
static const float dq_padding[] = {
    0.247607f, 0.334713f, 0.0789965f, 0.0764519f, 0, 0, 0.0611023f, 0.0768848f, -0.0660736f, -0.0252458f, 0, 0,
    -0.0721078f, 0.0598571f, -0.0358421f, -0.0197292f, 0.136936f, -0.111529f, 0.104413f, -0.209687f, -0.0162571f,
    0.145287f, -0.124389f, 0.0175531f};
static const float dk_padding[] = {
    0.00365728f, -0.22728f, -0.0113681f, -0.0099988f, 0.00771085f, 0.237279f, 0, 0, 0, 0, 0.177131f, 0.0207063f,
    0.0174369f, -0.0150557f, 0.0375526f, -0.0141564f, -0.391729f, -0.0432123f, 0.159609f, 0.0517181f};
static const float dv_padding[] = {
    -0.267708f, -0.271081f, -1.15582f, 0.647354f, -0.326477f, -0.876272f, 0, 0, 0, 0, 0.291746f, 0.32602f, 0.190505f,
    0.247504f, 0.28274f, 0.208082f, 0.37163f, 0.000439577f, 0.488379f, -0.157046f};
static const float dq_biased[] = {
    0.202466f, 0.253374f, 0.12159f, 0.171842f, -0.102058f, 0.120039f, 0.375252f, -0.366995f, 0.372085f, -0.377674f,
    -0.11846f, 0.0948587f, -0.187374f, 0.158732f, -0.050612f, 0.064753f, 0.270386f, -0.322809f, 0.0996141f,
    -0.211534f, -0.0252141f, 0.161546f, -0.100091f, 0.130367f};
static const float dk_biased[] = {
    0.175958f, -0.451891f, 0.482006f, -0.636137f, 0.113293f, -0.0352395f, -0.613463f, 0.755144f, -0.157793f,
    0.368124f, 0.141548f, -0.023438f, 0.199548f, -0.103257f, 0.077311f, 0.0342101f, -0.623759f, 0.0319187f,
    0.205353f, 0.0605666f};
static const float dv_biased[] = {
    0.132739f, -0.864094f, -0.87855f, 0.56009f, -0.040749f, -0.240698f, -0.0358959f, -0.989433f, 0.072456f,
    -0.215864f, 0.958034f, 0.0356999f, -0.131778f, 0.367821f, 0.0473619f, 0.110648f, 0.50174f, 0.167927f, 0.249642f,
    -0.0570959f};
static const float dbias[] = {
    0.684704f, 0.109375f, -0.00822971f, -0.716457f, -0.0693929f, 0.322251f, 0.164755f, 0.0506229f, -0.40139f,
    -0.13624f, 0.0104353f, -0.212141f, 0.0570376f, 0.201625f, -0.0569568f, -0.0732127f, -0.671343f, -0.180342f,
    1.0939f, -0.169004f, -0.0234781f, -0.41949f, 0.0168282f, -0.027315f, 0.453455f, 0.083391f, 0.297242f, 0.149614f,
    -0.494327f, -0.0359204f};

static td_arena_t arena;
static void setup(void) { td_arena_init(&arena, td_alloc_default(), 0); }
static void teardown(void) { td_arena_deinit(&arena); }

static float q[B * N * T * H], k[B * NK * S * H], v[B * NK * S * H], bias[N * T * S], dout[B * N * T * H];
static void fill(float *x, int n, int seed) {
    for (int i = 0; i < n; i++) x[i] = (float)((i * 37 + seed * 11) % 23 - 11) / 8;
}
static void inputs(void) {
    fill(q, B * N * T * H, 1), fill(k, B * NK * S * H, 2), fill(v, B * NK * S * H, 3), fill(bias, N * T * S, 4),
        fill(dout, B * N * T * H, 5);
}

/* Buffers of a launch: what `array` is told. */
static void *bufs[32];
static uint32_t n_bufs;
static uint32_t buffer(void *p) {
    bufs[n_bufs] = p;
    return ++n_bufs;
}
static td_attention_array_t array(void *p, td_type_t t, int64_t b, int64_t n, int64_t tokens, int64_t h) {
    return (td_attention_array_t){buffer(p), t, {b, n, tokens, h}, {n * tokens * h, tokens * h, h, 1}};
}
static td_attention_desc_t desc(void) {
    inputs();
    n_bufs = 0;
    td_attention_desc_t d = {.batch = B,
                             .heads = N,
                             .kv_heads = NK,
                             .q_tokens = T,
                             .kv_tokens = S,
                             .qk_depth = H,
                             .v_depth = H,
                             .scale = 0.5};
    d.arrays[TD_ATT_Q] = array(q, TD_F32, B, N, T, H);
    d.arrays[TD_ATT_K] = array(k, TD_F32, B, NK, S, H);
    d.arrays[TD_ATT_V] = array(v, TD_F32, B, NK, S, H);
    return d;
}
static td_attention_array_t bias_array(void) {
    td_attention_array_t a = array(bias, TD_F32, 1, N, T, S);
    a.strides[0] = 0;
    return a;
}
static td_status_t try(const td_attention_desc_t *d, td_err_t *err) {
    td_kernel_t *kernel = NULL;
    uint64_t scratch = 0;
    td_status_t st = td_host_attention_lower(NULL, d, &arena, &kernel, &scratch, err);
    if (st) return st;
    void *mem = aligned_alloc(64, (scratch + 127) & ~63ull);
    memset(mem, 0xff, scratch);
    st = kernel->run(kernel, bufs, mem, err);
    free(mem);
    return st;
}
static void run(const td_attention_desc_t *d) {
    td_err_t err = {0};
    ck_assert_msg(!try(d, &err), "%s", err.text);
}
static void near(const char *what, const float *got, const float *want, size_t n, double tolerance) {
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabs((double)got[i] - (double)want[i]) <= tolerance, "%s[%zu]: %g, not %g", what, i,
                      (double)got[i], (double)want[i]);
}
#define NEAR(got, want) near(#want, got, want, sizeof(want) / sizeof *(want), 1e-5)

START_TEST(masks) {
    float o[B * N * T * H], stats[B * N * T];
    int32_t ql[B] = {2, 3}, kl[B] = {3, 7};
    td_attention_desc_t d = desc();
    d.arrays[TD_ATT_O] = array(o, TD_F32, B, N, T, H);
    d.arrays[TD_ATT_STATS] = array(stats, TD_F32, B, N, T, 1);
    run(&d);
    NEAR(o, o_plain);
    NEAR(stats, stats_plain);
    d.causal = true;
    run(&d);
    NEAR(o, o_causal);
    d.window = 2;
    run(&d);
    NEAR(o, o_window);
    d.causal = false, d.window = 0;
    d.q_lengths = buffer(ql), d.kv_lengths = buffer(kl); /* 7 is clipped to 5 */
    run(&d);
    NEAR(o, o_padding);
    NEAR(stats, stats_padding);
    d.q_lengths = d.kv_lengths = 0;
    d.arrays[TD_ATT_BIAS] = bias_array();
    run(&d);
    NEAR(o, o_biased);
}
END_TEST

/* Token-major arrays of small floats, depth strided in one of them: the same numbers after one rounding. */
START_TEST(layouts_and_types) {
    uint16_t qt[B * N * T * H], kt[B * S * H], o[B * N * T * H];
    td_attention_desc_t d = desc();
    float x[B * N * T * H], y[B * S * H];
    for (int i = 0; i < B * N * T * H; i++) { /* b n t h -> b t h n */
        int b = i / (N * T * H), n = i / (T * H) % N, t = i / H % T, h = i % H;
        x[((b * T + t) * H + h) * N + n] = q[i];
    }
    td_convert_array(TD_F32, x, TD_BF16, qt, B * N * T * H);
    memcpy(y, k, sizeof y);
    td_convert_array(TD_F32, y, TD_F16, kt, B * S * H);
    d.arrays[TD_ATT_Q] = (td_attention_array_t){buffer(qt), TD_BF16, {B, N, T, H}, {T * H * N, 1, H * N, N}};
    d.arrays[TD_ATT_K] = array(kt, TD_F16, B, NK, S, H);
    d.arrays[TD_ATT_O] = (td_attention_array_t){buffer(o), TD_BF16, {B, N, T, H}, {N * T * H, H, N * H, 1}};
    run(&d);
    for (int i = 0; i < B * N * T * H; i++) {
        int b = i / (N * T * H), n = i / (T * H) % N, t = i / H % T, h = i % H;
        float got, want = o_plain[i];
        td_small_load(TD_BF16, &o[((b * T + t) * N + n) * H + h], &got, 1);
        ck_assert_msg(fabsf(got - want) <= 0.004f * fabsf(want) + 1e-6f, "%d: %g, not %g", i, (double)got,
                      (double)want);
    }
}
END_TEST

/* Both sequences one behind the other in one array, then keys in pages: same results. */
START_TEST(packed_and_paged) {
    float o[B * N * T * H], o2[B * N * T * H];
    int32_t ql[B] = {T, T}, kl[B] = {S, S}, qo[B + 1] = {0}, ko[B + 1] = {0};
    td_attention_desc_t d = desc();
    d.q_lengths = buffer(ql), d.kv_lengths = buffer(kl), d.q_offsets = buffer(qo), d.kv_offsets = buffer(ko);
    d.arrays[TD_ATT_O] = array(o, TD_F32, B, N, T, H);
    qo[1] = N * T * H, ko[1] = NK * S * H, qo[2] = 2 * qo[1], ko[2] = 2 * ko[1];
    run(&d);
    NEAR(o, o_plain);
    td_err_t err = {0};
    qo[1] = N * T * H + 1;
    ck_assert_int_eq(try(&d, &err), TD_MISMATCH);
    qo[1] = -1;
    ck_assert_int_eq(try(&d, &err), TD_MISMATCH);
    qo[1] = N * T * H;
    d.q_offsets = d.kv_offsets = 0;
    /* blocks of two tokens; the third block of a sequence is half used */
    enum { BLOCKS = 7 };
    float kp[BLOCKS * 2 * H] = {0}, vp[BLOCKS * 2 * H] = {0};
    int32_t pk[B * 3] = {6, 0, 3, 1, 5, 2}, pv[B * 3] = {2, 1, 0, 6, 5, 4};
    for (int b = 0; b < B; b++)
        for (int s = 0; s < S; s++)
            for (int h = 0; h < H; h++) {
                kp[(pk[b * 3 + s / 2] * 2 + s % 2) * H + h] = k[(b * S + s) * H + h];
                vp[(pv[b * 3 + s / 2] * 2 + s % 2) * H + h] = v[(b * S + s) * H + h];
            }
    d.arrays[TD_ATT_K] = array(kp, TD_F32, BLOCKS, NK, 2, H);
    d.arrays[TD_ATT_V] = array(vp, TD_F32, BLOCKS, NK, 2, H);
    d.arrays[TD_ATT_O] = array(o2, TD_F32, B, N, T, H);
    d.k_pages = buffer(pk), d.v_pages = buffer(pv), d.pages = 3, d.kv_tokens = 6;
    run(&d);
    NEAR(o2, o_plain);
    pk[4] = BLOCKS;
    ck_assert_int_eq(try(&d, &err), TD_MISMATCH);
    ck_assert_msg(strstr(err.text, "block 7 of 7"), "%s", err.text);
}
END_TEST

/* More rows and keys than a block, compared with a direct sum; query i weighs keys by exp(0.01 * j). */
START_TEST(long_sequences) {
    enum { L = 700, G = 3 };
    static float lq[G * L], lk[L], lv[L], lo[G * L];
    n_bufs = 0;
    td_attention_desc_t d = {.batch = 1,
                             .heads = G,
                             .kv_heads = 1,
                             .q_tokens = L,
                             .kv_tokens = L,
                             .qk_depth = 1,
                             .v_depth = 1,
                             .scale = 1,
                             .causal = true,
                             .window = 300};
    for (int i = 0; i < L; i++) lk[i] = 0.01f * (float)(i % 90), lv[i] = (float)(i % 7);
    for (int i = 0; i < G * L; i++) lq[i] = 1 + (float)(i / L);
    d.arrays[TD_ATT_Q] = array(lq, TD_F32, 1, G, L, 1);
    d.arrays[TD_ATT_K] = array(lk, TD_F32, 1, 1, L, 1);
    d.arrays[TD_ATT_V] = array(lv, TD_F32, 1, 1, L, 1);
    d.arrays[TD_ATT_O] = array(lo, TD_F32, 1, G, L, 1);
    run(&d);
    for (int g = 0; g < G; g++)
        for (int i = 0; i < L; i++) {
            double sum = 0, weighted = 0;
            for (int j = i < 300 ? 0 : i - 299; j <= i; j++) {
                double w = exp((1 + g) * 0.01 * (j % 90));
                sum += w, weighted += w * (j % 7);
            }
            ck_assert_msg(fabs((double)lo[g * L + i] - weighted / sum) < 1e-5, "%d %d: %g, not %g", g, i,
                          (double)lo[g * L + i], weighted / sum);
        }
}
END_TEST

static void backward(td_attention_desc_t *d, float *o, float *stats, float *dq, float *dk, float *dv) {
    d->arrays[TD_ATT_O] = array(o, TD_F32, B, N, T, H);
    d->arrays[TD_ATT_STATS] = array(stats, TD_F32, B, N, T, 1);
    run(d);
    d->backward = true;
    d->arrays[TD_ATT_DO] = array(dout, TD_F32, B, N, T, H);
    d->arrays[TD_ATT_DQ] = array(dq, TD_F32, B, N, T, H);
    d->arrays[TD_ATT_DK] = array(dk, TD_F32, B, NK, S, H);
    d->arrays[TD_ATT_DV] = array(dv, TD_F32, B, NK, S, H);
    run(d);
}

START_TEST(gradients) {
    float o[B * N * T * H], stats[B * N * T], dq[B * N * T * H], dk[B * NK * S * H], dv[B * NK * S * H], db[N * T * S];
    int32_t ql[B] = {2, 3}, kl[B] = {3, 5};
    td_attention_desc_t d = desc();
    d.causal = true;
    backward(&d, o, stats, dq, dk, dv);
    NEAR(dq, dq_causal);
    NEAR(dk, dk_causal);
    NEAR(dv, dv_causal);
    d = desc();
    d.q_lengths = buffer(ql), d.kv_lengths = buffer(kl);
    backward(&d, o, stats, dq, dk, dv);
    NEAR(dq, dq_padding);
    NEAR(dk, dk_padding);
    NEAR(dv, dv_padding);
    d = desc();
    d.arrays[TD_ATT_BIAS] = bias_array();
    backward(&d, o, stats, dq, dk, dv);
    NEAR(dq, dq_biased);
    NEAR(dk, dk_biased);
    NEAR(dv, dv_biased);
    d.arrays[TD_ATT_DBIAS] = array(db, TD_F32, 1, N, T, S);
    run(&d);
    NEAR(db, dbias);
}
END_TEST

/* 8 bits: the scales cancel, the results stay near, the maxima are those of the unscaled values. */
START_TEST(eight_bit) {
    uint8_t q8[B * N * T * H], k8[B * NK * S * H], v8[B * NK * S * H], o8[B * N * T * H];
    float f[6] = {0.5f, 4, 0.25f, 1.0f / 64, 64, 16}, amax[2], o[B * N * T * H], top = 0;
    td_attention_desc_t d = desc();
    for (int i = 0; i < B * N * T * H; i++) q[i] *= 2;
    for (int i = 0; i < B * NK * S * H; i++) k[i] /= 4, v[i] *= 4;
    td_convert_array(TD_F32, q, TD_F8E4M3FN, q8, B * N * T * H);
    td_convert_array(TD_F32, k, TD_F8E4M3FN, k8, B * NK * S * H);
    td_convert_array(TD_F32, v, TD_F8E4M3FN, v8, B * NK * S * H);
    d.eight_bit = true;
    d.arrays[TD_ATT_Q] = array(q8, TD_F8E4M3FN, B, N, T, H);
    d.arrays[TD_ATT_K] = array(k8, TD_F8E4M3FN, B, NK, S, H);
    d.arrays[TD_ATT_V] = array(v8, TD_F8E4M3FN, B, NK, S, H);
    d.arrays[TD_ATT_O] = array(o8, TD_F8E4M3FN, B, N, T, H);
    for (int i = 0; i < 6; i++) d.scalars[TD_ATT_DESCALE_Q + i] = buffer(&f[i]);
    d.scalars[TD_ATT_AMAX_S] = buffer(&amax[0]), d.scalars[TD_ATT_AMAX_O] = buffer(&amax[1]);
    run(&d);
    td_convert_array(TD_F8E4M3FN, o8, TD_F32, o, B * N * T * H);
    for (int i = 0; i < B * N * T * H; i++) o[i] /= 16, top = fmaxf(top, fabsf(o_plain[i]));
    near("o", o, o_plain, B * N * T * H, 0.06);
    ck_assert(fabsf(amax[1] - top) < 0.03f);
    ck_assert(amax[0] > 0.2f && amax[0] < 1);
    f[5] = 1e6f; /* saturates instead of becoming NaN */
    run(&d);
    td_convert_array(TD_F8E4M3FN, o8, TD_F32, o, B * N * T * H);
    for (int i = 0; i < B * N * T * H; i++) ck_assert(fabsf(o[i]) == 448);
}
END_TEST

/* ---- reading an instruction ---- */
static const td_shape_t *shape(td_type_t t, size_t rank, const int64_t *dims) {
    const td_shape_t *s = NULL;
    ck_assert_int_eq(td_shape_make(&arena, t, (uint32_t)rank, dims, NULL, &s, NULL), TD_OK);
    return s;
}
#define SHAPE(t, ...) shape(t, sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]){__VA_ARGS__})
#define DIMS_OF(lc, rc, lb, rb)                                                                                    \
    "{\"lhs_contracting_dimensions\":[\"" lc "\"],\"rhs_contracting_dimensions\":[\"" rc "\"],"                    \
    "\"lhs_batch_dimensions\":[\"0\",\"" lb "\"],\"rhs_batch_dimensions\":[\"0\",\"" rb "\"]}"
#define DOTS                                                                                                       \
    "\"bmm1_dot_dimension_numbers\":" DIMS_OF("3", "3", "2", "2")                                                  \
    ",\"bmm2_dot_dimension_numbers\":" DIMS_OF("3", "1", "1", "2")
static td_status_t describe(const char *target, const char *config, uint32_t n, const td_shape_t *const *operands,
                            const td_shape_t *output, td_attention_desc_t *d, td_err_t *err) {
    td_hlo_instr_t *ops = TD_NEW_N(&arena, td_hlo_instr_t, n), **list = TD_NEW_N(&arena, td_hlo_instr_t *, n);
    const td_shape_t *results[2] = {output, SHAPE(TD_U8, 0)};
    td_shape_t tuple = {.type = TD_TUPLE, .rank = 2, .elements = results};
    for (uint32_t i = 0; i < n; i++) ops[i].shape = operands[i], list[i] = &ops[i];
    char text[1024];
    snprintf(text, sizeof text, "{\"cudnn_fmha_backend_config\":{\"fmha_scale\":0.25,%s}}", config);
    td_hlo_instr_t in = {.opcode = TD_HLO_CUSTOM_CALL,
                         .name = "fmha",
                         .shape = &tuple,
                         .operands = list,
                         .n_operands = n,
                         .custom_call_target = target,
                         .backend_config = text};
    return td_attention_describe(&in, d, err);
}

START_TEST(instructions) {
    td_attention_desc_t d;
    td_err_t err = {0};
    const td_shape_t *a = SHAPE(TD_BF16, 2, 8, 4, 16), *kv = SHAPE(TD_BF16, 2, 10, 2, 16),
                     *o = SHAPE(TD_BF16, 2, 4, 8, 16);
    const td_shape_t *b = SHAPE(TD_BF16, 1, 4, 8, 10), *len = SHAPE(TD_S32, 2), *ops[6] = {a, kv, kv, b, len, len};
    ck_assert_msg(!describe("__cudnn$fmhaSoftmax", DOTS ",\"mask_type\":\"CAUSAL\",\"sliding_window_length\":3", 3, ops,
                            o, &d, &err),
                  "%s", err.text);
    ck_assert(d.causal && d.window == 3 && d.scale == 0.25 && d.heads == 4 && d.kv_heads == 2 && d.q_tokens == 8 &&
              d.kv_tokens == 10);
    ck_assert(d.arrays[TD_ATT_V].buffer == 3 && d.arrays[TD_ATT_O].buffer == 4 && d.arrays[TD_ATT_K].strides[1] == 16 &&
              d.arrays[TD_ATT_K].strides[2] == 32);
    ck_assert_msg(!describe("__cudnn$fmhaScaleBiasSoftmax", DOTS ",\"mask_type\":\"PADDING\"", 6, ops, o, &d, &err),
                  "%s", err.text);
    ck_assert(d.arrays[TD_ATT_BIAS].buffer == 4 && d.arrays[TD_ATT_BIAS].strides[0] == 0 && d.q_lengths == 5 &&
              d.kv_lengths == 6 && !d.causal);
    struct { const char *target, *config; uint32_t n; td_status_t want; const char *says; } bad[] = {
        {"__cudnn$fmhaSoftmaxDropout", DOTS ",\"dropout_rate\":0.1", 3, TD_UNSUPPORTED, "dropout"},
        {"__cudnn$fmhaSoftmax", DOTS ",\"mask_type\":\"ALIBI\"", 3, TD_UNSUPPORTED, "ALIBI"},
        {"__cudnn$fmhaSoftmax", "\"mask_type\":\"CAUSAL\"", 3, TD_MALFORMED, "bmm1"},
        {"__cudnn$fmhaSoftmax", DOTS, 2, TD_MISMATCH, "V is missing"},
        {"__cudnn$fmhaSoftmax", DOTS, 4, TD_UNSUPPORTED, "3 of 4 operands"},
        {"__cudnn$fmhaSoftmax", DOTS ",\"mask_type\":\"PADDING\"", 3, TD_MISMATCH, "lengths"},
        {"__cudnn$fmhaOther", DOTS, 3, TD_UNSUPPORTED, "fmha"},
        {"__cudnn$fmhaSoftmax", DOTS "}", 3, TD_MALFORMED, "config"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(describe(bad[i].target, bad[i].config, bad[i].n, ops, o, &d, &err), bad[i].want);
        ck_assert_msg(strstr(err.text, bad[i].says), "%s", err.text);
    }
    ops[1] = SHAPE(TD_BF16, 2, 10, 3, 16);
    ck_assert_int_eq(describe("__cudnn$fmhaSoftmax", DOTS, 3, ops, o, &d, &err), TD_MISMATCH);
    ops[1] = kv;
    ck_assert_int_eq(describe("__cudnn$fmhaSoftmax", DOTS, 3, ops, SHAPE(TD_BF16, 2, 8, 4, 16), &d, &err), TD_MISMATCH);
    ops[3] = SHAPE(TD_BF16, 1, 4, 8, 9);
    ck_assert_int_eq(describe("__cudnn$fmhaScaleBiasSoftmax", DOTS, 4, ops, o, &d, &err), TD_MISMATCH);
}
END_TEST

int main(void) {
    Suite *s = suite_create("attention");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, masks);
    tcase_add_test(t, layouts_and_types);
    tcase_add_test(t, packed_and_paged);
    tcase_add_test(t, long_sequences);
    tcase_add_test(t, gradients);
    tcase_add_test(t, eight_bit);
    tcase_add_test(t, instructions);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
