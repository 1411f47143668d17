/* SPDX-License-Identifier: Apache-2.0 */
/* Thunk messages made by tests, in the arena of the test. Included by one test file each, which has `arena`. */
#ifndef TD_TESTS_THUNK_FORMS_H
#define TD_TESTS_THUNK_FORMS_H

#include <string.h>

#include "base/arena.h"
#include "executable.pb-c.h"

static td_arena_t arena;
typedef Xla__Gpu__ThunkProto thunk_t;
typedef Xla__Gpu__GpuExecutableProto exe_t;
typedef Xla__BufferAssignment__BufferAllocationSliceProto slice_t;

#define NEW_MSG(type, init) ((type *)memcpy(td_arena_zalloc(&arena, sizeof(type)), &(type)init, sizeof(type)))
#define SET(obj, field, value) ((obj)->has_##field = 1, (obj)->field = (value))
static thunk_t *thunk(unsigned kind, void *body) {
    thunk_t *t = NEW_MSG(thunk_t, XLA__GPU__THUNK_PROTO__INIT);
    t->impl_case = (Xla__Gpu__ThunkProto__ImplCase)kind;
    t->while_thunk = body; /* any member of the union */
    return t;
}
static Xla__Gpu__ThunkSequenceProto *seq(size_t n, thunk_t **v) {
    Xla__Gpu__ThunkSequenceProto *s = NEW_MSG(Xla__Gpu__ThunkSequenceProto, XLA__GPU__THUNK_SEQUENCE_PROTO__INIT);
    s->n_thunks = n;
    s->thunks = td_arena_zalloc(&arena, n * sizeof *v + 8);
    memcpy(s->thunks, v, n * sizeof *v);
    return s;
}
#define ID(x) XLA__GPU__ASYNC_START_THUNK_PROTO__EXECUTION_STREAM_ID_##x
static inline thunk_t *start_of(uint64_t id, uint64_t stream, Xla__Gpu__ThunkSequenceProto *body) {
    Xla__Gpu__AsyncStartThunkProto *p = NEW_MSG(Xla__Gpu__AsyncStartThunkProto,
                                                XLA__GPU__ASYNC_START_THUNK_PROTO__INIT);
    SET(p, async_execution_id, id);
    p->thunks = body;
    p->execution_stream_id_case = stream % 2 ? ID(COMMUNICATION_STREAM_ID) : ID(COMPUTATION_STREAM_ID);
    p->computation_stream_id = stream / 2;
    return thunk(XLA__GPU__THUNK_PROTO__IMPL_ASYNC_START_THUNK, p);
}
static inline thunk_t *done_of(uint64_t id) {
    Xla__Gpu__AsyncDoneThunkProto *p = NEW_MSG(Xla__Gpu__AsyncDoneThunkProto, XLA__GPU__ASYNC_DONE_THUNK_PROTO__INIT);
    SET(p, async_execution_id, id);
    return thunk(XLA__GPU__THUNK_PROTO__IMPL_ASYNC_DONE_THUNK, p);
}
/* A slice of the scratch allocation of the sample that no kernel's data lies in at that time. */
static slice_t *slice(const exe_t *e, int64_t size) {
    slice_t *s = NEW_MSG(slice_t, XLA__BUFFER_ASSIGNMENT__BUFFER_ALLOCATION_SLICE_PROTO__INIT);
    SET(s, offset, 16);
    SET(s, size, size);
    for (size_t i = 0; i < e->buffer_allocations->n_values; i++)
        if (e->buffer_allocations->values[i]->size > 20000) SET(s, buffer_allocation_index, (int64_t)i);
    return s;
}
static inline thunk_t *loop_of(const exe_t *e, int64_t trips, Xla__Gpu__ThunkSequenceProto *body) {
    Xla__Gpu__WhileThunkProto *p = NEW_MSG(Xla__Gpu__WhileThunkProto, XLA__GPU__WHILE_THUNK_PROTO__INIT);
    p->condition_result_buffer_index = slice(e, 1);
    p->body_thunk_sequence = body;
    SET(p, trip_count, trips);
    return thunk(XLA__GPU__THUNK_PROTO__IMPL_WHILE_THUNK, p);
}
/* Whatever the index, there is one branch. */
static inline thunk_t *branch_of(const exe_t *e, Xla__Gpu__ThunkSequenceProto *body) {
    Xla__Gpu__ConditionalThunkProto *p = NEW_MSG(Xla__Gpu__ConditionalThunkProto,
                                                 XLA__GPU__CONDITIONAL_THUNK_PROTO__INIT);
    p->branch_index_buffer = NEW_MSG(Xla__ShapedSliceProto, XLA__SHAPED_SLICE_PROTO__INIT);
    p->branch_index_buffer->slice = slice(e, 4);
    p->branch_index_buffer->shape = NEW_MSG(Xla__ShapeProto, XLA__SHAPE_PROTO__INIT);
    SET(p->branch_index_buffer->shape, element_type, XLA__PRIMITIVE_TYPE__S32);
    p->n_branch_thunks = 1;
    p->branch_thunks = td_arena_zalloc(&arena, sizeof(void *));
    p->branch_thunks[0] = body;
    return thunk(XLA__GPU__THUNK_PROTO__IMPL_CONDITIONAL_THUNK, p);
}

#endif
