/* SPDX-License-Identifier: Apache-2.0 */
/* What a resident's requests look like, from its programs and its settings, checked against each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store_in.h"

bool td_io_is(const td_io_t *io, uint32_t index, const char *word) {
    char text[16];
    snprintf(text, sizeof text, "%u", index);
    if (!strcmp(word, text) || (io->name && !strcmp(io->name, word))) return true;
    return io->path && *io->path && !strcmp(io->path, word);
}

/* A tensor of the program by index, name or tree path. UINT32_MAX: none. */
static uint32_t find(const td_program_t *p, bool output, const char *word) {
    uint32_t n = output ? td_program_output_count(p) : td_program_input_count(p);
    for (uint32_t i = 0; i < n; i++)
        if (td_io_is(output ? td_program_output(p, i) : td_program_input(p, i), i, word)) return i;
    return UINT32_MAX;
}

static td_status_t one_state(td_resident_t *r, const td_state_config_t *c, uint32_t k, td_err_t *err) {
    const td_bucket_t *b = &r->buckets[0];
    uint32_t in = find(b->program, false, c->input.text), out = find(b->program, true, c->output.text);
    if (in == UINT32_MAX) return td_word_fail(&c->input, err, TD_MISMATCH,
                                              "state: the artifact has no parameter %.100s", c->input.text);
    if (out == UINT32_MAX) return td_word_fail(&c->output, err, TD_MISMATCH, "state: the artifact has no result %.100s",
                                               c->output.text);
    if (b->bound[in]) return td_word_fail(&c->input, err, TD_MISMATCH, "state: parameter %.100s is bound to a weight",
                                          c->input.text);
    for (uint32_t i = 0; i < k; i++)
        if (r->state_inputs[i] == in || r->state_outputs[i] == out)
            return td_word_fail(&c->input, err, TD_MISMATCH, "state: %.100s or %.100s stands twice", c->input.text,
                                c->output.text);
    td_err_t why = {0};
    for (uint32_t i = 0; i < r->n_buckets; i++)
        if (td_program_state_check(r->buckets[i].program, in, out, &why) != TD_OK)
            return td_word_fail(&c->input, err, TD_MISMATCH, "state: %s", why.text);
    r->state_inputs[k] = in;
    r->state_outputs[k] = out;
    r->state_bytes[k] = td_program_state_bytes(b->program, in);
    for (uint32_t i = 1; i < r->n_buckets; i++)
        if (!td_shape_equal(td_program_input(r->buckets[i].program, in)->shape,
                            td_program_input(b->program, in)->shape))
            return td_word_fail(&c->input, err, TD_MISMATCH, "state: the buckets differ in the shape of %.100s",
                                c->input.text);
    return TD_OK;
}

static td_status_t find_states(td_resident_t *r, const td_model_yaml_t *c, td_err_t *err) {
    r->state_inputs = TD_NEW_N(&r->arena, uint32_t, c->n_states + 1u);
    r->state_outputs = TD_NEW_N(&r->arena, uint32_t, c->n_states + 1u);
    r->state_bytes = TD_NEW_N(&r->arena, uint64_t, c->n_states + 1u);
    if (!r->state_inputs || !r->state_outputs || !r->state_bytes) return td_arena_fail(&r->arena, err);
    td_status_t st = TD_OK;
    for (uint32_t k = 0; k < c->n_states && st == TD_OK; k++) st = one_state(r, &c->states[k], k, err);
    r->info.n_states = c->n_states;
    return st;
}

/* All buckets are one program but for some dims. */
static td_status_t compare_buckets(const td_resident_t *r, const td_model_yaml_t *c, td_err_t *err) {
    const td_bucket_t *a = &r->buckets[0];
    uint32_t n = td_program_input_count(a->program), m = td_program_output_count(a->program);
    for (uint32_t k = 1; k < r->n_buckets; k++) {
        const td_bucket_t *b = &r->buckets[k];
        bool same = td_program_input_count(b->program) == n && td_program_output_count(b->program) == m;
        if (!same)
            return td_word_fail(&c->buckets.key, err, TD_MISMATCH,
                                "the buckets differ in the number of parameters or results: %u and %u, %u and %u",
                                n, td_program_input_count(b->program), m, td_program_output_count(b->program));
        for (uint32_t i = 0; i < n + m; i++) {
            const td_io_t *x = i < n ? td_program_input(a->program, i) : td_program_output(a->program, i - n);
            const td_io_t *y = i < n ? td_program_input(b->program, i) : td_program_output(b->program, i - n);
            bool weights = i < n && (a->bound[i] != b->bound[i]);
            if (x->shape->type == y->shape->type && x->shape->rank == y->shape->rank && !weights) continue;
            return td_word_fail(&c->buckets.key, err, TD_MISMATCH,
                                "the buckets differ in type, rank or binding of %s %u",
                                i < n ? "parameter" : "result", i < n ? i : i - n);
        }
    }
    return TD_OK;
}

/* ---- visible tensors ---- */

static td_status_t list_visible(td_resident_t *r, td_err_t *err) {
    const td_bucket_t *b = &r->buckets[0];
    uint32_t n = td_program_input_count(b->program), m = td_program_output_count(b->program);
    r->visible_inputs = TD_NEW_N(&r->arena, uint32_t, n + 1u);
    r->visible_outputs = TD_NEW_N(&r->arena, uint32_t, m + 1u);
    if (!r->visible_inputs || !r->visible_outputs) return td_arena_fail(&r->arena, err);
    for (uint32_t i = 0; i < n; i++) {
        bool hidden = b->bound[i];
        for (uint32_t k = 0; k < r->info.n_states; k++) hidden |= r->state_inputs[k] == i;
        if (!hidden) r->visible_inputs[r->info.n_inputs++] = i;
    }
    for (uint32_t i = 0; i < m; i++) {
        bool hidden = false;
        for (uint32_t k = 0; k < r->info.n_states; k++) hidden |= r->state_outputs[k] == i;
        if (!hidden) r->visible_outputs[r->info.n_outputs++] = i;
    }
    return TD_OK;
}

static td_status_t describe(td_resident_t *r, bool output, uint32_t index, const char *name, td_tensor_info_t *t,
                            td_err_t *err) {
    const td_program_t *first = r->buckets[0].program;
    const td_shape_t *s = (output ? td_program_output(first, index) : td_program_input(first, index))->shape;
    int64_t *dims = TD_NEW_N(&r->arena, int64_t, s->rank + 1u), *most = TD_NEW_N(&r->arena, int64_t, s->rank + 1u);
    t->name = td_arena_strndup(&r->arena, name, strlen(name));
    if (!dims || !most || !t->name) return td_arena_fail(&r->arena, err);
    for (uint32_t d = 0; d < s->rank; d++) {
        dims[d] = most[d] = s->dims[d];
        for (uint32_t k = 1; k < r->n_buckets; k++) {
            const td_program_t *p = r->buckets[k].program;
            int64_t v = (output ? td_program_output(p, index) : td_program_input(p, index))->shape->dims[d];
            if (v != most[d]) dims[d] = -1;
            if (v > most[d]) most[d] = v;
        }
    }
    for (uint32_t k = 0; k < r->n_buckets; k++) {
        const td_program_t *p = r->buckets[k].program;
        uint64_t bytes = td_io_host_bytes((output ? td_program_output(p, index) : td_program_input(p, index))->shape);
        if (bytes > t->bytes) t->bytes = bytes;
    }
    t->dims = dims;
    t->max_dims = most;
    t->rank = s->rank;
    t->type = s->type;
    t->datatype = td_datatype_name(t->type);
    return *t->datatype ? TD_OK : td_fail(err, TD_UNSUPPORTED, "%s: no tensor can have type %s", name,
                                          td_type_name(t->type));
}

static const char *print_dims(const int64_t *dims, uint32_t rank, char *out, size_t size) {
    size_t n = (size_t)snprintf(out, size, "[");
    for (uint32_t i = 0; i < rank && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? ", " : "", (long long)dims[i]);
    if (n < size) snprintf(out + n, size - n, "]");
    return out;
}

static td_status_t check_config(const td_tensor_config_t *c, const td_tensor_info_t *t, td_err_t *err) {
    if (c->datatype.text && strcmp(c->datatype.text, t->datatype) != 0)
        return td_word_fail(&c->datatype, err, TD_MISMATCH, "%s: datatype %.20s, the artifact has %s", t->name,
                            c->datatype.text, t->datatype);
    if (!c->shaped) return TD_OK;
    bool same = c->rank == t->rank;
    for (uint32_t i = 0; same && i < t->rank; i++) same = c->dims[i] == t->dims[i];
    char have[200], want[200];
    return same ? TD_OK
                : td_word_fail(&c->shape, err, TD_MISMATCH, "%s: shape %s, the artifact has %s", t->name,
                               print_dims(c->dims, c->rank, want, sizeof want), print_dims(t->dims, t->rank, have,
                                       sizeof have));
}

/* Two tensors of one name could not be told apart. */
static td_status_t check_unique(const td_tensor_info_t *t, uint32_t n, const char *what, td_err_t *err) {
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (!strcmp(t[i].name, t[k].name))
                return td_fail(err, TD_MISMATCH, "two %s are named %.100s; name them in model.yaml", what, t[i].name);
    return TD_OK;
}

static td_status_t name_all(td_resident_t *r, bool output, const td_tensor_configs_t *c, td_err_t *err) {
    uint32_t n = output ? r->info.n_outputs : r->info.n_inputs;
    const char *what = output ? "outputs" : "inputs";
    td_tensor_info_t *t = TD_NEW_N(&r->arena, td_tensor_info_t, n + 1u);
    if (!t) return td_arena_fail(&r->arena, err);
    if (c->given && c->n != n)
        return td_word_fail(&c->key, err, TD_MISMATCH, "%s names %u, the artifact has %u for requests", what, c->n, n);
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < n && st == TD_OK; i++) {
        uint32_t index = output ? r->visible_outputs[i] : r->visible_inputs[i];
        const td_program_t *p = r->buckets[0].program;
        const td_io_t *io = output ? td_program_output(p, index) : td_program_input(p, index);
        char fallback[24];
        snprintf(fallback, sizeof fallback, "%s_%u", output ? "output" : "input", i);
        const char *name = c->given ? c->items[i].name.text : io->name && *io->name ? io->name : fallback;
        st = describe(r, output, index, name, &t[i], err);
        if (st == TD_OK && c->given) st = check_config(&c->items[i], &t[i], err);
    }
    if (output) r->info.outputs = t;
    else r->info.inputs = t;
    return st == TD_OK ? check_unique(t, n, what, err) : st;
}

static td_status_t name_states(td_resident_t *r, const td_model_yaml_t *c, td_err_t *err) {
    td_tensor_info_t *t = TD_NEW_N(&r->arena, td_tensor_info_t, r->info.n_states + 1u);
    if (!t) return td_arena_fail(&r->arena, err);
    td_status_t st = TD_OK;
    for (uint32_t k = 0; k < r->info.n_states && st == TD_OK; k++) st = describe(r, false, r->state_inputs[k],
            c->states[k].input.text, &t[k], err);
    r->info.states = t;
    return st;
}

td_status_t td_resident_describe(td_resident_t *r, const td_model_yaml_t *c, td_err_t *err) {
    r->info.n_buckets = r->n_buckets;
    td_status_t st = compare_buckets(r, c, err);
    if (st == TD_OK) st = find_states(r, c, err);
    if (st == TD_OK) st = list_visible(r, err);
    if (st == TD_OK) st = name_all(r, false, &c->inputs, err);
    if (st == TD_OK) st = name_all(r, true, &c->outputs, err);
    if (st == TD_OK) st = name_states(r, c, err);
    if (st == TD_OK) st = td_resident_find_axes(r, c, err);
    return st;
}
