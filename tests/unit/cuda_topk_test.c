/* SPDX-License-Identifier: Apache-2.0 */
/* Top-k on the CUDA device: the order of its kernel is that of the host device for every type, with NaNs of both signs,
 * infinities, zeros of both signs and equal elements; and what is refused. */
#include "runtime/cuda/library.h"
#include "tests/unit/cuda_op_case.h"

enum { BATCH = 3, N = 70 };

static void setup(void) { op_library("libcuda.so.1"); }

/* Few different bits, so that elements repeat; the patterns of floats' special values among them. */
static uint64_t bits_of(td_type_t type, uint32_t *seed) {
    static const uint64_t f64[] = {0, 1ull << 63, 0x7ff0ull << 48, 0xfff0ull << 48, 0x7ff8ull << 48, 0xfff8ull << 48,
                                   1};
    static const uint64_t f32[] = {0, 1u << 31, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 1};
    static const uint64_t bf16[] = {0, 0x8000, 0x7f80, 0xff80, 0x7fc0, 0xffc0, 1};
    *seed = *seed * 1664525u + 1013904223u;
    uint32_t r = *seed >> 16;
    if (r % 3 == 0) return (uint64_t)(r >> 8) << (8 * td_type_bytes(type) - 8); /* the top byte */
    return type == TD_F64 ? f64[r % 7] : type == TD_F32 ? f32[r % 7] : type == TD_BF16 ? bf16[r % 7] : r % 11;
}
static void check(td_topk_desc_t g) {
    uint32_t bytes = td_type_bytes(g.type), seed = (uint32_t)g.type + (uint32_t)g.k;
    uint64_t n = (uint64_t)(g.batch * g.n), k = (uint64_t)(g.batch * g.k);
    op_buffer_t v[3] = {{.host = calloc(n + 1, 8), .bytes = n * bytes}, {.host = calloc(k + 1, 8), .bytes = k * bytes},
                        {.host = calloc(k + 1, 4), .bytes = k * 4}};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t bits = bits_of(g.type, &seed);
        memcpy((char *)v[0].host + i * bytes, &bits, bytes);
    }
    op_same(TD_OP_TOPK, &g, v, 3, td_type_name(g.type));
    for (int i = 0; i < 3; i++) free(v[i].host);
}
START_TEST(test_orders) {
    static const td_type_t types[] = {TD_F32, TD_BF16, TD_F16, TD_F64, TD_F8E4M3FN, TD_U64,
                                      TD_S64, TD_S32,  TD_U32, TD_S8,  TD_U8,       TD_S16};
    static const int64_t counts[] = {1, 5, N, 0};
    op_open();
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int k = 0; k < 4 * 4; k++)
            check((td_topk_desc_t){
                .type = types[t], .batch = BATCH, .n = N, .k = counts[k / 4], .smallest = k & 1, .zeros_equal = k & 2});
    op_close();
}
END_TEST

START_TEST(test_refused) {
    const struct {
        td_topk_desc_t d;
        td_status_t st;
    } v[] = {{{.type = TD_C64, .batch = 1, .n = 4, .k = 2}, TD_UNSUPPORTED},
             {{.type = TD_S4, .batch = 1, .n = 4, .k = 2}, TD_UNSUPPORTED},
             {{.type = TD_F32, .batch = 1, .n = 4, .k = 5}, TD_MALFORMED},
             {{.type = TD_F32, .batch = 1, .n = 1ll << 32, .k = 5}, TD_MALFORMED},
             {{.type = TD_F32, .batch = -1, .n = 4, .k = 2}, TD_MALFORMED}};
    op_open();
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        op_t o;
        ck_assert_int_eq(op_lower(&o, gpu, TD_OP_TOPK, &v[i].d), v[i].st);
    }
    op_close();
}
END_TEST

/* A kernel that is linked into XLA: by its instruction, whatever its name; another one is refused by its name. */
START_TEST(test_linked_in) {
    td_shape_t x = {.type = TD_F32, .rank = 2, .default_layout = true}, v = x, p = x;
    const int64_t wide[] = {2, 4}, few[] = {2, 3};
    x.dims = wide, v.dims = p.dims = few, p.type = TD_S32;
    td_hlo_instr_t in = {.name = "top", .opcode = TD_HLO_CUSTOM_CALL, .custom_call_target = "__gpu$TopK"};
    td_kernel_arg_t args[] = {{.shape = &x, .size = 32}, {.shape = &v, .size = 24}, {.shape = &p, .size = 24}};
    td_launch_t l = {.kind = TD_IMAGE_SYMBOL, .symbol = "topk_k4_float_uint16_t"};
    td_kernel_desc_t d = {.instr = &in, .name = "top", .args = args, .n_args = 3, .launch = &l};
    float from[8] = {1, 5, 5, -1, 0, -0.0f, 7, 2}, best[6] = {0};
    int32_t at[6] = {0};
    const float want[6] = {5, 5, 1, 7, 2, 0};
    const int32_t places[6] = {1, 2, 0, 2, 3, 0};
    op_buffer_t b[3] = {{.host = from, .bytes = 32}, {.host = best, .bytes = 24}, {.host = at, .bytes = 24}};
    op_t o = {0};
    op_open();
    td_arena_init(&o.arena, &op_counter.base, 0);
    ck_assert_msg(!gpu->ops->kernel_lower(gpu, &d, &o.arena, &o.kernel, &o.scratch_bytes, &err), "%s", err.text);
    op_up(b, 3);
    ck_assert_int_eq(op_launch(&o, b, 3), 0);
    op_down(b, 3);
    ck_assert(!memcmp(best, want, sizeof want) && !memcmp(at, places, sizeof places));
    op_free(b, 3);
    v.type = TD_BF16;
    ck_assert_int_eq(gpu->ops->kernel_lower(gpu, &d, &o.arena, &o.kernel, &o.scratch_bytes, &err), TD_UNSUPPORTED);
    v.type = TD_F32, x.dims = few, v.dims = p.dims = wide; /* more than there are */
    ck_assert_int_eq(gpu->ops->kernel_lower(gpu, &d, &o.arena, &o.kernel, &o.scratch_bytes, &err), TD_MALFORMED);
    in.custom_call_target = "other", l.symbol = "some_kernel";
    ck_assert_int_eq(gpu->ops->kernel_lower(gpu, &d, &o.arena, &o.kernel, &o.scratch_bytes, &err), TD_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "kernel 'some_kernel' is linked into XLA itself") != NULL, "%s", err.text);
    op_release(&o, gpu);
    op_close();
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_topk");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, test_orders);
    tcase_add_test(t, test_refused);
    tcase_add_test(t, test_linked_in);
    tcase_set_timeout(t, 60);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
