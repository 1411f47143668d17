/* SPDX-License-Identifier: Apache-2.0 */
/* cuStream*, cuEvent*. An event holds the mark of its latest record; a wait holds that mark, not the event. */
#include <stdlib.h>

#include "tests/fakecuda/capture.h"

typedef struct fk_event {
    fk_obj_t base;
    bool timed;
    fk_mark_t *mark;                  /* NULL: never recorded */
    struct fk_capture *capture;       /* recorded in that capture, as its record record_number */
    uint32_t record_number;
} fk_event_t;

FK_EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    FK_ENTER(cuStreamCreateWithPriority, 0);
    (void)priority; /* out of range ones are brought into it */
    if (flags > CU_STREAM_NON_BLOCKING) return fk_leave(CUDA_ERROR_INVALID_VALUE);
    fk_stream_t *s = fk_stream_new(fk_current(), flags, false);
    if (s) *stream = fk_handle(&s->base);
    return fk_leave(s ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}
FK_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
    FK_ENTER(cuStreamDestroy_v2, 0);
    CUresult r = CUDA_SUCCESS;
    fk_stream_t *s = fk_get(stream, FK_STREAM, true, &r);
    if (s) fk_stream_end(s); /* what was pushed is still done */
    return fk_leave(r);
}
FK_EXPORT CUresult cuStreamSynchronize(CUstream stream) {
    FK_ENTER(cuStreamSynchronize, 0);
    CUresult r = CUDA_SUCCESS;
    fk_stream_t *s = fk_stream_for_work(stream, &r);
    if (!s || (r = fk_capture_forbids(s))) return fk_leave(r);
    fk_drain(s);
    return fk_leave(s->base.ctx->sticky);
}
FK_EXPORT CUresult cuStreamQuery(CUstream stream) {
    FK_ENTER(cuStreamQuery, 0);
    CUresult r = CUDA_SUCCESS;
    fk_stream_t *s = fk_stream_get(stream, &r);
    if (!s || (r = fk_capture_forbids(s))) return fk_leave(r);
    if (s->done < s->pushed) {
        s->hurry = true; /* who asks again and again waits, too */
        pthread_cond_broadcast(&fk_change);
        return fk_leave(CUDA_ERROR_NOT_READY);
    }
    fk_clock_seen(s->base.ctx, s->clock);
    return fk_leave(CUDA_SUCCESS);
}
FK_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    FK_ENTER(cuStreamWaitEvent, 0);
    CUresult r = flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    fk_stream_t *s = r ? NULL : fk_stream_for_work(stream, &r);
    fk_event_t *e = s ? fk_get(event, FK_EVENT, false, &r) : NULL;
    if (!e) return fk_leave(r);
    if (s->capture || e->capture) return fk_leave(fk_capture_wait(s, e->capture, e->record_number));
    if (!e->mark || e->mark->stream == s) return fk_leave(CUDA_SUCCESS);
    fk_clock_join(&s->clock, e->mark->clock);
    if (e->mark->done) return fk_leave(CUDA_SUCCESS);
    fk_item_t *it = calloc(1, sizeof *it);
    if (!it) return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
    it->wait = e->mark;
    e->mark->refs++;
    fk_push(s, it);
    return fk_leave(CUDA_SUCCESS);
}

FK_EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
    FK_ENTER(cuEventCreate, 0);
    fk_event_t *e = fk_obj_new(FK_EVENT, sizeof *e, fk_current());
    if (!e) return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
    e->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    *event = fk_handle(&e->base);
    return fk_leave(CUDA_SUCCESS);
}
FK_EXPORT CUresult cuEventDestroy_v2(CUevent event) {
    FK_ENTER(cuEventDestroy_v2, 0);
    CUresult r = CUDA_SUCCESS;
    fk_event_t *e = fk_get(event, FK_EVENT, true, &r);
    if (!e) return fk_leave(r);
    fk_mark_put(e->mark);
    e->mark = NULL;
    fk_obj_end(&e->base);
    return fk_leave(r);
}
FK_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
    FK_ENTER(cuEventRecord, 0);
    CUresult r = CUDA_SUCCESS;
    fk_event_t *e = fk_get(event, FK_EVENT, true, &r);
    fk_stream_t *s = e ? fk_stream_for_work(stream, &r) : NULL;
    if (!s) return fk_leave(r);
    if (s->capture) {
        e->capture = s->capture;
        return fk_leave(fk_capture_record(s, &e->record_number));
    }
    fk_mark_t *m = fk_stream_mark(s);
    if (!m) return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
    fk_mark_put(e->mark);
    e->mark = m;
    e->capture = NULL;
    return fk_leave(CUDA_SUCCESS);
}
FK_EXPORT CUresult cuEventQuery(CUevent event) {
    FK_ENTER(cuEventQuery, 0);
    CUresult r = CUDA_SUCCESS;
    fk_event_t *e = fk_get(event, FK_EVENT, true, &r);
    if (!e || !e->mark) return fk_leave(r);
    if (!e->mark->done) {
        e->mark->stream->hurry = true;
        pthread_cond_broadcast(&fk_change);
        return fk_leave(CUDA_ERROR_NOT_READY);
    }
    fk_clock_seen(e->base.ctx, e->mark->clock);
    return fk_leave(CUDA_SUCCESS);
}
FK_EXPORT CUresult cuEventSynchronize(CUevent event) {
    FK_ENTER(cuEventSynchronize, 0);
    CUresult r = CUDA_SUCCESS;
    fk_event_t *e = fk_get(event, FK_EVENT, true, &r);
    if (!e || !e->mark) return fk_leave(r);
    fk_mark_t *m = e->mark;
    m->refs++;
    fk_mark_await(m);
    fk_clock_seen(e->base.ctx, m->clock);
    fk_mark_put(m);
    return fk_leave(e->base.ctx->sticky);
}
FK_EXPORT CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end) {
    FK_ENTER(cuEventElapsedTime, 0);
    CUresult r = CUDA_SUCCESS;
    fk_event_t *a = fk_get(start, FK_EVENT, true, &r), *b = a ? fk_get(end, FK_EVENT, true, &r) : NULL;
    if (!b) return fk_leave(r);
    if (!a->timed || !b->timed || !a->mark || !b->mark) return fk_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!a->mark->done || !b->mark->done) return fk_leave(CUDA_ERROR_NOT_READY);
    *ms = (float)((double)(int64_t)(b->mark->at_ns - a->mark->at_ns) * 1e-6);
    return fk_leave(CUDA_SUCCESS);
}
