/* SPDX-License-Identifier: Apache-2.0 */
/* ModelInferRequest's decoder on whole, cut and damaged messages; the answer's encoder. */
#include "daemon/infer_codec.c"
#include "daemon/infer_peek.c"
#include "daemon/infer_typed.c"
#include "daemon/memory.c"
#include "proto/pb.h"

#include <check.h>

static float image[64];

/* ---- models without a store ---- */
static const int64_t fixed_dims[] = {1, 8, 8};
static const td_tensor_info_t digits_in = {"image", "FP32", TD_F32, 3, fixed_dims, fixed_dims, 256};
static const td_tensor_info_t digits_out = {"probabilities", "FP32", TD_F32, 3, fixed_dims, fixed_dims, 256};
static const td_model_info_t digits = {.name = "digits", .version = "1", .inputs = &digits_in, .outputs = &digits_out,
                                       .n_inputs = 1, .n_outputs = 1, .n_buckets = 1};

static const int64_t open_dims[] = {-1, 4}, open_max[] = {8, 4}, flag_dims[] = {2};
static const td_tensor_info_t open_in[] = {{"x", "INT32", TD_S32, 2, open_dims, open_max, 128},
                                           {"on", "BOOL", TD_PRED, 1, flag_dims, flag_dims, 2}};
static const td_tensor_info_t open_state = {"cache", "INT32", TD_S32, 2, open_max, open_max, 128};
static const td_model_info_t steps = {.name = "steps", .version = "2", .inputs = open_in, .outputs = open_in,
                                      .states = &open_state, .n_inputs = 2, .n_outputs = 2, .n_states = 1,
                                      .n_buckets = 2};

struct td_run_slot {
    int64_t dims[2];
    int32_t x[12];
    uint8_t on[2];
};

td_run_tensor_t td_run_slot_output(const td_run_slot_t *s, uint32_t i, uint64_t *out_bytes) {
    *out_bytes = i ? sizeof s->on : sizeof s->x;
    return i ? (td_run_tensor_t){s->on, NULL} : (td_run_tensor_t){s->x, s->dims};
}

static void setup(void) {
    for (int i = 0; i < 64; i++) image[i] = (float)i;
}

static void put_tensor(td_pb_t *r, const char *name, const char *type, const int64_t *dims, uint32_t rank) {
    td_pb_t t = {0};
    td_pb_string(&t, 1, name);
    td_pb_string(&t, 2, type);
    td_pb_packed_i64(&t, 3, dims, rank);
    td_pb_message(r, 5, &t);
}

static td_pb_t request(const char *id) {
    td_pb_t r = {0};
    td_pb_string(&r, 1, "digits");
    td_pb_string(&r, 3, id);
    put_tensor(&r, "image", "FP32", fixed_dims, 3);
    td_pb_bytes(&r, 7, image, sizeof image);
    return r;
}

/* The bytes in a block of their own size, so that a sanitizer sees every read beyond. */
static td_status_t decode(const uint8_t *p, size_t n, bool right) {
    td_err_t err = {0};
    td_infer_msg_t m;
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, p, n);
    td_status_t s = td_infer_decode(&digits, NULL, (td_span_t){copy, n}, NULL, &m, &err);
    if (s == TD_OK) {
        ck_assert_uint_eq((uintptr_t)m.inputs[0].data % 16, 0);
        ck_assert_ptr_null(m.inputs[0].dims);
        ck_assert_uint_eq(m.n_outputs, 1);
        ck_assert_uint_eq(td_infer_output_bytes(&m, NULL), 256);
        if (right) ck_assert_mem_eq(m.inputs[0].data, image, sizeof image);
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
    td_infer_head_t head;
    for (size_t i = 0; i < r.size && i < 60; i++)
        for (int v = 0; v < 256; v++) {
            uint8_t old = r.data[i];
            r.data[i] = (uint8_t)v;
            td_status_t s = decode(r.data, r.size, false);
            ck_assert(s == TD_OK || s == TD_MALFORMED || s == TD_MISMATCH);
            s = td_infer_peek((td_span_t){r.data, r.size}, &head, NULL);
            ck_assert(s == TD_OK || s == TD_MALFORMED || s == TD_NOTFOUND || s == TD_USAGE);
            r.data[i] = old;
        }
    ck_assert_int_eq(decode(r.data, r.size, true), TD_OK);
    td_pb_free(&r);
}
END_TEST

/* ---- dims that differ between buckets, state ---- */
typedef struct step {
    int64_t rows;
    bool state, start;
    td_status_t status;
    const char *said;
} step_t;

static const step_t step_cases[] = {
    {3, false, false, TD_OK, ""},
    {8, false, false, TD_OK, ""},
    {0, false, false, TD_OK, ""},
    {9, false, false, TD_MISMATCH, "expected shape [-1,4], at most [8,4], got [9,4]"},
    {-1, false, false, TD_MISMATCH, "got [-1,4]"},
    {INT64_MIN, false, false, TD_MISMATCH, "got [-92"},
    {1ll << 62, false, false, TD_MISMATCH, "got [46"},
    {3, true, true, TD_OK, ""},
    {3, true, false, TD_MISMATCH, "'cache' is state: it can be given only with sequence_start"},
};

static td_pb_t step_request(const step_t *c, const int32_t *x, const int32_t *cache) {
    static const uint8_t on[] = {7, 0};
    const int64_t dims[] = {c->rows, 4};
    td_pb_t r = {0};
    if (c->state) put_tensor(&r, "cache", "INT32", open_max, 2);
    put_tensor(&r, "on", "BOOL", flag_dims, 1);
    put_tensor(&r, "x", "INT32", dims, 2);
    if (c->state) td_pb_bytes(&r, 7, cache, 128);
    td_pb_bytes(&r, 7, on, 2);
    td_pb_bytes(&r, 7, x, c->rows > 0 && c->rows < 9 ? (size_t)c->rows * 16 : 0);
    return r;
}

START_TEST(open_shapes_and_state) {
    const step_t *c = &step_cases[_i];
    td_infer_head_t head = {.sequence_start = c->start};
    int32_t x[32], cache[32];
    for (int i = 0; i < 32; i++) x[i] = i, cache[i] = -i;
    td_pb_t r = step_request(c, x, cache);
    td_infer_msg_t m;
    td_err_t err = {0};
    td_status_t s = td_infer_decode(&steps, &head, (td_span_t){r.data, r.size}, NULL, &m, &err);
    ck_assert_int_eq(s, c->status);
    ck_assert_msg(strstr(err.text, c->said), "%s", err.text);
    if (s == TD_OK) {
        ck_assert_int_eq(m.inputs[0].dims[0], c->rows);
        ck_assert_int_eq(m.inputs[0].dims[1], 4);
        ck_assert_mem_eq(m.inputs[0].data, x, (size_t)c->rows * 16);
        ck_assert_mem_eq(m.inputs[1].data, "\1\0", 2); /* normalised */
        ck_assert_int_eq(m.has_states, c->state);
        if (c->state) ck_assert_mem_eq(m.states[0].data, cache, 128);
        else ck_assert_ptr_null(m.states[0].data);
    }
    td_infer_msg_free(&m);
    td_pb_free(&r);
}
END_TEST

START_TEST(open_shape_typed) {
    const int64_t dims[] = {1, 4}, values[] = {5, -6, 7, 8};
    td_pb_t r = {0}, t = {0}, c = {0};
    td_pb_packed_i64(&c, 2, values, 4);
    td_pb_string(&t, 1, "x");
    td_pb_string(&t, 2, "INT32");
    td_pb_packed_i64(&t, 3, dims, 2);
    td_pb_message(&t, 5, &c);
    td_pb_message(&r, 5, &t);
    td_infer_msg_t m;
    td_err_t err = {0};
    ck_assert_int_eq(td_infer_decode(&steps, NULL, (td_span_t){r.data, r.size}, NULL, &m, &err), TD_MISMATCH);
    ck_assert_msg(strstr(err.text, "'on' is missing"), "%s", err.text); /* x has been taken */
    ck_assert_mem_eq(m.inputs[0].data, ((const int32_t[]){5, -6, 7, 8}), 16);
    td_infer_msg_free(&m);
    td_pb_free(&r);
}
END_TEST

/* A copy is charged before it is made, and given back. */
START_TEST(copies_within_the_budget) {
    td_err_t err = {0};
    td_budget_t *b = NULL;
    td_memory_t *memory = NULL;
    const uint64_t limit = TD_LIMIT_SMALL_BUFFERS_BYTES + 1000;
    ck_assert_int_eq(td_budget_create(&limit, 1, td_alloc_default(), &b, &err), TD_OK);
    ck_assert_int_eq(td_memory_create(b, 0, &memory, &err), TD_OK);
    td_pb_t r = request("x"), big = {.charge = td_memory_charge(memory)};
    uint8_t *copy = malloc(r.size + 1);
    memcpy(copy + 1, r.data, r.size);
    td_infer_msg_t m;
    for (int i = 0; i < 2; i++) { /* one of the two places is not aligned */
        memmove(copy + i, r.data, r.size);
        ck_assert_int_eq(td_infer_decode(&digits, NULL, (td_span_t){copy + i, r.size}, memory, &m, &err), TD_OK);
        ck_assert_uint_eq(td_account_bytes(memory->account), m.charged);
        td_infer_msg_free(&m);
        ck_assert_uint_eq(td_account_bytes(memory->account), 0);
    }
    /* What is large is refused with the numbers; what is small finds room set aside. */
    ck_assert(!td_pb_try(&big, 100000));
    td_pb_reserve(&big, 100000);
    ck_assert(big.refused);
    td_memory_refuse(memory, "the request", 100000, &err);
    ck_assert_msg(strstr(err.text, "100000 bytes of the request"), "%s", err.text);
    ck_assert_msg(strstr(err.text, "of 1049576 bytes 1048576"), "%s", err.text);
    td_pb_free(&big);
    big.charge = td_memory_charge(memory);
    td_pb_reserve(&big, 60000);
    ck_assert(!big.failed);
    ck_assert_uint_eq(memory->used, 60000);
    td_pb_free(&big);
    ck_assert_uint_eq(memory->used, 0);
    td_pb_free(&r);
    free(copy);
    td_memory_destroy(memory);
    td_budget_destroy(b);
}
END_TEST

/* ---- the answer ---- */
START_TEST(answer) {
    struct td_run_slot slot = {.dims = {3, 4}, .on = {1, 0}};
    for (int i = 0; i < 12; i++) slot.x[i] = 100 + i;
    uint32_t outputs[] = {1, 0};
    td_infer_msg_t m = {.info = &steps, .outputs = outputs, .n_outputs = 2, .id = {(const uint8_t *)"7", 1}};
    ck_assert_uint_eq(td_infer_output_bytes(&m, NULL), 130);
    ck_assert_uint_eq(td_infer_output_bytes(&m, &slot), 50);
    td_pb_t out = {0};
    td_infer_encode(&m, &slot, &out);
    ck_assert_uint_le(out.size, 50 + td_infer_other_bytes(&m));
    static const char head[] = "\x0a\x05steps\x12\x01" "2\x1a\x01" "7"
                               "\x2a\x0d\x0a\x02on\x12\x04" "BOOL\x1a\x01\x02"
                               "\x2a\x0e\x0a\x01x\x12\x05INT32\x1a\x02\x03\x04"
                               "\x32\x02\x01\x00\x32\x30";
    ck_assert_uint_eq(out.size, sizeof head - 1 + 48);
    ck_assert_mem_eq(out.data, head, sizeof head - 1);
    ck_assert_mem_eq(out.data + sizeof head - 1, slot.x, 48);
    td_pb_free(&out);
}
END_TEST

/* ---- the head ---- */
typedef struct parameter {
    const char *name;
    const char *value; /* an InferParameter's bytes */
    size_t size;
    td_status_t status;
    const char *sequence;
    bool start, end;
} parameter_t;

static const parameter_t parameters[] = {
    {"sequence_id", "\x10\x2a", 2, TD_OK, "42", false, false},
    {"sequence_id", "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, TD_OK, "-1", false, false},
    {"sequence_id", "\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, TD_OK, "18446744073709551615", false, false},
    {"sequence_id", "\x1a\x02" "ab", 4, TD_OK, "ab", false, false},
    {"sequence_id", "\x10\x00", 2, TD_OK, "", false, false},
    {"sequence_id", "\x1a\x00", 2, TD_OK, "", false, false},
    {"sequence_id", "\x1a\x03" "a\0b", 5, TD_USAGE, "", false, false},
    {"sequence_id", "\x1a\x40" "0123456789012345678901234567890123456789012345678901234567890123", 66, TD_USAGE, "",
     false, false},
    {"sequence_id", "\x1a\x3f" "012345678901234567890123456789012345678901234567890123456789012", 65, TD_OK,
     "012345678901234567890123456789012345678901234567890123456789012", false, false},
    {"sequence_id", "\x08\x01", 2, TD_USAGE, "", false, false},
    {"sequence_id", "", 0, TD_USAGE, "", false, false},
    {"sequence_id", "\xff", 1, TD_MALFORMED, "", false, false},
    {"sequence_start", "\x08\x01", 2, TD_OK, "", true, false},
    {"sequence_start", "\x08\x00", 2, TD_OK, "", false, false},
    {"sequence_start", "\x10\x01", 2, TD_USAGE, "", false, false},
    {"sequence_end", "\x08\x01", 2, TD_OK, "", false, true},
    {"sequence_end", "\x1a\x04true", 6, TD_USAGE, "", false, false},
    {"priority", "\x28\x01", 2, TD_OK, "", false, false},
    {"headers", "\xff", 1, TD_OK, "", false, false},
};

START_TEST(peek) {
    const parameter_t *c = &parameters[_i];
    td_pb_t r = {0}, p = {0};
    td_pb_string(&r, 1, "m");
    td_pb_string(&r, 2, "stable");
    td_pb_string(&p, 1, c->name);
    td_pb_bytes(&p, 2, c->value, c->size);
    td_pb_message(&r, 4, &p);
    td_pb_bytes(&r, 7, image, sizeof image);
    td_infer_head_t h;
    td_err_t err = {0};
    ck_assert_int_eq(td_infer_peek((td_span_t){r.data, r.size}, &h, &err), c->status);
    if (c->status == TD_OK) {
        ck_assert_str_eq(h.model, "m");
        ck_assert_str_eq(h.version, "stable");
        ck_assert_str_eq(h.sequence, c->sequence);
        ck_assert_int_eq(h.sequence_start, c->start);
        ck_assert_int_eq(h.sequence_end, c->end);
    } else {
        ck_assert_uint_gt(strlen(err.text), 0);
    }
    td_pb_free(&r);
}
END_TEST

START_TEST(peek_at_names) {
    char name[300];
    td_infer_head_t h;
    ck_assert_int_eq(td_infer_peek((td_span_t){NULL, 0}, &h, NULL), TD_OK);
    ck_assert_str_eq(h.model, "");
    memset(name, 'x', sizeof name);
    for (size_t n = 254; n < 258; n++) {
        td_pb_t r = {0};
        td_pb_bytes(&r, 1, name, n);
        ck_assert_int_eq(td_infer_peek((td_span_t){r.data, r.size}, &h, NULL), n < 256 ? TD_OK : TD_NOTFOUND);
        td_pb_free(&r);
    }
    ck_assert_int_eq(td_infer_peek((td_span_t){(const uint8_t *)"\x0a\x03" "a\0b", 5}, &h, NULL), TD_NOTFOUND);
}
END_TEST

int main(void) {
    Suite *s = suite_create("infer_codec");
    TCase *t = tcase_create("infer_codec");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, any_alignment);
    tcase_add_test(t, cut_anywhere);
    tcase_add_test(t, every_byte_damaged);
    tcase_add_loop_test(t, open_shapes_and_state, 0, sizeof step_cases / sizeof *step_cases);
    tcase_add_test(t, open_shape_typed);
    tcase_add_test(t, copies_within_the_budget);
    tcase_add_test(t, answer);
    tcase_add_loop_test(t, peek, 0, sizeof parameters / sizeof *parameters);
    tcase_add_test(t, peek_at_names);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
