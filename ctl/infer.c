/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl infer: asks the daemon for the model's tensors, sends them, prints what comes back. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/online.h"
#include "ctl/print.h"

typedef struct infer_args {
    const char *socket, *model, *version, *outputs;
    const char *files[CTL_FILES_MAX];
    const char *raw[CTL_FILES_MAX]; /* NAME=FILE */
    uint32_t n_files, n_raw;
    int timeout_ms;
} infer_args_t;

static const struct argp_option options[] = {
    {"socket", 's', "PATH", 0, "The daemon's socket (default " CTL_DEFAULT_SOCKET ")", 0},
    {"model-version", 'm', "VERSION", 0, "The model's version (default: the daemon chooses)", 0},
    {"inputs", 'i', "FILE", 0, "Inputs as safetensors, by name or by position \"0\", \"1\"…; may be repeated", 0},
    {"input", 'I', "NAME=FILE", 0, "One input as raw bytes: row-major, little-endian; may be repeated", 0},
    {"outputs", 'o', "FILE", 0, "Write the outputs there as safetensors instead of printing them", 0},
    {"timeout", 'T', "MS", 0, "Give up after so many milliseconds (default 60000)", 0},
    {0},
};

static error_t parse_opt(int key, char *arg, struct argp_state *state) {
    infer_args_t *a = state->input;
    if ((key == 'i' && a->n_files == CTL_FILES_MAX) || (key == 'I' && a->n_raw == CTL_FILES_MAX))
        argp_error(state, "more than %d input files", CTL_FILES_MAX);
    switch (key) {
    case 's': a->socket = arg; return 0;
    case 'm': a->version = arg; return 0;
    case 'i': a->files[a->n_files++] = arg; return 0;
    case 'I':
        if (!strchr(arg, '=')) argp_error(state, "--input %s is not NAME=FILE", arg);
        a->raw[a->n_raw++] = arg;
        return 0;
    case 'o': a->outputs = arg; return 0;
    case 'T':
        a->timeout_ms = atoi(arg);
        if (a->timeout_ms < 1) argp_error(state, "--timeout %s is not a number of milliseconds", arg);
        return 0;
    case ARGP_KEY_ARG:
        if (a->model) argp_error(state, "more than one model");
        a->model = arg;
        return 0;
    case ARGP_KEY_END:
        if (!a->model) argp_error(state, "no model given");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {options, parse_opt, "MODEL", "Send one request to a daemon.", NULL, NULL, NULL};

typedef struct infer {
    ctl_tensors_t files;
    oip_tensors_t inputs, outputs;
    td_pb_t raw[CTL_FILES_MAX];
    grpc_reply_t reply;
} infer_t;

static td_status_t fetch_inputs(infer_t *x, const infer_args_t *a, td_err_t *err) {
    td_pb_t q = {0};
    td_pb_string(&q, 1, a->model);
    td_pb_string(&q, 2, a->version);
    grpc_reply_t r = {0};
    td_span_t msg;
    td_status_t s =
        oip_call(a->socket, OIP_SERVICE "ModelMetadata", (td_span_t){q.data, q.size}, a->timeout_ms, &r, &msg, err);
    td_wire_field_t f;
    bool bad = false;
    while (s == TD_OK && pb_next(&msg, &f, &bad))
        if (f.number == 4 && f.type == 2) s = oip_tensors_add(&x->inputs, f.bytes, err);
    if (s == TD_OK && bad) s = td_fail(err, TD_MALFORMED, "the daemon's answer is broken");
    grpc_reply_free(&r);
    td_pb_free(&q);
    return s;
}

static td_status_t read_raw(td_pb_t *b, const char *path, td_err_t *err) {
    uint8_t buf[65536];
    size_t n;
    FILE *f = fopen(path, "rb");
    if (!f) return td_fail(err, TD_IO, "%s: %m", path);
    while ((n = fread(buf, 1, sizeof buf, f)) > 0 && !b->failed) td_pb_raw(b, buf, n);
    bool bad = ferror(f) != 0;
    fclose(f);
    if (b->failed) return td_fail(err, TD_NOMEM, "out of memory");
    return bad ? td_fail(err, TD_IO, "%s: cannot be read", path) : TD_OK;
}

/* From --input; *found tells whether one was given. */
static td_status_t bind_raw(infer_t *x, const infer_args_t *a, oip_tensor_t *t, bool *found, td_err_t *err) {
    size_t n = strlen(t->name);
    for (uint32_t i = 0; i < a->n_raw; i++) {
        if (strncmp(a->raw[i], t->name, n) != 0 || a->raw[i][n] != '=') continue;
        uint64_t want;
        td_status_t s = read_raw(&x->raw[i], a->raw[i] + n + 1, err);
        if (s != TD_OK) return s;
        *found = true;
        t->data = x->raw[i].data;
        t->bytes = x->raw[i].size;
        if (oip_bytes(t, &want) && want != t->bytes)
            return td_fail(err, TD_MISMATCH, "input %s: %s has %" PRIu64 " bytes, %s of this shape takes %" PRIu64,
                           t->name,
                           a->raw[i] + n + 1, t->bytes, t->datatype, want);
        return TD_OK;
    }
    return TD_OK;
}

static td_status_t bind_input(infer_t *x, const infer_args_t *a, uint32_t i, td_err_t *err) {
    oip_tensor_t *t = &x->inputs.items[i];
    bool found = false;
    td_status_t s = bind_raw(x, a, t, &found, err);
    if (s != TD_OK || found) return s;
    char key[16];
    snprintf(key, sizeof key, "%u", i);
    const td_st_tensor_t *st = ctl_tensors_find(&x->files, t->name);
    if (!st) st = ctl_tensors_find(&x->files, key);
    if (!st) return td_fail(err, TD_MISMATCH, "input %s (%s) is missing", t->name, t->datatype);
    const char *dtype = oip_to_dtype(t->datatype);
    bool same = dtype && !strcmp(dtype, st->dtype) && st->rank == t->rank;
    for (uint32_t k = 0; same && k < t->rank; k++) same = t->dims[k] < 0 || t->dims[k] == st->dims[k];
    if (!same) {
        char have[160], want[160];
        return td_fail(err, TD_MISMATCH, "input %s: the file has %s, the model wants %s", t->name,
                       ctl_print_dims(st->dtype, st->dims, st->rank, have, sizeof have),
                       ctl_print_dims(dtype ? dtype : t->datatype, t->dims, t->rank, want, sizeof want));
    }
    for (uint32_t k = 0; k < t->rank; k++) t->dims[k] = st->dims[k];
    t->data = st->data;
    t->bytes = st->bytes;
    return TD_OK;
}

static void encode(const infer_t *x, const infer_args_t *a, td_pb_t *q) {
    td_pb_string(q, 1, a->model);
    td_pb_string(q, 2, a->version);
    for (uint32_t i = 0; i < x->inputs.n; i++) {
        const oip_tensor_t *t = &x->inputs.items[i];
        td_pb_t m = {0};
        td_pb_string(&m, 1, t->name);
        td_pb_string(&m, 2, t->datatype);
        td_pb_packed_i64(&m, 3, t->dims, t->rank);
        td_pb_bytes(q, 5, m.data, m.size);
        q->failed |= m.failed;
        td_pb_free(&m);
    }
    for (uint32_t i = 0; i < x->inputs.n; i++) td_pb_bytes(q, 7, x->inputs.items[i].data, x->inputs.items[i].bytes);
}

static td_status_t decode(infer_t *x, td_span_t msg, td_err_t *err) {
    td_wire_field_t f;
    bool bad = false;
    uint32_t raw = 0;
    td_span_t again = msg;
    td_status_t s = TD_OK;
    while (s == TD_OK && pb_next(&msg, &f, &bad))
        if (f.number == 5 && f.type == 2) s = oip_tensors_add(&x->outputs, f.bytes, err);
    while (s == TD_OK && pb_next(&again, &f, &bad)) {
        if (f.number != 6 || f.type != 2) continue;
        if (raw < x->outputs.n) {
            x->outputs.items[raw].data = f.bytes.data;
            x->outputs.items[raw].bytes = f.bytes.size;
        }
        raw++;
    }
    if (s == TD_OK && (bad || raw != x->outputs.n)) s = td_fail(err, TD_MALFORMED, "the daemon's answer is broken");
    return s;
}

static td_status_t write_outputs(const infer_t *x, const char *path, td_err_t *err) {
    td_st_tensor_t *t = calloc(x->outputs.n + 1u, sizeof *t);
    td_status_t s = t ? TD_OK : td_fail(err, TD_NOMEM, "out of memory");
    for (uint32_t i = 0; s == TD_OK && i < x->outputs.n; i++) {
        const oip_tensor_t *o = &x->outputs.items[i];
        const char *dtype = oip_to_dtype(o->datatype);
        if (!dtype) s = td_fail(err, TD_UNSUPPORTED, "output %s: safetensors cannot hold %s", o->name, o->datatype);
        t[i] = (td_st_tensor_t){o->name, dtype, o->rank, o->dims, o->data, o->bytes};
    }
    if (s == TD_OK) s = td_st_write(path, t, x->outputs.n, err);
    free(t);
    return s;
}

static td_status_t infer(infer_t *x, const infer_args_t *a, td_err_t *err) {
    td_status_t s = TD_OK;
    for (uint32_t i = 0; s == TD_OK && i < a->n_files; i++) s = ctl_tensors_add(&x->files, a->files[i], err);
    if (s == TD_OK) s = fetch_inputs(x, a, err);
    for (uint32_t i = 0; s == TD_OK && i < x->inputs.n; i++) s = bind_input(x, a, i, err);
    if (s != TD_OK) return s;
    td_pb_t q = {0};
    td_span_t msg;
    encode(x, a, &q);
    s = q.failed ? td_fail(err, TD_NOMEM, "out of memory")
                 : oip_call(a->socket, OIP_SERVICE "ModelInfer", (td_span_t){q.data, q.size}, a->timeout_ms, &x->reply,
                            &msg, err);
    td_pb_free(&q);
    if (s == TD_OK) s = decode(x, msg, err);
    if (s != TD_OK) return s;
    if (a->outputs) return write_outputs(x, a->outputs, err);
    for (uint32_t i = 0; i < x->outputs.n; i++) ctl_print_tensor(&x->outputs.items[i]);
    return TD_OK;
}

int ctl_infer(int argc, char **argv) {
    infer_args_t a = {.socket = CTL_DEFAULT_SOCKET, .timeout_ms = 60000};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    infer_t x = {0};
    td_err_t err = {0};
    td_status_t s = infer(&x, &a, &err);
    ctl_tensors_close(&x.files);
    oip_tensors_free(&x.inputs);
    oip_tensors_free(&x.outputs);
    grpc_reply_free(&x.reply);
    for (uint32_t i = 0; i < a.n_raw; i++) td_pb_free(&x.raw[i]);
    return s == TD_OK ? 0 : ctl_report(&err);
}
