/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ward.h"

#include "daemon/log.h"

enum { TICK_LEAST_MS = 50, TICKS = 4 }; /* of slow_run_ms: a run is told at most a quarter late */

static void on_slow(void *ctx, const char *model, const char *version, uint64_t ns, const char *where) {
    td_ward_t *w = ctx;
    atomic_fetch_add_explicit(&w->n_slow, 1, memory_order_relaxed);
    td_log("%s/%s: a run has taken %.1f s so far: %s", model, version, (double)ns / 1e9, where);
}

static void on_tick(uv_timer_t *t) {
    td_ward_t *w = t->data;
    td_store_slow_runs(w->store, w->slow_run_ms * 1000000ull, on_slow, w);
}

static void on_note(td_note_t *n) {
    td_ward_t *w = (td_ward_t *)(void *)((char *)n - offsetof(td_ward_t, note));
    if (w->has_failed || !td_device_failed(w->device, &w->cause)) return;
    w->has_failed = true;
    w->failed(w->ctx, w->cause.text);
}

void td_ward_start(td_ward_t *w, uv_loop_t *loop) {
    uint64_t every = w->slow_run_ms / TICKS < TICK_LEAST_MS ? TICK_LEAST_MS : w->slow_run_ms / TICKS;
    w->note.read = on_note;
    if (!w->slow_run_ms || uv_timer_init(loop, &w->tick)) return;
    w->tick.data = w;
    w->ticking = true;
    uv_timer_start(&w->tick, on_tick, every, every);
}

void td_ward_stop(td_ward_t *w) {
    if (!w->ticking) return;
    w->ticking = false;
    uv_close((uv_handle_t *)&w->tick, NULL);
}

bool td_ward_suspect(td_ward_t *w) {
    if (!td_device_failed(w->device, NULL)) return false;
    if (!atomic_exchange(&w->noted, true)) td_inbox_post(w->inbox, &w->note);
    return true;
}

const char *td_ward_cause(const td_ward_t *w) { return w->has_failed ? w->cause.text : NULL; }
