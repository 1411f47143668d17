/* SPDX-License-Identifier: Apache-2.0 */
/* Where a run stands, for whoever wonders why it takes long. The thread that runs stores a pointer for each thunk and
 * a number for each phase, nothing more; here, in another thread, they are looked up in the program, which never
 * changes. The lanes are read one after the other, so the text may mix moments. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "runtime/graph.h"

typedef struct text {
    char *to;
    size_t room, at; /* at <= room - 1; the text is cut there */
} text_t;

__attribute__((format(printf, 2, 3))) static void say(text_t *s, const char *format, ...) {
    va_list v;
    va_start(v, format);
    int n = vsnprintf(s->to + s->at, s->room - s->at, format, v);
    va_end(v);
    if (n > 0) s->at = (size_t)n < s->room - s->at ? s->at + (size_t)n : s->room - 1;
}

/* The thunks that lead to the one that `is` accepts, outermost first. */
typedef bool is_t(const td_thunk_t *t, const void *sought);
static const td_thunk_t *path(text_t *s, const td_seq_t *q, const char *name, is_t *is, const void *sought) {
    size_t before = s->at;
    for (uint32_t i = 0; i < q->n; i++) {
        const td_thunk_t *t = &q->v[i], *found = NULL;
        say(s, "%s[%" PRIu32 "] (%s)", name, i, t->kind->name);
        if (is(t, sought)) return t;
        for (uint32_t k = 0; k < t->n_seqs; k++) {
            char inner[26] = ".";
            td_thunk_seq_name(t, k, inner + 1);
            if ((found = path(s, &t->seqs[k], inner, is, sought))) return found;
        }
        s->to[s->at = before] = 0;
    }
    return NULL;
}
static bool is_thunk(const td_thunk_t *t, const void *sought) { return t == sought; }
static bool has_kernel(const td_thunk_t *t, const void *sought) { return t->kernel == sought; }

static bool find(text_t *s, const td_program_t *p, is_t *is, const void *sought) {
    const td_thunk_t *t = path(s, &p->thunks, "thunks", is, sought);
    if (!t) t = path(s, &p->once, "bound thunks", is, sought);
    if (t && *t->annotation) say(s, " '%s'", t->annotation);
    return t;
}

void td_thunk_path(const td_program_t *p, const td_thunk_t *t, char *text, size_t size) {
    text_t s = {text, size, 0};
    *text = 0;
    find(&s, p, is_thunk, t);
}

static void lane(text_t *s, const td_binding_t *b, uint32_t i) {
    const td_program_t *p = b->p;
    const td_kernel_t *kernel = NULL;
    td_stream_t *q = b->run.lanes[i].stream;
    const td_thunk_t *t = atomic_load_explicit(&b->run.lanes[i].at, memory_order_relaxed);
    bool running = p->dev->ops->stream_running && p->dev->ops->stream_running(q, &kernel);
    if (!t && !running) return;
    int64_t id = -1;
    td_stream_use_t use = td_program_lane(p, i, &id);
    say(s, "; %s stream", td_stream_use_name(use));
    if (id >= 0) say(s, " %" PRId64, id);
    say(s, " at ");
    if (kernel && find(s, p, has_kernel, kernel)) say(s, ", running");
    else if (t) find(s, p, is_thunk, t);
    if (running && !kernel) say(s, ", copying or waiting");
}

bool td_binding_where(const td_binding_t *b, char *out, size_t size) {
    uint32_t phase = atomic_load_explicit(&b->phase, memory_order_relaxed);
    text_t s = {out, size, 0};
    int64_t id = -1;
    if (!size) return false;
    *out = 0;
    switch ((td_phase_t)(phase & 255)) {
    case TD_PHASE_IDLE: return false;
    case TD_PHASE_INPUTS: say(&s, "inputs go to the device"); break;
    case TD_PHASE_THUNKS: say(&s, "thunks are enqueued"); break;
    case TD_PHASE_DRAIN:
        say(&s, "all is enqueued; waits for the %s stream", td_stream_use_name(td_program_lane(b->p, phase >> 8, &id)));
        if (id >= 0) say(&s, " %" PRId64, id);
        break;
    }
    for (uint32_t i = 0; i < b->p->n_lanes; i++) lane(&s, b, i);
    return true;
}
