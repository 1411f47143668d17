/* SPDX-License-Identifier: Apache-2.0 */
/* A verdict as JSON. Absent evidence is null. */
#include "contract/day.h"
#include "contract/schema.h"
#include "ctl/judge.h"
#include "ctl/print.h"

static json_t *text_or_null(const char *text) { return text && *text ? ctl_json_text(text) : json_null(); }
static json_t *day_json(int32_t day) {
    char text[12];
    return text_or_null(td_day_text(day, text));
}
static json_t *release_name(int index) { return index < 0 ? json_null() : json_string(td_ledger_releases[index].name); }

static json_t *construct(const td_ledger_item_t *it, const char *place) {
    if (!it) return json_null();
    return json_pack("{s:s+++, s:o, s:o}", "construct", td_ledger_owner(it)->name, ".", it->name, "", "place",
                     text_or_null(place), "first_release", release_name(it->first));
}

static json_t *release_json(const td_verdict_t *v) {
    const td_verdict_release_t *r = &v->release;
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "at_least", release_name(r->at_least), "at_most",
                     release_name(r->at_most), "built", day_json(v->built), "newest",
                     construct(r->newest, r->newest_place), "oldest", construct(r->oldest, r->oldest_place));
}

static json_t *window_json(const td_verdict_t *v) {
    bool known = v->built && v->day;
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "day", day_json(v->day), "leaves", day_json(v->leaves), "inside",
                     known ? json_boolean(v->day <= v->leaves) : json_null(), "days_left",
                     known ? json_integer(td_day_between(v->day, v->leaves)) : json_null(), "age_days",
                     known ? json_integer(td_day_between(v->built, v->day)) : json_null());
}

static json_t *watch_json(const td_verdict_t *v, int i) {
    return text_or_null(v->watch[i].set ? v->watch[i].text : NULL);
}

static json_t *needs_json(const td_verdict_t *v) {
    json_t *handlers = json_array(), *libraries = json_array();
    const char *library;
    for (uint32_t i = 0; i < v->scan.n_handlers; i++)
        json_array_append_new(handlers, ctl_json_text(v->scan.handlers[i]));
    for (uint32_t k = 0; (library = td_needed_library(&v->scan, k)); k++)
        json_array_append_new(libraries, json_string(library));
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "devices", (json_int_t)v->devices, "handlers", handlers,
                     "libraries", libraries, "toolkit", watch_json(v, TD_WATCH_TOOLKIT), "cudnn",
                     watch_json(v, TD_WATCH_CUDNN), "cub", watch_json(v, TD_WATCH_CUB), "driver",
                     watch_json(v, TD_WATCH_DRIVER));
}

static json_t *fallbacks_json(const td_verdict_t *v) {
    json_t *list = json_array();
    char month[16];
    for (uint32_t i = 0; i < v->n_fallbacks; i++) {
        const td_verdict_fallback_t *f = &v->fallbacks[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:s, s:b}", "name", f->row->name, "form", f->row->form,
                                              "place", text_or_null(f->place), "can_be_removed_in",
                                              td_month_text(f->row->month, month), "off", f->off));
    }
    return list;
}

static json_t *missing_json(const td_verdict_t *v, bool needed) {
    json_t *list = json_array();
    for (uint32_t i = needed ? 0 : v->n_missing_needed; i < (needed ? v->n_missing_needed : v->n_missing); i++)
        json_array_append_new(list, construct(v->missing[i].item, v->missing[i].place));
    return list;
}

static json_t *unknown_json(const ctl_judge_t *j, const td_verdict_t *v) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < v->scan.n_unknown; i++) {
        const td_scan_unknown_t *u = &v->scan.unknown[i];
        td_span_t name = td_schema_name(td_buffer_span(&j->schema), u->type_name, u->number, u->is_value);
        json_t *n = name.size ? json_stringn((const char *)name.data, name.size) : NULL;
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:o, s:o, s:I}", "what",
                                              u->is_thunk_kind ? "thunk kind"
                                              : u->is_value    ? "value"
                                                               : "field",
                                              "type", u->type_name, "number", (json_int_t)u->number, "name",
                                              n ? n : json_null(), "place", text_or_null(u->path), "count",
                                              (json_int_t)u->count));
    }
    return list;
}

json_t *ctl_verdict_json(const ctl_judge_t *j, const char *path, const char *source, const td_verdict_t *v) {
    json_t *o =
        json_pack("{s:o, s:b, s:s, s:s, s:o}", "path", ctl_json_text(path), "loads", v->loads, "verdict",
                  td_verdict_name(v->kind), "status", td_status_name(v->status), "reason", ctl_json_text(v->reason));
    if (!v->scanned || !o) return o;
    const td_scan_watch_t *device = &v->watch[TD_WATCH_NAME];
    if (!device->set) device = &v->watch[TD_WATCH_DESCRIPTION];
    json_object_set_new(o, "release", release_json(v));
    json_object_set_new(o, "window", window_json(v));
    json_object_set_new(o, "target",
                        json_pack("{s:o, s:o, s:o}", "compute_capability", text_or_null(v->target), "device",
                                  text_or_null(device->text), "platform", watch_json(v, TD_WATCH_PLATFORM)));
    json_object_set_new(o, "needs", needs_json(v));
    json_object_set_new(o, "fallbacks", fallbacks_json(v));
    json_object_set_new(o, "too_new", missing_json(v, true));
    json_object_set_new(o, "ignored", missing_json(v, false));
    json_object_set_new(o, "unknown", unknown_json(j, v));
    json_object_set_new(
        o, "duplicates",
        json_pack("{s:I, s:I}", "count", (json_int_t)v->n_duplicates, "bytes", (json_int_t)v->duplicate_bytes));
    json_object_set_new(o, "source", text_or_null(source));
    return o;
}
