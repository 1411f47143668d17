/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of library operations on the CUDA device: the stand-in driver and its libraries, and an operation done
 * there and by the host device, which must give the same bytes. Each test is a process of its own. */
#ifndef TESTS_UNIT_CUDA_OP_CASE_H
#define TESTS_UNIT_CUDA_OP_CASE_H

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cuda/cuda.h"

enum { OP_BUFFERS = 16 };
typedef struct op_buffer {
    void *host;     /* what goes in; what comes out, of the CUDA device */
    uint64_t bytes; /* 0: none, its address is NULL */
    uint32_t same;  /* as buffer same - 1: shares its memory; 0: its own */
    uint32_t shift; /* bytes by which it misses an alignment of 256 */
    void *device;
} op_buffer_t;

static td_device_t *gpu, *host;
static td_stream_t *stream;
static td_counting_alloc_t op_counter;
static td_err_t err;
static void *op_driver;
static char op_folder[512];

static inline const char *op_fake(const char *file) { /* beside the folder of the tests */
    static char path[600];
    if (!*op_folder) {
        ssize_t n = readlink("/proc/self/exe", op_folder, sizeof op_folder - 40);
        ck_assert_int_gt(n, 0);
        op_folder[n] = 0;
        for (int up = 0; up < 2; up++) *strrchr(op_folder, '/') = 0;
    }
    snprintf(path, sizeof path, "%s/fakecuda/%s", op_folder, file);
    return path;
}
/* Loaded first, so that opening it by its name finds it. */
static inline void op_library(const char *file) {
    ck_assert_msg(dlopen(op_fake(file), RTLD_NOW) != NULL, "%s", dlerror());
}
static inline void op_open(void) {
    char spec[640];
    snprintf(spec, sizeof spec, "cuda:0,driver=%s", op_fake("libcuda.so.1"));
    td_counting_alloc_init(&op_counter, td_alloc_default());
    ck_assert_msg(!td_device_open(spec, &op_counter.base, &gpu, &err), "%s", err.text);
    ck_assert_msg(!td_host_device_open("threads=1", td_alloc_default(), &host, &err), "%s", err.text);
    op_driver = dlopen(op_fake("libcuda.so.1"), RTLD_NOW | RTLD_NOLOAD);
    ck_assert_msg(!gpu->ops->stream_create(gpu, TD_STREAM_MAIN, &stream, &err), "%s", err.text);
}
static inline uint64_t op_ask(const char *name, const char *arg) { /* fakecuda_faults, fakecuda_calls */
    uint64_t (*f)(const char *) = NULL;
    *(void **)&f = dlsym(op_driver, name);
    ck_assert_ptr_nonnull(f);
    return f(arg);
}
static inline const char *op_fault(void) {
    const char *(*f)(void) = NULL;
    *(void **)&f = dlsym(op_driver, "fakecuda_last_fault");
    return f();
}
static inline void op_close(void) {
    gpu->ops->stream_destroy(stream);
    td_device_destroy(gpu);
    td_device_destroy(host);
    ck_assert_msg(!op_ask("fakecuda_faults", NULL), "%s", op_fault());
    ck_assert_uint_eq(op_counter.live_bytes, 0);
}
/* A fault of that kind was told, with that word in it; it is forgiven. */
static inline void op_expect(const char *kind, const char *word) {
    void (*forgive)(void) = NULL;
    ck_assert_msg(op_ask("fakecuda_faults", kind) > 0, "no fault '%s'; the last is '%s'", kind, op_fault());
    ck_assert_msg(strstr(op_fault(), word) != NULL, "'%s' does not tell '%s'", op_fault(), word);
    *(void **)&forgive = dlsym(op_driver, "fakecuda_forgive");
    forgive();
}

/* ---- one operation ---- */
typedef struct op {
    td_arena_t arena;
    td_kernel_t *kernel;
    uint64_t scratch_bytes;
    void *scratch;
} op_t;
static inline td_status_t op_lower(op_t *o, td_device_t *dev, td_library_op_t op, const void *desc) {
    *o = (op_t){0};
    td_arena_init(&o->arena, &op_counter.base, 0);
    td_status_t st = dev->ops->library_lower(dev, op, desc, &o->arena, &o->kernel, &o->scratch_bytes, &err);
    if (st) td_arena_deinit(&o->arena);
    else if (o->scratch_bytes) ck_assert_int_eq(dev->ops->mem_get(dev, o->scratch_bytes, &o->scratch, &err), 0);
    return st;
}
static inline void op_release(op_t *o, td_device_t *dev) {
    if (o->scratch_bytes) dev->ops->mem_put(dev, o->scratch, o->scratch_bytes);
    dev->ops->kernel_release(o->kernel);
    td_arena_deinit(&o->arena);
}

static inline void op_up(op_buffer_t *v, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        v[i].device = NULL;
        if (v[i].same) v[i].device = v[v[i].same - 1].device;
        if (v[i].same || !v[i].bytes) continue;
        ck_assert_int_eq(gpu->ops->mem_get(gpu, v[i].bytes + v[i].shift, &v[i].device, &err), 0);
        v[i].device = (char *)v[i].device + v[i].shift;
        ck_assert_int_eq(gpu->ops->upload(stream, v[i].device, v[i].host, v[i].bytes, &err), 0);
    }
}
static inline void op_down(op_buffer_t *v, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (v[i].bytes && !v[i].same)
            ck_assert_int_eq(gpu->ops->download(stream, v[i].host, v[i].device, v[i].bytes, &err), 0);
    ck_assert_msg(!gpu->ops->stream_sync(stream, &err), "%s", err.text);
}
static inline void op_free(op_buffer_t *v, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (v[i].bytes && !v[i].same) gpu->ops->mem_put(gpu, (char *)v[i].device - v[i].shift, v[i].bytes + v[i].shift);
}
static inline td_status_t op_launch(const op_t *o, const op_buffer_t *v, uint32_t n) {
    void *bufs[OP_BUFFERS];
    for (uint32_t i = 0; i < n; i++) bufs[i] = v[i].device;
    return gpu->ops->launch(stream, o->kernel, bufs, n, o->scratch, &err);
}

/* What the host device makes of copies of the buffers; free them. */
static inline void op_on_host(td_library_op_t op, const void *desc, const op_buffer_t *v, uint32_t n, void **out) {
    op_t o;
    td_stream_t *s = NULL;
    ck_assert_msg(!op_lower(&o, host, op, desc), "%s", err.text);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = v[i].same ? out[v[i].same - 1] : malloc(v[i].bytes + 1);
        if (!v[i].same && v[i].bytes) memcpy(out[i], v[i].host, v[i].bytes);
    }
    ck_assert_int_eq(host->ops->stream_create(host, TD_STREAM_MAIN, &s, &err), 0);
    ck_assert_msg(!host->ops->launch(s, o.kernel, out, n, o.scratch, &err), "%s", err.text);
    ck_assert_msg(!host->ops->stream_sync(s, &err), "%s", err.text);
    host->ops->stream_destroy(s);
    op_release(&o, host);
}
/* The operation on the CUDA device: all buffers are then what the host device makes of them. */
static inline void op_same(td_library_op_t op, const void *desc, op_buffer_t *v, uint32_t n, const char *what) {
    void *want[OP_BUFFERS];
    op_t o;
    op_on_host(op, desc, v, n, want);
    ck_assert_msg(!op_lower(&o, gpu, op, desc), "%s: %s", what, err.text);
    op_up(v, n);
    ck_assert_msg(!op_launch(&o, v, n), "%s: %s", what, err.text);
    op_down(v, n);
    for (uint32_t i = 0; i < n; i++) {
        if (v[i].bytes && !v[i].same)
            ck_assert_msg(!memcmp(v[i].host, want[i], v[i].bytes), "%s: buffer %u differs", what, i);
        if (!v[i].same) free(want[i]);
    }
    op_free(v, n);
    op_release(&o, gpu);
    ck_assert_msg(!op_ask("fakecuda_faults", NULL), "%s: %s", what, op_fault());
}

#endif
