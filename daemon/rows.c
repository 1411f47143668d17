/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rows.h"

#include <string.h>

td_status_t td_rows_read(td_store_t *s, td_rows_t *out, td_err_t *err) {
    *out = (td_rows_t){0};
    td_arena_init(&out->arena, td_alloc_default(), 0);
    return td_store_list(s, &out->arena, &out->v, &out->n, err);
}

void td_rows_free(td_rows_t *r) {
    td_arena_deinit(&r->arena);
}

/* labels: with commas */
static bool has_label(const char *labels, const char *label) {
    size_t n = strlen(label);
    while (*labels) {
        size_t k = strcspn(labels, ",");
        if (k == n && !memcmp(labels, label, n)) return true;
        labels += k + (labels[k] == ',');
    }
    return false;
}

const td_model_row_t *td_rows_find(const td_rows_t *r, const char *name, const char *version) {
    const td_model_row_t *last = NULL;
    for (uint32_t i = 0; i < r->n; i++) {
        const td_model_row_t *x = &r->v[i];
        if (strcmp(x->name, name)) continue;
        if (!*version && x->is_default) return x;
        if (*version && (!strcmp(x->version, version) || has_label(x->labels, version))) return x;
        last = x;
    }
    return *version ? NULL : last;
}
