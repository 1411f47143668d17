/* SPDX-License-Identifier: Apache-2.0 */
/* ModelInferRequest's decoder on whole, cut and damaged messages. */
#include "daemon/infer_codec.c"
#include "proto/pb.h"

#include <check.h>

static td_device_t *device;
static td_store_t *store;
static float image[64];

static void setup(void) {
    td_err_t err = {0};
    ck_assert_msg(td_host_device_create(td_alloc_default(), &device, &err) == TD_OK, "%s", err.text);
    td_store_opts_t o = {.dir = "samples/store", .device = device};
    ck_assert_msg(td_store_open(&o, &store, &err) == TD_OK, "%s", err.text);
    for (int i = 0; i < 64; i++) image[i] = (float)i;
}

static void teardown(void) {
    td_store_close(store);
    td_device_destroy(device);
}

static td_pb_t request(const char *id) {
    static const int64_t dims[] = {1, 8, 8};
    td_pb_t r = {0}, t = {0};
    td_pb_string(&t, 1, "image");
    td_pb_string(&t, 2, "FP32");
    td_pb_packed_i64(&t, 3, dims, 3);
    td_pb_string(&r, 1, "digits");
    td_pb_string(&r, 3, id);
    td_pb_message(&r, 5, &t);
    td_pb_bytes(&r, 7, image, sizeof image);
    return r;
}

/* The bytes in a block of their own size, so that a sanitizer sees every read beyond. */
static td_status_t decode(const uint8_t *p, size_t n, bool right) {
    td_err_t err = {0};
    td_infer_msg_t m;
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, p, n);
    td_status_t s = td_infer_decode(store, (td_span_t){copy, n}, &m, &err);
    if (s == TD_OK) {
        ck_assert_uint_eq((uintptr_t)m.inputs[0] % 16, 0);
        ck_assert_uint_eq(m.n_outputs, 1);
        if (right) ck_assert_mem_eq(m.inputs[0], image, sizeof image);
    } else {
        ck_assert_uint_gt(strlen(err.text), 0);
    }
    td_infer_msg_free(&m);
    free(copy);
    return s;
}

START_TEST(any_alignment) {
    char id[17] = "";
    for (int n = 0; n < 16; n++) {
        td_pb_t r = request(id);
        ck_assert_int_eq(decode(r.data, r.size, true), TD_OK);
        td_pb_free(&r);
        id[n] = 'i'; /* ends in 0 */
    }
}
END_TEST

START_TEST(cut_anywhere) {
    td_pb_t r = request("x");
    for (size_t n = 0; n < r.size; n++) ck_assert_int_ne(decode(r.data, n, false), TD_OK);
    td_pb_free(&r);
}
END_TEST

START_TEST(every_byte_damaged) {
    td_pb_t r = request("x");
    for (size_t i = 0; i < r.size && i < 60; i++)
        for (int v = 0; v < 256; v++) {
            uint8_t old = r.data[i];
            r.data[i] = (uint8_t)v;
            td_status_t s = decode(r.data, r.size, false);
            ck_assert(s == TD_OK || s == TD_MALFORMED || s == TD_MISMATCH || s == TD_NOTFOUND);
            r.data[i] = old;
        }
    ck_assert_int_eq(decode(r.data, r.size, true), TD_OK);
    td_pb_free(&r);
}
END_TEST

int main(void) {
    Suite *s = suite_create("infer_codec");
    TCase *t = tcase_create("infer_codec");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, any_alignment);
    tcase_add_test(t, cut_anywhere);
    tcase_add_test(t, every_byte_damaged);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
