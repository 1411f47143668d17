/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract/day.h"
#include "executable.pb-c.h"

static const char *const watched[TD_WATCH_COUNT] = {
    [TD_WATCH_MAJOR] = "stream_executor.CudaComputeCapabilityProto.major",
    [TD_WATCH_MINOR] = "stream_executor.CudaComputeCapabilityProto.minor",
    [TD_WATCH_FEATURE] = "stream_executor.CudaComputeCapabilityProto.feature_extension",
    [TD_WATCH_TOOLKIT] = "stream_executor.ExecutableAbiVersionProto.CudaPlatformVersion.cuda_toolkit_version",
    [TD_WATCH_CUDNN] = "stream_executor.ExecutableAbiVersionProto.CudaPlatformVersion.cudnn_version",
    [TD_WATCH_CUB] = "stream_executor.ExecutableAbiVersionProto.CudaPlatformVersion.cub_version",
    [TD_WATCH_NAME] = "stream_executor.GpuDeviceInfoProto.name",
    [TD_WATCH_DESCRIPTION] = "stream_executor.GpuTargetConfigProto.device_description_str",
    [TD_WATCH_DRIVER] = "stream_executor.GpuDeviceInfoProto.driver_version",
    [TD_WATCH_PLATFORM] = "xla.GpuTopologyProto.platform_version",
    [TD_WATCH_REPLICAS] = "xla.HloModuleConfigProto.replica_count",
    [TD_WATCH_PARTITIONS] = "xla.HloModuleConfigProto.num_partitions",
};

const char *td_verdict_name(td_verdict_kind_t k) {
    static const char *const names[TD_VERDICT_COUNT] = {"compatible",
                                                        "compatible-with-fallback",
                                                        "outside-window",
                                                        "needs-newer-runtime",
                                                        "needs-capability",
                                                        "wrong-target",
                                                        "environment-too-old",
                                                        "unsupported",
                                                        "damaged",
                                                        "unreadable"};
    return (unsigned)k < TD_VERDICT_COUNT ? names[k] : "unknown";
}

/* A refusal; the first one stands. */
static void refuse(td_verdict_t *v, td_verdict_kind_t kind, td_status_t status, const char *fmt, ...) TD_PRINTF(4, 5);
static void refuse(td_verdict_t *v, td_verdict_kind_t kind, td_status_t status, const char *fmt, ...) {
    if (!v->loads) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(v->reason, sizeof v->reason, fmt, ap);
    va_end(ap);
    v->kind = kind;
    v->status = status;
    v->loads = false;
}

static void judge_unknown(td_verdict_t *v) {
    for (uint32_t i = 0; i < v->scan.n_unknown; i++) {
        const td_scan_unknown_t *u = &v->scan.unknown[i];
        if (u->is_thunk_kind)
            refuse(v, TD_VERDICT_NEEDS_NEWER_RUNTIME, TD_UNSUPPORTED, "%s: thunk kind %lld is unknown", u->path,
                   (long long)u->number);
        else if (u->is_value && u->needed)
            refuse(v, TD_VERDICT_NEEDS_NEWER_RUNTIME, TD_UNSUPPORTED, "%s: %s has no value %lld", u->path, u->type_name,
                   (long long)u->number);
    }
}

/* ---- playing the runtime of a day ---- */
static bool later(const td_verdict_t *v, uint32_t i, bool needed) {
    const td_ledger_item_t *it = &td_ledger_items[i];
    const td_found_t *f = &v->scan.found[i];
    return f->count && f->needed == needed && !td_ledger_known(it->first, it->seen, v->day) &&
           !td_ledger_is_founding(it);
}

static td_status_t list_missing(td_verdict_t *v, td_err_t *err) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < td_ledger_item_count; i++) n += later(v, i, true) || later(v, i, false);
    if (!(v->missing = TD_NEW_N(&v->scan.arena, td_verdict_missing_t, n))) return td_arena_fail(&v->scan.arena, err);
    for (int needed = 1; needed >= 0; needed--) {
        for (uint32_t i = 0; i < td_ledger_item_count; i++)
            if (later(v, i, needed))
                v->missing[v->n_missing++] = (td_verdict_missing_t){&td_ledger_items[i], v->scan.found[i].path};
        if (needed) v->n_missing_needed = v->n_missing;
    }
    return TD_OK;
}

/* The one to name: a thunk kind before its parts, which are unknown too. */
static const td_verdict_missing_t *first_missing(const td_verdict_t *v) {
    const td_verdict_missing_t *best = v->missing;
    for (uint32_t i = 1; i < v->n_missing_needed; i++) {
        const td_verdict_missing_t *m = &v->missing[i];
        bool kind = m->item->flags & TD_LEDGER_THUNK_KIND, best_kind = best->item->flags & TD_LEDGER_THUNK_KIND;
        if (kind != best_kind ? kind : strlen(m->place) < strlen(best->place)) best = m;
    }
    return best;
}

static void name_release(int8_t first, int32_t seen, char *out, size_t size) {
    char day[12];
    if (first < 0) snprintf(out, size, "first seen %s", td_day_text(seen, day));
    else
        snprintf(out, size, "first released in %s, %s", td_ledger_releases[first].name,
                 td_day_text(td_ledger_releases[first].built, day));
}

static td_status_t judge_day(const td_artifact_t *a, td_verdict_t *v, td_err_t *err) {
    td_status_t s = list_missing(v, err);
    if (s != TD_OK) return s;
    char day[12], since[64];
    td_day_text(v->day, day);
    const td_ledger_item_t *split = td_ledger_path("xla.SplitProtoManifest.result_proto_type");
    for (uint32_t i = 0; split && i < a->n_forms; i++)
        if ((a->forms[i] == TD_FORM_PJRT_RIEGELI || a->forms[i] == TD_FORM_INNER_RIEGELI) &&
            !td_ledger_known(split->first, split->seen, v->day)) {
            name_release(split->first, split->seen, since, sizeof since);
            refuse(v, TD_VERDICT_NEEDS_NEWER_RUNTIME, TD_UNSUPPORTED,
                   "container: a split proto (xla.SplitProtoManifest, %s) is unknown on %s", since, day);
        }
    if (!v->n_missing_needed) return TD_OK;
    const td_verdict_missing_t *m = first_missing(v);
    name_release(m->item->first, m->item->seen, since, sizeof since);
    refuse(v, TD_VERDICT_NEEDS_NEWER_RUNTIME, TD_UNSUPPORTED, "%s: %s.%s (%s) is unknown on %s", m->place,
           td_ledger_owner(m->item)->name, m->item->name, since, day);
    return TD_OK;
}

/* ---- former forms ---- */
static td_status_t judge_fallbacks(const td_artifact_t *a, td_verdict_t *v, td_err_t *err) {
    v->fallbacks = TD_NEW_N(&v->scan.arena, td_verdict_fallback_t, td_fallback_count);
    if (!v->fallbacks) return td_arena_fail(&v->scan.arena, err);
    for (uint32_t i = 0; i < td_fallback_count; i++) {
        const td_fallback_t *row = &td_fallbacks[i];
        const char *place = td_fallback_place(row, a, &v->scan);
        if (!place) continue;
        bool off = v->played && v->day / 100 > row->month;
        v->fallbacks[v->n_fallbacks++] = (td_verdict_fallback_t){row, place, off};
        char month[16];
        if (off)
            refuse(v, TD_VERDICT_OUTSIDE_WINDOW, TD_UNSUPPORTED, "%s: %s (fallback %s) is no longer read after %s",
                   place, row->form, row->name, td_month_text(row->month, month));
    }
    return TD_OK;
}

/* ---- target and environment ---- */
static void name_target(td_verdict_t *v) {
    const td_scan_watch_t *w = v->watch;
    if (!w[TD_WATCH_MAJOR].set) return;
    unsigned major = (unsigned)w[TD_WATCH_MAJOR].number, minor = (unsigned)w[TD_WATCH_MINOR].number;
    uint64_t feature = w[TD_WATCH_FEATURE].set ? w[TD_WATCH_FEATURE].number : 0;
    /* Not said: compilers before the field compiled for all features of 9.0 and 10.0. */
    char letter = feature == 2 || (!feature && (major == 9 || major == 10)) ? 'a' : feature == 3 ? 'f' : 0;
    snprintf(v->target, sizeof v->target, "%u.%u%.1s", major % 1000, minor % 1000, (char[2]){letter, 0});
}

/* a < b; false unless both are X.Y.Z. */
static bool older(const char *a, const char *b) {
    unsigned x[3], y[3];
    int end_a = 0, end_b = 0;
    if (sscanf(a, "%9u.%9u.%9u%n", &x[0], &x[1], &x[2], &end_a) != 3 || a[end_a]) return false;
    if (sscanf(b, "%9u.%9u.%9u%n", &y[0], &y[1], &y[2], &end_b) != 3 || b[end_b]) return false;
    for (int i = 0; i < 3; i++)
        if (x[i] != y[i]) return x[i] < y[i];
    return false;
}

static void judge_environment(td_verdict_t *v, const td_contract_env_t *env) {
    char have[16];
    snprintf(have, sizeof have, "%d.%d%.1s", env->major % 1000, env->minor % 1000, (char[2]){env->feature, 0});
    if (env->major > 0 && *v->target && strcmp(have, v->target))
        refuse(v, TD_VERDICT_WRONG_TARGET, TD_MISMATCH, "compiled for compute capability %s, the device has %s",
               v->target, have);
    const struct {
        const char *what, *have;
        int want;
    } versions[] = {{"CUDA toolkit", env->toolkit, TD_WATCH_TOOLKIT},
                    {"cuDNN", env->cudnn, TD_WATCH_CUDNN},
                    {"CUB", env->cub, TD_WATCH_CUB}};
    for (int i = 0; i < 3; i++) {
        const char *want = v->watch[versions[i].want].text;
        if (versions[i].have && older(versions[i].have, want))
            refuse(v, TD_VERDICT_ENVIRONMENT_TOO_OLD, TD_MISMATCH,
                   "%s %s is older than %s, which the artifact asks for", versions[i].what, versions[i].have, want);
    }
    if (env->devices && env->devices < v->devices)
        refuse(v, TD_VERDICT_NEEDS_CAPABILITY, TD_MISMATCH, "runs on %u devices at the same time; there are %u",
               v->devices, env->devices);
}

static void judge_module(td_verdict_t *v, const td_err_t *e) {
    bool broken = e->code == TD_MALFORMED || e->code == TD_MISMATCH;
    refuse(v,
           broken                ? TD_VERDICT_DAMAGED
           : e->code == TD_NOMEM ? TD_VERDICT_UNREADABLE
                                 : TD_VERDICT_UNSUPPORTED,
           e->code, "%s", e->text);
}

static void judge_handlers(td_verdict_t *v, const td_module_t *module, td_device_t *device) {
    td_err_t e = {0};
    if (!td_module_has_calls(module)) return;
    td_status_t s = td_module_check_calls(module, device, &e);
    if (s == TD_NOTFOUND) refuse(v, TD_VERDICT_NEEDS_CAPABILITY, s, "%s", e.text);
    else if (s != TD_OK) judge_module(v, &e);
}

/* ---- the window ---- */
static void judge_window(td_verdict_t *v, bool strict) {
    if (v->n_fallbacks && v->loads) v->kind = TD_VERDICT_WITH_FALLBACK;
    if (v->release.at_least < 0) return;
    v->built = td_ledger_releases[v->release.at_least].built;
    v->leaves = td_day_add_months(v->built, TD_CONTRACT_WINDOW_MONTHS);
    if (!v->day || v->day <= v->leaves || !v->loads) return;
    char day[12];
    snprintf(v->reason, sizeof v->reason, "written by release %s, which left the window on %s, %d days ago",
             td_ledger_releases[v->release.at_least].name, td_day_text(v->leaves, day),
             td_day_between(v->leaves, v->day));
    v->kind = TD_VERDICT_OUTSIDE_WINDOW;
    v->loads = !strict;
    v->status = strict ? TD_UNSUPPORTED : TD_OK;
}

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (const void *const *)a, y = (uintptr_t) * (const void *const *)b;
    return (x > y) - (x < y);
}

static td_status_t count_duplicates(const td_artifact_t *a, td_verdict_t *v, td_err_t *err) {
    const td_payload_t **p = TD_NEW_N(&v->scan.arena, const td_payload_t *, a->n_payloads);
    if (!p) return td_arena_fail(&v->scan.arena, err);
    if (a->n_payloads) memcpy(p, a->payloads, a->n_payloads * sizeof *p);
    qsort(p, a->n_payloads, sizeof *p, by_address);
    for (uint32_t i = 1; i < a->n_payloads; i++)
        if (p[i] == p[i - 1]) {
            v->n_duplicates++;
            v->duplicate_bytes += p[i]->bytes.size;
        }
    return TD_OK;
}

static uint32_t devices(const td_scan_watch_t *w) {
    uint64_t r = w[TD_WATCH_REPLICAS].set ? w[TD_WATCH_REPLICAS].number : 1,
             p = w[TD_WATCH_PARTITIONS].set ? w[TD_WATCH_PARTITIONS].number : 1;
    if (r > UINT16_MAX || p > UINT16_MAX) return 1; /* negative, or the loader refuses it */
    return (uint32_t)((r ? r : 1) * (p ? p : 1));
}

td_status_t td_verdict_make(const td_artifact_t *a, const td_module_t *module, const td_err_t *module_err,
                            const td_contract_policy_t *policy, const td_alloc_t *alloc, td_verdict_t *out,
                            td_err_t *err) {
    td_verdict_t v = {.loads = true, .day = policy->day, .played = policy->play};
    for (int i = 0; i < TD_WATCH_COUNT; i++) v.watch[i].field = watched[i];
    td_status_t s = td_scan_artifact(a, v.watch, TD_WATCH_COUNT, alloc, &v.scan, err);
    if (s != TD_OK) return s;
    v.scanned = true;
    td_estimate_release(a, &v.scan, &v.release);
    v.devices = devices(v.watch);
    name_target(&v);
    judge_unknown(&v);
    if (v.played) s = judge_day(a, &v, err);
    if (s == TD_OK) s = judge_fallbacks(a, &v, err);
    if (s == TD_OK) s = count_duplicates(a, &v, err);
    if (s != TD_OK) {
        td_verdict_deinit(&v);
        return s;
    }
    if (!module) judge_module(&v, module_err);
    if (policy->env) judge_environment(&v, policy->env);
    if (module && policy->device) judge_handlers(&v, module, policy->device);
    judge_window(&v, policy->strict);
    *out = v;
    return TD_OK;
}

void td_verdict_unopened(const td_err_t *why, td_verdict_t *out) {
    *out = (td_verdict_t){.loads = true};
    bool unreadable = why->code == TD_IO || why->code == TD_NOMEM || why->code == TD_NOTFOUND || why->code == TD_USAGE;
    bool unsupported = why->code == TD_UNSUPPORTED || why->code == TD_LIMIT;
    refuse(out,
           unreadable    ? TD_VERDICT_UNREADABLE
           : unsupported ? TD_VERDICT_UNSUPPORTED
                         : TD_VERDICT_DAMAGED,
           why->code, "%s", why->text);
}

void td_verdict_deinit(td_verdict_t *v) {
    if (v->scanned) td_scan_deinit(&v->scan);
    v->scanned = false;
}

td_status_t td_verdict_enforce(const td_verdict_t *v, td_err_t *err) {
    return v->loads ? TD_OK : td_fail(err, v->status, "%s: %s", td_verdict_name(v->kind), v->reason);
}
