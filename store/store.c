/* SPDX-License-Identifier: Apache-2.0 */
/* The catalog, and running a model on one of its slots. */
#include "store/store.h"

#include <stdio.h>
#include <string.h>

#include "store/store_internal.h"

/* A failed load leaves its reason and nothing else. */
static void load_one(td_store_t *s, td_model_t *m) {
    td_err_t err = {0};
    if (td_model_load(s, m, &err) == TD_OK) {
        m->state = TD_MODEL_READY;
        return;
    }
    td_model_unload(m);
    snprintf(m->reason, sizeof m->reason, "%s: %s", td_status_name(err.code), err.text);
}

td_status_t td_store_open(const td_store_opts_t *opts, td_store_t **out, td_err_t *err) {
    const td_alloc_t *alloc = opts->alloc ? opts->alloc : td_alloc_default();
    td_store_t *s = alloc->get(alloc->ctx, sizeof *s, 16);
    if (!s) return td_fail(err, TD_NOMEM, "out of memory");
    *s = (td_store_t){.opts = *opts};
    s->opts.alloc = alloc;
    if (!s->opts.concurrency) s->opts.concurrency = 1;
    td_arena_init(&s->arena, alloc, 0);
    td_status_t st = td_payload_table_create(alloc, &s->payloads, err);
    if (st == TD_OK) st = td_store_scan(s, err);
    if (st != TD_OK) {
        td_store_close(s);
        return st;
    }
    for (uint32_t i = 0; i < s->n_models; i++) load_one(s, s->models[i]);
    *out = s;
    return TD_OK;
}

void td_store_close(td_store_t *s) {
    if (!s) return;
    for (uint32_t i = 0; i < s->n_models; i++) {
        td_model_t *m = s->models[i];
        td_model_unload(m);
        pthread_mutex_destroy(&m->lock);
        td_arena_deinit(&m->arena);
    }
    td_payload_table_destroy(s->payloads);
    td_arena_deinit(&s->arena);
    const td_alloc_t *alloc = s->opts.alloc;
    alloc->put(alloc->ctx, s, sizeof *s);
}

uint32_t td_store_count(const td_store_t *s) {
    return s->n_models;
}
td_model_t *td_store_model(td_store_t *s, uint32_t i) {
    return i < s->n_models ? s->models[i] : NULL;
}

td_model_t *td_store_find(td_store_t *s, const char *name, const char *version) {
    td_model_t *last = NULL, *ready = NULL;
    for (uint32_t i = 0; i < s->n_models; i++) {
        td_model_t *m = s->models[i];
        if (strcmp(m->name, name) != 0) continue;
        if (version && *version && strcmp(m->version, version) != 0) continue;
        last = m; /* versions ascend */
        if (m->state == TD_MODEL_READY) ready = m;
    }
    return ready ? ready : last;
}

const char *td_model_name(const td_model_t *m) {
    return m->name;
}
const char *td_model_version(const td_model_t *m) {
    return m->version;
}
td_model_state_t td_model_state(const td_model_t *m) {
    return m->state;
}
const char *td_model_reason(const td_model_t *m) {
    return m->reason;
}
const char *td_model_verdict(const td_model_t *m) {
    return m->verdict;
}
uint32_t td_model_input_count(const td_model_t *m) {
    return m->n_inputs;
}
uint32_t td_model_output_count(const td_model_t *m) {
    return m->n_outputs;
}
const td_tensor_info_t *td_model_input(const td_model_t *m, uint32_t i) {
    return i < m->n_inputs ? &m->inputs[i] : NULL;
}
const td_tensor_info_t *td_model_output(const td_model_t *m, uint32_t i) {
    return i < m->n_outputs ? &m->outputs[i] : NULL;
}

uint64_t td_model_bytes(const td_model_t *m) {
    if (m->state != TD_MODEL_READY) return 0;
    uint64_t n = td_program_bytes(m->program) + m->n_slots * td_program_binding_bytes(m->program);
    return n + (m->weights ? td_st_bytes(m->weights) : 0);
}

static td_slot_t *take_slot(td_model_t *m) {
    td_slot_t *slot = NULL;
    pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; !slot && i < m->n_slots; i++)
        if (!m->slots[i].busy) slot = &m->slots[i];
    if (slot) slot->busy = true;
    pthread_mutex_unlock(&m->lock);
    return slot;
}

void td_slot_release(td_slot_t *s) {
    if (!s) return;
    pthread_mutex_lock(&s->model->lock);
    s->busy = false;
    pthread_mutex_unlock(&s->model->lock);
}

/* Programs may rely on booleans being 0 or 1. */
static const void *normalised(const uint8_t *p, uint64_t n, uint8_t *room) {
    uint64_t k = 0;
    while (k < n && p[k] <= 1) k++;
    if (k == n) return p;
    for (k = 0; k < n; k++) room[k] = p[k] != 0;
    return room;
}

static void bind(td_model_t *m, td_slot_t *slot, const void *const *inputs) {
    for (uint32_t i = 0; i < m->n_inputs; i++) {
        uint32_t p = m->visible[i];
        slot->inputs[p] = slot->bools[p] ? normalised(inputs[i], m->inputs[i].bytes, slot->bools[p]) : inputs[i];
    }
}

td_status_t td_model_run(td_model_t *m, const void *const *inputs, td_slot_t **out_slot, const _Atomic(int) *cancel,
                         td_err_t *err) {
    if (m->state != TD_MODEL_READY) return td_fail(err, TD_NOTFOUND, "model %s is unavailable: %s", m->name, m->reason);
    td_slot_t *slot = take_slot(m);
    if (!slot) return td_fail(err, TD_BUSY, "model %s: all %u slots are taken", m->name, m->n_slots);
    bind(m, slot, inputs);
    td_status_t s = td_program_run(slot->binding, slot->inputs, slot->outputs, cancel, err);
    if (s != TD_OK) {
        td_slot_release(slot);
        return td_prefix(err, s, "model %s", m->name);
    }
    *out_slot = slot;
    return TD_OK;
}

const void *td_slot_output(const td_slot_t *s, uint32_t i) {
    return i < s->model->n_outputs ? s->outputs[i] : NULL;
}
