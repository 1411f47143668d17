/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensor a parameter gets: the one that model.yaml binds to it; else the one named like its index, its name, or
 * its tree path. With `only`, exactly the parameters of the list, and each must get one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/weights_in.h"

typedef struct matcher {
    td_weights_t *w;
    const td_io_t *params;
    uint32_t n;
    const td_word_pair_t **bind; /* [n], NULL: not bound by the configuration */
    const td_word_t **only;      /* [n], NULL: not in the list */
    td_err_t *err;
} matcher_t;

static const char *text_of(const char *s) {
    return s && *s ? s : NULL;
}

/* "parameter 3 (Arg_3.1, params['w'])" */
static const char *print_param(const matcher_t *m, uint32_t i, char buf[256]) {
    const char *name = text_of(m->params[i].name), *path = text_of(m->params[i].path);
    snprintf(buf, 256, "parameter %" PRIu32 "%s%.90s%s%.90s%s", i, name || path ? " (" : "", name ? name : "",
             name && path ? ", " : "", path ? path : "", name || path ? ")" : "");
    return buf;
}

/* ---- the configuration's words ---- */

static bool parse_index(const char *text, uint32_t n, uint32_t *out) {
    uint32_t v = 0;
    if (!*text) return false;
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9' || v > (UINT32_MAX - 9) / 10) return false;
        v = v * 10 + (uint32_t)(*p - '0');
    }
    *out = v;
    return v < n;
}

/* The parameters whose name (path) is the text: how many, and the last of them. */
static uint32_t count_named(const matcher_t *m, const char *text, bool by_path, uint32_t *out) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        const char *own = by_path ? m->params[i].path : m->params[i].name;
        if (own && !strcmp(own, text)) found++, *out = i;
    }
    return found;
}

static td_status_t find_param(const matcher_t *m, const td_word_t *word, uint32_t *out) {
    if (parse_index(word->text, m->n, out)) return TD_OK;
    if (!*word->text) return td_word_fail(word, m->err, TD_USAGE, "weights: an empty name of a parameter");
    uint32_t found = count_named(m, word->text, false, out);
    if (!found) found = count_named(m, word->text, true, out);
    if (found == 1) return TD_OK;
    if (found)
        return td_word_fail(word, m->err, TD_MISMATCH, "weights: %u parameters are named %.100s; use the index",
                            (unsigned)found, word->text);
    return td_word_fail(word, m->err, TD_MISMATCH, "weights: %.100s is no parameter; the artifact has %u, known by "
                        "index, name or tree path", word->text, (unsigned)m->n);
}

static td_status_t read_only(matcher_t *m) {
    const td_words_t *l = &m->w->config->weights_only;
    for (uint32_t k = 0; k < l->n; k++) {
        uint32_t i = 0;
        td_status_t s = find_param(m, &l->items[k], &i);
        if (s != TD_OK) return s;
        if (m->only[i])
            return td_word_fail(&l->items[k], m->err, TD_USAGE, "weights: parameter %u stands twice, also in line %u",
                                (unsigned)i, (unsigned)m->only[i]->line);
        m->only[i] = &l->items[k];
    }
    return TD_OK;
}

static td_status_t read_bind(matcher_t *m) {
    const td_word_pairs_t *l = &m->w->config->weights_bind;
    char what[256];
    for (uint32_t k = 0; k < l->n; k++) {
        const td_word_pair_t *b = &l->items[k];
        uint32_t i = 0;
        td_status_t s = find_param(m, &b->key, &i);
        if (s != TD_OK) return s;
        if (m->bind[i])
            return td_word_fail(&b->key, m->err, TD_USAGE, "weights: %s is bound twice: to %.60s, and in line %u to "
                                "%.60s", print_param(m, i, what), b->value.text, (unsigned)m->bind[i]->key.line,
                                m->bind[i]->value.text);
        if (m->w->config->weights_only.given && !m->only[i])
            return td_word_fail(&b->key, m->err, TD_USAGE, "weights: %s is bound to %.60s, but is not in the list of "
                                "the parameters to bind", print_param(m, i, what), b->value.text);
        m->bind[i] = b;
    }
    return TD_OK;
}

/* ---- tensors ---- */

static td_status_t find_bound(const matcher_t *m, uint32_t i, const td_st_tensor_t **out, uint32_t *file) {
    const td_word_t *value = &m->bind[i]->value;
    char what[256];
    td_status_t s = td_st_set_find(m->w->set, value->text, out, file, m->err);
    if (s != TD_OK || *out) return s;
    return td_word_fail(value, m->err, TD_NOTFOUND, "weights: no tensor %.100s for %s in the %u files of %s",
                        value->text, print_param(m, i, what), (unsigned)td_st_set_count(m->w->set), m->w->dir);
}

static td_status_t find_default(const matcher_t *m, uint32_t i, const td_st_tensor_t **out, uint32_t *file) {
    char index[16], what[256];
    snprintf(index, sizeof index, "%" PRIu32, i);
    const char *names[3] = {index, text_of(m->params[i].name), text_of(m->params[i].path)};
    *out = NULL;
    for (int k = 0; k < 3 && !*out; k++) {
        td_status_t s = names[k] ? td_st_set_find(m->w->set, names[k], out, file, m->err) : TD_OK;
        if (s != TD_OK) return s;
    }
    if (*out || !m->only[i]) return TD_OK;
    return td_word_fail(m->only[i], m->err, TD_NOTFOUND, "weights: no tensor for %s in the %u files of %s",
                        print_param(m, i, what), (unsigned)td_st_set_count(m->w->set), m->w->dir);
}

static td_status_t resolve_one(const matcher_t *m, uint32_t i, td_weight_t **out) {
    const td_st_tensor_t *t = NULL;
    uint32_t file = 0;
    char what[256];
    *out = NULL;
    if (m->w->config->weights_only.given && !m->only[i]) return TD_OK;
    td_status_t s = m->bind[i] ? find_bound(m, i, &t, &file) : find_default(m, i, &t, &file);
    if (s != TD_OK || !t) return s;
    s = td_st_match(t, m->params[i].shape, m->err);
    if (s != TD_OK)
        return td_prefix(m->err, s, "%s: tensor %.100s for %s", td_st_set_path(m->w->set, file), t->name,
                         print_param(m, i, what));
    return td_weights_use(m->w, t, file, m->params[i].shape, out, m->err);
}

td_status_t td_weights_resolve(td_weights_t *w, const td_io_t *params, uint32_t n, td_weight_t **out, td_err_t *err) {
    matcher_t m = {.w = w, .params = params, .n = n, .err = err};
    size_t bytes = (n + (size_t)1) * sizeof(void *);
    m.bind = w->alloc->get(w->alloc->ctx, bytes, 16);
    m.only = w->alloc->get(w->alloc->ctx, bytes, 16);
    td_status_t s = m.bind && m.only ? TD_OK : td_fail(err, TD_NOMEM, "out of memory");
    if (s == TD_OK) {
        memset(m.bind, 0, bytes);
        memset(m.only, 0, bytes);
        s = read_only(&m);
    }
    if (s == TD_OK) s = read_bind(&m);
    for (uint32_t i = 0; s == TD_OK && i < n; i++) s = resolve_one(&m, i, &out[i]);
    w->alloc->put(w->alloc->ctx, m.bind, bytes);
    w->alloc->put(w->alloc->ctx, m.only, bytes);
    return s;
}

td_status_t td_weights_match(td_weights_t *w, const td_io_t *params, uint32_t n, bool *out_bound, td_err_t *err) {
    td_weight_t **of = w->alloc->get(w->alloc->ctx, (n + (size_t)1) * sizeof *of, 16);
    if (!of) return td_fail(err, TD_NOMEM, "out of memory");
    pthread_mutex_lock(&w->lock);
    td_status_t s = td_weights_resolve(w, params, n, of, err);
    pthread_mutex_unlock(&w->lock);
    for (uint32_t i = 0; s == TD_OK && i < n; i++) out_bound[i] = of[i] != NULL;
    w->alloc->put(w->alloc->ctx, of, (n + (size_t)1) * sizeof *of);
    return s;
}
