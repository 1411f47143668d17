/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of artifacts as streams share: a made artifact, a source that reads in odd steps, a budget. */
#ifndef TD_TESTS_FEED_CASE_H
#define TD_TESTS_FEED_CASE_H

#include <check.h>

#include "tests/bench/made.h"

enum { N = 3, M = 30000 }; /* three constants of 120,000 bytes */

static td_counting_alloc_t counter;
static td_payload_table_t *table;
static float *numbers[N];

/* A budget that counts, refuses, and is told when memory is taken: a moment in the middle of a load. */
static __attribute__((unused)) struct {
    uint64_t taken, takes, refuse_at;
    void (*on_take)(void);
} budget;
static inline bool take(void *ctx, uint64_t bytes) {
    (void)ctx;
    if (budget.on_take) budget.on_take();
    if (++budget.takes == budget.refuse_at) return false;
    budget.taken += bytes;
    return true;
}
static inline void give(void *ctx, uint64_t bytes) {
    (void)ctx;
    ck_assert_uint_ge(budget.taken, bytes);
    budget.taken -= bytes;
}
static const td_charge_t charge = {take, give, NULL};

static inline void setup(void) {
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert_int_eq(td_payload_table_create(&counter.base, &table, NULL), TD_OK);
    memset(&budget, 0, sizeof budget);
    for (uint64_t i = 0; i < N; i++) {
        numbers[i] = malloc(M * 4);
        made_fill(numbers[i], M, 7, i);
    }
}
static inline void nothing_left(void) {
    uint64_t n = 1, bytes = 1, refs = 1;
    td_payload_table_stats(table, &n, &bytes, &refs);
    ck_assert_uint_eq(n + bytes + refs, 0);
    ck_assert_uint_eq(budget.taken, 0);
}
static inline void teardown(void) {
    nothing_left();
    td_payload_table_destroy(table);
    ck_assert_uint_eq(counter.live_bytes, 0);
    for (int i = 0; i < N; i++) free(numbers[i]);
}

/* ---- files ---- */

typedef struct file {
    uint8_t *data;
    size_t size, cut, step; /* cut: reads give nothing from there on */
    uint64_t read_to;
} file_t;

static inline td_status_t file_read(void *ctx, uint64_t offset, void *dst, size_t size, size_t *got, td_err_t *err) {
    file_t *f = ctx;
    (void)err;
    size_t end = f->cut < f->size ? f->cut : f->size, k = offset < end ? end - (size_t)offset : 0;
    if (k > size) k = size;
    if (f->step && k > f->step) k = f->step;
    memcpy(dst, f->data + offset, k);
    if (offset + k > f->read_to) f->read_to = offset + k;
    *got = k;
    return TD_OK;
}

static inline file_t file_of(td_write_form_t form, const char *compression) {
    td_compression_t c = {0};
    td_rope_t rope;
    td_err_t err = {0};
    td_rope_init(&rope, td_alloc_default());
    ck_assert_int_eq(td_compression_parse(compression, &c, &err), TD_OK);
    ck_assert_msg(made_write("made", numbers, N, M, form, c, &rope, &err) == TD_OK, "%s", err.text);
    file_t f = {.data = malloc(rope.size), .size = (size_t)rope.size, .cut = SIZE_MAX};
    td_rope_gather(&rope, f.data);
    td_rope_deinit(&rope);
    return f;
}

static inline td_status_t open_with(file_t *f, td_artifact_opts_t o, td_artifact_t **a, td_err_t *err) {
    td_source_t source = {file_read, f, f->size};
    o.table = table;
    o.alloc = &counter.base;
    *a = NULL;
    f->read_to = 0;
    return td_artifact_open_source(&source, &o, a, err);
}

static inline const Xla__LiteralProto *literal(const td_artifact_t *a, unsigned i) {
    const Xla__HloComputationProto *c = a->exe->hlo_module_with_config->hlo_module->computations[0];
    for (size_t k = 0; k < c->n_instructions; k++)
        if (c->instructions[k]->literal && i-- == 0) return c->instructions[k]->literal;
    return NULL;
}

static inline void holds_numbers(const td_artifact_t *a) {
    ck_assert_uint_eq(a->n_payloads, N);
    ck_assert_uint_eq(a->exe->n_constants, N);
    for (unsigned i = 0; i < N; i++) {
        const Xla__LiteralProto *l = literal(a, i);
        ck_assert(l && l->has_f32s_payload);
        td_span_t b = a->payloads[l->f32s_payload]->bytes;
        ck_assert_uint_eq(b.size, M * 4);
        ck_assert(memcmp(b.data, numbers[i], M * 4) == 0);
    }
}

static const td_write_form_t forms[] = {TD_WRITE_RIEGELI_SPLIT, TD_WRITE_RIEGELI, TD_WRITE_PLAIN, TD_WRITE_PLAIN_PLAIN,
                                        TD_WRITE_INNER};
static const char *const compressions[] = {"snappy", "none", "zstd", "brotli:1"};
enum { FORMS = sizeof forms / sizeof *forms, COMPRESSIONS = sizeof compressions / sizeof *compressions };

#endif
