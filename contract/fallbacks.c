/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/fallbacks.h"

#include "contract/day.h"
#include "executable.pb-c.h"

static bool has_form(const td_artifact_t *a, td_form_t form) {
    for (uint32_t i = 0; i < a->n_forms; i++)
        if (a->forms[i] == form) return true;
    return false;
}
static uint32_t count(const td_scan_t *s, const char *construct) { return td_scan_found(s, construct)->count; }

static bool outer_plain(const td_artifact_t *a, const td_scan_t *s) {
    (void)s;
    return has_form(a, TD_FORM_PJRT_PLAIN);
}
static bool inner_plain(const td_artifact_t *a, const td_scan_t *s) {
    (void)s;
    return has_form(a, TD_FORM_INNER_PLAIN);
}
static bool no_thunks(const td_artifact_t *a, const td_scan_t *s) {
    (void)s;
    return !a->exe->n_thunks && !a->exe->buffer_allocations;
}
static bool no_debug_summary(const td_artifact_t *a, const td_scan_t *s) {
    return !no_thunks(a, s) && !count(s, "xla.gpu.GpuExecutableProto.buffer_allocations_debug_summary");
}
static bool dynamic_memcpy(const td_artifact_t *a, const td_scan_t *s) {
    (void)a;
    return count(s, "xla.gpu.ThunkProto.dynamic_memcpy_thunk") > 0;
}
static bool copy_done(const td_artifact_t *a, const td_scan_t *s) {
    (void)a;
    return count(s, "xla.gpu.ThunkProto.copy_done_thunk") > 0;
}
static bool select_k(const td_artifact_t *a, const td_scan_t *s) {
    (void)a;
    return count(s, "xla.gpu.ThunkProto.select_k_thunk") > 0;
}
static bool comparison_type(const td_artifact_t *a, const td_scan_t *s) {
    (void)a;
    return count(s, "xla.HloInstructionProto.comparison_type") > count(s, "xla.HloInstructionProto.comparison_order");
}
static bool slice_config_flat(const td_artifact_t *a, const td_scan_t *s) {
    (void)a;
    return count(s, "xla.gpu.DynamicSliceFusionThunkProto.ParameterProto.slice_config") +
               count(s, "xla.gpu.DynamicSliceFusionThunkProto.ResultProto.update_config") >
           count(s, "xla.gpu.DynamicSliceConfig.linear") + count(s, "xla.gpu.DynamicSliceConfig.table");
}

const td_fallback_t td_fallbacks[] = {
    {"outer-plain", "an ExecutableAndOptionsProto that is no split proto",
     "xla.ExecutableAndOptionsProto.serialized_executable", "0.11.0", 202702, outer_plain},
    {"inner-plain", "a GpuExecutableProto that is no split proto", "xla.SplitProtoManifest.result_proto_type", "0.11.0",
     202702, inner_plain},
    {"no-thunks", "a scheduled module and its buffer assignment, without thunks", "xla.gpu.GpuExecutableProto.thunks",
     "0.11.0", 202702, no_thunks},
    {"no-debug-summary", "thunks without a summary of the buffer allocations",
     "xla.gpu.GpuExecutableProto.buffer_allocations_debug_summary", "0.10.2", 202701, no_debug_summary},
    {"copy-done", "copy_done_thunk (49) instead of async_done_thunk", "xla.gpu.ThunkProto.copy_done_thunk", "0.10.0",
     202611, copy_done},
    {"dynamic-memcpy", "dynamic_memcpy_thunk (48) instead of dynamic_slice_fusion_thunk",
     "xla.gpu.ThunkProto.dynamic_memcpy_thunk", "0.10.1", 202612, dynamic_memcpy},
    {"select-k", "select_k_thunk (20) instead of the custom call", "xla.gpu.ThunkProto.select_k_thunk", "0.11.2",
     202704, select_k},
    {"comparison-type", "a comparison with comparison_type (72) and no comparison_order",
     "xla.HloInstructionProto.comparison_type", "0.11.1", 202703, comparison_type},
    {"slice-config-flat", "a slice's offset and stride in fields 2 and 3 alone",
     "xla.gpu.DynamicSliceConfig.byte_offset", "0.11.2", 202704, slice_config_flat},
};
const uint32_t td_fallback_count = sizeof td_fallbacks / sizeof *td_fallbacks;

int32_t td_fallback_month(const char *last) {
    int r = td_ledger_release(last);
    return r < 0 ? 0
                 : td_day_add_months(td_ledger_releases[r].built / 100 * 100 + 1, TD_CONTRACT_WINDOW_MONTHS + 1) / 100;
}

const char *td_fallback_place(const td_fallback_t *f, const td_artifact_t *a, const td_scan_t *s) {
    if (!f->used(a, s)) return NULL;
    const td_found_t *found = td_scan_found(s, f->construct);
    return found->count ? found->path : "container";
}
