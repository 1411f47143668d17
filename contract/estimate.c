/* SPDX-License-Identifier: Apache-2.0 */
/* Which release wrote an artifact. No message says it; the newest construct gives a lower bound, the first one to
 * have been removed, and what later releases always write, an upper one. */
#include <string.h>

#include "contract/verdict.h"
#include "executable.pb-c.h"

/* What a release and all later ones write into each artifact with thunks. */
static const struct {
    const char *construct, *since;
} always[] = {
    {"xla.gpu.GpuExecutableProto.gpu_topology", "0.12.0.1"},
    {"xla.DebugOptions.xla_gpu_allow_ragged_all_to_all_nccl_send_recv_fallback", "0.11.1"},
    {"xla.gpu.GpuExecutableProto.buffer_allocations_debug_summary", "0.11.0"},
};

static bool is_option(const char *place) {
    return strstr(place, "debug_options") || !strncmp(place, "compile_options", 15);
}

/* Of two constructs of one age, a part of the program is better evidence than an option. */
static bool better(const char *place, const char *than) { return !than || (is_option(than) && !is_option(place)); }

static void absences(const td_scan_t *s, td_verdict_release_t *r) {
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        int since = td_ledger_release(always[i].since);
        const td_ledger_item_t *it = td_ledger_path(always[i].construct);
        if (since < 1 || !it || td_scan_found(s, always[i].construct)->count || since - 1 < r->at_least) continue;
        if (r->at_most >= 0 && r->at_most < since) continue;
        r->at_most = since - 1;
        r->oldest = it;
        r->oldest_place = NULL;
    }
}

void td_estimate_release(const td_artifact_t *a, const td_scan_t *s, td_verdict_release_t *out) {
    td_verdict_release_t r = {.at_least = -1, .at_most = -1};
    int newest = (int)td_ledger_release_count - 1;
    for (uint32_t i = 0; i < td_ledger_item_count; i++) {
        const td_ledger_item_t *it = &td_ledger_items[i];
        if (!s->found[i].count || it->first < 0 || td_ledger_is_founding(it)) continue;
        if (it->first > r.at_least || (it->first == r.at_least && better(s->found[i].path, r.newest_place))) {
            r.at_least = it->first;
            r.newest = it;
            r.newest_place = s->found[i].path;
        }
        if (it->last < newest && (r.at_most < 0 || it->last < r.at_most ||
                                  (it->last == r.at_most && better(s->found[i].path, r.oldest_place)))) {
            r.at_most = it->last;
            r.oldest = it;
            r.oldest_place = s->found[i].path;
        }
    }
    if (r.at_most >= 0 && r.at_most < r.at_least) { /* an option outlived its field; the newer evidence counts */
        r.at_most = -1;
        r.oldest = NULL;
    }
    if (a->exe->n_thunks) absences(s, &r);
    *out = r;
}
