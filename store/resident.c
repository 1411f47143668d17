/* SPDX-License-Identifier: Apache-2.0 */
/* Making a resident: survey, admission, then payloads, programs, weights and slots on the reservation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/survey.h"

static td_status_t open_accounts(td_store_t *s, const td_load_order_t *o, td_resident_t *r, td_err_t *err) {
    char owner[300];
    uint32_t device = td_store_device_domain(s);
    snprintf(owner, sizeof owner, "%s/%s", o->model, o->version);
    td_status_t st = td_account_open(s->budget, 0, TD_CHARGE_PROGRAMS, owner, &r->programs, err);
    if (st == TD_OK) st = td_account_open(s->budget, device, TD_CHARGE_BINDINGS, owner, &r->bindings, err);
    if (st == TD_OK) st = td_account_open(s->budget, device, TD_CHARGE_STATE, owner, &r->state, err);
    if (st != TD_OK) return st;
    r->held_domain = device;
    td_draw_init(&r->program_draw, r->programs, NULL);
    td_draw_init(&r->binding_draw, r->bindings, NULL);
    td_draw_init(&r->payload_draw, s->payload_account, NULL);
    td_draw_init(&r->constant_draw, s->constant_account, NULL);
    return TD_OK;
}

static void draw_on(td_resident_t *r, td_reservation_t *res) {
    r->program_draw.reservation = r->binding_draw.reservation = res;
    r->payload_draw.reservation = r->constant_draw.reservation = res;
}

/* ---- programs ---- */

/* The artifact and its module are gone after this, as is what they took on the survey's heap; the program keeps the
 * payloads that it needs, none of them where the device has copies. */
static td_status_t make_program(td_store_t *s, const td_load_order_t *o, td_resident_t *r, const td_survey_t *v,
                                const td_surveyed_t *a, td_bucket_t *b, td_err_t *err) {
    const td_alloc_t *alloc = td_heap_alloc(r->heap), *passing = td_heap_alloc(v->heap);
    td_artifact_opts_t opts = {.table = s->payloads, .alloc = passing, .charge = &r->payload_draw.charge,
                               .progress = o->done, .cancel = o->cancel};
    td_program_opts_t p = {.dev = s->opts.device, .alloc = alloc, .constants = s->constants,
                           .charge = &r->binding_draw.charge, .constant_charge = &r->constant_draw.charge,
                           .states = a->states};
    td_artifact_t *art = NULL;
    td_module_t *m = NULL;
    td_status_t st = td_artifact_open_path(a->path, &opts, &art, err);
    if (st == TD_OK) st = td_module_open(art, passing, &m, err);
    if (st == TD_OK) st = td_program_create(m, &p, &b->program, err);
    td_module_close(m);
    td_artifact_close(art);
    return st == TD_OK ? st : td_prefix(err, st, "%s", a->name);
}

/* It may have been replaced between survey and load. */
static td_status_t same_inputs(const td_surveyed_t *a, const td_program_t *p, td_err_t *err) {
    bool same = td_program_input_count(p) == a->n_inputs;
    for (uint32_t i = 0; same && i < a->n_inputs; i++) same = td_shape_equal(td_program_input(p, i)->shape,
                                                                             a->inputs[i].shape);
    return same ? TD_OK : td_fail(err, TD_MALFORMED, "%s changed while it was being loaded", a->name);
}

static td_status_t bind_weights(td_resident_t *r, td_bucket_t *b, const bool *bound, td_err_t *err) {
    uint32_t n = td_program_input_count(b->program), any = 0;
    td_io_t *ios = TD_NEW_N(&r->arena, td_io_t, n + 1u);
    bool *own = TD_NEW_N(&r->arena, bool, n + 1u);
    b->bound = own;
    b->weights = TD_NEW_N(&r->arena, const void *, n + 1u);
    if (!ios || !own || !b->weights) return td_arena_fail(&r->arena, err);
    for (uint32_t i = 0; i < n; i++) ios[i] = *td_program_input(b->program, i), own[i] = bound[i], any += bound[i];
    if (!any) return TD_OK;
    td_status_t st = td_weights_bind(r->weights, ios, n, b->weights, err);
    return st == TD_OK ? td_program_bind(b->program, b->weights, bound, err) : st;
}

static int by_size(const void *pa, const void *pb) {
    const td_bucket_t *a = pa, *b = pb;
    return a->size < b->size ? -1 : a->size > b->size;
}

static td_status_t make_buckets(td_store_t *s, const td_load_order_t *o, td_resident_t *r, const td_survey_t *v,
                                td_err_t *err) {
    r->buckets = TD_NEW_N(&r->arena, td_bucket_t, v->n);
    if (!r->buckets) return td_arena_fail(&r->arena, err);
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < v->n && st == TD_OK; i++) {
        td_bucket_t *b = &r->buckets[r->n_buckets++];
        st = make_program(s, o, r, v, &v->artifacts[i], b, err);
        if (st == TD_OK) st = same_inputs(&v->artifacts[i], b->program, err);
        if (st == TD_OK) st = bind_weights(r, b, v->artifacts[i].bound, err);
        for (uint32_t k = 0; st == TD_OK && k < td_program_input_count(b->program); k++)
            if (!b->bound[k]) b->size += td_io_host_bytes(td_program_input(b->program, k)->shape);
    }
    if (st == TD_OK) qsort(r->buckets, r->n_buckets, sizeof *r->buckets, by_size);
    return st;
}

/* The device has them: nobody reads the files any more. */
static td_status_t close_weights(td_store_t *s, td_resident_t *r, td_err_t *err) {
    if (s->opts.device->host_memory) return TD_OK;
    if (td_weights_damaged(r->weights, err)) return TD_IO;
    for (uint32_t i = 0; i < r->n_buckets; i++)
        memset(r->buckets[i].weights, 0, td_program_input_count(r->buckets[i].program) * sizeof *r->buckets[i].weights);
    td_weights_close(r->weights);
    r->weights = NULL;
    return TD_OK;
}

/* ---- what it shares ---- */

static td_status_t list_held(td_resident_t *r, td_err_t *err) {
    uint32_t n = td_weights_payloads(r->weights, NULL, 0), k, weights = n;
    for (uint32_t i = 0; i < r->n_buckets; i++) {
        td_program_constants(r->buckets[i].program, &k);
        n += k;
    }
    const td_payload_t **w = TD_NEW_N(&r->arena, const td_payload_t *, weights + 1u);
    r->held = TD_NEW_N(&r->arena, td_held_t, n + 1u);
    if (!w || !r->held) return td_arena_fail(&r->arena, err);
    td_weights_payloads(r->weights, w, weights);
    for (uint32_t i = 0; i < weights; i++) r->held[r->n_held++] = (td_held_t){w[i], td_payload_cost(w[i]->bytes.size)};
    for (uint32_t i = 0; i < r->n_buckets; i++) {
        const td_constant_t *p = td_program_constants(r->buckets[i].program, &k);
        for (uint32_t j = 0; j < k; j++) r->held[r->n_held++] = (td_held_t){p[j].what, p[j].bytes};
    }
    return TD_OK;
}

static int by_what(const void *pa, const void *pb) {
    const td_held_t *a = pa, *b = pb;
    return (uintptr_t)a->what < (uintptr_t)b->what ? -1 : (uintptr_t)a->what > (uintptr_t)b->what;
}

/* Each once, and the sum with what is its own. */
static uint64_t sum_bytes(td_resident_t *r) {
    uint64_t sum = td_account_bytes(r->programs) + td_account_bytes(r->bindings);
    uint32_t n = 0;
    qsort(r->held, r->n_held, sizeof *r->held, by_what);
    for (uint32_t i = 0; i < r->n_held; i++) {
        if (n && r->held[n - 1].what == r->held[i].what) continue;
        r->held[n++] = r->held[i];
        sum += r->held[i].bytes;
    }
    r->n_held = n;
    return sum;
}

/* ---- all of it ---- */

static void link_live(td_store_t *s, td_resident_t *r) {
    pthread_mutex_lock(&s->lock);
    r->next_live = s->live;
    if (s->live) s->live->prev_live = r;
    s->live = r;
    pthread_mutex_unlock(&s->lock);
    r->linked = true;
}

static void unlink_live(td_store_t *s, td_resident_t *r) {
    if (!r->linked) return;
    pthread_mutex_lock(&s->lock);
    if (r->next_live) r->next_live->prev_live = r->prev_live;
    if (r->prev_live) r->prev_live->next_live = r->next_live;
    else s->live = r->next_live;
    pthread_mutex_unlock(&s->lock);
}

static td_status_t describe(td_resident_t *r, const td_load_order_t *o, const td_survey_t *v, td_err_t *err) {
    td_model_info_t *i = &r->info;
    i->name = td_arena_strndup(&r->arena, o->model, strlen(o->model));
    i->version = td_arena_strndup(&r->arena, o->version, strlen(o->version));
    i->artifact = td_arena_strndup(&r->arena, v->names, strlen(v->names));
    i->verdict = td_arena_strndup(&r->arena, v->verdict, strlen(v->verdict));
    if (!i->name || !i->version || !i->artifact || !i->verdict) return td_arena_fail(&r->arena, err);
    i->leave_day = v->leave_day;
    r->sequence_idle_ns = v->config.sequence_idle_ms * 1000000u;
    r->sequence_max = v->config.sequence_max;
    return td_resident_describe(r, &v->config, err);
}

static td_status_t fill(td_store_t *s, const td_load_order_t *o, td_resident_t *r, td_survey_t *v, td_err_t *err) {
    r->weights = v->weights;
    v->weights = NULL;
    td_status_t st = make_buckets(s, o, r, v, err);
    if (st == TD_OK) st = close_weights(s, r, err);
    if (st == TD_OK) st = describe(r, o, v, err);
    if (st == TD_OK) st = td_resident_make_slots(r, v->concurrency, err);
    if (st == TD_OK) st = list_held(r, err);
    return st;
}

/* How one attempt to load counts, and how it ended. */
typedef struct attempt {
    bool trust;     /* what seems to be in the payload table is there */
    uint64_t slack; /* bytes beyond the estimate, of each memory */
    bool refused;   /* by admission: a larger need would be too */
} attempt_t;

static td_status_t load(td_store_t *s, const td_load_order_t *o, td_resident_t *r, td_survey_t *v, attempt_t *a,
                        td_err_t *err) {
    uint64_t need[TD_BUDGET_DOMAINS];
    td_reservation_t res;
    td_survey_need(s, v, a->trust, need);
    for (uint32_t d = 0; d < td_budget_domains(s->budget); d++) need[d] += a->slack;
    td_status_t st = td_admit(s, o, need, &res, err);
    a->refused = st != TD_OK;
    if (st != TD_OK) return st;
    draw_on(r, &res);
    st = fill(s, o, r, v, err);
    draw_on(r, NULL);
    td_reservation_end(&res);
    return st;
}

static td_status_t start(td_store_t *s, const td_load_order_t *o, td_resident_t **out, td_err_t *err) {
    td_resident_t *r = s->opts.alloc->get(s->opts.alloc->ctx, sizeof *r, 64);
    if (!r) return td_fail(err, TD_NOMEM, "out of memory");
    memset(r, 0, sizeof *r);
    r->store = s;
    r->stamp = o->stamp;
    *out = r;
    td_status_t st = open_accounts(s, o, r, err);
    if (st == TD_OK) st = td_heap_create(&r->program_draw.charge, &r->heap, err);
    if (st == TD_OK) td_arena_init(&r->arena, td_heap_alloc(r->heap), 0);
    return st;
}

/* Allocators only say that there is nothing, and charges not whose; the budget knows better. */
static td_status_t tell_budget(td_store_t *s, const td_load_order_t *o, td_resident_t *r, td_status_t st,
                               td_err_t *err) {
    const struct { const td_draw_t *draw; uint32_t domain; bool no_memory; } draws[] = {
        {&r->program_draw, 0, true}, {&s->survey_draw, 0, true}, {&r->payload_draw, 0, false},
        {&r->binding_draw, r->held_domain, false}, {&r->constant_draw, r->held_domain, false},
    };
    char what[300];
    if (st != TD_NOMEM && st != TD_LIMIT) return st;
    snprintf(what, sizeof what, "%s/%s", o->model, o->version);
    for (size_t i = 0; i < sizeof draws / sizeof *draws; i++) {
        uint64_t n = draws[i].no_memory && st != TD_NOMEM ? 0 : atomic_load(&draws[i].draw->refused);
        if (!n) continue;
        td_budget_refuse(s->budget, draws[i].domain, n, what, err);
        return td_prefix(err, TD_LIMIT, "over the budget");
    }
    return st;
}

/* So that even the survey has room, when what is set aside for it was too little. */
static td_status_t make_room(td_store_t *s, const td_load_order_t *o, attempt_t *a, td_err_t *err) {
    td_reservation_t res;
    if (!a->slack) return TD_OK;
    td_status_t st = td_admit(s, o, (uint64_t[TD_BUDGET_DOMAINS]){a->slack}, &res, err);
    a->refused = st != TD_OK;
    if (st == TD_OK) td_reservation_end(&res);
    return st;
}

static td_status_t try_once(td_store_t *s, const td_load_order_t *o, attempt_t *a, td_resident_t **out, td_err_t *err) {
    td_survey_t v = {0};
    td_resident_t *r = NULL;
    atomic_store(&s->survey_draw.refused, 0);
    td_status_t st = make_room(s, o, a, err);
    if (st == TD_OK) st = start(s, o, &r, err);
    if (st == TD_OK) st = td_survey_make(s, o, &r->payload_draw.charge, td_heap_alloc(r->heap), &v, err);
    if (st == TD_OK) {
        atomic_store(o->done, 0);
        atomic_store(o->total, v.file_bytes);
        st = load(s, o, r, &v, a, err);
    }
    td_survey_end(&v);
    if (r && !a->refused) st = tell_budget(s, o, r, st, err);
    if (st != TD_OK) {
        td_resident_destroy(r);
        return st;
    }
    r->info.bytes = sum_bytes(r);
    link_live(s, r);
    *out = r;
    return TD_OK;
}

/* What seemed to be there already may not have been, and the estimate may have been too low: then again, with the need
 * of all of it and some more. */
td_status_t td_resident_create(td_store_t *s, const td_load_order_t *o, td_resident_t **out, td_err_t *err) {
    attempt_t a = {.trust = true};
    td_status_t st = try_once(s, o, &a, out, err);
    for (uint64_t slack = 64 << 10; st == TD_LIMIT && !a.refused && slack <= 16 << 20; slack *= 4) {
        a = (attempt_t){.slack = slack};
        st = try_once(s, o, &a, out, err);
    }
    return st;
}

void td_resident_destroy(td_resident_t *r) {
    if (!r) return;
    td_store_t *s = r->store;
    unlink_live(s, r);
    for (uint32_t i = 0; i < r->n_buckets; i++) {
        td_bucket_t *b = &r->buckets[i];
        for (uint32_t k = 0; k < b->n_slots; k++) td_binding_destroy(b->slots[k].binding);
        td_program_destroy(b->program);
    }
    td_weights_close(r->weights);
    if (r->heap) td_arena_deinit(&r->arena);
    td_heap_destroy(r->heap);
    td_account_close(r->programs);
    td_account_close(r->bindings);
    td_account_close(r->state);
    s->opts.alloc->put(s->opts.alloc->ctx, r, sizeof *r);
}
