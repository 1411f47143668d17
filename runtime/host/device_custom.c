/* SPDX-License-Identifier: Apache-2.0 */
/* Custom calls on the host: a user's handler, or one of the built-in ones (runtime/host/handlers).
 * What only a GPU or another process can run is refused by name. */
#include <string.h>

#include "runtime/ffi/call.h"
#include "runtime/host/handlers/handlers.h"
#include "runtime/host/library.h"

/* Targets whose work is code for a GPU, or a Python process; "*" at the end: any continuation. */
static const struct elsewhere {
    const char *target, *why;
} elsewhere[] = {
    {"mosaic_gpu*", "a Pallas kernel (Mosaic) is machine code of a GPU; run it on a CUDA device"},
    {"triton_kernel_call*", "a Triton kernel is code of a GPU; run it on a CUDA device"},
    {"__gpu$xla.gpu.triton", "a Pallas kernel (Triton) is code of a GPU; run it on a CUDA device"},
    {"__gpu$xla.gpu.ptx", "PTX is code of a GPU; run it on a CUDA device"},
    {"CuteDSLRT_*", "a CuTe DSL kernel is machine code of a GPU; run it on a CUDA device"},
    {"xla_ffi_python_gpu_callback", "it calls back into the Python process that compiled the program"},
    {"xla_ffi_partitioned_python_gpu_callback", "it calls back into the Python process that compiled the program"},
    {"xla_buffer_python_gpu_callback*", "it calls back into the Python process that compiled the program"},
};

static bool matches(const char *pattern, const char *target) {
    size_t n = strlen(pattern);
    return pattern[n - 1] == '*' ? !strncmp(pattern, target, n - 1) : !strcmp(pattern, target);
}

static td_status_t missing(const char *target, td_err_t *err) {
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (matches(elsewhere[i].target, target))
            return td_fail(err, TD_UNSUPPORTED, "the host device cannot run '%.120s': %s", target, elsewhere[i].why);
    return td_fail(err, TD_NOTFOUND, "no handler for target '%.200s' on the host device", target);
}

/* ---- a user's handler ---- */
static td_status_t run_user(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    return td_ffi_call_run(k->library, NULL, NULL, bufs, scratch, err);
}
static void release_user(td_kernel_t *k) { td_ffi_call_destroy((td_ffi_call_t *)(uintptr_t)k->library); }

/* ---- a built-in one ---- */
typedef struct builtin {
    const td_handler_t *handler;
    void *state;
} builtin_t;

static td_status_t run_builtin(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    const builtin_t *b = k->library;
    td_status_t s = b->handler->run(b->state, bufs, scratch, err);
    return s ? td_prefix(err, s, "%s", b->handler->target) : TD_OK;
}

static td_status_t lower_builtin(const td_custom_call_desc_t *d, td_arena_t *arena, td_kernel_t *k,
                                 uint64_t *out_scratch, td_err_t *err) {
    builtin_t *b = TD_NEW(arena, builtin_t);
    if (!b) return td_arena_fail(arena, err);
    b->handler = td_handler_find(d->target);
    if (!b->handler) return missing(d->target, err);
    k->library = b;
    k->run = run_builtin;
    return b->handler->prepare(d, arena, &b->state, out_scratch, err);
}

td_status_t td_host_custom_lower(td_device_t *dev, const void *desc, td_arena_t *arena, td_kernel_t **out,
                                 uint64_t *out_scratch, td_err_t *err) {
    const td_custom_call_desc_t *d = desc;
    td_kernel_t *k = TD_NEW(arena, td_kernel_t);
    td_status_t s;
    if (!k) return td_arena_fail(arena, err);
    *out_scratch = 0;
    if (d->handler) {
        td_ffi_call_t *call = NULL;
        s = td_ffi_call_create(dev, d, arena, &call, out_scratch, err);
        k->library = call;
        k->run = run_user;
        k->release = release_user;
    } else {
        s = lower_builtin(d, arena, k, out_scratch, err);
    }
    if (!s) *out = k;
    return s;
}
