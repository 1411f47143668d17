/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ffi/call.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/ffi/attrs.h"
#include "runtime/ffi/internal.h"

struct td_ffi_call {
    td_device_t *dev;
    td_ffi_handler_t handler; /* a copy: the registry may end first */
    const char *target;
    uint32_t n_operands, n_results;
    td_ffi_buffer_t *buffers; /* operands, then results, without addresses */
    int32_t *types;           /* all 1: a buffer */
    const td_attrs_t *attrs;
    td_ffi_slot_t state;
};

/* One invocation; behind it in the scratch lie the buffers and the pointers to them. */
typedef struct frame {
    td_ffi_call_frame_t f;
    td_ffi_ctx_t ctx;
} frame_t;

static td_status_t status_of(td_ffi_errc_t code) {
    switch (code) {
    case TD_FFI_CANCELLED: return TD_CANCELLED;
    case TD_FFI_INVALID_ARGUMENT:
    case TD_FFI_FAILED_PRECONDITION:
    case TD_FFI_OUT_OF_RANGE: return TD_MISMATCH;
    case TD_FFI_DEADLINE_EXCEEDED: return TD_DEADLINE;
    case TD_FFI_NOT_FOUND: return TD_NOTFOUND;
    case TD_FFI_RESOURCE_EXHAUSTED: return TD_NOMEM;
    case TD_FFI_UNIMPLEMENTED: return TD_UNSUPPORTED;
    default: return TD_INTERNAL;
    }
}

static td_status_t fail(const td_ffi_call_t *c, const char *stage, td_ffi_error_t *e, td_err_t *err) {
    td_status_t s = td_fail(err, status_of(e->code), "%s: %s: %.300s%s(%s)", c->target, stage, e->text,
                            *e->text ? " " : "", td_ffi_errc_name((int)e->code));
    c->handler.api->error_destroy(&(td_ffi_error_destroy_t){.struct_size = sizeof(td_ffi_error_destroy_t), .error = e});
    return s;
}

static td_status_t describe(td_ffi_call_t *c, const td_custom_call_desc_t *d, td_arena_t *arena, td_err_t *err) {
    uint32_t n = d->n_operands + d->n_results;
    c->buffers = TD_NEW_N(arena, td_ffi_buffer_t, n);
    c->types = TD_NEW_N(arena, int32_t, n);
    if (!c->buffers || !c->types) return td_arena_fail(arena, err);
    for (uint32_t i = 0; i < n; i++) {
        const td_shape_t *s = i < d->n_operands ? d->operands[i] : d->results[i - d->n_operands];
        bool array = td_type_is_array(s->type);
        int64_t *dims = TD_NEW_N(arena, int64_t, array ? s->rank : 0);
        if (!dims) return td_arena_fail(arena, err);
        if (array && s->rank) memcpy(dims, s->dims, s->rank * sizeof *dims);
        c->types[i] = TD_FFI_ARG_BUFFER;
        c->buffers[i] = (td_ffi_buffer_t){.struct_size = TD_FFI_SIZE(td_ffi_buffer_t, dims),
                                          .dtype = array ? (int32_t)s->type : TD_TOKEN,
                                          .rank = array ? s->rank : 0,
                                          .dims = dims};
    }
    return td_attrs_copy(arena, d->attrs, &c->attrs, err);
}

static uint64_t scratch_bytes(const td_ffi_call_t *c) {
    uint64_t n = (uint64_t)c->n_operands + c->n_results;
    return td_align_up(sizeof(frame_t), 16) + n * (sizeof(td_ffi_buffer_t) + sizeof(void *));
}

/* bufs NULL: no addresses. */
static frame_t *build(const td_ffi_call_t *c, td_ffi_slot_t *state, void *stream, void *const *bufs, void *scratch) {
    static atomic_llong run_ids = 1;
    uint32_t n = c->n_operands + c->n_results;
    frame_t *f = scratch;
    td_ffi_buffer_t *b = (td_ffi_buffer_t *)(void *)((char *)scratch + td_align_up(sizeof(frame_t), 16));
    void **p = (void **)(void *)(b + n);
    if (n) memcpy(b, c->buffers, n * sizeof *b);
    for (uint32_t i = 0; i < n; i++) {
        p[i] = &b[i];
        b[i].data = bufs ? bufs[i] : NULL;
    }
    const size_t args = TD_FFI_SIZE(td_ffi_args_t, args);
    *f = (frame_t){
        .f = {.struct_size = TD_FFI_SIZE(td_ffi_call_frame_t, attrs),
              .api = c->handler.api,
              .ctx = &f->ctx,
              .args = {.struct_size = args, .size = c->n_operands, .types = c->types, .args = p},
              .rets = {.struct_size = args, .size = c->n_results, .types = c->types, .args = p + c->n_operands},
              .attrs = *c->attrs},
        .ctx = {.dev = c->dev,
                .handler = &c->handler,
                .stream = stream,
                .instantiated = state,
                .run_id = bufs ? (int64_t)atomic_fetch_add_explicit(&run_ids, 1, memory_order_relaxed) : 0}};
    return f;
}

static td_status_t stage(const td_ffi_call_t *c, frame_t *f, td_ffi_stage_t which, td_ffi_handler_fn *fn,
                         const char *name, td_err_t *err) {
    if (!fn) return TD_OK;
    f->f.stage = (int32_t)which;
    f->f.future = NULL;
    f->ctx.stage = which;
    td_ffi_error_t *e = fn(&f->f);
    if (!e && f->f.future) e = td_ffi_future_wait(f->f.future);
    return e ? fail(c, name, e, err) : TD_OK;
}

td_status_t td_ffi_call_create(td_device_t *dev, const td_custom_call_desc_t *d, td_arena_t *arena, td_ffi_call_t **out,
                               uint64_t *out_scratch, td_err_t *err) {
    td_ffi_call_t *c = TD_NEW(arena, td_ffi_call_t);
    char *target = td_arena_strndup(arena, d->target, strlen(d->target));
    if (!c || !target) return td_arena_fail(arena, err);
    *c = (td_ffi_call_t){
        .dev = dev, .handler = *d->handler, .target = target, .n_operands = d->n_operands, .n_results = d->n_results};
    td_status_t s = describe(c, d, arena, err);
    if (s) return s;
    *out_scratch = scratch_bytes(c);
    if (c->handler.bundle.instantiate) {
        void *memory = td_arena_align(arena, (size_t)*out_scratch, 64);
        if (!memory) return td_arena_fail(arena, err);
        frame_t *f = build(c, &c->state, NULL, NULL, memory);
        s = stage(c, f, TD_FFI_INSTANTIATE, c->handler.bundle.instantiate, "instantiate", err);
        if (s) {
            td_ffi_slot_clear(&c->state);
            return s;
        }
    }
    *out = c;
    return TD_OK;
}

td_status_t td_ffi_call_run(const td_ffi_call_t *c, void *stream, td_ffi_held_t *held, void *const *bufs, void *scratch,
                            td_err_t *err) {
    const td_ffi_bundle_t *b = &c->handler.bundle;
    /* Only instantiate sets this state, and it is over: the table's functions read it. */
    frame_t *f = build(c, (td_ffi_slot_t *)(uintptr_t)&c->state, stream, bufs, scratch);
    f->ctx.held = held;
    td_status_t s = stage(c, f, TD_FFI_PREPARE, b->prepare, "prepare", err);
    if (!s) s = stage(c, f, TD_FFI_INITIALIZE, b->initialize, "initialize", err);
    if (!s) s = stage(c, f, TD_FFI_EXECUTE, b->execute, "execute", err);
    td_ffi_slot_clear(&f->ctx.initialized);
    td_ffi_slot_clear(&f->ctx.prepared);
    return s;
}

void td_ffi_call_destroy(td_ffi_call_t *c) {
    if (c) td_ffi_slot_clear(&c->state);
}
