/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the CUDA device on a table of functions of this file: the pool of device memory, and the staging of copies.
 * The stand-in stream does nothing until it is waited for, and then works off its items up to where it must: copies
 * that were not kept safe until then go wrong. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda.h"

/* ---- device memory ---- */
static uint64_t live_blocks, live_bytes, most_bytes;
static size_t sizes[4096];
static uint8_t *blocks[4096];
static CUresult mem_alloc(CUdeviceptr *p, size_t n) {
    if (most_bytes && live_bytes + n > most_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    uint32_t i = 0;
    while (blocks[i]) ck_assert_uint_lt(++i, 4096);
    blocks[i] = aligned_alloc(512, (n + 511) & ~(size_t)511);
    ck_assert_ptr_nonnull(blocks[i]);
    sizes[i] = n;
    live_blocks++, live_bytes += n;
    *p = (CUdeviceptr)(uintptr_t)blocks[i];
    return 0;
}
static CUresult mem_free(CUdeviceptr p) {
    for (uint32_t i = 0; i < 4096; i++)
        if (blocks[i] && (CUdeviceptr)(uintptr_t)blocks[i] == p) {
            live_blocks--, live_bytes -= sizes[i];
            free(blocks[i]);
            blocks[i] = NULL;
            return 0;
        }
    ck_abort_msg("free of what was not given");
    return CUDA_ERROR_INVALID_VALUE;
}
static CUresult mem_info(size_t *free_bytes, size_t *total) {
    *total = (size_t)most_bytes;
    *free_bytes = (size_t)(most_bytes - live_bytes);
    return 0;
}

/* ---- a stream: copies in a list, done when somebody waits ---- */
typedef struct item { void *dst; const void *src; size_t n; } item_t;
static item_t items[1 << 16];
static uint32_t n_items, n_done, n_syncs;
static CUresult fail_with;
static void work(uint32_t until) {
    for (; n_done < until; n_done++) memcpy(items[n_done].dst, items[n_done].src, items[n_done].n);
}
static CUresult push(void *dst, const void *src, size_t n) {
    ck_assert_uint_lt(n_items, sizeof items / sizeof *items);
    items[n_items++] = (item_t){dst, src, n};
    return 0;
}
static CUresult up(CUdeviceptr dst, const void *src, size_t n, CUstream q) {
    (void)q;
    return push((void *)(uintptr_t)dst, src, n);
}
static CUresult down(void *dst, CUdeviceptr src, size_t n, CUstream q) {
    (void)q;
    return push(dst, (const void *)(uintptr_t)src, n);
}
static CUresult stream_sync(CUstream q) {
    (void)q;
    n_syncs++;
    if (fail_with) return fail_with;
    work(n_items);
    return 0;
}
static CUresult host_alloc(void **p, size_t n) {
    *p = malloc(n);
    return 0;
}
static CUresult host_free(void *p) {
    free(p);
    return 0;
}
static CUresult event_create(CUevent *e, unsigned flags) {
    ck_assert_uint_eq(flags, CU_EVENT_DISABLE_TIMING);
    *e = calloc(1, sizeof(uint32_t));
    return 0;
}
static CUresult event_destroy(CUevent e) {
    free(e);
    return 0;
}
static CUresult event_record(CUevent e, CUstream q) {
    (void)q;
    *(uint32_t *)(void *)e = n_items;
    return 0;
}
static CUresult event_sync(CUevent e) {
    n_syncs++;
    work(*(uint32_t *)(void *)e);
    return 0;
}
static CUresult error_name(CUresult r, const char **out) {
    *out = r == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OTHER";
    return 0;
}
static CUresult error_string(CUresult r, const char **out) {
    (void)r;
    *out = "something";
    return 0;
}
static CUresult set_current(CUcontext c) {
    (void)c;
    return 0;
}

static td_counting_alloc_t counter;
static td_cuda_device_t dev;
static td_err_t err;

static void setup(void) {
    td_counting_alloc_init(&counter, td_alloc_default());
    dev = (td_cuda_device_t){.base.alloc = &counter.base, .serial = 1, .name = "stand-in"};
    dev.cu = (td_cuda_t){.cuMemAlloc_v2 = mem_alloc, .cuMemFree_v2 = mem_free, .cuMemGetInfo_v2 = mem_info,
        .cuMemcpyHtoDAsync_v2 = up, .cuMemcpyDtoHAsync_v2 = down, .cuStreamSynchronize = stream_sync,
        .cuMemAllocHost_v2 = host_alloc, .cuMemFreeHost = host_free, .cuEventCreate = event_create,
        .cuEventDestroy_v2 = event_destroy, .cuEventRecord = event_record, .cuEventSynchronize = event_sync,
        .cuGetErrorName = error_name, .cuGetErrorString = error_string, .cuCtxSetCurrent = set_current};
    pthread_mutex_init(&dev.lock, NULL);
    most_bytes = 0;
}
static void teardown(void) {
    pthread_mutex_destroy(&dev.lock);
    ck_assert_uint_eq(counter.live_bytes, 0);
    ck_assert_uint_eq(live_blocks, 0);
}

static void *get(uint64_t n) {
    void *p = NULL;
    ck_assert_msg(!td_cuda_pool_get(&dev, n, &p, &err), "%s", err.text);
    ck_assert_uint_eq((uintptr_t)p % 256, 0);
    return p;
}

START_TEST(small_blocks_share) {
    enum { N = 1000 };
    void *v[N];
    uint64_t used = 0, reserved = 0;
    ck_assert_int_eq(td_cuda_pool_create(&dev, &err), TD_OK);
    for (int i = 0; i < N; i++) memset(v[i] = get((uint64_t)i), i & 0xff, (size_t)i);
    ck_assert_uint_eq(live_blocks, 1);
    for (int i = 1; i < N; i++)
        for (int k = 0; k < i; k++) ck_assert_int_eq(((uint8_t *)v[i])[k], i & 0xff);
    td_cuda_pool_stats(&dev, &used, &reserved);
    ck_assert_uint_eq(reserved, 4 << 20);
    ck_assert_uint_ge(used, N * (N - 1) / 2);
    for (int i = 0; i < N; i += 2) td_cuda_pool_put(&dev, v[i], (uint64_t)i);
    void *again = get(256); /* a hole is used again */
    ck_assert_ptr_eq(again, v[0]);
    td_cuda_pool_put(&dev, again, 256);
    for (int i = 1; i < N; i += 2) td_cuda_pool_put(&dev, v[i], (uint64_t)i);
    td_cuda_pool_stats(&dev, &used, &reserved);
    ck_assert_uint_eq(used, 0);
    td_cuda_pool_destroy(&dev);
}
END_TEST

START_TEST(chunks_go_back) {
    enum { N = 40 };
    void *v[N];
    uint64_t used = 0, reserved = 0;
    ck_assert_int_eq(td_cuda_pool_create(&dev, &err), TD_OK);
    for (int i = 0; i < N; i++) v[i] = get(1000000);
    ck_assert_uint_eq(live_blocks, N / 4);
    for (int i = N; i-- > 0;) td_cuda_pool_put(&dev, v[i], 1000000);
    ck_assert_uint_eq(live_blocks, 1); /* one stays for the next */
    void *large = get(100 << 20); /* the driver's own */
    td_cuda_pool_stats(&dev, &used, &reserved);
    ck_assert_uint_eq(used, 100 << 20);
    ck_assert_uint_eq(reserved, 104 << 20);
    td_cuda_pool_put(&dev, large, 100 << 20);
    ck_assert_uint_eq(live_blocks, 1);
    td_cuda_pool_put(&dev, NULL, 10);
    td_cuda_pool_destroy(&dev);
}
END_TEST

/* What was not given does not disturb what was. */
START_TEST(wrong_puts) {
    ck_assert_int_eq(td_cuda_pool_create(&dev, &err), TD_OK);
    void *a = get(512), *b = get(512);
    td_cuda_pool_put(&dev, a, 512);
    td_cuda_pool_put(&dev, a, 512); /* twice */
    td_cuda_pool_put(&dev, (char *)b + (3 << 20), 512);
    void *c = get(512), *d = get(512);
    ck_assert_ptr_eq(c, a);
    ck_assert_ptr_ne(d, b);
    ck_assert_ptr_ne(d, a);
    td_cuda_pool_put(&dev, b, 512);
    td_cuda_pool_put(&dev, c, 512);
    td_cuda_pool_put(&dev, d, 512);
    td_cuda_pool_destroy(&dev);
}
END_TEST

START_TEST(memory_ends) {
    void *p = NULL;
    ck_assert_int_eq(td_cuda_pool_create(&dev, &err), TD_OK);
    most_bytes = 5 << 20;
    void *a = get(1 << 20);
    ck_assert_int_eq(td_cuda_pool_get(&dev, 5 << 20, &p, &err), TD_NOMEM);
    ck_assert_ptr_nonnull(strstr(err.text, "5242880 bytes of device memory"));
    ck_assert_ptr_nonnull(strstr(err.text, "4194304 free of 5242880"));
    ck_assert_int_eq(td_cuda_pool_get(&dev, UINT64_MAX, &p, &err), TD_NOMEM);
    ck_assert_ptr_null(p);
    void *b = get(1 << 19);
    td_cuda_pool_put(&dev, a, 1 << 20);
    void *c[3];
    for (int i = 0; i < 3; i++) c[i] = get((1 << 20) - 1);
    most_bytes = 100 << 20;
    counter.fail_at = counter.gets + 1; /* a second chunk needs a record */
    ck_assert_int_eq(td_cuda_pool_get(&dev, (1 << 20) - 1, &p, &err), TD_NOMEM);
    counter.fail_at = 0;
    for (int i = 0; i < 3; i++) td_cuda_pool_put(&dev, c[i], (1 << 20) - 1);
    td_cuda_pool_put(&dev, b, 1 << 19);
    td_cuda_pool_destroy(&dev);
}
END_TEST

/* ---- staging ---- */
static uint8_t host[1 << 20], device[1 << 20], back[1 << 20];
static CUdeviceptr at_device(size_t i) { return (CUdeviceptr)(uintptr_t)(device + i); }
static void pattern(uint8_t *p, size_t n, uint32_t seed) {
    for (size_t i = 0; i < n; i++) p[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
}

/* Copies of all sizes, up and down, through a ring that is smaller than most. The source is spoilt at once. */
START_TEST(copies) {
    static const size_t ring[] = {1024, 8192, 1 << 18};
    td_cuda_stage_t *s = NULL;
    for (size_t r = 0; r < 3; r++) {
        n_items = n_done = 0;
        ck_assert_int_eq(td_cuda_stage_create(&dev, ring[r], &s, &err), TD_OK);
        size_t at = 0, n = 1;
        for (int i = 0; at + n <= sizeof host; i++, at += n, n = n * 3 % 50021 + 1) {
            uint8_t *mine = malloc(n);
            pattern(mine, n, (uint32_t)i);
            memcpy(host + at, mine, n);
            ck_assert_int_eq(td_cuda_stage_up(&dev, s, NULL, at_device(at), mine, n, &err), TD_OK);
            memset(mine, 0xee, n); /* the bytes were taken */
            free(mine);
        }
        memset(back, 0, sizeof back);
        for (size_t p = 0, m = 7; p < at; p += m, m = m * 5 % 40009 + 1) {
            if (m > at - p) m = at - p;
            ck_assert_int_eq(td_cuda_stage_down(&dev, s, NULL, back + p, at_device(p), m, &err), TD_OK);
        }
        ck_assert_int_eq(stream_sync(NULL), 0);
        td_cuda_stage_flush(s, false);
        ck_assert_mem_eq(device, host, at);
        ck_assert_mem_eq(back, host, at);
        td_cuda_stage_destroy(&dev, s);
    }
}
END_TEST

/* More small ones than the list holds. */
START_TEST(many) {
    td_cuda_stage_t *s = NULL;
    n_items = n_done = n_syncs = 0;
    ck_assert_int_eq(td_cuda_stage_create(&dev, 1 << 20, &s, &err), TD_OK);
    pattern(device, 10000, 5);
    memset(back, 0, 10000);
    for (size_t i = 0; i < 10000; i++) ck_assert_int_eq(td_cuda_stage_down(&dev, s, NULL, back + i, at_device(i), 1, &err), TD_OK);
    ck_assert_int_eq(stream_sync(NULL), 0);
    td_cuda_stage_flush(s, false);
    ck_assert_mem_eq(back, device, 10000);
    ck_assert_uint_le(n_syncs, 10000 / 256 + 2);
    td_cuda_stage_destroy(&dev, s);
}
END_TEST

/* What a failed stream owed is dropped, and the next copies are right. */
START_TEST(failure) {
    td_cuda_stage_t *s = NULL;
    n_items = n_done = 0;
    ck_assert_int_eq(td_cuda_stage_create(&dev, 4096, &s, &err), TD_OK);
    memset(back, 1, 100);
    ck_assert_int_eq(td_cuda_stage_down(&dev, s, NULL, back, at_device(0), 100, &err), TD_OK);
    td_cuda_stage_flush(s, true);
    for (int i = 0; i < 100; i++) ck_assert_int_eq(back[i], 1);
    pattern(device, 100, 9);
    ck_assert_int_eq(td_cuda_stage_down(&dev, s, NULL, back, at_device(0), 100, &err), TD_OK);
    ck_assert_int_eq(stream_sync(NULL), 0);
    td_cuda_stage_flush(s, false);
    ck_assert_mem_eq(back, device, 100);
    td_cuda_stage_destroy(&dev, s);
}
END_TEST

/* An error that the context does not survive: the cause is told to all who come later. */
START_TEST(poison) {
    td_err_t first = {0}, later = {0};
    ck_assert_int_eq(td_cuda_enter(&dev, &err), TD_OK);
    ck_assert_int_eq(td_cuda_check(&dev, CUDA_ERROR_OUT_OF_MEMORY, "cuFoo", "thing", &first), TD_NOMEM);
    ck_assert_str_eq(first.text, "thing: cuFoo: CUDA_ERROR_OTHER (2): something");
    ck_assert_int_eq(td_cuda_enter(&dev, &err), TD_OK);
    ck_assert_int_eq(td_cuda_check(&dev, CUDA_ERROR_ILLEGAL_ADDRESS, "cuStreamSynchronize", "stream", &first), TD_DEVICE);
    ck_assert_int_eq(td_cuda_check(&dev, CUDA_ERROR_LAUNCH_FAILED, "cuLaunchKernel", "k", &later), TD_DEVICE);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(td_cuda_enter(&dev, &later), TD_DEVICE);
        ck_assert_ptr_nonnull(strstr(later.text, "stream: cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
    }
    ck_assert_int_eq(td_cuda_enter(&dev, NULL), TD_DEVICE);
}
END_TEST

START_TEST(sticky) {
    static const int yes[] = {700, 702, 710, 714, 715, 716, 717, 718, 719, 214, 709}, no[] = {0, 1, 2, 200, 209, 500, 600, 701, 801};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) ck_assert(td_cuda_sticky(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) ck_assert(!td_cuda_sticky(no[i]));
}
END_TEST

START_TEST(no_driver) {
    td_device_t *d = NULL;
    td_err_t e = {0};
    ck_assert_int_eq(td_device_open("cuda:driver=/nonexistent/libcuda.so.1", &counter.base, &d, &e), TD_NOTFOUND);
    ck_assert_ptr_nonnull(strstr(e.text, "/nonexistent/libcuda.so.1"));
    ck_assert_int_eq(td_device_open("cuda:0,driver=libm.so.6", &counter.base, &d, &e), TD_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(e.text, "has no cuInit"));
    ck_assert_ptr_nonnull(strstr(e.text, "CUDA 12.0"));
    static const char *const wrong[] = {"cuda:0,1", "cuda:driver=", "cuda:foo=1", "cuda:cc=9.0,cc=8.0", "cuda:,", "cuda:cc=123456789"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_int_eq(td_device_open(wrong[i], &counter.base, &d, &e), TD_USAGE);
    ck_assert_int_eq(td_device_open("cudax", &counter.base, &d, &e), TD_USAGE);
    ck_assert_ptr_null(d);
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_parts");
    TCase *t = tcase_create("parts");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, small_blocks_share);
    tcase_add_test(t, chunks_go_back);
    tcase_add_test(t, wrong_puts);
    tcase_add_test(t, memory_ends);
    tcase_add_test(t, copies);
    tcase_add_test(t, many);
    tcase_add_test(t, failure);
    tcase_add_test(t, poison);
    tcase_add_test(t, sticky);
    tcase_add_test(t, no_driver);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
