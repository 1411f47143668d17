/* SPDX-License-Identifier: Apache-2.0 */
#include "config/libraries.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *file;
    yaml_document_t *doc;
    td_err_t *err;
} reader_t;

static unsigned long line(const yaml_node_t *n) { return n->start_mark.line + 1; }

/* A copy of a scalar of 1 to 4095 bytes. */
static td_status_t text(const reader_t *r, const yaml_node_t *n, const char *what, char **out) {
    if (n->type != YAML_SCALAR_NODE)
        return td_fail(r->err, TD_USAGE, "%s:%lu: %s takes one value", r->file, line(n), what);
    const char *s = (const char *)n->data.scalar.value;
    if (!n->data.scalar.length || n->data.scalar.length > 4095 || strlen(s) != n->data.scalar.length)
        return td_fail(r->err, TD_USAGE, "%s:%lu: %s: expected 1 to 4095 bytes, got %zu", r->file, line(n), what,
                       n->data.scalar.length);
    *out = strdup(s);
    return *out ? TD_OK : td_fail(r->err, TD_NOMEM, "out of memory");
}

static td_status_t handlers(const reader_t *r, const yaml_node_t *n, td_config_library_t *l) {
    if (n->type != YAML_MAPPING_NODE)
        return td_fail(r->err, TD_USAGE, "%s:%lu: handlers: expected 'target: symbol' lines", r->file, line(n));
    const yaml_node_pair_t *p = n->data.mapping.pairs.start;
    size_t count = (size_t)(n->data.mapping.pairs.top - p);
    if (l->handlers) return td_fail(r->err, TD_USAGE, "%s:%lu: handlers is set twice", r->file, line(n));
    l->handlers = calloc(count + 1, sizeof *l->handlers);
    if (!l->handlers) return td_fail(r->err, TD_NOMEM, "out of memory");
    for (size_t i = 0; i < count; i++) {
        td_config_handler_t *h = &l->handlers[l->n_handlers++];
        const yaml_node_t *k = yaml_document_get_node(r->doc, p[i].key);
        td_status_t s = text(r, k, "a handler's target", &h->target);
        for (uint32_t j = 0; s == TD_OK && j + 1 < l->n_handlers; j++)
            if (!strcmp(l->handlers[j].target, h->target))
                s = td_fail(r->err, TD_USAGE, "%s:%lu: target '%.200s' is set twice", r->file, line(k), h->target);
        if (s == TD_OK) s = text(r, yaml_document_get_node(r->doc, p[i].value), "a handler's symbol", &h->symbol);
        if (s != TD_OK) return s;
    }
    return TD_OK;
}

static td_status_t library(const reader_t *r, const yaml_node_t *n, td_config_library_t *l) {
    if (n->type == YAML_SCALAR_NODE) return text(r, n, "a library's path", &l->path);
    if (n->type != YAML_MAPPING_NODE)
        return td_fail(r->err, TD_USAGE, "%s:%lu: a library is a path, or 'path:' and 'handlers:'", r->file, line(n));
    const yaml_node_pair_t *p = n->data.mapping.pairs.start;
    for (; p < n->data.mapping.pairs.top; p++) {
        const yaml_node_t *k = yaml_document_get_node(r->doc, p->key), *v = yaml_document_get_node(r->doc, p->value);
        const char *name = k->type == YAML_SCALAR_NODE ? (const char *)k->data.scalar.value : "";
        td_status_t s;
        if (!strcmp(name, "path") && l->path)
            s = td_fail(r->err, TD_USAGE, "%s:%lu: path is set twice", r->file, line(k));
        else if (!strcmp(name, "path")) s = text(r, v, "path", &l->path);
        else if (!strcmp(name, "handlers")) s = handlers(r, v, l);
        else s = td_fail(r->err, TD_USAGE, "%s:%lu: unknown key '%.64s' of a library", r->file, line(k), name);
        if (s != TD_OK) return s;
    }
    return l->path ? TD_OK : td_fail(r->err, TD_USAGE, "%s:%lu: a library without a path", r->file, line(n));
}

td_status_t td_config_libraries(td_config_t *c, const char *file, yaml_document_t *doc, const yaml_node_t *v,
                                td_err_t *err) {
    reader_t r = {file, doc, err};
    td_status_t s = TD_OK;
    if (v->type != YAML_SEQUENCE_NODE)
        return td_fail(err, TD_USAGE, "%s:%lu: ffi_libraries: expected a list", file, line(v));
    const yaml_node_item_t *i = v->data.sequence.items.start, *end = v->data.sequence.items.top;
    c->ffi_libraries = calloc((size_t)(end - i) + 1, sizeof *c->ffi_libraries);
    if (!c->ffi_libraries) return td_fail(err, TD_NOMEM, "out of memory");
    for (; s == TD_OK && i < end; i++)
        s = library(&r, yaml_document_get_node(doc, *i), &c->ffi_libraries[c->n_ffi_libraries++]);
    return s;
}

void td_config_libraries_free(td_config_t *c) {
    for (uint32_t i = 0; i < c->n_ffi_libraries; i++) {
        td_config_library_t *l = &c->ffi_libraries[i];
        for (uint32_t k = 0; k < l->n_handlers; k++) {
            free(l->handlers[k].target);
            free(l->handlers[k].symbol);
        }
        free(l->handlers);
        free(l->path);
    }
    free(c->ffi_libraries);
}
