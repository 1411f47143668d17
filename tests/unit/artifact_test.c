/* SPDX-License-Identifier: Apache-2.0 */
/* proto/: hashes, worked Riegeli files, envelopes, excise limits, and every artifact of the corpus. */
#include <check.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "executable.pb-c.h"
#include "proto/artifact.h"
#include "proto/excise.h"
#include "proto/pickle.h"
#include "proto/riegeli.h"
#include "proto/split.h"
#include "proto/wire.h"

static td_counting_alloc_t counter;
static td_payload_table_t *table;

static void setup(void) {
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert_int_eq(td_payload_table_create(&counter.base, &table, NULL), TD_OK);
}
static void teardown(void) {
    uint64_t n = 1, bytes = 1, refs = 1;
    td_payload_table_stats(table, &n, &bytes, &refs);
    ck_assert_uint_eq(n + bytes + refs, 0);
    td_payload_table_destroy(table);
    ck_assert_uint_eq(counter.live_bytes, 0);
}

/* HighwayHash-64 under Riegeli's key; values computed with the reference implementation. */
START_TEST(hash_vectors) {
    uint8_t seq[64];
    for (int i = 0; i < 64; i++) seq[i] = (uint8_t)i;
    ck_assert_uint_eq(td_riegeli_hash("", 0), 0x72c3b1e9c0139fe1u);
    ck_assert_uint_eq(td_riegeli_hash("a", 1), 0x24793c7da388949fu);
    ck_assert_uint_eq(td_riegeli_hash("abc", 3), 0x672fe946c18d0ed9u);
    ck_assert_uint_eq(td_riegeli_hash(seq, 31), 0x4d262a709c34ae7du);
    ck_assert_uint_eq(td_riegeli_hash(seq, 33), 0xec2f920014eaa741u);
    ck_assert_uint_eq(td_riegeli_hash(seq, 64), 0xe34b1e100f1322afu);
}
END_TEST

static const uint8_t signature[64] = {
    0x83, 0xaf, 0x70, 0xd1, 0x0d, 0x88, 0x4a, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0,
    0x91, 0xba, 0xc2, 0x3c, 0x92, 0x87, 0xe1, 0xa9, 0, 0, 0, 0, 0, 0, 0, 0, 0xe1, 0x9f, 0x13, 0xc0, 0xe9, 0xb1, 0xc3, 0x72, 0x73};

static void put64(uint8_t *p, uint64_t v) {
    memcpy(p, &v, 8);
}
/* One uncompressed chunk with the given records behind a signature; n below one block. */
static size_t riegeli_file(uint8_t *out, const td_span_t *rec, unsigned n) {
    uint8_t *data = out + 64 + 40;
    size_t k = 0, total = 0;
    uint8_t sizes[64];
    size_t ns = 0;
    for (unsigned i = 0; i < n; i++) ns += td_wire_put_varint(sizes + ns, rec[i].size), total += rec[i].size;
    data[k++] = 0;
    k += td_wire_put_varint(data + k, ns);
    memcpy(data + k, sizes, ns);
    k += ns;
    for (unsigned i = 0; i < n; i++) {
        memcpy(data + k, rec[i].data, rec[i].size);
        k += rec[i].size;
    }
    memset(out, 0, 64);
    memcpy(out, signature, 49);
    uint8_t *h = out + 64;
    put64(h + 8, k);
    put64(h + 16, td_riegeli_hash(data, k));
    put64(h + 24, (uint64_t)'r' | (uint64_t)n << 8);
    put64(h + 32, total);
    put64(h, td_riegeli_hash(h + 8, 32));
    return 64 + 40 + k;
}

static const char manifest_outer[] = "\x0a\x1dxla.ExecutableAndOptionsProto\x12\x08\x1a\x06\x0a\x02\x08\x01\x10\x01\x12\x02\x12\x00";
static size_t worked_file(uint8_t *out) {
    td_span_t r[3] = {{(const uint8_t *)manifest_outer, sizeof manifest_outer - 1}, {(const uint8_t *)"EXE", 3}, {(const uint8_t *)"\x1a\x01X", 3}};
    return riegeli_file(out, r, 3);
}

/* A split file's message, put together. */
typedef struct td_split {
    char type[TD_SPLIT_TYPE_MAX];
    td_buffer_t wire;
} td_split_t;
static td_status_t split_type(void *ctx, const char *name, td_err_t *err) {
    (void)err;
    strcpy(((td_split_t *)ctx)->type, name);
    return TD_OK;
}
static td_status_t split_part(void *ctx, uint32_t number, td_feed_t *bytes, td_err_t *err) {
    td_buffer_t *b = &((td_split_t *)ctx)->wire;
    uint8_t head[20];
    size_t n = td_wire_put_varint(head, (uint64_t)number << 3 | TD_WIRE_LEN);
    n += td_wire_put_varint(head + n, bytes->end);
    td_status_t s = number ? td_buffer_append(b, head, n, err) : TD_OK;
    return s == TD_OK ? td_buffer_append_feed(b, bytes, bytes->end, err) : s;
}
static td_status_t split_read(td_span_t file, td_split_t *out, td_err_t *err) {
    td_feed_t in;
    td_feed_env_t env = {.alloc = &counter.base};
    td_split_sink_t sink = {split_type, split_part, out};
    char compression;
    *out = (td_split_t){0};
    td_buffer_init(&out->wire, &counter.base);
    td_feed_memory(&in, file);
    return td_split_read(&in, &env, &sink, &compression, err);
}

/* The worked file of 160 bytes, header bytes given independently. */
START_TEST(worked_file_bytes) {
    uint8_t f[512];
    ck_assert_uint_eq(worked_file(f), 160);
    static const uint8_t head[24] = {0x00, 0x65, 0x34, 0xe2, 0x9c, 0x0f, 0x88, 0xcf, 0x38, 0, 0, 0, 0, 0, 0, 0,
                                     0x90, 0xfd, 0xc3, 0xf9, 0x53, 0xf6, 0x92, 0x9a};
    ck_assert_mem_eq(f + 64, head, sizeof head);
    td_split_t s;
    td_err_t err = {0};
    ck_assert_msg(split_read((td_span_t){f, 160}, &s, &err) == TD_OK, "%s", err.text);
    ck_assert_str_eq(s.type, "xla.ExecutableAndOptionsProto");
    ck_assert_uint_eq(s.wire.size, 8);
    ck_assert_mem_eq(s.wire.data, "\x0a\x03" "EXE\x1a\x01X", 8);
    td_buffer_deinit(&s.wire);
}
END_TEST

/* Every byte of the file but the signature's is under a hash or a check: any flip is an error. */
START_TEST(worked_file_flips) {
    uint8_t f[512];
    size_t n = worked_file(f);
    for (size_t i = 0; i < n; i++) {
        f[i] ^= 0x10;
        td_split_t s;
        td_err_t err = {0};
        ck_assert_int_ne(split_read((td_span_t){f, n}, &s, &err), TD_OK);
        td_buffer_deinit(&s.wire);
        f[i] ^= 0x10;
    }
    for (size_t i = 0; i < n; i++) {
        td_split_t s;
        ck_assert_int_ne(split_read((td_span_t){f, i}, &s, NULL), TD_OK);
        td_buffer_deinit(&s.wire);
    }
}
END_TEST

static td_status_t split_of(const char *manifest, size_t n, td_err_t *err) {
    uint8_t f[1024];
    td_span_t r[2] = {{(const uint8_t *)manifest, n}, {(const uint8_t *)"\x1a\x01X", 3}};
    size_t size = riegeli_file(f, r, 2);
    td_split_t s;
    td_status_t st = split_read((td_span_t){f, size}, &s, err);
    td_buffer_deinit(&s.wire);
    return st;
}
START_TEST(override_errors) {
    td_err_t err = {0};
    ck_assert_int_eq(split_of("\x0a\x01T\x12\x02\x1a\x00", 7, &err), TD_MALFORMED);                                 /* no path */
    ck_assert_int_eq(split_of("\x0a\x01T\x12\x0c\x1a\x0a\x0a\x02\x08\x01\x0a\x02\x08\x02\x10\x01", 17, &err), TD_UNSUPPORTED); /* two parts */
    ck_assert_int_eq(split_of("\x0a\x01T\x12\x06\x1a\x04\x0a\x02\x08\x01", 11, &err), TD_UNSUPPORTED);              /* type 0 */
    ck_assert_int_eq(split_of("\x0a\x01T\x12\x0a\x1a\x08\x0a\x04\x08\x01\x10\x01\x10\x01", 15, &err), TD_UNSUPPORTED); /* indexed */
    ck_assert_int_eq(split_of("\x0a\x01T\x12\x02\x12\x00\x12\x02\x12\x00", 11, &err), TD_MALFORMED);                /* a record missing */
    ck_assert_int_eq(split_of("\x12\x02\x12\x00", 4, &err), TD_MALFORMED);                                          /* no type */
    ck_assert_int_eq(split_of("\x0a\x01T\x12\x02\x2a\x00", 7, &err), TD_OK);                                        /* unknown kind is skipped */
}
END_TEST

static td_status_t unpack_module(td_span_t wire, size_t budget, td_err_t *err) {
    td_excise_t x;
    td_excise_init(&x, table, &counter.base);
    td_arena_t arena;
    td_arena_init(&arena, &counter.base, budget);
    ProtobufCMessage *m = NULL;
    td_status_t s = td_excise_unpack(&x, &xla__literal_proto__descriptor, wire, &arena, &m, err);
    td_arena_deinit(&arena);
    td_excise_deinit(&x);
    return s;
}

/* 100 KiB of nested tuple literals would overflow protobuf-c's stack. */
START_TEST(nesting_is_bounded) {
    enum { LEVELS = 25000 };
    uint8_t *b = malloc(LEVELS * 5), *p = b + LEVELS * 5;
    size_t len = 0;
    for (int i = 0; i < LEVELS; i++) { /* from the inside out: field 10, length */
        uint8_t head[12];
        size_t n = td_wire_put_varint(head, 10 << 3 | 2);
        n += td_wire_put_varint(head + n, len);
        p -= n;
        memcpy(p, head, n);
        len += n;
    }
    td_err_t err = {0};
    ck_assert_uint_gt(len, 90000);
    ck_assert_int_eq(unpack_module((td_span_t){p, len}, 0, &err), TD_LIMIT);
    ck_assert_ptr_nonnull(strstr(err.text, "deeper"));
    free(b);
}
END_TEST

/* Two bytes on the wire become a struct of hundreds: the arena's budget ends it. */
START_TEST(amplification_is_bounded) {
    enum { N = 500000 };
    uint8_t *b = malloc(N * 2);
    for (int i = 0; i < N; i++) b[2 * i] = 10 << 3 | 2, b[2 * i + 1] = 0;
    td_err_t err = {0};
    ck_assert_int_eq(unpack_module((td_span_t){b, N * 2}, 8 << 20, &err), TD_LIMIT);
    ck_assert_uint_lt(counter.peak_bytes, 32 << 20);
    free(b);
}
END_TEST

START_TEST(excise_errors) {
    td_err_t err = {0};
    uint8_t b[400];
    size_t n = td_wire_put_varint(b, (uint64_t)(TD_PAYLOAD_FIELD_BASE + 8) << 3);
    b[n++] = 0;
    ck_assert_int_eq(unpack_module((td_span_t){b, n}, 0, &err), TD_MALFORMED); /* our own field numbers from outside */
    ck_assert_int_eq(unpack_module((td_span_t){(const uint8_t *)"\x18\x01", 2}, 0, &err), TD_MALFORMED); /* u8s as varint */
    ck_assert_int_eq(unpack_module((td_span_t){(const uint8_t *)"\x0b\x0c", 2}, 0, &err), TD_MALFORMED); /* group */
    ck_assert_int_eq(unpack_module((td_span_t){(const uint8_t *)"\x0a\x05", 2}, 0, &err), TD_MALFORMED); /* length past the end */
    memset(b, 0, sizeof b); /* f32s in two packed pieces, the second large */
    b[0] = 0x42, b[1] = 4, b[6] = 0x42, b[7] = 100;
    ck_assert_int_eq(unpack_module((td_span_t){b, 108}, 0, &err), TD_MALFORMED);
    ck_assert_ptr_nonnull(strstr(err.text, "several pieces"));
}
END_TEST

/* Packed varints become native elements, equal values one payload. */
START_TEST(excise_moves_and_shares) {
    uint8_t b[400];
    size_t n = 0, count = 100;
    b[n++] = 4 << 3 | 2; /* s32s */
    b[n++] = (uint8_t)count;
    for (size_t i = 0; i < count; i++) b[n++] = (uint8_t)i;
    td_excise_t x;
    td_excise_init(&x, table, &counter.base);
    td_arena_t arena;
    td_arena_init(&arena, &counter.base, 0);
    for (int k = 0; k < 2; k++) {
        ProtobufCMessage *m = NULL;
        ck_assert_int_eq(td_excise_unpack(&x, &xla__literal_proto__descriptor, (td_span_t){b, n}, &arena, &m, NULL), TD_OK);
        const Xla__LiteralProto *l = (const Xla__LiteralProto *)m;
        ck_assert_uint_eq(l->n_s32s, 0);
        ck_assert_int_eq(l->has_s32s_payload, 1);
        ck_assert_uint_eq(l->s32s_payload, (uint32_t)k);
    }
    ck_assert_uint_eq(x.payloads[0]->bytes.size, 4 * count);
    int32_t v;
    memcpy(&v, x.payloads[0]->bytes.data + 4 * 77, 4);
    ck_assert_int_eq(v, 77);
    ck_assert_ptr_eq(x.payloads[0], x.payloads[1]);
    td_arena_deinit(&arena);
    td_excise_deinit(&x);
}
END_TEST

/* The executable's bytes; the whole pickle is walked. */
static td_status_t pickled(const char *pickle, size_t n, char *out, size_t *size, td_err_t *err) {
    td_feed_t in;
    td_pickle_t p;
    td_feed_memory(&in, (td_span_t){(const uint8_t *)pickle, n});
    td_status_t s = td_pickle_open(&p, &in, err);
    if (s != TD_OK) return s;
    *size = (size_t)p.object.s.end;
    if (*size <= 16) s = td_feed_get(&p.object.s, out, *size, err);
    return s == TD_OK ? td_pickle_end(&p, err) : s;
}
START_TEST(pickles_are_read_by_opcode) {
    char out[16];
    size_t size = 0;
    td_err_t err = {0};
    static const char good[] = "\x80\x04\x8c\x04" "exec\x94" "C\x03" "abc\x94\x86\x94Q.";
    ck_assert_int_eq(pickled(good, sizeof good - 1, out, &size, &err), TD_OK);
    ck_assert_uint_eq(size, 3);
    ck_assert_mem_eq(out, "abc", 3);
    for (size_t n = 0; n < sizeof good - 1; n++) ck_assert_int_ne(pickled(good, n, out, &size, &err), TD_OK);
    static const char other[] = "\x80\x04\x8c\x04" "client\x94.";
    ck_assert_int_ne(pickled(other, sizeof other - 1, out, &size, &err), TD_OK);
    static const char huge[] = "\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.";
    ck_assert_int_ne(pickled(huge, sizeof huge - 1, out, &size, &err), TD_OK);
    static const char two[] = "\x80\x04\x8c\x04" "exec\x94" "C\x01" "a\x8c\x04" "exec" "C\x01" "b.";
    ck_assert_int_eq(pickled(two, sizeof two - 1, out, &size, &err), TD_UNSUPPORTED);
}
END_TEST

START_TEST(corpus_opens) {
    const char *root = getenv("THUNKD_CORPUS");
    char pattern[4096];
    snprintf(pattern, sizeof pattern, "%s/*/*/*.*", root);
    glob_t g;
    ck_assert_int_eq(glob(pattern, 0, NULL, &g), 0);
    unsigned opened = 0;
    for (size_t i = 0; i < g.gl_pathc; i++) {
        if (strstr(g.gl_pathv[i], "/0.8.0/")) continue; /* holds another message; its own reader comes with it */
        td_artifact_t *a = NULL;
        td_err_t err = {0};
        ck_assert_msg(td_artifact_open_file(g.gl_pathv[i], table, &counter.base, &a, &err) == TD_OK, "%s", err.text);
        ck_assert_ptr_nonnull(a->exe->hlo_module_with_config);
        opened++;
        td_artifact_close(a);
    }
    globfree(&g);
    printf("%u artifacts opened\n", opened);
    ck_assert_uint_gt(opened, 100);
}
END_TEST

START_TEST(wrong_files) {
    td_artifact_t *a = NULL;
    td_err_t err = {0};
    ck_assert_int_eq(td_artifact_open_file("/nonexistent/x.aot", table, &counter.base, &a, &err), TD_NOTFOUND);
    ck_assert_int_eq(td_artifact_open_file("/", table, &counter.base, &a, &err), TD_IO);
    ck_assert_int_eq(td_artifact_open((td_span_t){(const uint8_t *)"hello", 5}, table, &counter.base, &a, &err), TD_MALFORMED);
    ck_assert_int_eq(td_artifact_open((td_span_t){NULL, 0}, table, &counter.base, &a, &err), TD_MALFORMED);
    ck_assert_ptr_null(a);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("artifact");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, hash_vectors);
    tcase_add_test(t, worked_file_bytes);
    tcase_add_test(t, worked_file_flips);
    tcase_add_test(t, override_errors);
    tcase_add_test(t, nesting_is_bounded);
    tcase_add_test(t, amplification_is_bounded);
    tcase_add_test(t, excise_errors);
    tcase_add_test(t, excise_moves_and_shares);
    tcase_add_test(t, pickles_are_read_by_opcode);
    tcase_add_test(t, wrong_files);
    if (getenv("THUNKD_CORPUS")) tcase_add_test(t, corpus_opens);
    else puts("THUNKD_CORPUS is unset: corpus test skipped");
    Suite *s = suite_create("artifact");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
