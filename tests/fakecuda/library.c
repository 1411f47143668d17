/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakecuda/library.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/host/plan.h"
#include "tests/fakecuda/capture.h"

enum { RANGES_MOST = 32, BYTES_MOST = 4096 };

/* ---- objects ---- */
typedef struct object {
    fk_obj_t base;
    const char *what;
    _Alignas(16) char body[];
} object_t;

void *fk_library_new(const char *what, size_t bytes) {
    object_t *o = fk_obj_new(FK_LIBRARY, sizeof *o + bytes, fk_current());
    if (!o) return NULL;
    o->what = what;
    return fk_handle(&o->base);
}
static object_t *find(const void *handle, const char *what) {
    CUresult r = CUDA_SUCCESS;
    object_t *o = fk_get(handle, FK_LIBRARY, true, &r);
    if (!o || !strcmp(o->what, what)) return o;
    fk_fault(FK_HANDLE, 0, "a %s where a %s belongs", o->what, what);
    return NULL;
}
void *fk_library_get(const void *handle, const char *what) {
    object_t *o = find(handle, what);
    return o ? o->body : NULL;
}
bool fk_library_end(void *handle, const char *what) {
    object_t *o = find(handle, what);
    if (o) fk_obj_end(&o->base);
    return o;
}

/* ---- work ---- */
typedef struct library_op {
    fk_op_t op;
    fk_library_fn run;
    const char *who;
    uint32_t n;
    size_t bytes;
    fk_range_t ranges[RANGES_MOST];
    _Alignas(16) char args[];
} library_op_t;
typedef struct library_item {
    fk_item_t base;
    fk_library_fn run;
    void *memory[RANGES_MOST];
    _Alignas(16) char args[];
} library_item_t;

static CUresult run(fk_item_t *base) {
    const library_item_t *it = (const library_item_t *)base;
    return it->run(it->args, it->memory);
}

static CUresult find_ranges(library_item_t *it, const library_op_t *op, fk_stream_t *s) {
    for (uint32_t i = 0; i < op->n; i++) {
        const fk_range_t *g = &op->ranges[i];
        char what[120];
        if (!g->bytes) continue;
        snprintf(what, sizeof what, "range %u of %s", i, op->who);
        fk_mem_t *m = fk_mem_find(g->addr, g->bytes, what);
        if (!m) {
            fk_poison(s->base.ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        if (m->ctx != s->base.ctx)
            fk_fault(FK_CONTEXT, 0, "%s is memory of device %d, the work is on device %d", what, m->ctx->device,
                     s->base.ctx->device);
        it->base.uses[it->base.n_uses++] = (fk_use_t){m, g->addr, g->bytes, g->write, i};
        it->memory[i] = fk_mem_at(m, g->addr);
    }
    return CUDA_SUCCESS;
}

static CUresult push(const fk_op_t *base, fk_stream_t *s) {
    const library_op_t *op = (const library_op_t *)base;
    library_item_t *it = calloc(1, sizeof *it + op->bytes);
    if (it) it->base.uses = calloc(op->n + 1, sizeof(fk_use_t));
    CUresult r = it && it->base.uses ? find_ranges(it, op, s) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r) {
        if (it) free(it->base.uses);
        free(it);
        return r;
    }
    it->base.run = fk_config.empty ? NULL : run;
    it->base.who = op->who;
    it->run = op->run;
    memcpy(it->args, op->args, op->bytes);
    fk_note_launch(1);
    fk_push(s, &it->base);
    return CUDA_SUCCESS;
}

CUresult fk_library_enqueue(CUstream stream, const char *who, const fk_range_t *ranges, uint32_t n, fk_library_fn fn,
                            const void *args, size_t bytes) {
    CUresult r = CUDA_SUCCESS;
    fk_stream_t *s = fk_stream_for_work(stream, &r);
    if (!s) return r;
    if (n > RANGES_MOST || bytes > BYTES_MOST)
        return fk_fault(FK_ARGUMENTS, CUDA_ERROR_NOT_SUPPORTED, "%s: too much for the stand-in", who);
    _Alignas(16) char room[sizeof(library_op_t) + BYTES_MOST];
    library_op_t *op = (library_op_t *)(void *)room;
    op->op = (fk_op_t){.push = push, .bytes = sizeof *op + bytes, .shape = 0xfe};
    op->run = fn, op->who = who, op->n = n, op->bytes = bytes;
    if (n) memcpy(op->ranges, ranges, n * sizeof *ranges);
    if (bytes) memcpy(op->args, args, bytes);
    return fk_issue(s, &op->op);
}

void *fk_library_memory(uint64_t addr, uint64_t bytes, const char *who) {
    pthread_mutex_lock(&fk_lock);
    fk_mem_t *m = fk_mem_find(addr, bytes, who);
    void *p = m ? fk_mem_at(m, addr) : NULL;
    pthread_mutex_unlock(&fk_lock);
    return p;
}

/* ---- the host device ---- */
static td_device_t *host;
static td_err_t host_error;
static pthread_once_t host_once = PTHREAD_ONCE_INIT;
static void open_host(void) { (void)td_host_device_open("threads=1", td_alloc_default(), &host, &host_error); }

static td_status_t run_on_host(td_library_op_t op, const void *desc, td_arena_t *arena, void *const *bufs,
                               td_err_t *err) {
    td_kernel_t *k = NULL;
    uint64_t scratch = 0;
    td_status_t st = host->ops->library_lower(host, op, desc, arena, &k, &scratch, err);
    if (st) return st;
    void *p = aligned_alloc(64, scratch + 64 - scratch % 64);
    st = p ? k->run(k, bufs, p, err) : td_fail(err, TD_NOMEM, "no memory");
    free(p);
    if (k->release) k->release(k);
    return st;
}
CUresult fk_host_run(const char *who, td_library_op_t op, const void *desc, void *const *bufs) {
    td_arena_t arena;
    td_err_t err = {0};
    pthread_once(&host_once, open_host);
    if (!host) err = host_error;
    td_arena_init(&arena, td_alloc_default(), 0);
    td_status_t st = host ? run_on_host(op, desc, &arena, bufs, &err) : TD_INTERNAL;
    td_arena_deinit(&arena);
    if (!st) return CUDA_SUCCESS;
    pthread_mutex_lock(&fk_lock);
    fk_fault(FK_KERNEL, 0, "%s: %s", who, err.text);
    pthread_mutex_unlock(&fk_lock);
    return CUDA_ERROR_LAUNCH_FAILED;
}
