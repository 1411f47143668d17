/* SPDX-License-Identifier: Apache-2.0 */
/* Without jemalloc (sanitizer builds) the same tests hold, but for those on what the system gets back. */
#include "base/heap.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIB (1u << 20)

/* A budget of one number. */
typedef struct purse {
    td_charge_t charge;
    _Atomic(uint64_t) taken;
    uint64_t limit;
} purse_t;
static bool purse_take(void *ctx, uint64_t n) {
    purse_t *p = ctx;
    uint64_t taken = atomic_load(&p->taken);
    do
        if (n > p->limit - taken) return false;
    while (!atomic_compare_exchange_weak(&p->taken, &taken, taken + n));
    return true;
}
static void purse_give(void *ctx, uint64_t n) { atomic_fetch_sub(&((purse_t *)ctx)->taken, n); }

static purse_t purse;
static td_err_t err;
static td_heap_t *open_heap(uint64_t limit) {
    td_heap_t *h = NULL;
    purse.charge = (td_charge_t){purse_take, purse_give, &purse};
    purse.limit = limit;
    ck_assert_msg(td_heap_create(&purse.charge, &h, &err) == TD_OK, "%s", err.text);
    return h;
}
static void *get(td_heap_t *h, size_t size, size_t align) {
    const td_alloc_t *a = td_heap_alloc(h);
    return a->get(a->ctx, size, align);
}
static void put(td_heap_t *h, void *p, size_t size) { td_heap_alloc(h)->put(td_heap_alloc(h)->ctx, p, size); }
static bool has_jemalloc(void) { return td_heap_process_stats().resident != 0; }

static uint64_t resident(void) {
    unsigned long size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%lu %lu", &size, &pages), 2);
    fclose(f);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static const size_t sizes[] = {0, 1, 8, 15, 16, 17, 100, 1000, 4095, 4096, 4097, 14337, 100000, MIB - 1, MIB, MIB + 1,
                               5 * MIB / 4 + 1, 9 * MIB + 12345};
static const size_t aligns[] = {16, 64, 256, 4096, 1 << 16, 2 << 20};
#define N_SIZES (sizeof sizes / sizeof *sizes)
#define N_ALIGNS (sizeof aligns / sizeof *aligns)

START_TEST(blocks_are_aligned_and_charged) {
    td_heap_t *h = open_heap(UINT64_MAX);
    for (size_t i = 0; i < N_SIZES; i++) {
        for (size_t k = 0; k < N_ALIGNS; k++) {
            uint64_t want = td_heap_block_bytes(sizes[i], aligns[k]);
            unsigned char *p = get(h, sizes[i], aligns[k]);
            ck_assert_ptr_nonnull(p);
            ck_assert_uint_eq((uintptr_t)p % aligns[k], 0);
            memset(p, 0x5a, sizes[i]);
            ck_assert_uint_eq(td_heap_bytes(h), want);
            ck_assert_uint_eq(purse.taken, want);
            ck_assert_uint_ge(want, sizes[i]);
            if (sizes[i] >= MIB) ck_assert_uint_le(want, sizes[i] + sizes[i] / 50);
            put(h, p, sizes[i]);
            ck_assert_uint_eq(purse.taken, 0);
        }
    }
    put(h, NULL, 5);
    ck_assert_uint_eq(td_heap_bytes(h), 0);
    td_heap_destroy(h);
    td_heap_destroy(NULL);
}
END_TEST

START_TEST(no_more_than_the_budget) {
    td_heap_t *h = open_heap(td_heap_block_bytes(1000, 16) + td_heap_block_bytes(2 * MIB, 64));
    void *p = get(h, 1000, 16), *q = get(h, 2 * MIB, 64);
    ck_assert_ptr_nonnull(p);
    ck_assert_ptr_nonnull(q);
    ck_assert_ptr_null(get(h, 1, 16));
    ck_assert_ptr_null(get(h, MIB, 16));
    ck_assert_uint_eq(td_heap_bytes(h), purse.limit);
    put(h, p, 1000);
    ck_assert_ptr_null(get(h, 2000, 16));
    ck_assert_ptr_nonnull(p = get(h, 900, 16));
    put(h, p, 900);
    put(h, q, 2 * MIB);
    ck_assert_uint_eq(purse.taken, 0);
    td_heap_destroy(h);
}
END_TEST

START_TEST(sizes_that_cannot_be) {
    td_heap_t *h = open_heap(UINT64_MAX);
    static const size_t odd[] = {SIZE_MAX, SIZE_MAX - 4095, (size_t)PTRDIFF_MAX, (size_t)1 << 62};
    for (size_t i = 0; i < 3u + has_jemalloc(); i++) { /* sanitizers end at the last */
        ck_assert_ptr_null(get(h, odd[i], 16));
        ck_assert_uint_eq(purse.taken, 0);
    }
    ck_assert_uint_eq(td_heap_block_bytes(SIZE_MAX, 16), 0);
    td_heap_destroy(h);
}
END_TEST

START_TEST(a_heap_without_a_charge) {
    td_heap_t *h = NULL;
    ck_assert_int_eq(td_heap_create(NULL, &h, &err), TD_OK);
    void *p = get(h, 100, 16);
    ck_assert_uint_ge(td_heap_bytes(h), 100);
    put(h, p, 100);
    td_heap_destroy(h);
}
END_TEST

START_TEST(destroying_gives_the_charge_back) {
    if (!has_jemalloc()) return; /* it would be a leak */
    td_heap_t *h = open_heap(UINT64_MAX);
    for (size_t i = 0; i < N_SIZES; i++) ck_assert_ptr_nonnull(get(h, sizes[i], 64));
    ck_assert_uint_gt(purse.taken, 13u * MIB);
    td_heap_destroy(h);
    ck_assert_uint_eq(purse.taken, 0);
}
END_TEST

/* 64 MiB of blocks from 100 bytes to 8 MiB, some of them put back. */
static void fill(td_heap_t *h, unsigned seed) {
    static const size_t some[] = {100, 8000, 70000, 400000, 1500000, 8 * MIB};
    for (uint64_t n = 0, i = 0; n < 64u * MIB; i++) {
        seed = seed * 1103515245 + 12345;
        size_t size = some[seed / 65536 % 6] + seed / 7 % 50;
        char *p = get(h, size, 64);
        ck_assert_ptr_nonnull(p);
        for (size_t k = 0; k < size; k += 4096) p[k] = 1;
        if (i % 7 == 3) put(h, p, size);
        else n += size;
    }
}
START_TEST(memory_goes_back_to_the_system) {
    if (!has_jemalloc()) return;
    uint64_t start = 0, bytes = 0;
    for (unsigned i = 0; i < 200; i++) {
        td_heap_t *h = open_heap(UINT64_MAX);
        fill(h, i);
        bytes = resident();
        td_heap_destroy(h);
        ck_assert_uint_eq(purse.taken, 0);
        if (i == 4) start = resident();
        if (i == 4) ck_assert_uint_gt(bytes, start + 60 * MIB);
    }
    ck_assert_uint_le(resident(), start + 2 * MIB);
}
END_TEST

START_TEST(thousands_of_heaps) {
    if (!has_jemalloc()) return;
    uint64_t metadata = 0, start = 0;
    for (unsigned i = 0; i < 4500; i++) { /* more than can be there at a time */
        td_heap_t *h = open_heap(UINT64_MAX);
        for (size_t k = 1; k < 12; k++) ck_assert_ptr_nonnull(get(h, sizes[k], 16));
        td_heap_destroy(h);
        if (i == 100) metadata = td_heap_process_stats().metadata, start = resident();
    }
    ck_assert_uint_le(td_heap_process_stats().metadata, metadata + MIB / 4);
    ck_assert_uint_le(resident(), start + 2 * MIB);
}
END_TEST

/* The tail of a large block lies where a larger one was: its pages go back at once. */
START_TEST(tails_hold_no_memory) {
    if (!has_jemalloc()) return;
    td_heap_t *h = open_heap(UINT64_MAX);
    size_t whole = 64 * MIB, part = 56 * MIB + 100; /* both in the size class of 64 MiB */
    char *p = get(h, whole, 64);
    memset(p, 1, whole);
    put(h, p, whole);
    uint64_t before = resident();
    p = get(h, part, 64);
    memset(p, 1, part);
    ck_assert_uint_le(resident() + 7 * MIB, before);
    put(h, p, part);
    td_heap_destroy(h);
}
END_TEST

START_TEST(freed_memory_goes_back_in_a_while) {
    if (!has_jemalloc()) return;
    td_heap_t *h = open_heap(UINT64_MAX);
    uint64_t start = resident();
    char *p = get(h, 64 * MIB, 64);
    memset(p, 1, 64 * MIB);
    put(h, p, 64 * MIB);
    ck_assert_uint_gt(resident(), start + 60 * MIB); /* kept for the next one */
    td_heap_purge();
    ck_assert_uint_lt(resident(), start + 2 * MIB);
    p = get(h, 64 * MIB, 64);
    memset(p, 1, 64 * MIB);
    put(h, p, 64 * MIB);
    for (int i = 0; i < 100 && resident() >= start + 4 * MIB; i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    ck_assert_uint_lt(resident(), start + 4 * MIB);
    td_heap_destroy(h);
}
END_TEST

static void *churn(void *arg) {
    td_heap_t *h = arg;
    void *v[16] = {0};
    size_t n[16] = {0};
    unsigned seed = (unsigned)(uintptr_t)&v;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1103515245 + 12345;
        unsigned k = seed / 65536 % 16;
        put(h, v[k], n[k]);
        n[k] = sizes[seed / 8 % 12];
        v[k] = get(h, n[k], aligns[seed / 64 % 3]);
    }
    for (int k = 0; k < 16; k++) put(h, v[k], n[k]);
    return NULL;
}
START_TEST(many_threads_one_heap) {
    td_heap_t *h = open_heap(100000);
    pthread_t t[4];
    for (int i = 0; i < 4; i++) ck_assert_int_eq(pthread_create(&t[i], NULL, churn, h), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    ck_assert_uint_eq(td_heap_bytes(h), 0);
    ck_assert_uint_eq(purse.taken, 0);
    td_heap_destroy(h);
}
END_TEST

START_TEST(no_heap_too_many) {
    if (!has_jemalloc()) return;
    static td_heap_t *v[5000];
    uint32_t n = 0;
    while (n < 5000 && td_heap_create(NULL, &v[n], &err) == TD_OK) n++;
    ck_assert_uint_lt(n, 4096);
    ck_assert_uint_gt(n, 4000);
    ck_assert_int_eq(err.code, TD_LIMIT);
    td_heap_destroy(v[n / 2]);
    ck_assert_int_eq(td_heap_create(NULL, &v[n / 2], &err), TD_OK);
    while (n-- > 0) td_heap_destroy(v[n]);
}
END_TEST

int main(void) {
    Suite *s = suite_create("heap");
    TCase *t = tcase_create("heap");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, blocks_are_aligned_and_charged);
    tcase_add_test(t, no_more_than_the_budget);
    tcase_add_test(t, sizes_that_cannot_be);
    tcase_add_test(t, a_heap_without_a_charge);
    tcase_add_test(t, destroying_gives_the_charge_back);
    tcase_add_test(t, memory_goes_back_to_the_system);
    tcase_add_test(t, thousands_of_heaps);
    tcase_add_test(t, tails_hold_no_memory);
    tcase_add_test(t, freed_memory_goes_back_in_a_while);
    tcase_add_test(t, many_threads_one_heap);
    tcase_add_test(t, no_heap_too_many);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
