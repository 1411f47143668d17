/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel compiler on small hand-built instructions. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"
#include "runtime/host/host_op.h"
#include "runtime/host/types.h"

static td_arena_t arena;
static td_device_t *dev;
static td_hlo_instr_t *list[32];
static uint32_t n_list;

static void setup(void) {
    td_arena_init(&arena, td_alloc_default(), 0);
    ck_assert(!td_host_device_create(td_alloc_default(), &dev, NULL));
    n_list = 0;
}
static void teardown(void) {
    td_device_destroy(dev);
    td_arena_deinit(&arena);
}

static const td_shape_t *shape(td_type_t t, uint32_t rank, int64_t d0, int64_t d1, const int32_t *layout) {
    const td_shape_t *s;
    ck_assert(!td_shape_make(&arena, t, rank, (int64_t[]){d0, d1}, layout, &s, NULL));
    return s;
}
static td_hlo_instr_t *instr(td_opcode_t op, const td_shape_t *s, td_hlo_instr_t *a, td_hlo_instr_t *b) {
    td_hlo_instr_t *i = TD_NEW(&arena, td_hlo_instr_t);
    td_hlo_instr_t **ops = TD_NEW_N(&arena, td_hlo_instr_t *, 4);
    ops[0] = a, ops[1] = b;
    *i = (td_hlo_instr_t){.opcode = op, .index = n_list, .name = "i", .shape = s, .operands = ops, .n_operands = (a != NULL) + (b != NULL)};
    list[n_list++] = i;
    return i;
}
static td_hlo_instr_t *param(int64_t n, const td_shape_t *s) {
    td_hlo_instr_t *p = instr(TD_HLO_PARAMETER, s, NULL, NULL);
    p->parameter_number = n;
    return p;
}
static td_hlo_instr_t *tuple(td_hlo_instr_t *a, td_hlo_instr_t *b) {
    td_shape_t *s = TD_NEW(&arena, td_shape_t);
    const td_shape_t **e = TD_NEW_N(&arena, const td_shape_t *, 2);
    e[0] = a->shape, e[1] = b->shape;
    *s = (td_shape_t){.type = TD_TUPLE, .rank = 2, .elements = e, .bytes = 16};
    return instr(TD_HLO_TUPLE, s, a, b);
}

/* Wraps the list into a fusion and runs it on bufs; slices are numbered by alloc[] when given. */
static void run_fusion(td_hlo_instr_t *root, uint32_t n_params, const td_shape_t *const *shapes, uint32_t n_args, void *const *bufs, const uint32_t *alloc) {
    td_hlo_instr_t outer[4], *operands[4];
    td_hlo_comp_t body = {.name = "body", .instrs = list, .n_instrs = n_list, .root = root, .n_params = n_params, .params = list};
    const td_hlo_comp_t *called[1] = {&body};
    td_kernel_arg_t args[8];
    for (uint32_t i = 0; i < n_params; i++) {
        outer[i] = *list[i], outer[i].index = i, operands[i] = &outer[i];
    }
    for (uint32_t i = 0; i < n_args; i++) args[i] = (td_kernel_arg_t){.allocation = alloc ? alloc[i] : i, .size = shapes[i]->bytes, .shape = shapes[i]};
    td_hlo_instr_t fusion = {.opcode = TD_HLO_FUSION, .name = "fusion", .shape = root->shape, .operands = operands, .n_operands = n_params, .called = called, .n_called = 1};
    td_kernel_desc_t d = {.instr = &fusion, .name = "k", .args = args, .n_args = n_args};
    td_kernel_t *k;
    td_stream_t *s;
    uint64_t scratch;
    td_err_t err = {0};
    ck_assert_msg(!dev->ops->kernel_lower(dev, &d, &arena, &k, &scratch, &err), "%s", err.text);
    ck_assert(!dev->ops->stream_create(dev, TD_STREAM_MAIN, &s, &err));
    void *mem = aligned_alloc(64, scratch + 64 - scratch % 64);
    ck_assert(!dev->ops->launch(s, k, bufs, n_args, mem, &err));
    free(mem);
    dev->ops->stream_destroy(s);
}

/* r = a * b + row-broadcast(c), for sizes around a tile. */
START_TEST(multiply_add_broadcast) {
    static const int64_t cols[] = {0, 1, 341, 342, 1023, 1024, 1025};
    for (size_t t = 0; t < 7; t++) {
        int64_t n = cols[t], total = 3 * n;
        n_list = 0;
        const td_shape_t *m = shape(TD_F32, 2, 3, n, NULL), *v = shape(TD_F32, 1, n, 0, NULL), *c3 = shape(TD_F32, 1, 3, 0, NULL);
        td_hlo_instr_t *a = param(0, m), *b = param(1, v), *c = param(2, c3);
        td_hlo_instr_t *bb = instr(TD_HLO_BROADCAST, m, b, NULL), *cb = instr(TD_HLO_BROADCAST, m, c, NULL);
        bb->dimensions = (td_ints_t){(const int64_t[]){1}, 1}, cb->dimensions = (td_ints_t){(const int64_t[]){0}, 1};
        td_hlo_instr_t *root = instr(TD_HLO_ADD, m, instr(TD_HLO_MULTIPLY, m, a, bb), cb);
        float *x = malloc((size_t)total * 4 + 1), *y = malloc((size_t)n * 4 + 1), *r = malloc((size_t)total * 4 + 1), z[3] = {1, 2, 3};
        for (int64_t i = 0; i < total; i++) x[i] = (float)i;
        for (int64_t i = 0; i < n; i++) y[i] = (float)(i % 5);
        run_fusion(root, 3, (const td_shape_t *[]){m, v, c3, m}, 4, (void *[]){x, y, z, r}, NULL);
        for (int64_t i = 0; i < total; i++) ck_assert(r[i] == x[i] * y[i % n] + z[i / n]);
        /* the same with the result over operand 0 */
        float *w = malloc((size_t)total * 4 + 1);
        memcpy(w, r, (size_t)total * 4);
        run_fusion(root, 3, (const td_shape_t *[]){m, v, c3, m}, 4, (void *[]){x, y, z, x}, (const uint32_t[]){0, 1, 2, 0});
        ck_assert(!memcmp(w, x, (size_t)total * 4));
        free(x), free(y), free(r), free(w);
    }
}
END_TEST

/* Two results: the first over the operand that the second reads through a layout change. */
START_TEST(in_place_beside_a_relayout) {
    enum { R = 40, C = 50 };
    const int32_t column_major[2] = {0, 1};
    const td_shape_t *m = shape(TD_F32, 2, R, C, NULL), *cm = shape(TD_F32, 2, R, C, column_major);
    td_hlo_instr_t *a = param(0, m), *neg = instr(TD_HLO_NEGATE, m, a, NULL), *cp = instr(TD_HLO_COPY, cm, a, NULL);
    td_hlo_instr_t *e = instr(TD_HLO_ADD, cm, cp, cp);
    static float x[R * C], r[R * C];
    for (int i = 0; i < R * C; i++) x[i] = (float)i;
    run_fusion(tuple(neg, e), 1, (const td_shape_t *[]){m, m, cm}, 3, (void *[]){x, x, r}, (const uint32_t[]){0, 0, 1});
    for (int i = 0; i < R * C; i++) {
        ck_assert(x[i] == (float)-i);
        ck_assert(r[i] == 2 * (float)(i % R * C + i / R));
    }
}
END_TEST

/* tuple(p1, p0) over the operands' own memory: a swap. */
START_TEST(swap) {
    const td_shape_t *m = shape(TD_S32, 1, 3, 0, NULL);
    td_hlo_instr_t *a = param(0, m), *b = param(1, m);
    int32_t x[3] = {1, 2, 3}, y[3] = {4, 5, 6};
    run_fusion(tuple(b, a), 2, (const td_shape_t *[]){m, m, m, m}, 4, (void *[]){x, y, x, y}, (const uint32_t[]){0, 1, 0, 1});
    ck_assert(x[0] == 4 && x[2] == 6 && y[0] == 1 && y[2] == 3);
}
END_TEST

/* Two element-wise results; the second is an operand's own value, and the first lies over that operand. */
START_TEST(pass_through) {
    const td_shape_t *m = shape(TD_F32, 1, 1500, 0, NULL);
    td_hlo_instr_t *a = param(0, m), *neg = instr(TD_HLO_NEGATE, m, a, NULL), *cv = instr(TD_HLO_CONVERT, m, a, NULL);
    static float x[1500], r[1500];
    for (int i = 0; i < 1500; i++) x[i] = (float)i;
    run_fusion(tuple(neg, cv), 1, (const td_shape_t *[]){m, m, m}, 3, (void *[]){x, x, r}, (const uint32_t[]){0, 0, 1});
    for (int i = 0; i < 1500; i++) ck_assert(x[i] == (float)-i && r[i] == (float)i);
}
END_TEST

/* s4 in and out, packed; iota; a bitcast f32 -> s32 in the loop. */
START_TEST(packed_iota_bitcast) {
    const td_shape_t *s4 = shape(TD_S4, 1, 5, 0, NULL), *f = shape(TD_F32, 1, 5, 0, NULL), *s32 = shape(TD_S32, 1, 5, 0, NULL);
    td_hlo_instr_t *a = param(0, s4), *io = instr(TD_HLO_IOTA, s4, NULL, NULL), *sum = instr(TD_HLO_ADD, s4, a, io);
    io->dimensions = (td_ints_t){(const int64_t[]){0}, 1};
    td_hlo_instr_t *bits = instr(TD_HLO_BITCAST, s32, instr(TD_HLO_CONVERT, f, sum, NULL), NULL);
    uint8_t in[3] = {0x76, 0x8f, 0x01}, out[3]; /* 6 7 -1 -8 1 */
    int32_t r[5];
    run_fusion(tuple(sum, bits), 1, (const td_shape_t *[]){s4, s4, s32}, 3, (void *[]){in, out, r}, NULL);
    ck_assert(out[0] == 0x86 && out[1] == 0xb1 && out[2] == 0x05);
    const float want[5] = {6, -8, 1, -5, 5};
    ck_assert(!memcmp(r, want, sizeof want));
}
END_TEST

/* dynamic-update-slice of an operand: over its own memory, into other memory, and beside a later reader of the operand. */
START_TEST(update_in_place) {
    if (!td_host_op_find(TD_HLO_DYNAMIC_UPDATE_SLICE)) return;
    for (int mode = 0; mode < 4; mode++) {
        n_list = 0;
        const td_shape_t *m = shape(TD_F32, 1, 2000, 0, NULL), *u = shape(TD_F32, 1, 3, 0, NULL), *i0 = shape(TD_S32, 0, 0, 0, NULL);
        td_hlo_instr_t *a = param(0, m), *b = param(1, u), *at = param(2, i0);
        td_hlo_instr_t *neg = instr(TD_HLO_NEGATE, u, b, NULL), *d = instr(TD_HLO_DYNAMIC_UPDATE_SLICE, m, a, neg);
        ((td_hlo_instr_t **)(uintptr_t)d->operands)[2] = at;
        d->n_operands = 3;
        td_hlo_instr_t *d2 = instr(TD_HLO_DYNAMIC_UPDATE_SLICE, m, d, b); /* a second one, elsewhere */
        ((td_hlo_instr_t **)(uintptr_t)d2->operands)[2] = instr(TD_HLO_NOT, i0, at, NULL);
        d2->n_operands = 3;
        td_hlo_instr_t *tmp = list[n_list - 1]; /* operands before users */
        list[n_list - 1] = d2, list[n_list - 2] = tmp;
        d2->index = n_list - 1, tmp->index = n_list - 2;
        static float x[2000], r[2000], r2[2000];
        float w[3] = {7, 8, 9};
        int32_t start = 1500;
        for (int i = 0; i < 2000; i++) x[i] = (float)i;
        if (mode == 3) {
            td_hlo_instr_t *sum = instr(TD_HLO_ADD, m, a, d);
            run_fusion(tuple(d2, sum), 3, (const td_shape_t *[]){m, u, i0, m, m}, 5, (void *[]){x, w, &start, x, r2}, (const uint32_t[]){0, 1, 2, 0, 3});
        } else {
            run_fusion(mode == 2 ? d : d2, 3, (const td_shape_t *[]){m, u, i0, m}, 4, (void *[]){x, w, &start, mode ? x : r}, (const uint32_t[]){0, 1, 2, mode ? 0 : 3});
        }
        const float *got = mode ? x : r;
        for (int i = 0; i < 2000; i++) {
            float e = i >= 1500 && i < 1503 ? -w[i - 1500] : (float)i;
            ck_assert(got[i] == (i < 3 && mode != 2 ? w[i] : e));
            if (mode == 3) ck_assert(r2[i] == (float)i + e);
        }
    }
}
END_TEST

START_TEST(unknown_is_named) {
    const td_shape_t *f = shape(TD_F32, 1, 4, 0, NULL);
    td_hlo_instr_t *a = param(0, f), outer = *a, *ops[1] = {&outer};
    td_hlo_instr_t call = {.opcode = TD_HLO_CUSTOM_CALL, .name = "cc.1", .shape = f, .operands = ops, .n_operands = 1, .custom_call_target = "odd"};
    td_kernel_arg_t args[2] = {{.size = 16}, {.size = 16, .allocation = 1}};
    td_kernel_desc_t d = {.instr = &call, .args = args, .n_args = 2};
    td_kernel_t *k;
    uint64_t scratch;
    td_err_t err;
    ck_assert_int_eq(dev->ops->kernel_lower(dev, &d, &arena, &k, &scratch, &err), TD_UNSUPPORTED);
    ck_assert(strstr(err.text, "cc.1") && strstr(err.text, "odd"));
}
END_TEST

START_TEST(gemm) {
    float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 2, 0, 1, -3}, c[4] = {1, 1, 1, 1}, d[4], bias[2] = {10, 20};
    uint16_t h[6], o[4];
    td_convert_array(TD_F32, a, TD_BF16, h, 6);
    td_gemm_desc_t g = {.a = {TD_F32, false, 2, 3, 3, 1, 0}, .b = {TD_F32, true, 3, 2, 3, 1, 0}, .c = {TD_F32, false, 2, 2, 2, 1, 0},
                        .d = {TD_F32, false, 2, 2, 2, 1, 0}, .alpha_real = 2, .beta = 1, .has_bias = true, .epilogue = TD_EPI_BIAS_RELU};
    for (int pass = 0; pass < 2; pass++) {
        td_kernel_t *k;
        uint64_t size;
        td_stream_t *s;
        ck_assert(!dev->ops->stream_create(dev, TD_STREAM_MAIN, &s, NULL));
        if (pass) g.a.type = TD_BF16, g.d.type = TD_BF16, g.has_bias = false, g.epilogue = TD_EPI_NONE;
        ck_assert(!dev->ops->library_lower(dev, TD_OP_GEMM, &g, &arena, &k, &size, NULL));
        void *mem = aligned_alloc(64, size);
        ck_assert(!dev->ops->launch(s, k, (void *[]){pass ? (void *)h : a, b, c, pass ? (void *)o : d, bias}, 5, mem, NULL));
        free(mem);
        dev->ops->stream_destroy(s);
        if (pass) td_convert_array(TD_BF16, o, TD_F32, d, 4);
        const float want[2][4] = {{25, 7, 43, 0}, {15, -13, 33, -25}};
        for (int i = 0; i < 4; i++) ck_assert_msg(d[i] == want[pass][i], "%d: %g", i, (double)d[i]);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("host_compile");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, multiply_add_broadcast);
    tcase_add_test(t, in_place_beside_a_relayout);
    tcase_add_test(t, swap);
    tcase_add_test(t, pass_through);
    tcase_add_test(t, packed_iota_bitcast);
    tcase_add_test(t, update_in_place);
    tcase_add_test(t, unknown_is_named);
    tcase_add_test(t, gemm);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
