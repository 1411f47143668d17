/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/admin.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/online.h"
#include "ctl/print.h"

bool admin_timeout(const char *text, int unit_ms, int *out_ms) {
    char *end;
    if (*text < '0' || *text > '9') return false;
    unsigned long long v = strtoull(text, &end, 10), unit = (unsigned long long)unit_ms;
    if (!strcmp(end, "ms")) unit = 1;
    else if (!strcmp(end, "s")) unit = 1000;
    else if (!strcmp(end, "m")) unit = 60000;
    else if (*end) return false;
    if (!v || v > (unsigned long long)INT_MAX / unit) return false;
    *out_ms = (int)(v * unit);
    return true;
}

error_t admin_parse_opt(int key, char *arg, struct argp_state *state) {
    admin_args_t *a = state->input;
    switch (key) {
    case 's': a->socket = arg; return 0;
    case 'j': a->json = true; return 0;
    case 'T':
        if (!admin_timeout(arg, 1000, &a->timeout_ms)) argp_error(state, "--timeout %s is no time", arg);
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num >= a->most) argp_error(state, "too many arguments");
        if (state->arg_num) a->version = arg;
        else a->model = arg;
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < a->least) argp_error(state, "no model given");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const char *admin_socket(const admin_args_t *a) {
    if (a->socket) return a->socket;
    return access(CTL_ADMIN_SOCKET, W_OK) ? CTL_DEFAULT_SOCKET : CTL_ADMIN_SOCKET;
}

td_status_t admin_call(const admin_args_t *a, const char *method, const ProtobufCMessage *request,
                       const ProtobufCMessageDescriptor *answer, ProtobufCMessage **out, td_err_t *err) {
    char path[64];
    grpc_reply_t r = {0};
    td_span_t msg = {0};
    const char *socket = admin_socket(a);
    size_t n = protobuf_c_message_get_packed_size(request);
    uint8_t *body = malloc(n + 1);
    if (!body) return td_fail(err, TD_NOMEM, "out of memory");
    protobuf_c_message_pack(request, body);
    snprintf(path, sizeof path, "/thunkd.v1.Admin/%s", method);
    td_status_t s = oip_call(socket, path, (td_span_t){body, n}, a->timeout_ms, &r, &msg, err);
    if (r.code == GRPC_UNIMPLEMENTED) s = td_fail(err, TD_UNSUPPORTED, "%s: this daemon has no %s", socket, method);
    if (s == TD_OK && !(*out = protobuf_c_message_unpack(answer, NULL, msg.size, msg.data)))
        s = td_fail(err, TD_MALFORMED, "%s: the daemon's answer is broken", socket);
    grpc_reply_free(&r);
    free(body);
    return s;
}

char *admin_size(uint64_t bytes, char out[24]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes;
    unsigned u = 0;
    while (v >= 1023.95 && u < 6) v /= 1024, u++;
    snprintf(out, 24, u ? "%.1f %s" : "%.0f %s", v, units[u]);
    return out;
}

static json_t *number(uint64_t v) {
    return v == UINT64_MAX ? json_null() : json_integer((json_int_t)v);
}

static json_t *value(const ProtobufCFieldDescriptor *f, const void *at) {
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING: return ctl_json_text(*(char *const *)at);
    case PROTOBUF_C_TYPE_BOOL: return json_boolean(*(const protobuf_c_boolean *)at);
    case PROTOBUF_C_TYPE_UINT32: return number(*(const uint32_t *)at);
    case PROTOBUF_C_TYPE_UINT64: return number(*(const uint64_t *)at);
    case PROTOBUF_C_TYPE_MESSAGE: {
        const ProtobufCMessage *m = *(ProtobufCMessage *const *)at;
        return m ? admin_json(m) : json_null();
    }
    default: return json_null(); /* the service has no others */
    }
}

json_t *admin_json(const ProtobufCMessage *m) {
    json_t *j = json_object();
    for (unsigned i = 0; j && i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        const char *at = (const char *)m + f->offset;
        json_t *v;
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n = *(const size_t *)(const void *)((const char *)m + f->quantifier_offset);
            const char *const *items = *(const char *const *const *)(const void *)at;
            v = json_array();
            for (size_t k = 0; k < n; k++) json_array_append_new(v, value(f, &items[k])); /* strings and messages */
        } else {
            v = value(f, at);
        }
        if (json_object_set_new(j, f->name, v)) {
            json_decref(j);
            return NULL;
        }
    }
    return j;
}

td_status_t admin_print_json(json_t *j, td_err_t *err) {
    char *s = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
    if (s) puts(s);
    free(s);
    json_decref(j);
    return s ? TD_OK : td_fail(err, TD_NOMEM, "out of memory");
}

void admin_cell(admin_table_t *t, const char *text) {
    if (t->n == t->capacity) {
        size_t n = t->capacity ? 2 * t->capacity : 64;
        char **p = realloc(t->cells, n * sizeof *p);
        if (!p) {
            t->failed = true;
            return;
        }
        t->cells = p;
        t->capacity = n;
    }
    char *copy = strdup(text);
    if (!copy) {
        t->failed = true;
        return;
    }
    for (char *p = copy; *p; p++) /* names must not command the terminal */
        if ((unsigned char)*p < ' ' || *p == 127) *p = '?';
    t->cells[t->n++] = copy;
}

/* before: the column's distance from the one before it; no blanks stand at the end of a line. */
static void print_cell(const char *text, size_t width, bool right, size_t *before) {
    if (!*text && !right) {
        *before += width + 2;
        return;
    }
    size_t n = strlen(text), fill = width - n;
    printf("%*s%s", (int)(*before + (right ? fill : 0)), "", text);
    *before = 2 + (right ? 0 : fill);
}

static void print_row(const admin_table_t *t, const char *const *cells, const size_t *width) {
    size_t before = 0;
    for (uint32_t c = 0; c < t->n_columns; c++) {
        bool right = *t->heads[c] == '>';
        print_cell(cells == t->heads ? cells[c] + right : cells[c], width[c], right, &before);
    }
    putchar('\n');
}

td_status_t admin_table_print(admin_table_t *t, td_err_t *err) {
    uint32_t k = t->n_columns;
    size_t *width = calloc(k, sizeof *width);
    if (!width || t->failed) {
        free(width);
        return td_fail(err, TD_NOMEM, "out of memory");
    }
    for (uint32_t c = 0; c < k; c++) width[c] = strlen(t->heads[c]) - (*t->heads[c] == '>');
    for (size_t i = 0; i < t->n; i++) {
        size_t n = strlen(t->cells[i]);
        if (n > width[i % k]) width[i % k] = n;
    }
    print_row(t, t->heads, width);
    for (size_t i = 0; i + k <= t->n; i += k) print_row(t, (const char *const *)&t->cells[i], width);
    free(width);
    return TD_OK;
}

void admin_table_free(admin_table_t *t) {
    for (size_t i = 0; i < t->n; i++) free(t->cells[i]);
    free(t->cells);
    t->cells = NULL;
    t->n = t->capacity = 0;
}
