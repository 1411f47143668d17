/* SPDX-License-Identifier: Apache-2.0 */
/* What the store shows of itself. */
#include <string.h>

#include "store/store_in.h"

const char *td_model_state_name(td_model_state_t s) {
    static const char *const names[] = {"UNAVAILABLE", "LOADING", "READY", "UNLOADING"};
    return (unsigned)s < sizeof names / sizeof *names ? names[s] : "UNAVAILABLE";
}

static const char *text(td_arena_t *a, const char *t) { return td_arena_strndup(a, t, strlen(t)); }

static const char *labels_of(td_arena_t *a, const td_named_t *m, const td_version_t *v) {
    const char *all = "";
    for (uint32_t i = 0; all && i < m->config.labels.n; i++)
        if (!strcmp(m->config.labels.items[i].value.text, v->name))
            all = td_arena_printf(a, "%s%s%s", all, *all ? "," : "", m->config.labels.items[i].key.text);
    return all;
}

static bool fill(td_store_t *s, td_arena_t *a, td_named_t *m, td_version_t *v, td_model_row_t *w) {
    const td_resident_t *r = v->resident;
    *w = (td_model_row_t){.state = v->state, .pinned = td_version_pinned(v), .on_disk = v->on_disk,
                          .load = m->config.load,
                          .priority = m->config.priority, .loads = v->loads, .evictions = v->evictions,
                          .done = atomic_load(&v->done), .total = atomic_load(&v->total),
                          .graph_replays = atomic_load(&v->graph_replays),
                          .graph_captures = atomic_load(&v->graph_captures),
                          .graph_refused = atomic_load(&v->graph_refused)};
    w->is_default = td_named_resolve(m, "") == v;
    if (r) {
        w->leases = r->leases, w->sequences = r->sequences, w->bytes = r->info.bytes;
        w->idle_ms = (td_store_now(s) - r->used_ns) / 1000000u;
        w->leave_day = r->info.leave_day;
    }
    const char *reason = r && *m->trouble ? m->trouble : r && *v->trouble ? v->trouble : v->reason;
    return (w->name = text(a, m->name)) && (w->version = text(a, v->name)) && (w->reason = text(a, reason)) &&
           (w->verdict = text(a, v->verdict)) && (w->artifact = text(a, r ? r->info.artifact : "")) &&
           (w->labels = labels_of(a, m, v));
}

/* A model without a version to show for it has something to say nevertheless. */
static bool fill_bare(td_arena_t *a, const td_named_t *m, td_model_row_t *w) {
    *w = (td_model_row_t){.version = "", .verdict = "", .artifact = "", .labels = "", .on_disk = m->on_disk};
    return (w->name = text(a, m->name)) &&
        (w->reason = text(a, *m->trouble ? m->trouble : "no version's folder is there"));
}

td_status_t td_store_list(td_store_t *s, td_arena_t *arena, td_model_row_t **out, uint32_t *out_n, td_err_t *err) {
    uint32_t n = 0, k = 0;
    bool ok = true;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->n_models; i++) n += s->models[i]->n ? s->models[i]->n : 1;
    td_model_row_t *rows = TD_NEW_N(arena, td_model_row_t, n + 1u);
    for (uint32_t i = 0; rows && ok && i < s->n_models; i++) {
        td_named_t *m = s->models[i];
        if (!m->n) ok = fill_bare(arena, m, &rows[k++]);
        for (uint32_t j = 0; ok && j < m->n; j++) ok = fill(s, arena, m, m->versions[j], &rows[k++]);
    }
    pthread_mutex_unlock(&s->lock);
    if (!rows || !ok) return td_arena_fail(arena, err);
    *out = rows;
    *out_n = k;
    return TD_OK;
}

td_store_stats_t td_store_stats(td_store_t *s) {
    pthread_mutex_lock(&s->lock);
    td_store_stats_t v = s->stats;
    pthread_mutex_unlock(&s->lock);
    td_payload_table_stats(s->payloads, &v.payloads, &v.payload_bytes, &v.payload_refs);
    return v;
}
