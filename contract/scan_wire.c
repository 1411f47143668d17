/* SPDX-License-Identifier: Apache-2.0 */
/* Noting what was found, and walking wire bytes as the ledger describes them. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "contract/scan_in.h"
#include "proto/wire.h"

static size_t step_text(const td_scan_step_t *s, bool first, char *out, size_t room) {
    char number[16], index[28] = "";
    snprintf(number, sizeof number, "%u", s->number);
    if (s->index >= 0) snprintf(index, sizeof index, "[%lld]", (long long)s->index);
    int n = snprintf(out, room, "%s%s%s", first ? "" : ".", s->name ? s->name : number, index);
    return n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

/* The walk's place, and name[index] below it. A deep one loses its end. */
static const char *place(td_scan_walk_t *w, const char *name, int64_t index) {
    char text[1024] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < w->n_steps; i++) at += step_text(&w->steps[i], !i, text + at, sizeof text - at);
    if (name) at += step_text(&(td_scan_step_t){name, 0, index}, !at, text + at, sizeof text - at);
    return td_arena_strndup(&w->scan->arena, text, at);
}

td_status_t td_scan_mark(td_scan_walk_t *w, const td_ledger_item_t *it, const char *name, int64_t index, bool needed) {
    td_found_t *f = &w->scan->found[td_ledger_index(it)];
    bool better = !f->count || (needed && !f->needed);
    if (f->count < UINT32_MAX) f->count++;
    if (!better) return TD_OK;
    f->needed = needed;
    f->path = place(w, name, index);
    return f->path ? TD_OK : td_arena_fail(&w->scan->arena, w->err);
}

td_status_t td_scan_mark_unknown(td_scan_walk_t *w, const td_ledger_type_t *type, const char *type_name, int64_t number,
                                 bool is_value, bool needed) {
    td_scan_t *s = w->scan;
    for (uint32_t i = 0; i < s->n_unknown; i++) {
        td_scan_unknown_t *u = &s->unknown[i];
        if (u->number != number || u->is_value != is_value || strcmp(u->type_name, type_name)) continue;
        u->count++;
        if (u->needed || !needed) return TD_OK;
        u->needed = true;
        return (u->path = place(w, NULL, -1)) ? TD_OK : td_arena_fail(&s->arena, w->err);
    }
    if (s->n_unknown == TD_LIMIT_UNKNOWN_FIELDS) {
        s->n_unknown_left_out++;
        return TD_OK;
    }
    if (s->n_unknown == w->cap_unknown) {
        uint32_t cap = w->cap_unknown ? 2 * w->cap_unknown : 8;
        td_scan_unknown_t *u = TD_NEW_N(&s->arena, td_scan_unknown_t, cap);
        if (!u) return td_arena_fail(&s->arena, w->err);
        if (s->n_unknown) memcpy(u, s->unknown, s->n_unknown * sizeof *u);
        s->unknown = u;
        w->cap_unknown = cap;
    }
    const char *path = place(w, NULL, -1);
    if (!path) return td_arena_fail(&s->arena, w->err);
    s->unknown[s->n_unknown++] = (td_scan_unknown_t){type, type_name, number, is_value, needed, false, path, 1};
    return TD_OK;
}

static td_scan_watch_t *watch_of(td_scan_walk_t *w, const td_ledger_item_t *it) {
    uint8_t k = w->watched ? w->watched[td_ledger_index(it)] : 0;
    return k && !w->watch[k - 1].set ? &w->watch[k - 1] : NULL;
}

void td_scan_watch_bytes(td_scan_walk_t *w, const td_ledger_item_t *it, const void *data, size_t size) {
    td_scan_watch_t *x = watch_of(w, it);
    if (!x || !size) return;
    if (size >= sizeof x->text) size = sizeof x->text - 1;
    memcpy(x->text, data, size);
    x->text[size] = 0;
    x->set = true;
}

void td_scan_watch_number(td_scan_walk_t *w, const td_ledger_item_t *it, uint64_t v) {
    td_scan_watch_t *x = watch_of(w, it);
    if (!x) return;
    x->number = v;
    x->set = true;
}

td_status_t td_scan_value(td_scan_walk_t *w, const td_ledger_type_t *type, int64_t v, bool needed) {
    const td_ledger_item_t *it = td_ledger_find(type, v);
    return it ? td_scan_mark(w, it, NULL, -1, needed) : td_scan_mark_unknown(w, type, type->name, v, true, needed);
}

static bool wire_empty(const td_wire_field_t *f) { return f->type == TD_WIRE_LEN ? !f->bytes.size : !f->value; }

static td_status_t values(td_scan_walk_t *w, const td_ledger_type_t *type, const td_wire_field_t *f, bool needed) {
    if (f->type == TD_WIRE_VARINT) return td_scan_value(w, type, (int32_t)f->value, needed);
    td_span_t in = f->bytes;
    uint64_t v;
    while (in.size && td_wire_varint(&in, &v)) {
        td_status_t s = td_scan_value(w, type, (int32_t)v, needed);
        if (s != TD_OK) return s;
    }
    return TD_OK;
}

/* Below the step to the field. */
static td_status_t field(td_scan_walk_t *w, const td_ledger_item_t *it, const td_wire_field_t *f, bool needed) {
    const td_ignorable_t *rule = w->rules[td_ledger_index(it)];
    if (rule && (rule->when == TD_IGNORE_ALWAYS || (rule->when == TD_IGNORE_EMPTY && wire_empty(f)))) needed = false;
    td_status_t s = td_scan_mark(w, it, NULL, -1, needed);
    if (s != TD_OK) return s;
    if (f->type == TD_WIRE_LEN) td_scan_watch_bytes(w, it, f->bytes.data, f->bytes.size);
    else td_scan_watch_number(w, it, f->value);
    if (it->type < 0) return TD_OK;
    const td_ledger_type_t *type = &td_ledger_types[it->type];
    if (type->is_enum) return values(w, type, f, needed);
    return f->type == TD_WIRE_LEN ? td_scan_wire(w, type, f->bytes, needed) : TD_OK;
}

static td_status_t any_field(td_scan_walk_t *w, const td_ledger_type_t *type, const char *type_name,
                             const td_wire_field_t *f, bool needed) {
    const td_ledger_item_t *it = type ? td_ledger_find(type, f->number) : NULL;
    if (!td_scan_down(w, it ? it->name : NULL, f->number, -1)) return TD_LIMIT;
    td_status_t s = it ? field(w, it, f, needed) : td_scan_mark_unknown(w, type, type_name, f->number, false, needed);
    w->n_steps--;
    return s;
}

td_status_t td_scan_wire(td_scan_walk_t *w, const td_ledger_type_t *type, td_span_t bytes, bool needed) {
    td_wire_field_t f;
    td_span_t in = bytes;
    while (in.size)
        if (!td_wire_next(&in, &f)) return TD_OK;
    while (bytes.size && td_wire_next(&bytes, &f)) {
        td_status_t s = any_field(w, type, type->name, &f, needed);
        if (s != TD_OK) return s;
    }
    return TD_OK;
}

td_status_t td_scan_wire_field(td_scan_walk_t *w, const td_ledger_type_t *type, const char *type_name, uint32_t number,
                               uint8_t wire_type, td_span_t value, uint64_t v, bool needed) {
    td_wire_field_t f = {.number = number, .type = wire_type, .value = v, .bytes = value};
    return any_field(w, type, type_name, &f, needed);
}
