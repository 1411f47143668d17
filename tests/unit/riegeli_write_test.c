/* SPDX-License-Identifier: Apache-2.0 */
/* proto/riegeli_write: files of all compressions and awkward sizes, read back with the project's reader; exact bytes
 * of small files made by an independent writer (Python: struct, HighwayHash from its published description). */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "proto/codec.h"
#include "proto/highway.h"
#include "proto/riegeli.h"
#include "proto/riegeli_write.h"

static td_counting_alloc_t counter;
static uint8_t *noise; /* 1 MiB of bytes that do not compress */
enum { NOISE = 1 << 20 };

static void setup(void) {
    td_counting_alloc_init(&counter, td_alloc_default());
    noise = malloc(NOISE);
    uint32_t x = 1;
    for (size_t i = 0; i < NOISE; i++) noise[i] = (uint8_t)((x = x * 1664525u + 1013904223u) >> 24);
}
static void teardown(void) {
    free(noise);
    ck_assert_uint_eq(counter.live_bytes, 0);
}

START_TEST(hash_in_pieces) {
    for (size_t n = 0; n < 200; n++)
        for (size_t k = 0; k <= n; k += 7) {
            td_highway_t h;
            td_highway_init(&h);
            td_highway_add(&h, noise, k);
            td_highway_add(&h, noise + k, n - k);
            ck_assert_uint_eq(td_highway_end(&h), td_riegeli_hash(noise, n));
        }
}
END_TEST

/* Values of the reference implementation (google/highwayhash, HHStateT<HH_TARGET_Portable>): byte i is 7 i + i / 256,
 * the key is 0, 1, 2, ... 31. */
START_TEST(hash_of_256_bits) {
    static const uint64_t key[4] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u, 0x1716151413121110u, 0x1f1e1d1c1b1a1918u};
    static const struct { size_t n; uint64_t want[4]; } v[] = {
        {0, {0xdd44482ac2c874f5u, 0xd946017313c7351fu, 0xb3aebeccb98714ffu, 0x41da233145751df4u}},
        {1, {0xedb941bce45f8254u, 0xe20d44ef3dcac60fu, 0x72651b9bcb324a47u, 0x2073624cb275e484u}},
        {3, {0xfc06ee90903a95eau, 0xa5aa24aa66342abfu, 0x43a30812238b3084u, 0x839a507e759043d4u}},
        {16, {0xa8eff14370dd0818u, 0xa43821a5cda88148u, 0xc88bdc6e5c1edc1cu, 0xae7e4b7fc525a2cfu}},
        {31, {0x05d32607a9fed66du, 0xaebd397ff65d5660u, 0xee93386f66236c89u, 0x2f7a9d332a766586u}},
        {32, {0x1fb9bd781c918837u, 0xa9d23cf475371de8u, 0x866d4f8b3567c5b9u, 0xae7fd1b4416d785bu}},
        {33, {0x334ad31a66c71f04u, 0x7e1326379ef83b01u, 0x7fbca13a00507baeu, 0x6ec7004d6d90fc90u}},
        {64, {0x7253d4eb3367b4c1u, 0xd8c2a3f81263121fu, 0xc6367116cc6dd864u, 0x331e1ab8dd94be4du}},
        {127, {0x13abef5f8661fd85u, 0x663b35116dcfffd0u, 0x71445afc4bd5920cu, 0x401ad2be48f26e97u}},
        {128, {0x5fe37d569749a4f1u, 0xa5fe5da4d02e867fu, 0x579ef6bcbb992818u, 0xe14485d0c64dd4e7u}},
        {200, {0xef88950a39834f68u, 0xf23d2ab65a4d0059u, 0x8bdc1538dfe4bb4fu, 0x9476c481b65178adu}},
        {1000, {0x204837161a7d3c0fu, 0xc02e1d1fd5c8b447u, 0x603362e2ca392635u, 0xed163ed766919f93u}},
    };
    uint8_t bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        for (size_t k = 0; k <= v[i].n; k += 1 + k / 5) { /* in two pieces */
            td_highway_t h;
            uint64_t got[4];
            td_highway_init_key(&h, key);
            td_highway_add(&h, bytes, k);
            td_highway_add(&h, bytes + k, v[i].n - k);
            td_highway_end256(&h, got);
            ck_assert_msg(!memcmp(got, v[i].want, sizeof got), "%zu bytes", v[i].n);
        }
}
END_TEST

/* Memory that comes in pieces of a few bytes, and can be passed over. */
typedef struct chopped {
    td_feed_t s;
    const uint8_t *data;
    size_t step;
} chopped_t;
static td_status_t chopped_fill(td_feed_t *s, td_err_t *err) {
    chopped_t *c = (chopped_t *)(void *)s;
    uint64_t left = s->end - s->given;
    (void)err;
    s->at = c->data + s->given;
    s->left = left < c->step ? (size_t)left : c->step;
    return TD_OK;
}
static td_status_t chopped_skip(td_feed_t *s, uint64_t n, td_err_t *err) {
    (void)s, (void)n, (void)err;
    return TD_OK;
}

/* Reads all records in pieces of step bytes and compares them with the noise. skip: of every second record only the
 * first and the last byte are read, the rest is passed over. */
static void read_back(const uint8_t *file, size_t size, size_t step, bool skip, const size_t *sizes, size_t n, char method) {
    chopped_t in = {.s = {.end = size, .fill = chopped_fill, .skip = chopped_skip}, .data = file, .step = step};
    td_feed_env_t env = {.alloc = &counter.base, .skips = skip};
    td_records_t r;
    td_feed_t *rec = NULL;
    td_err_t err = {0};
    size_t seen = 0, at = 0;
    uint8_t *got = malloc(NOISE);
    td_records_open(&r, &in.s, &env);
    while (ck_assert_msg(td_records_next(&r, &rec, &err) == TD_OK, "%s", err.text), rec) {
        ck_assert_uint_lt(seen, n);
        size_t k = sizes[seen];
        ck_assert_uint_eq(rec->end, k);
        if (skip && (seen & 1) && k > 2) {
            ck_assert_int_eq(td_feed_get(rec, got, 1, &err), TD_OK);
            ck_assert_uint_eq(got[0], noise[at]);
            ck_assert_msg(td_feed_skip(rec, k - 2, &err) == TD_OK, "%s", err.text);
            ck_assert_msg(td_feed_get(rec, got, 1, &err) == TD_OK, "%s", err.text);
            ck_assert_uint_eq(got[0], noise[at + k - 1]);
        } else if (!skip || seen % 4 == 0) {
            ck_assert_msg(td_feed_get(rec, got, k, &err) == TD_OK, "%s", err.text);
            ck_assert(k == 0 || memcmp(got, noise + at, k) == 0);
        }
        at = (at + k) % (NOISE / 2);
        seen++;
    }
    ck_assert_uint_eq(seen, n);
    if (n) ck_assert_int_eq(r.compression, method);
    ck_assert(!env.far_reference);
    td_records_close(&r);
    free(got);
}

/* Writes records of these sizes, reads them back; returns the file's size. */
static size_t round_trip(td_compression_t c, uint64_t chunk_bytes, const size_t *sizes, size_t n) {
    td_err_t err = {0};
    td_rope_t file, rec;
    td_riegeli_writer_t w;
    td_rope_init(&file, &counter.base);
    td_riegeli_writer_init(&w, c, chunk_bytes, &file);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        td_rope_init_in(&rec, &file);
        size_t half = sizes[i] / 2; /* a record in two pieces */
        td_rope_ref(&rec, (td_span_t){noise + at, half});
        td_rope_copy(&rec, noise + at + half, sizes[i] - half);
        ck_assert_msg(td_riegeli_writer_add(&w, &rec, &err) == TD_OK, "%s", err.text);
        td_rope_deinit(&rec);
        at = (at + sizes[i]) % (NOISE / 2);
    }
    ck_assert_msg(td_riegeli_writer_end(&w, &err) == TD_OK, "%s", err.text);
    td_riegeli_writer_deinit(&w);
    uint8_t *flat = malloc(file.size);
    td_rope_gather(&file, flat);
    size_t size = (size_t)file.size;
    for (int skip = 0; skip < 2; skip++) {
        read_back(flat, size, size, skip, sizes, n, c.method);
        read_back(flat, size, 7919, skip, sizes, n, c.method);
    }
    free(flat);
    td_rope_deinit(&file);
    return size;
}

static const char *const compressions[] = {"none",    "snappy", "zstd",     "zstd:-3",
                                           "zstd:19", "brotli", "brotli:1", "brotli:11"};

START_TEST(all_compressions) {
    static const size_t sizes[] = {0, 1, 255, 256, 257, 65535, 65536, 65537, 0, 131072, 500000, 3};
    td_compression_t c = {0};
    ck_assert_int_eq(td_compression_parse(compressions[_i], &c, NULL), TD_OK);
    round_trip(c, 0, sizes, sizeof sizes / sizeof *sizes);
    round_trip(c, 1, sizes, sizeof sizes / sizeof *sizes); /* a chunk per record */
    round_trip(c, 0, sizes, 0);
}
END_TEST

/* Chunks that end on, before and behind every position around a block's end, and one longer than several blocks. */
START_TEST(block_edges) {
    td_compression_t none = {0};
    for (size_t n = 65536 - 64 - 24 - 40 - 40; n < 65536 - 64 - 24 + 90; n += 3) {
        size_t sizes[] = {n - 64, 5, 400, 200000, 1};
        round_trip(none, 1, sizes, 5);
    }
}
END_TEST

/* Records without bytes compress to less than one byte each: the chunk is padded to a byte per record. */
START_TEST(padding) {
    static size_t sizes[140000];
    td_compression_t c = {0};
    ck_assert_int_eq(td_compression_parse("zstd", &c, NULL), TD_OK);
    for (size_t n = 65404; n < 65504; n += 17) ck_assert_uint_ge(round_trip(c, 1 << 24, sizes, n), 64 + n);
    size_t size = round_trip(c, 1 << 24, sizes, 140000);
    ck_assert_uint_ge(size, 64 + 140000);
    ck_assert_uint_lt(size, 64 + 140000 + 200);
}
END_TEST

/* The worked file of artifact_test: an outer split of three records, 160 bytes. */
START_TEST(worked_file) {
    static const char *const rec[] = {
        "\x0a\x1dxla.ExecutableAndOptionsProto\x12\x08\x1a\x06\x0a\x02\x08\x01\x10\x01\x12\x02\x12", "EXE",
        "\x1a\x01X"};
    static const size_t len[] = {45, 3, 3}; /* the manifest's last byte is the literal's NUL */
    static const uint8_t head[24] = {0x00, 0x65, 0x34, 0xe2, 0x9c, 0x0f, 0x88, 0xcf, 0x38, 0,    0,    0,
                                     0,    0,    0,    0,    0x90, 0xfd, 0xc3, 0xf9, 0x53, 0xf6, 0x92, 0x9a};
    td_rope_t file, r;
    td_riegeli_writer_t w;
    td_rope_init(&file, &counter.base);
    td_riegeli_writer_init(&w, (td_compression_t){0}, 0, &file);
    for (int i = 0; i < 3; i++) {
        td_rope_init_in(&r, &file);
        td_rope_copy(&r, rec[i], len[i]);
        ck_assert_int_eq(td_riegeli_writer_add(&w, &r, NULL), TD_OK);
        td_rope_deinit(&r);
    }
    ck_assert_int_eq(td_riegeli_writer_end(&w, NULL), TD_OK);
    td_riegeli_writer_deinit(&w);
    ck_assert_uint_eq(file.size, 160);
    uint8_t flat[160];
    td_rope_gather(&file, flat);
    ck_assert_mem_eq(flat + 64, head, sizeof head);
    td_rope_deinit(&file);
}
END_TEST

/* Uncompressed values stay references: memory does not grow with the record. */
START_TEST(no_second_copy) {
    td_rope_t file, r;
    td_riegeli_writer_t w;
    td_rope_init(&file, &counter.base);
    td_riegeli_writer_init(&w, (td_compression_t){0}, 0, &file);
    td_rope_init_in(&r, &file);
    td_rope_ref(&r, (td_span_t){noise, NOISE});
    ck_assert_int_eq(td_riegeli_writer_add(&w, &r, NULL), TD_OK);
    ck_assert_int_eq(td_riegeli_writer_end(&w, NULL), TD_OK);
    ck_assert_uint_gt(file.size, NOISE);
    ck_assert_uint_lt(counter.peak_bytes, NOISE / 4);
    td_rope_deinit(&r);
    td_riegeli_writer_deinit(&w);
    td_rope_deinit(&file);
}
END_TEST

/* Every allocation that fails gives TD_NOMEM, and nothing leaks. */
START_TEST(out_of_memory) {
    td_compression_t c = {.method = 'z', .level = 3};
    td_status_t s = TD_NOMEM;
    for (unsigned k = 1; s != TD_OK; k++) {
        ck_assert_uint_lt(k, 200);
        td_rope_t file, r;
        td_riegeli_writer_t w;
        counter.fail_at = counter.gets + k;
        td_rope_init(&file, &counter.base);
        td_riegeli_writer_init(&w, c, 0, &file);
        td_rope_init_in(&r, &file);
        td_rope_copy(&r, noise, 70000);
        s = td_riegeli_writer_add(&w, &r, NULL);
        if (s == TD_OK) s = td_riegeli_writer_end(&w, NULL);
        ck_assert(s == TD_OK || s == TD_NOMEM);
        td_rope_deinit(&r);
        td_riegeli_writer_deinit(&w);
        td_rope_deinit(&file);
        ck_assert_uint_eq(counter.live_bytes, 0);
    }
    counter.fail_at = 0;
}
END_TEST

START_TEST(compression_words) {
    static const char *const bad[] = {"",          "lz4",     "snappy:1", "none:0", "brotli:", "brotli:12",
                                      "brotli:-1", "zstd:23", "zstd:3x",  "zst",    "zstdd"};
    td_compression_t c = {.method = '?', .level = 99};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(td_compression_parse(bad[i], &c, NULL), TD_USAGE);
        ck_assert_int_eq(c.method, '?');
    }
    ck_assert_int_eq(td_compression_parse("brotli:9", &c, NULL), TD_OK);
    ck_assert_int_eq(c.method, 'b');
    ck_assert_int_eq(c.level, 9);
    ck_assert_int_eq(td_compression_parse("none", &c, NULL), TD_OK);
    ck_assert_int_eq(c.method, 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("riegeli_write");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, hash_in_pieces);
    tcase_add_test(t, hash_of_256_bits);
    tcase_add_loop_test(t, all_compressions, 0, (int)(sizeof compressions / sizeof *compressions));
    tcase_add_test(t, block_edges);
    tcase_add_test(t, padding);
    tcase_add_test(t, worked_file);
    tcase_add_test(t, no_second_copy);
    tcase_add_test(t, out_of_memory);
    tcase_add_test(t, compression_words);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
