/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/profile.h"

static void name_rows(td_profile_t *p, const td_seq_t *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        const td_thunk_t *t = &s->v[i];
        p->rows[t->number] = (td_profile_row_t){.kind = t->kind->name, .name = t->annotation};
        for (uint32_t k = 0; k < t->n_seqs; k++) name_rows(p, &t->seqs[k]);
    }
}

td_status_t td_profile_create(const td_seq_t *seq, uint32_t n, td_arena_t *arena, td_profile_t **out, td_err_t *err) {
    td_profile_t *p = TD_NEW(arena, td_profile_t);
    td_profile_row_t *rows = TD_NEW_N(arena, td_profile_row_t, n);
    if (!p || !rows) return td_arena_fail(arena, err);
    *p = (td_profile_t){.rows = rows, .n = n, .clock = td_clock_system()};
    name_rows(p, seq);
    *out = p;
    return TD_OK;
}

td_status_t td_profile_enqueue(td_run_t *r, const td_thunk_t *t) {
    td_profile_t *p = r->profile;
    td_profile_row_t *row = &p->rows[t->number];
    uint64_t outer_ns = p->inner_ns, start = td_now_ns(p->clock);
    p->inner_ns = 0;
    td_status_t st = t->kind->enqueue(r, t);
    uint64_t ns = td_now_ns(p->clock) - start;
    row->calls++;
    row->ns += p->inner_ns < ns ? ns - p->inner_ns : 0;
    p->inner_ns = outer_ns + ns;
    return st;
}
