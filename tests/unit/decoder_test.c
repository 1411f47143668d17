/* SPDX-License-Identifier: Apache-2.0 */
/* Decompression as streams: snappy against the library, damaged and cut streams of all methods, blocks that refer back
 * further than anything known does, and skips. */
#include <brotli/encode.h>
#include <check.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "executable.pb-c.h"
#include "proto/artifact.h"
#include "proto/codec.h"
#include "proto/riegeli.h"
#include "proto/wire.h"

enum { SIZE = 700000 };

static td_counting_alloc_t counter;
static uint8_t *plain, *packed, *got;

/* Noise, runs, and copies of what came before at all distances. */
static void setup(void) {
    td_counting_alloc_init(&counter, td_alloc_default());
    plain = malloc(SIZE);
    packed = malloc(2 * SIZE);
    got = malloc(2 * SIZE);
    uint64_t x = 99;
    for (size_t at = 0; at < SIZE;) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        size_t n = 1 + (x >> 8) % ((x & 7) == 0 ? 100000 : 300), back = 1 + (x >> 32) % 70000;
        if (n > SIZE - at) n = SIZE - at;
        for (size_t i = 0; i < n; i++, at++) {
            if (x & 16 && back <= at) plain[at] = plain[at - back];
            else if (x & 32) plain[at] = (uint8_t)x;
            else plain[at] = (uint8_t)((at * 2654435761u + x) >> 24);
        }
    }
}
static void teardown(void) {
    ck_assert_uint_eq(counter.live_bytes, 0);
    free(plain);
    free(packed);
    free(got);
}

static size_t pack(char method, size_t n) {
    size_t size = 2 * SIZE;
    uLongf z = size;
    switch (method) {
    case 's': snappy_compress((const char *)plain, n, (char *)packed, &size); break;
    case 'z': size = ZSTD_compress(packed, size, plain, n, 1); break;
    case 'b': BrotliEncoderCompress(2, 22, BROTLI_MODE_GENERIC, n, plain, &size, packed); break;
    default: ck_assert_int_eq(compress2(packed, &z, plain, n, 1), Z_OK); size = z;
    }
    return size;
}

/* Memory in pieces. */
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

/* Unpacks `packed` into got; n bytes are expected. */
static td_status_t unpack(char method, size_t size, size_t step, size_t n, td_feed_env_t *env, td_err_t *err) {
    chopped_t in = {.s = {.end = size, .fill = chopped_fill, .skip = chopped_skip}, .data = packed, .step = step};
    td_decoder_t d = {0};
    env->alloc = &counter.base;
    td_status_t s = td_decoder_open(&d, method, &in.s, n, true, env, err);
    if (s == TD_OK) s = td_feed_get(&d.s, got, n, err);
    if (s == TD_OK) s = td_decoder_end(&d, err);
    td_decoder_close(&d);
    return s;
}

static const char methods[] = {'s', 'z', 'b', 'd'};
static const size_t sizes[] = {0, 1, 60, 61, 65535, 65536, 65537, 200000, SIZE};

START_TEST(whole_streams) {
    static const size_t steps[] = {1, 5, 4096, 65537, 2 * SIZE};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i], size = pack(methods[_i], n);
        for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
            td_err_t err = {0};
            td_feed_env_t env = {.keep = TD_KEEP_FRAGMENT};
            ck_assert_msg(unpack(methods[_i], size, steps[k], n, &env, &err) == TD_OK, "%s", err.text);
            ck_assert(n == 0 || memcmp(got, plain, n) == 0);
            ck_assert_int_eq(unpack(methods[_i], size, steps[k], n + 1, &env, &err), TD_MALFORMED);
            if (n) ck_assert_int_eq(unpack(methods[_i], size, steps[k], n - 1, &env, &err), TD_MALFORMED);
            packed[size] = 0;
            ck_assert_int_eq(unpack(methods[_i], size + 1, steps[k], n, &env, &err), TD_MALFORMED); /* one more */
        }
    }
}
END_TEST

START_TEST(cut_streams) {
    enum { CUT_SIZE = 70000 };
    size_t size = pack(methods[_i], CUT_SIZE);
    for (size_t cut = 0; cut < size; cut += 1 + cut / 50) {
        td_err_t err = {0};
        td_feed_env_t env = {.keep = TD_KEEP_FRAGMENT};
        ck_assert_int_eq(unpack(methods[_i], cut, 1000, CUT_SIZE, &env, &err), TD_MALFORMED);
        ck_assert(err.text[0]);
    }
}
END_TEST

/* A damaged snappy block is refused or read exactly as the library does it. */
START_TEST(flipped_snappy) {
    enum { FLIPS = 3000, FLIP_SIZE = 200000 };
    size_t size = pack('s', FLIP_SIZE), accepted = 0;
    uint8_t *want = malloc(FLIP_SIZE);
    uint64_t x = 4711;
    for (int i = 0; i < FLIPS; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        size_t at = x % (i & 1 ? 200 : size), n = FLIP_SIZE;
        uint8_t was = packed[at];
        packed[at] ^= (uint8_t)(1 + (x >> 40) % 255);
        td_feed_env_t env = {.keep = TD_KEEP_ALL};
        bool theirs = snappy_uncompress((const char *)packed, size, (char *)want, &n) == SNAPPY_OK && n == FLIP_SIZE;
        bool ours = unpack('s', size, 1 + (x >> 20) % 70000, FLIP_SIZE, &env, NULL) == TD_OK;
        ck_assert_msg(theirs == ours, "flip %d at %zu: library %d, stream %d", i, at, theirs, ours);
        if (ours) ck_assert(memcmp(got, want, FLIP_SIZE) == 0), accepted++;
        packed[at] = was;
    }
    ck_assert_uint_gt(accepted, 100);
    free(want);
}
END_TEST

/* Any two reads with a skip between give what they should, or say that something is referred to that was skipped;
 * with whole fragments kept they never do. */
START_TEST(skips) {
    size_t size = pack(methods[_i], SIZE);
    uint64_t x = 5;
    unsigned far = 0;
    for (int i = 0; i < 400; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        td_feed_env_t env = {.alloc = &counter.base, .skips = true, .keep = i & 1 ? TD_KEEP_FRAGMENT : TD_KEEP_READ};
        chopped_t in = {.s = {.end = size, .fill = chopped_fill, .skip = chopped_skip}, .data = packed, .step = 9000};
        td_decoder_t d = {0};
        td_err_t err = {0};
        td_status_t s = td_decoder_open(&d, methods[_i], &in.s, SIZE, true, &env, &err);
        for (size_t at = 0; s == TD_OK && at < SIZE;) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            size_t read = (x >> 33) % 5000, skip = (x >> 17) % ((x & 1) ? 300000 : 30000);
            if (read > SIZE - at) read = SIZE - at;
            s = td_feed_get(&d.s, got, read, &err);
            if (s != TD_OK) break;
            ck_assert(read == 0 || memcmp(got, plain + at, read) == 0);
            at += read;
            if (skip > SIZE - at) skip = SIZE - at;
            s = td_feed_skip(&d.s, skip, &err);
            at += skip;
        }
        if (s != TD_OK) ck_assert_msg(env.far_reference && !(i & 1) && methods[_i] == 's', "%s", err.text);
        far += s != TD_OK;
        td_decoder_close(&d);
    }
    if (methods[_i] != 's') ck_assert_uint_eq(far, 0);
}
END_TEST

/* ---- a block that no known compressor writes ---- */

enum { HALF = 400000 }; /* the second half is copies of the first */

static size_t far_block(const uint8_t *head, size_t n_head, const uint8_t *tail, size_t n_tail) {
    uint64_t total = n_head + 2 * (uint64_t)HALF + n_tail;
    size_t k = td_wire_put_varint(packed, total);
    const uint8_t *parts[2] = {head, plain};
    size_t n[2] = {n_head, HALF};
    for (int p = 0; p < 2; p++)
        for (size_t at = 0, m; at < n[p]; at += m) {
            m = n[p] - at < 50000 ? n[p] - at : 50000;
            packed[k++] = 61 << 2;
            packed[k++] = (uint8_t)(m - 1);
            packed[k++] = (uint8_t)((m - 1) >> 8);
            memcpy(packed + k, parts[p] + at, m);
            k += m;
        }
    for (size_t at = 0, m; at < HALF; at += m) {
        uint32_t back = HALF;
        m = HALF - at < 64 ? HALF - at : 64;
        packed[k++] = (uint8_t)((m - 1) << 2 | 3);
        memcpy(packed + k, &back, 4);
        k += 4;
    }
    packed[k++] = (uint8_t)((n_tail - 1) << 2);
    memcpy(packed + k, tail, n_tail);
    return k + n_tail;
}

START_TEST(far_references) {
    td_feed_env_t env = {.keep = TD_KEEP_FRAGMENT};
    td_err_t err = {0};
    size_t size = far_block((const uint8_t *)"abc", 3, (const uint8_t *)"xyz", 3);
    ck_assert_int_eq(unpack('s', size, 10000, 2 * HALF + 6, &env, &err), TD_UNSUPPORTED);
    ck_assert(env.far_reference);
    env = (td_feed_env_t){.keep = TD_KEEP_ALL};
    ck_assert_msg(unpack('s', size, 10000, 2 * HALF + 6, &env, &err) == TD_OK, "%s", err.text);
    ck_assert(!memcmp(got + 3, plain, HALF) && !memcmp(got + 3 + HALF, plain, HALF));
    ck_assert(!memcmp(got + 3 + 2 * HALF, "xyz", 3));
    packed[size - 10 - 60] = 0xff; /* one distance is before the begin now */
    ck_assert_int_eq(unpack('s', size, 10000, 2 * HALF + 6, &env, &err), TD_MALFORMED);
}
END_TEST

static void put64(uint8_t *p, uint64_t v) {
    memcpy(p, &v, 8);
}

/* A Riegeli file of one chunk with these data. */
static size_t one_chunk(uint8_t *out, const uint8_t *data, size_t n, uint64_t records, uint64_t decoded) {
    static const uint8_t signature[64] = {0x83, 0xaf, 0x70, 0xd1, 0x0d, 0x88, 0x4a, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0,
                                          0x40, 0, 0, 0, 0, 0, 0, 0, 0x91, 0xba, 0xc2, 0x3c, 0x92, 0x87, 0xe1, 0xa9,
                                          0, 0, 0, 0, 0, 0, 0, 0, 0xe1, 0x9f, 0x13, 0xc0, 0xe9, 0xb1, 0xc3, 0x72, 0x73};
    uint8_t head[40];
    put64(head + 8, n);
    put64(head + 16, td_riegeli_hash(data, n));
    put64(head + 24, 'r' | records << 8);
    put64(head + 32, decoded);
    put64(head, td_riegeli_hash(head + 8, 32));
    memcpy(out, signature, 64);
    size_t pos = 64, len = 40 + n, end = 64 + len + 24 * ((len + 64 + 65511) / 65512 - 1);
    while ((end - 1) / 65536 * 24 + len + 64 != end) end++; /* a header for each further block */
    for (size_t i = 0; i < len; i++) {
        if (pos % 65536 == 0) {
            put64(out + pos + 8, pos - 64);
            put64(out + pos + 16, end - pos);
            put64(out + pos, td_riegeli_hash(out + pos + 8, 16));
            pos += 24;
        }
        out[pos++] = i < 40 ? head[i] : data[i - 40];
    }
    ck_assert_uint_eq(pos, end);
    return end;
}

/* A whole artifact in such a block is read all the same, at the second try. */
START_TEST(artifact_with_far_references) {
    static const uint8_t manifest[] = "\x0a\x1dxla.ExecutableAndOptionsProto\x12\x08\x1a\x06\x0a\x02\x08\x01\x10\x01";
    static const uint8_t tail[] = "\x22\x03" "bin"; /* binary */
    uint8_t record[64], head[64 + sizeof manifest], *data = malloc(2 * SIZE), *file = malloc(3 * SIZE);
    size_t n = 0, k = 0, body = 2 * HALF + sizeof tail - 1;
    memcpy(head, manifest, sizeof manifest - 1);
    record[n++] = 3 << 3 | 2; /* asm_text: two equal halves */
    n += td_wire_put_varint(record + n, 2 * HALF);
    memcpy(head + sizeof manifest - 1, record, n);
    size_t block = far_block(head, sizeof manifest - 1 + n, tail, sizeof tail - 1), n_sizes = 0;
    uint8_t sizes_plain[20], packed_sizes[40];
    size_t sizes_packed = sizeof packed_sizes;
    n_sizes = td_wire_put_varint(sizes_plain, sizeof manifest - 1);
    n_sizes += td_wire_put_varint(sizes_plain + n_sizes, n + body);
    snappy_compress((char *)sizes_plain, n_sizes, (char *)packed_sizes, &sizes_packed);
    uint8_t stated[10];
    size_t n_stated = td_wire_put_varint(stated, n_sizes);
    uint64_t decoded = sizeof manifest - 1 + n + body;
    data[k++] = 's';
    k += td_wire_put_varint(data + k, n_stated + sizes_packed);
    memcpy(data + k, stated, n_stated), k += n_stated;
    memcpy(data + k, packed_sizes, sizes_packed), k += sizes_packed;
    k += td_wire_put_varint(data + k, decoded);
    memcpy(data + k, packed, block), k += block;
    size_t size = one_chunk(file, data, k, 2, decoded);
    td_payload_table_t *table = NULL;
    td_artifact_t *a = NULL;
    td_err_t err = {0};
    ck_assert_int_eq(td_payload_table_create(&counter.base, &table, NULL), TD_OK);
    ck_assert_msg(td_artifact_open((td_span_t){file, size}, table, &counter.base, &a, &err) == TD_OK, "%s", err.text);
    ck_assert_uint_eq(a->n_payloads, 1);
    ck_assert_uint_eq(a->payloads[0]->bytes.size, 2 * HALF);
    ck_assert(!memcmp(a->payloads[0]->bytes.data + HALF, plain, HALF));
    ck_assert_uint_eq(a->exe->binary.len, 3);
    td_artifact_close(a);
    td_payload_table_destroy(table);
    free(data);
    free(file);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("decoder");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, whole_streams, 0, sizeof methods);
    tcase_add_loop_test(t, cut_streams, 0, sizeof methods);
    tcase_add_test(t, flipped_snappy);
    tcase_add_loop_test(t, skips, 0, sizeof methods);
    tcase_add_test(t, far_references);
    tcase_add_test(t, artifact_with_far_references);
    Suite *s = suite_create("decoder");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
