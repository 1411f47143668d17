/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of model.yaml whose values are lists and maps of names. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/model_yaml_keys.h"

/* ---- lists and maps of texts ---- */

static td_status_t expect(td_yaml_in_t *in, const char *key, const td_yaml_node_t *v, td_yaml_kind_t kind) {
    if (v->kind == kind) return TD_OK;
    return TD_YAML_BAD(in, v, key, "expected %s", kind == TD_YAML_LIST ? "a list" : "'name: value' lines");
}

/* Room for the entries of a list, or for the pairs of a map. */
static td_status_t make_room(td_yaml_in_t *in, const td_yaml_node_t *v, size_t size, void *out) {
    void *p = td_arena_array(in->arena, v->n, size);
    if (!p) return td_arena_fail(in->arena, in->err);
    memcpy(out, &p, sizeof p);
    return TD_OK;
}

/* Is the last of n words, which lie `stride` bytes apart, a new one? */
static td_status_t check_new(td_yaml_in_t *in, const char *key, const td_word_t *words, size_t stride, uint32_t n) {
    const td_word_t *last = (const void *)((const char *)words + (n - 1) * stride);
    for (uint32_t i = 0; i + 1 < n; i++) {
        const td_word_t *w = (const void *)((const char *)words + i * stride);
        if (!strcmp(w->text, last->text)) return TD_YAML_BAD(in, last, key, "%.60s stands twice", last->text);
    }
    return TD_OK;
}

td_status_t td_yaml_read_words(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, td_words_t *out) {
    td_status_t s = expect(in, key->text, v, TD_YAML_LIST);
    *out = (td_words_t){.given = true, .key = td_yaml_word(in, key)};
    if (s == TD_OK) s = make_room(in, v, sizeof *out->items, &out->items);
    for (const td_yaml_node_t *e = v->first; s == TD_OK && e; e = e->next) {
        s = td_yaml_read_text(in, key->text, e, &out->items[out->n++]);
        if (s == TD_OK) s = check_new(in, key->text, out->items, sizeof *out->items, out->n);
    }
    return s;
}

/* The tree has seen to it that no key of a map stands twice. */
static td_status_t read_pairs(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v,
                              td_word_pairs_t *out) {
    td_status_t s = expect(in, key->text, v, TD_YAML_MAP);
    *out = (td_word_pairs_t){.given = true};
    if (s == TD_OK) s = make_room(in, v, sizeof *out->items, &out->items);
    for (const td_yaml_node_t *k = v->first; s == TD_OK && k; k = k->next->next) {
        td_word_pair_t *p = &out->items[out->n++];
        s = td_yaml_read_text(in, key->text, k, &p->key);
        if (s == TD_OK) s = td_yaml_read_text(in, k->text, k->next, &p->value);
    }
    return s;
}

/* Names of files in the version's folder: at least one, and none that leads out of it. */
static td_status_t read_files(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, td_words_t *out) {
    td_status_t s = td_yaml_read_words(in, key, v, out);
    if (s == TD_OK && !out->n) s = TD_YAML_BAD(in, v, key->text, "names no file");
    for (uint32_t i = 0; s == TD_OK && i < out->n; i++)
        if (strchr(out->items[i].text, '/') || out->items[i].text[0] == '.')
            s = TD_YAML_BAD(in, &out->items[i], key->text, "%.60s is not the name of a file of this folder",
                            out->items[i].text);
    return s;
}

td_status_t td_yaml_labels(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    td_word_pairs_t *out = &((td_model_yaml_t *)into)->labels;
    td_status_t s = read_pairs(in, key, v, out);
    for (const td_yaml_node_t *k = v->first; s == TD_OK && k; k = k->next->next) {
        if (strspn(k->text, "0123456789") == strlen(k->text))
            s = TD_YAML_BAD(in, k, key->text, "%.60s is a number, as versions are", k->text);
        if (s == TD_OK) s = td_yaml_check_version(in, k->text, k->next);
    }
    return s;
}

/* ---- weights ---- */

td_status_t td_yaml_weight_files(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    return read_files(in, key, v, &((td_model_yaml_t *)into)->weight_files);
}
td_status_t td_yaml_weights_bind(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    return read_pairs(in, key, v, &((td_model_yaml_t *)into)->weights_bind);
}
td_status_t td_yaml_weights_only(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    return td_yaml_read_words(in, key, v, &((td_model_yaml_t *)into)->weights_only);
}
td_status_t td_yaml_weights(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    td_model_yaml_t *out = into;
    out->weight_files = out->weights_only = (td_words_t){0};
    out->weights_bind = (td_word_pairs_t){0};
    if (v->kind == TD_YAML_TEXT)
        return TD_YAML_BAD(in, v, key->text, "expected a list, or a map of files, bind and only");
    if (v->kind == TD_YAML_LIST) return td_yaml_weights_only(in, key, v, into);
    return td_yaml_read_map(in, TD_MAP_WEIGHTS, key->text, v, into);
}

/* ---- inputs and outputs ---- */

td_status_t td_yaml_shape(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    td_tensor_config_t *out = into;
    td_status_t s = expect(in, key->text, v, TD_YAML_LIST);
    if (s == TD_OK && v->n > TD_LIMIT_RANK)
        s = TD_YAML_BAD(in, v, key->text, "%u dims; at most %d", v->n, TD_LIMIT_RANK);
    if (s == TD_OK) s = make_room(in, v, sizeof *out->dims, &out->dims);
    for (const td_yaml_node_t *e = v->first; s == TD_OK && e; e = e->next) {
        uint64_t n = 0;
        bool any = e->kind == TD_YAML_TEXT && !strcmp(e->text, "-1");
        if (!any) s = td_yaml_read_number(in, key->text, e, 0, INT64_MAX, &n);
        out->dims[out->rank++] = any ? -1 : (int64_t)n;
    }
    out->shaped = true;
    out->shape = td_yaml_word(in, v);
    return s;
}

static td_status_t read_tensor(td_yaml_in_t *in, const char *key, const td_yaml_node_t *v, td_tensor_config_t *out) {
    if (v->kind == TD_YAML_TEXT) return td_yaml_read_text(in, key, v, &out->name);
    td_status_t s = td_yaml_read_map(in, TD_MAP_TENSOR, key, v, out);
    if (s == TD_OK && !out->name.text) s = TD_YAML_BAD(in, v, key, "an entry without a name");
    return s;
}

static td_status_t read_tensors(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v,
                                td_tensor_configs_t *out) {
    td_status_t s = expect(in, key->text, v, TD_YAML_LIST);
    *out = (td_tensor_configs_t){.given = true, .key = td_yaml_word(in, key)};
    if (s == TD_OK) s = make_room(in, v, sizeof *out->items, &out->items);
    for (const td_yaml_node_t *e = v->first; s == TD_OK && e; e = e->next) {
        s = read_tensor(in, key->text, e, &out->items[out->n++]);
        if (s == TD_OK) s = check_new(in, key->text, &out->items->name, sizeof *out->items, out->n);
    }
    return s;
}
td_status_t td_yaml_inputs(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    return read_tensors(in, key, v, &((td_model_yaml_t *)into)->inputs);
}
td_status_t td_yaml_outputs(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    return read_tensors(in, key, v, &((td_model_yaml_t *)into)->outputs);
}

/* ---- shape buckets ---- */

td_status_t td_yaml_buckets(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    return read_files(in, key, v, &((td_model_yaml_t *)into)->buckets);
}

/* Names may stand twice (a square), and "" is a dim without one. */
static td_status_t read_axis_names(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v,
                                   td_words_t *out) {
    td_status_t s = expect(in, key->text, v, TD_YAML_LIST);
    if (s == TD_OK && v->n > TD_LIMIT_RANK)
        s = TD_YAML_BAD(in, v, key->text, "%u dims; at most %d", v->n, TD_LIMIT_RANK);
    *out = (td_words_t){.given = true, .key = td_yaml_word(in, key)};
    if (s == TD_OK) s = make_room(in, v, sizeof *out->items, &out->items);
    for (const td_yaml_node_t *e = v->first; s == TD_OK && e; e = e->next) {
        if (e->kind != TD_YAML_TEXT) s = TD_YAML_BAD(in, e, key->text, "expected the name of a dim");
        out->items[out->n++] = td_yaml_word(in, e);
    }
    return s;
}

td_status_t td_yaml_axes(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    td_model_yaml_t *out = into;
    td_status_t s = expect(in, key->text, v, TD_YAML_MAP);
    out->n_axes = 0;
    if (s == TD_OK) s = make_room(in, v, sizeof *out->axes, &out->axes);
    for (const td_yaml_node_t *k = v->first; s == TD_OK && k; k = k->next->next) {
        td_axes_config_t *a = &out->axes[out->n_axes++];
        s = td_yaml_read_text(in, key->text, k, &a->tensor);
        if (s == TD_OK) s = read_axis_names(in, k, k->next, &a->names);
    }
    return s;
}

/* A number as YAML 1.1 writes it, or true and false. */
static td_status_t read_real(td_yaml_in_t *in, const char *key, const td_yaml_node_t *v, double *out) {
    static const struct {
        const char *text;
        double value;
    } words[] = {{".inf", INFINITY}, {"+.inf", INFINITY}, {"-.inf", -INFINITY},
                 {".nan", NAN},      {"false", 0},        {"true", 1}};
    const char *text = v->kind == TD_YAML_TEXT ? v->text : "";
    char *end = NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(text, words[i].text)) {
            *out = words[i].value;
            return TD_OK;
        }
    double d = strtod(text, &end);
    if (!*text || *end || strspn(text, "+-.0123456789eE") != strlen(text) || !isfinite(d))
        return TD_YAML_BAD(in, v, key, "expected a number%s%.40s", *text ? ", got " : "", text);
    *out = d;
    return TD_OK;
}

td_status_t td_yaml_pad(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    td_model_yaml_t *out = into;
    td_status_t s = expect(in, key->text, v, TD_YAML_MAP);
    out->n_pads = 0;
    if (s == TD_OK) s = make_room(in, v, sizeof *out->pads, &out->pads);
    for (const td_yaml_node_t *k = v->first; s == TD_OK && k; k = k->next->next) {
        td_pad_config_t *p = &out->pads[out->n_pads++];
        s = td_yaml_read_text(in, key->text, k, &p->tensor);
        if (s == TD_OK) s = read_real(in, k->text, k->next, &p->number);
        p->value = td_yaml_word(in, k->next);
    }
    return s;
}

/* ---- state ---- */

td_status_t td_yaml_state(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    td_model_yaml_t *out = into;
    td_status_t s = expect(in, key->text, v, TD_YAML_LIST);
    out->n_states = 0;
    if (s == TD_OK) s = make_room(in, v, sizeof *out->states, &out->states);
    for (const td_yaml_node_t *e = v->first; s == TD_OK && e; e = e->next) {
        td_state_config_t *t = &out->states[out->n_states++];
        s = td_yaml_read_map(in, TD_MAP_STATE, key->text, e, t);
        if (s == TD_OK && (!t->input.text || !t->output.text))
            s = TD_YAML_BAD(in, e, key->text, "an entry without its %s", t->input.text ? "output" : "input");
        if (s == TD_OK) s = check_new(in, key->text, &out->states->input, sizeof *t, out->n_states);
        if (s == TD_OK) s = check_new(in, key->text, &out->states->output, sizeof *t, out->n_states);
    }
    return s;
}
