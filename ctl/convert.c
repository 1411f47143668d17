/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl convert: an artifact in another form, smaller, or with a newer release's constructs. */
#include "ctl/convert.h"

#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <protobuf-c/protobuf-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract/upgrade.h"
#include "ctl/ctl.h"
#include "proto/strip.h"
#include "proto/write.h"

typedef struct convert_args {
    const char *in, *out, *compression, *release;
    td_write_form_t form;
    td_compression_t method;
    uint32_t strip;
    bool json, verify;
} convert_args_t;

enum { KEY_RELEASE = 256, KEY_VERIFY };

static const struct argp_option options[] = {
    {"form", 'f', "FORM", 0,
     "riegeli-split (default, as the compiler writes), riegeli (a record per message), plain (plain outer message, as "
     "releases up to 0.11.0 write), plain-plain, inner (the executable without compile options), text",
     0},
    {"compression", 'c', "METHOD[:LEVEL]", 0, "Of Riegeli files: snappy (default), none, brotli[:0-11], zstd[:-7-22]",
     0},
    {"strip", 's', "CLASS,...", 0, "Leave out what no runtime needs: hlo-metadata, debug, asm, or all", 0},
    {"to-release", KEY_RELEASE, "X.Y.Z", 0,
     "Bring the artifact to that release's constructs, or say what stands against it", 0},
    {"verify", KEY_VERIFY, NULL, 0, "Read the result again and compare all messages before writing it", 0},
    {"json", 'j', NULL, 0, "Print one JSON object", 0},
    {0},
};

static error_t parse_opt(int key, char *arg, struct argp_state *state) {
    convert_args_t *a = state->input;
    td_err_t err = {0};
    td_status_t s = TD_OK;
    switch (key) {
    case 'f': s = td_write_form_parse(arg, &a->form, &err); break;
    case 'c':
        a->compression = arg;
        s = td_compression_parse(arg, &a->method, &err);
        break;
    case 's': s = td_strip_parse(arg, &a->strip, &err); break;
    case KEY_RELEASE: a->release = arg; break;
    case KEY_VERIFY: a->verify = true; break;
    case 'j': a->json = true; break;
    case ARGP_KEY_ARG:
        if (a->in && a->out) argp_error(state, "more than two files");
        *(a->in ? &a->out : &a->in) = arg;
        break;
    case ARGP_KEY_END:
        if (!a->out) argp_error(state, "an artifact and a place for the result are needed");
        if (a->compression && a->method.method && (a->form == TD_WRITE_TEXT || a->form == TD_WRITE_PLAIN_PLAIN))
            argp_error(state, "form %s has no compression", td_write_form_name(a->form));
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    if (s != TD_OK) argp_error(state, "%s", err.text);
    return 0;
}

static const struct argp argp = {
    options,
    parse_opt,
    "ARTIFACT RESULT",
    "Write an artifact in another form.\vARTIFACT is in any form that is read: of a JAX pickle, an IFRT file or a "
    "cache entry "
    "the executable inside is taken. RESULT is replaced only when everything went well; \"-\" is standard output. "
    "Exit codes: 0 done, 1 refused or failed, 2 usage or unreadable input.",
    NULL,
    NULL,
    NULL};

typedef struct convert {
    const convert_args_t *args;
    td_payload_table_t *table;
    td_artifact_t *a;
    td_rope_t file;
    ctl_bar_t bar;
    td_strip_report_t stripped[8];
    td_upgrade_report_t upgraded;
} convert_t;

static td_status_t edit(convert_t *c, td_err_t *err) {
    td_status_t s = TD_OK;
    if (c->args->release) s = td_upgrade_artifact(c->a, c->args->release, &c->upgraded, err);
    for (uint32_t i = 0; s == TD_OK && i < td_strip_class_count(); i++)
        if (c->args->strip & 1u << i) s = td_strip(c->a, i, &c->stripped[i], err);
    return s;
}

/* What goes through the compressor: the executable, and in a Riegeli file of the outer message once more. */
static uint64_t work(const td_artifact_t *a, td_write_form_t form) {
    uint64_t n = protobuf_c_message_get_packed_size((const ProtobufCMessage *)a->exe);
    for (uint32_t i = 0; i < a->n_payloads; i++) n += a->payloads[i]->bytes.size;
    return form == TD_WRITE_RIEGELI || form == TD_WRITE_RIEGELI_SPLIT ? 2 * n : n;
}

static td_status_t build(convert_t *c, td_err_t *err) {
    td_compression_t m = c->args->method;
    ctl_bar_begin(&c->bar, work(c->a, c->args->form));
    m.tick = ctl_bar_tick;
    m.ctx = &c->bar;
    td_status_t s = td_artifact_write(c->a, c->args->form, m, &c->file, err);
    ctl_bar_end(&c->bar);
    return s;
}

/* The inner form is the end of the whole: what stands in front of it is the outer message. */
static bool same(const td_buffer_t *want, const td_buffer_t *got, bool inner) {
    size_t skip = inner && got->size < want->size ? want->size - got->size : 0;
    return got->size == want->size - skip && (!got->size || memcmp(got->data, want->data + skip, got->size) == 0);
}

static td_status_t verify(convert_t *c, td_err_t *err) {
    const td_alloc_t *alloc = td_alloc_default();
    td_buffer_t flat, want, got;
    td_artifact_t *b = NULL;
    td_buffer_init(&flat, alloc);
    td_buffer_init(&want, alloc);
    td_buffer_init(&got, alloc);
    td_status_t s = td_buffer_reserve(&flat, (size_t)c->file.size, err);
    if (s == TD_OK) {
        td_rope_gather(&c->file, flat.data);
        flat.size = (size_t)c->file.size;
        s = td_artifact_open(td_buffer_span(&flat), c->table, alloc, &b, err);
    }
    if (s == TD_OK) s = td_artifact_canonical(b, &got, err);
    if (s == TD_OK) s = td_artifact_canonical(c->a, &want, err);
    if (s == TD_OK && !same(&want, &got, c->args->form == TD_WRITE_INNER))
        s = td_fail(err, TD_INTERNAL, "the result reads differently: %zu bytes of messages, %zu before", got.size,
                    want.size);
    td_artifact_close(b);
    td_buffer_deinit(&got);
    td_buffer_deinit(&want);
    td_buffer_deinit(&flat);
    return s == TD_OK ? s : td_prefix(err, s, "verify");
}

/* ---- what is said about it ---- */

static const char *compression(const convert_t *c) {
    if (c->args->form == TD_WRITE_TEXT || c->args->form == TD_WRITE_PLAIN_PLAIN) return "none";
    return c->args->compression ? c->args->compression : "snappy";
}

static void print_text(const convert_t *c, FILE *f) {
    const td_artifact_t *a = c->a;
    fprintf(f, "read        %" PRIu64 " bytes, ", a->input_bytes);
    for (uint32_t i = 0; i < a->n_forms; i++) fprintf(f, "%s%s", i ? " > " : "", td_form_name(a->forms[i]));
    fprintf(f, "\nwritten     %" PRIu64 " bytes, %s, compression %s\n", c->file.size, td_write_form_name(c->args->form),
            compression(c));
    int64_t saved = (int64_t)a->input_bytes - (int64_t)c->file.size;
    fprintf(f, "saved       %" PRId64 " bytes, %.1f %%\n", saved,
            100 * (double)saved / (double)(a->input_bytes ? a->input_bytes : 1));
    for (uint32_t i = 0; i < td_strip_class_count(); i++)
        if (c->args->strip & 1u << i)
            fprintf(f, "stripped    %s: %" PRIu64 " fields, %" PRIu64 " bytes\n", td_strip_class(i)->name,
                    c->stripped[i].fields, c->stripped[i].bytes);
    for (uint32_t i = 0; c->args->release && i < td_upgrade_count(); i++)
        if (c->upgraded.applied[i])
            fprintf(f, "upgraded    %s, %" PRIu32 " times\n", td_upgrade_row(i)->what, c->upgraded.applied[i]);
    if (c->upgraded.n_dropped)
        fprintf(f, "dropped     %" PRIu32 " fields that the release no longer has\n", c->upgraded.n_dropped);
    if (a->n_skipped_names) fprintf(f, "skipped     %" PRIu32 " names that no schema knows\n", a->n_skipped_names);
    if (c->args->verify) fprintf(f, "verified    the result reads the same\n");
}

static json_t *text(const char *s) {
    json_t *j = json_string(s);
    return j ? j : json_string("(not UTF-8)");
}

static int print_json(const convert_t *c, FILE *f) {
    const td_artifact_t *a = c->a;
    json_t *forms = json_array(), *stripped = json_array(), *upgraded = json_array();
    for (uint32_t i = 0; i < a->n_forms; i++) json_array_append_new(forms, json_string(td_form_name(a->forms[i])));
    for (uint32_t i = 0; i < td_strip_class_count(); i++)
        if (c->args->strip & 1u << i)
            json_array_append_new(stripped, json_pack("{s:s, s:I, s:I}", "class", td_strip_class(i)->name, "fields",
                                                      (json_int_t)c->stripped[i].fields, "bytes",
                                                      (json_int_t)c->stripped[i].bytes));
    for (uint32_t i = 0; i < td_upgrade_count(); i++)
        if (c->upgraded.applied[i])
            json_array_append_new(upgraded,
                                  json_pack("{s:s, s:s, s:I}", "name", td_upgrade_row(i)->name, "what",
                                            td_upgrade_row(i)->what, "places", (json_int_t)c->upgraded.applied[i]));
    json_t *root =
        json_pack("{s:o, s:o, s:I, s:o, s:s, s:s, s:I, s:I, s:o, s:o, s:I, s:I, s:b}", "artifact", text(c->args->in),
                  "result", text(c->args->out), "bytes_read", (json_int_t)a->input_bytes, "forms_read", forms, "form",
                  td_write_form_name(c->args->form), "compression", compression(c), "bytes_written",
                  (json_int_t)c->file.size, "bytes_saved", (json_int_t)a->input_bytes - (json_int_t)c->file.size,
                  "stripped", stripped, "upgraded", upgraded, "dropped", (json_int_t)c->upgraded.n_dropped,
                  "skipped_names", (json_int_t)a->n_skipped_names, "verified", c->args->verify);
    int rc = root ? json_dumpf(root, f, JSON_INDENT(2)) : -1;
    fputc('\n', f);
    json_decref(root);
    return rc ? 1 : 0;
}

static td_status_t convert(convert_t *c, td_err_t *err) {
    const td_alloc_t *alloc = td_alloc_default();
    td_status_t s = td_payload_table_create(alloc, &c->table, err);
    if (s == TD_OK) s = td_artifact_open_file(c->args->in, c->table, alloc, &c->a, err);
    if (s == TD_NOTFOUND) s = err->code = TD_IO; /* a file we cannot read, as any other */
    if (s != TD_OK) return s;
    if ((s = edit(c, err)) == TD_OK) s = build(c, err);
    if (s == TD_OK && c->args->verify) s = verify(c, err);
    if (s != TD_OK) return td_prefix(err, s, "%s", c->args->in);
    return ctl_out_write(c->args->out, &c->file, err);
}

int ctl_convert(int argc, char **argv) {
    convert_args_t a = {.method = {.method = 's'}};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    convert_t c = {.args = &a};
    _Static_assert(sizeof c.stripped / sizeof *c.stripped >= 3, "a report per class");
    td_rope_init(&c.file, td_alloc_default());
    td_err_t err = {0};
    td_status_t s = convert(&c, &err);
    int rc = 0;
    FILE *f = !strcmp(a.out, "-") ? stderr : stdout; /* the bytes have standard output for themselves */
    if (s == TD_OK && a.json) rc = print_json(&c, f);
    else if (s == TD_OK) print_text(&c, f);
    td_rope_deinit(&c.file);
    td_artifact_close(c.a);
    td_payload_table_destroy(c.table);
    return s == TD_OK ? rc : ctl_report(&err);
}
