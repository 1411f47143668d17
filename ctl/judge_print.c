/* SPDX-License-Identifier: Apache-2.0 */
/* A verdict as text: one line that says it all, then the evidence. */
#include <inttypes.h>
#include <stdio.h>

#include "contract/day.h"
#include "contract/schema.h"
#include "ctl/judge.h"

#define SOME 8 /* of a list that may be long */

static const char *construct(const td_ledger_item_t *it, char *out, size_t size) {
    snprintf(out, size, "%s.%s", td_ledger_owner(it)->name, it->name);
    return out;
}

static void print_release(const td_verdict_t *v) {
    const td_verdict_release_t *r = &v->release;
    char name[192], day[12];
    if (r->at_least < 0) return;
    const td_ledger_release_t *l = &td_ledger_releases[r->at_least];
    printf("  release    %s%s, built %s\n", l->name, r->at_most == r->at_least ? "" : " or later",
           td_day_text(l->built, day));
    printf("             at least %s: %s at %s\n", l->name, construct(r->newest, name, sizeof name), r->newest_place);
    if (r->oldest)
        printf("             at most %s: %s %s%s\n", td_ledger_releases[r->at_most].name,
               construct(r->oldest, name, sizeof name), r->oldest_place ? "at " : "is missing",
               r->oldest_place ? r->oldest_place : "");
}

static void print_window(const td_verdict_t *v) {
    char day[12];
    if (!v->built || !v->day) return;
    int left = td_day_between(v->day, v->leaves);
    printf("  window     %s %s, %d days %s\n", left < 0 ? "outside since" : "inside until", td_day_text(v->leaves, day),
           left < 0 ? -left : left, left < 0 ? "ago" : "left");
}

static void print_target(const td_verdict_t *v) {
    const td_scan_watch_t *name = &v->watch[TD_WATCH_NAME];
    if (!name->set) name = &v->watch[TD_WATCH_DESCRIPTION];
    if (*v->target) printf("  target     compute capability %s%s%s\n", v->target, name->set ? ", " : "", name->text);
}

static void print_needs(const td_verdict_t *v) {
    static const struct {
        int watch;
        const char *name;
    } versions[] = {{TD_WATCH_TOOLKIT, "CUDA toolkit"},
                    {TD_WATCH_CUDNN, "cuDNN"},
                    {TD_WATCH_CUB, "CUB"},
                    {TD_WATCH_DRIVER, "driver"}};
    const char *library;
    printf("  needs      %" PRIu32 " device%s", v->devices, v->devices == 1 ? "" : "s");
    for (uint32_t k = 0; (library = td_needed_library(&v->scan, k)); k++) printf(", %s", library);
    printf("\n");
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (v->watch[versions[i].watch].set)
            printf("             %s %s\n", versions[i].name, v->watch[versions[i].watch].text);
    for (uint32_t i = 0; i < v->scan.n_handlers; i++) printf("             handler %s\n", v->scan.handlers[i]);
}

static void print_fallbacks(const td_verdict_t *v) {
    char month[16];
    for (uint32_t i = 0; i < v->n_fallbacks; i++) {
        const td_verdict_fallback_t *f = &v->fallbacks[i];
        printf("  fallback   %s: %s, at %s; can be removed in %s%s\n", f->row->name, f->row->form, f->place,
               td_month_text(f->row->month, month), f->off ? "; off on that day" : "");
    }
}

static void print_missing(const td_verdict_t *v) {
    char name[192];
    for (uint32_t i = 0; i < v->n_missing_needed && i < SOME; i++)
        printf("  too new    %s at %s\n", construct(v->missing[i].item, name, sizeof name), v->missing[i].place);
    if (v->n_missing_needed > SOME) printf("             and %u more\n", v->n_missing_needed - SOME);
    if (v->n_missing > v->n_missing_needed)
        printf("  ignored    %u constructs that came later, which may be\n", v->n_missing - v->n_missing_needed);
}

static void print_unknown(const ctl_judge_t *j, const td_verdict_t *v) {
    for (uint32_t i = 0; i < v->scan.n_unknown; i++) {
        const td_scan_unknown_t *u = &v->scan.unknown[i];
        td_span_t name = td_schema_name(td_buffer_span(&j->schema), u->type_name, u->number, u->is_value);
        printf("  unknown    %s %" PRId64 " of %s",
               u->is_thunk_kind ? "thunk kind"
               : u->is_value    ? "value"
                                : "field",
               u->number, u->type_name);
        if (name.size) printf(", %.*s", (int)name.size, (const char *)name.data);
        printf(", at %s, %" PRIu32 " times\n", u->path, u->count);
    }
    if (v->scan.n_unknown_left_out) printf("             and %" PRIu32 " more\n", v->scan.n_unknown_left_out);
}

void ctl_verdict_print(const ctl_judge_t *j, const char *path, const char *source, const td_verdict_t *v) {
    char line[1024];
    printf("%s: %s\n", path, td_verdict_line(v, line, sizeof line));
    if (!v->scanned) return;
    print_release(v);
    print_window(v);
    print_target(v);
    print_needs(v);
    print_fallbacks(v);
    print_missing(v);
    print_unknown(j, v);
    if (v->n_duplicates)
        printf("  payloads   %" PRIu32 " occur again, %" PRIu64 " bytes in all\n", v->n_duplicates, v->duplicate_bytes);
    if (source && v->kind != TD_VERDICT_COMPATIBLE) printf("  advice     compile %s anew\n", source);
}
