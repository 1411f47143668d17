/* SPDX-License-Identifier: Apache-2.0 */
/* One model from its directory: artifact, weights, names, slots. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/store_internal.h"

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n > m && !strcmp(s + n - m, end);
}

/* The only *.aot of the directory. */
static td_status_t only_artifact(td_model_t *m, const char **out, td_err_t *err) {
    DIR *d = opendir(m->dir);
    if (!d) return td_fail(err, TD_IO, "%s: %s", m->dir, strerror(errno));
    const char *found = NULL;
    td_status_t s = TD_OK;
    for (struct dirent *e; s == TD_OK && (e = readdir(d));) {
        if (e->d_name[0] == '.' || !ends_with(e->d_name, ".aot")) continue;
        if (found) s = td_fail(err, TD_NOTFOUND, "%s: several *.aot, and none is model.aot or the target's", m->dir);
        else if (!(found = td_arena_printf(&m->arena, "%s/%s", m->dir, e->d_name))) s = td_arena_fail(&m->arena, err);
    }
    closedir(d);
    if (s == TD_OK && !found)
        s = td_fail(err, TD_NOTFOUND, "%s: no %s", m->dir, *m->version ? "artifact (*.aot)" : "version directory");
    *out = found;
    return s;
}

static td_status_t find_artifact(const td_store_t *st, td_model_t *m, const char **out, td_err_t *err) {
    const char *names[2] = {st->opts.target, "model"};
    for (int i = 0; *m->version && i < 2; i++) {
        if (!names[i]) continue;
        char *path = td_arena_printf(&m->arena, "%s/%s.aot", m->dir, names[i]);
        if (!path) return td_arena_fail(&m->arena, err);
        *out = path;
        if (access(path, F_OK) == 0) return TD_OK;
    }
    return only_artifact(m, out, err);
}

/* The contract's word on the artifact, before anything is compiled. */
static td_status_t judge(const td_store_t *st, td_model_t *m, const td_artifact_t *a, const td_module_t *mod,
                         const td_err_t *module_err, td_err_t *err) {
    td_contract_policy_t p = st->opts.contract;
    p.device = st->opts.device;
    td_verdict_t v = {0};
    td_status_t s = td_verdict_make(a, mod, module_err, &p, m->alloc, &v, err);
    if (s != TD_OK) return s;
    if (v.kind != TD_VERDICT_COMPATIBLE) td_verdict_line(&v, m->verdict, sizeof m->verdict);
    s = td_verdict_enforce(&v, err);
    td_verdict_deinit(&v);
    return s;
}

/* Artifact and module are gone after this; the program stays. */
static td_status_t make_program(td_store_t *st, td_model_t *m, td_err_t *err) {
    const char *path = NULL;
    td_artifact_t *a = NULL;
    td_module_t *mod = NULL;
    td_status_t s = find_artifact(st, m, &path, err);
    if (s != TD_OK) return s;
    s = td_artifact_open_file(path, st->payloads, m->alloc, &a, err);
    if (s != TD_OK) return s;
    td_err_t module_err = {0};
    td_status_t opened = td_module_open(a, m->alloc, &mod, st->opts.contract.day ? &module_err : err);
    s = st->opts.contract.day ? judge(st, m, a, mod, &module_err, err) : opened;
    if (s == TD_OK) s = td_program_create(mod, &(td_program_opts_t){.dev = st->opts.device, .alloc = m->alloc}, &m->program, err);
    if (s != TD_OK) td_prefix(err, s, "%s", path);
    td_module_close(mod);
    td_artifact_close(a);
    return s;
}

static const td_st_tensor_t *find_weight(const td_st_t *w, uint32_t i, const char *param) {
    char key[16];
    snprintf(key, sizeof key, "%u", i);
    const td_st_tensor_t *t = td_st_find(w, key);
    return t || !param || !*param ? t : td_st_find(w, param);
}

/* A run would copy a misaligned tensor each time; we copy it once. */
static td_status_t align_weight(td_model_t *m, uint32_t i, const td_st_tensor_t *t, td_err_t *err) {
    void *p = td_arena_align(&m->arena, t->bytes, 64);
    if (!p) return td_arena_fail(&m->arena, err);
    if (t->bytes) memcpy(p, t->data, t->bytes);
    m->bound[i] = p;
    return TD_OK;
}

static td_status_t bind_weight(td_model_t *m, uint32_t i, const td_st_tensor_t *t, td_err_t *err) {
    const td_io_t *io = td_program_input(m->program, i);
    td_status_t s = td_st_match(t, io->shape, err);
    for (uint64_t k = 0; s == TD_OK && io->shape->type == TD_PRED && k < t->bytes; k++)
        if (((const uint8_t *)t->data)[k] > 1) s = td_fail(err, TD_MALFORMED, "a boolean is neither 0 nor 1");
    if (s != TD_OK) return td_prefix(err, s, "%s/weights.safetensors: parameter %u", m->dir, i);
    m->bound[i] = t->data;
    return (uintptr_t)t->data % td_io_align(io->shape) ? align_weight(m, i, t, err) : TD_OK;
}

/* With a list, exactly the parameters of the list; without one, whatever the file has. */
static td_status_t bind_weights(td_model_t *m, const td_model_config_t *c, td_err_t *err) {
    uint32_t n = td_program_input_count(m->program);
    m->bound = TD_NEW_N(&m->arena, const void *, n + 1u);
    if (!m->bound) return td_arena_fail(&m->arena, err);
    td_status_t s = TD_OK;
    for (uint32_t i = 0; m->weights && !c->weights.given && s == TD_OK && i < n; i++) {
        const td_st_tensor_t *t = find_weight(m->weights, i, td_program_input(m->program, i)->name);
        if (t) s = bind_weight(m, i, t, err);
    }
    for (uint32_t k = 0; s == TD_OK && k < c->weights.n; k++) {
        uint32_t i = (uint32_t)strtoul(c->weights.items[k], NULL, 10);
        if (i >= n) return td_fail(err, TD_MISMATCH, "model.yaml: weights: parameter %u of only %u", i, n);
        const td_st_tensor_t *t = m->weights ? find_weight(m->weights, i, td_program_input(m->program, i)->name) : NULL;
        if (!t) return td_fail(err, TD_NOTFOUND, "%s/weights.safetensors: nothing for parameter %u", m->dir, i);
        s = bind_weight(m, i, t, err);
    }
    return s;
}

/* What depends on the weights alone is computed here, once. */
static td_status_t fix_weights(td_model_t *m, td_err_t *err) {
    uint32_t n = td_program_input_count(m->program), bound = 0;
    bool *fixed = TD_NEW_N(&m->arena, bool, n + 1u);
    if (!fixed) return td_arena_fail(&m->arena, err);
    for (uint32_t i = 0; i < n; i++) fixed[i] = m->bound[i] != NULL, bound += fixed[i];
    return bound ? td_program_bind(m->program, m->bound, fixed, err) : TD_OK;
}

static td_status_t open_weights(td_model_t *m, td_err_t *err) {
    const char *path = td_arena_printf(&m->arena, "%s/weights.safetensors", m->dir);
    if (!path) return td_arena_fail(&m->arena, err);
    return access(path, F_OK) == 0 ? td_st_open_file(path, m->alloc, &m->weights, err) : TD_OK;
}

static td_status_t describe(td_model_t *m, const td_io_t *io, const char *name, td_tensor_info_t *out, td_err_t *err) {
    int64_t *dims = TD_NEW_N(&m->arena, int64_t, io->shape->rank);
    out->name = td_arena_strndup(&m->arena, name, strlen(name));
    if (!dims || !out->name) return td_arena_fail(&m->arena, err);
    if (io->shape->rank) memcpy(dims, io->shape->dims, io->shape->rank * sizeof *dims);
    out->dims = dims;
    out->rank = io->shape->rank;
    out->type = io->shape->type;
    out->datatype = td_datatype_name(out->type);
    out->bytes = td_io_host_bytes(io->shape);
    return *out->datatype ? TD_OK : td_fail(err, TD_UNSUPPORTED, "%s: no tensor can have type %s", name, td_type_name(out->type));
}

static td_status_t check_count(const td_name_list_t *l, const char *what, uint32_t n, td_err_t *err) {
    if (!l->given || l->n == n) return TD_OK;
    return td_fail(err, TD_MISMATCH, "model.yaml: %s names %u, the artifact has %u for requests", what, l->n, n);
}

/* Two tensors of one name could not be told apart. */
static td_status_t check_unique(const td_tensor_info_t *t, uint32_t n, const char *what, td_err_t *err) {
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (!strcmp(t[i].name, t[k].name))
                return td_fail(err, TD_MISMATCH, "two %s are named %.100s; name them in model.yaml", what, t[i].name);
    return TD_OK;
}

static td_status_t name_inputs(td_model_t *m, const td_model_config_t *c, td_err_t *err) {
    uint32_t n = td_program_input_count(m->program);
    m->visible = TD_NEW_N(&m->arena, uint32_t, n + 1u);
    m->inputs = TD_NEW_N(&m->arena, td_tensor_info_t, n + 1u);
    if (!m->visible || !m->inputs) return td_arena_fail(&m->arena, err);
    for (uint32_t i = 0; i < n; i++)
        if (!m->bound[i]) m->visible[m->n_inputs++] = i;
    td_status_t s = check_count(&c->inputs, "inputs", m->n_inputs, err);
    for (uint32_t i = 0; s == TD_OK && i < m->n_inputs; i++) {
        const td_io_t *io = td_program_input(m->program, m->visible[i]);
        char fallback[24];
        snprintf(fallback, sizeof fallback, "input_%u", i);
        const char *own = io->name && *io->name ? io->name : fallback;
        s = describe(m, io, c->inputs.given ? c->inputs.items[i] : own, &m->inputs[i], err);
    }
    return s == TD_OK ? check_unique(m->inputs, m->n_inputs, "inputs", err) : s;
}

static td_status_t name_outputs(td_model_t *m, const td_model_config_t *c, td_err_t *err) {
    m->n_outputs = td_program_output_count(m->program);
    m->outputs = TD_NEW_N(&m->arena, td_tensor_info_t, m->n_outputs + 1u);
    if (!m->outputs) return td_arena_fail(&m->arena, err);
    td_status_t s = check_count(&c->outputs, "outputs", m->n_outputs, err);
    for (uint32_t i = 0; s == TD_OK && i < m->n_outputs; i++) {
        const td_io_t *io = td_program_output(m->program, i);
        s = describe(m, io, c->outputs.given ? c->outputs.items[i] : io->name, &m->outputs[i], err);
    }
    return s == TD_OK ? check_unique(m->outputs, m->n_outputs, "outputs", err) : s;
}

static td_status_t make_slot(td_model_t *m, td_slot_t *slot, td_err_t *err) {
    uint32_t n = td_program_input_count(m->program);
    slot->model = m;
    slot->inputs = TD_NEW_N(&m->arena, const void *, n + 1u);
    slot->outputs = TD_NEW_N(&m->arena, const void *, m->n_outputs + 1u);
    slot->bools = TD_NEW_N(&m->arena, uint8_t *, n + 1u);
    if (!slot->inputs || !slot->outputs || !slot->bools) return td_arena_fail(&m->arena, err);
    for (uint32_t i = 0; i < n; i++) {
        const td_shape_t *sh = td_program_input(m->program, i)->shape;
        slot->inputs[i] = m->bound[i];
        if (sh->type != TD_PRED || m->bound[i]) continue;
        slot->bools[i] = td_arena_align(&m->arena, td_io_host_bytes(sh) + 1, 64);
        if (!slot->bools[i]) return td_arena_fail(&m->arena, err);
    }
    return td_binding_create(m->program, m->alloc, &slot->binding, err);
}

static td_status_t make_slots(td_model_t *m, uint32_t n, td_err_t *err) {
    m->slots = TD_NEW_N(&m->arena, td_slot_t, n);
    if (!m->slots) return td_arena_fail(&m->arena, err);
    td_status_t s = TD_OK;
    for (; s == TD_OK && m->n_slots < n; m->n_slots++) s = make_slot(m, &m->slots[m->n_slots], err);
    return s;
}

td_status_t td_model_load(td_store_t *st, td_model_t *m, td_err_t *err) {
    td_model_config_t c;
    const char *yaml = td_arena_printf(&m->arena, "%s/model.yaml", m->dir);
    if (!yaml) return td_arena_fail(&m->arena, err);
    td_status_t s = td_model_config_read(yaml, &m->arena, &c, err);
    if (s == TD_OK) s = make_program(st, m, err);
    if (s == TD_OK) s = open_weights(m, err);
    if (s == TD_OK) s = bind_weights(m, &c, err);
    if (s == TD_OK) s = fix_weights(m, err);
    if (s == TD_OK) s = name_inputs(m, &c, err);
    if (s == TD_OK) s = name_outputs(m, &c, err);
    if (s == TD_OK) s = make_slots(m, st->opts.concurrency, err);
    return s;
}

void td_model_unload(td_model_t *m) {
    for (uint32_t i = 0; i < m->n_slots; i++) td_binding_destroy(m->slots[i].binding);
    m->n_slots = m->n_inputs = m->n_outputs = 0;
    td_program_destroy(m->program);
    m->program = NULL;
    td_st_close(m->weights);
    m->weights = NULL;
}
