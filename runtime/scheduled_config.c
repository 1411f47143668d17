/* SPDX-License-Identifier: Apache-2.0 */
/* Backend configurations: JSON of protobuf messages (xla/service/gpu/backend_configs.proto). 64-bit integers are
 * strings there, floats may be "NaN" or "Infinity", enums are names; members that hold the default may be absent. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/scheduled_in.h"

/* Nesting of text that jansson reads is bounded by itself (JSON_PARSER_MAX_DEPTH). */
td_status_t td_sched_config(td_sched_t *s, const td_sched_instr_t *i, const char *part, json_t **out) {
    json_error_t e;
    if (!*i->in->backend_config)
        return td_fail(s->err, TD_MALFORMED, "'%s' has no backend configuration", i->in->name);
    json_t *j = json_loads(i->in->backend_config, 0, &e);
    if (!json_is_object(j)) {
        json_decref(j);
        return td_fail(s->err, TD_MALFORMED, "backend configuration of '%s' is no JSON object", i->in->name);
    }
    if (!part) return *out = j, TD_OK;
    json_t *p = json_incref(json_object_get(j, part));
    json_decref(j);
    if (!json_is_object(p)) {
        json_decref(p);
        if (!strcmp(part, "fusion_backend_config")) return *out = json_object(), TD_OK; /* may be left out */
        return td_fail(s->err, TD_MALFORMED, "backend configuration of '%s' has no %s", i->in->name, part);
    }
    *out = p;
    return TD_OK;
}

static td_status_t bad(td_sched_t *s, const char *name) {
    return td_fail(s->err, TD_MALFORMED, "backend configuration: %s has a value of the wrong kind", name);
}

td_status_t td_sched_number(td_sched_t *s, json_t *o, const char *name, double dflt, double *out) {
    json_t *j = json_object_get(o, name);
    const char *text = json_string_value(j);
    char *end = NULL;
    if (!j || json_is_null(j)) return *out = dflt, TD_OK;
    if (json_is_number(j)) return *out = json_number_value(j), TD_OK;
    if (!text || !*text) return bad(s, name);
    *out = strtod(text, &end); /* takes "NaN", "Infinity" and "-Infinity" as they are */
    return *end ? bad(s, name) : TD_OK;
}

static bool integer(json_t *j, int64_t *out) {
    const char *text = json_string_value(j);
    char *end = NULL;
    if (json_is_integer(j)) return *out = json_integer_value(j), true;
    if (json_is_real(j)) {
        double v = json_real_value(j);
        if (v != floor(v) || fabs(v) > 9007199254740992.0) return false;
        return *out = (int64_t)v, true;
    }
    if (!text || !*text) return false;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return !*end && !errno;
}

td_status_t td_sched_integer(td_sched_t *s, json_t *o, const char *name, int64_t dflt, int64_t *out) {
    json_t *j = json_object_get(o, name);
    if (!j || json_is_null(j)) return *out = dflt, TD_OK;
    return integer(j, out) ? TD_OK : bad(s, name);
}

td_status_t td_sched_bool(td_sched_t *s, json_t *o, const char *name, bool dflt, bool *out) {
    json_t *j = json_object_get(o, name);
    if (!j || json_is_null(j)) return *out = dflt, TD_OK;
    if (!json_is_boolean(j)) return bad(s, name);
    *out = json_is_true(j);
    return TD_OK;
}

td_status_t td_sched_enum(td_sched_t *s, json_t *o, const char *name, const char *const *names, int n, int dflt,
                          int *out) {
    json_t *j = json_object_get(o, name);
    const char *text = json_string_value(j);
    int64_t v = 0;
    if (!j || json_is_null(j)) return *out = dflt, TD_OK;
    for (int k = 0; text && k < n; k++)
        if (names[k] && !strcmp(names[k], text)) return *out = k, TD_OK;
    if (json_is_integer(j) && integer(j, &v) && v >= 0 && v < n) return *out = (int)v, TD_OK;
    return td_fail(s->err, TD_UNSUPPORTED, "backend configuration: %s is '%.60s', which is not supported", name,
                   text ? text : "a number");
}

td_status_t td_sched_dims(td_sched_t *s, json_t *o, const char *name, uint32_t rank, td_ints_t *out) {
    json_t *j = json_object_get(o, name);
    size_t n = json_array_size(j);
    uint64_t seen = 0;
    if (j && !json_is_array(j) && !json_is_null(j)) return bad(s, name);
    if (n > rank || rank > TD_LIMIT_RANK)
        return td_fail(s->err, TD_MALFORMED, "backend configuration: %s has %zu dimensions of %u", name, n, rank);
    int64_t *v = TD_NEW_N(s->arena, int64_t, n);
    if (!v) return td_arena_fail(s->arena, s->err);
    for (size_t k = 0; k < n; k++) {
        if (!integer(json_array_get(j, k), &v[k])) return bad(s, name);
        if (v[k] < 0 || v[k] >= rank || (seen >> v[k] & 1))
            return td_fail(s->err, TD_MALFORMED, "backend configuration: %s[%zu] is %lld", name, k, (long long)v[k]);
        seen |= 1ull << v[k];
    }
    *out = (td_ints_t){v, (uint32_t)n};
    return TD_OK;
}
