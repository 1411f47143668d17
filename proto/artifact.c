/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/artifact.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/limits.h"
#include "executable.pb-c.h"
#include "proto/envelope.h"
#include "proto/excise.h"
#include "proto/riegeli.h"
#include "proto/split.h"

static const char OUTER[] = "xla.ExecutableAndOptionsProto";
static const char INNER[] = "xla.gpu.GpuExecutableProto";
enum { OUTER_EXECUTABLE = 1 }; /* xla/pjrt/proto/compile_options.proto */

/* Two messages are walked at once: the outer one, and inside its field 1 the executable. */
typedef struct opening {
    td_artifact_t *a;
    td_excise_t excise;
    td_walk_t outer, inner;
    bool has_outer, has_inner;
} opening_t;

static void add_form(td_artifact_t *a, td_form_t f) {
    if (a->n_forms < sizeof a->forms / sizeof *a->forms) a->forms[a->n_forms++] = f;
}

static td_status_t unpack(opening_t *o, td_walk_t *w, ProtobufCMessage **out, td_err_t *err) {
    td_arena_t *arena = &o->a->arena;
    uint64_t more = TD_LIMIT_PROTO_FLOOR_BYTES + w->wire_bytes * TD_LIMIT_PROTO_AMPLIFICATION;
    arena->budget_bytes = arena->reserved_bytes + (size_t)more;
    td_status_t s = td_walk_unpack(w, arena, out, err);
    td_walk_end(w);
    return s;
}

static td_status_t check_client(const char *name, td_err_t *err) {
    static const char expected[] = "PjRtStreamExecutorClient";
    if (!*name || strcmp(name, expected) == 0) return TD_OK;
    return td_fail(err, TD_MISMATCH, "written for PJRT client \"%.64s\", this runtime reads \"%s\"", name, expected);
}

/* A later executable replaces an earlier one, as protobuf has it. */
static td_status_t begin_inner(opening_t *o, td_err_t *err) {
    td_walk_end(&o->inner);
    o->has_inner = true;
    return td_walk_begin(&o->inner, &o->excise, &xla__gpu__gpu_executable_proto__descriptor, err);
}

static td_status_t inner_type(void *ctx, const char *name, td_err_t *err) {
    if (strcmp(name, INNER) == 0) return begin_inner(ctx, err);
    return td_fail(err, TD_UNSUPPORTED, "executable of type %s; expected %s", name, INNER);
}
static td_status_t part(td_walk_t *w, uint32_t number, td_feed_t *bytes, td_err_t *err) {
    return number ? td_walk_field(w, number, bytes, err) : td_walk_fields(w, bytes, err);
}
static td_status_t inner_part(void *ctx, uint32_t number, td_feed_t *bytes, td_err_t *err) {
    return part(&((opening_t *)ctx)->inner, number, bytes, err);
}

/* Field 1 of the outer message. */
static td_status_t take_executable(void *ctx, td_feed_t *bytes, td_err_t *err) {
    opening_t *o = ctx;
    td_split_sink_t sink = {inner_type, inner_part, o};
    td_peek_t p;
    bool riegeli = false;
    if (!bytes->end) return TD_OK;
    td_status_t s = td_peek_open(&p, bytes, &o->excise.env, &riegeli, err);
    if (s == TD_OK && riegeli) {
        add_form(o->a, TD_FORM_INNER_RIEGELI);
        s = td_split_read(&p.s, &o->excise.env, &sink, &o->a->compression[1], err);
    } else if (s == TD_OK) {
        /* Fallback inner-plain: the executable is no split proto. Can be removed in February 2027. */
        add_form(o->a, TD_FORM_INNER_PLAIN);
        s = begin_inner(o, err);
        if (s == TD_OK) s = td_walk_fields(&o->inner, &p.s, err);
    }
    td_peek_close(&p);
    return s == TD_OK ? s : td_prefix(err, s, "executable");
}

static td_status_t begin_outer(opening_t *o, td_form_t form, td_err_t *err) {
    add_form(o->a, form);
    o->has_outer = true;
    td_status_t s = td_walk_begin(&o->outer, &o->excise, &xla__executable_and_options_proto__descriptor, err);
    o->outer.take_number = OUTER_EXECUTABLE;
    o->outer.take = take_executable;
    o->outer.ctx = o;
    return s;
}

static td_status_t outer_type(void *ctx, const char *name, td_err_t *err) {
    opening_t *o = ctx;
    if (strcmp(name, OUTER) == 0) return begin_outer(o, TD_FORM_PJRT_RIEGELI, err);
    if (strcmp(name, INNER) != 0)
        return td_fail(err, TD_UNSUPPORTED, "split proto of type %s; expected %s or %s", name, OUTER, INNER);
    add_form(o->a, TD_FORM_INNER_RIEGELI); /* bare inner file */
    return begin_inner(o, err);
}
static td_status_t outer_part(void *ctx, uint32_t number, td_feed_t *bytes, td_err_t *err) {
    opening_t *o = ctx;
    return part(o->has_outer ? &o->outer : &o->inner, number, bytes, err);
}

static td_status_t read_body(opening_t *o, td_feed_t *body, bool riegeli, td_err_t *err) {
    if (!riegeli) {
        /* Fallback outer-plain: a plain message, no split proto. Can be removed in February 2027. */
        td_status_t s = begin_outer(o, TD_FORM_PJRT_PLAIN, err);
        return s == TD_OK ? td_walk_fields(&o->outer, body, err) : s;
    }
    td_split_sink_t sink = {outer_type, outer_part, o};
    char compression = 0;
    td_status_t s = td_split_read(body, &o->excise.env, &sink, &compression, err);
    o->a->compression[o->has_outer ? 0 : 1] = compression;
    return s;
}

/* All bytes were read, and their hashes were right. */
static td_status_t take_outer(opening_t *o, td_err_t *err) {
    ProtobufCMessage *m = NULL;
    td_status_t s = unpack(o, &o->outer, &m, err);
    if (s != TD_OK) return s;
    const Xla__ExecutableAndOptionsProto *outer = (const Xla__ExecutableAndOptionsProto *)m;
    o->a->outer = outer;
    o->a->options = outer->compile_options;
    if (outer->pjrt_client_name) o->a->pjrt_client_name = outer->pjrt_client_name;
    return check_client(o->a->pjrt_client_name, err);
}

static td_status_t take_messages(opening_t *o, td_err_t *err) {
    ProtobufCMessage *m = NULL;
    td_status_t s = o->has_outer ? take_outer(o, err) : TD_OK;
    if (s == TD_OK && !o->has_inner)
        s = td_fail(err, TD_MALFORMED, "the artifact holds options and no executable (compiled with early exit?)");
    if (s != TD_OK) return s;
    if ((s = unpack(o, &o->inner, &m, err)) != TD_OK) return td_prefix(err, s, "executable");
    o->a->exe = (const Xla__Gpu__GpuExecutableProto *)m;
    return TD_OK;
}

static int by_address(const void *x, const void *y) {
    uintptr_t a = (uintptr_t)*(const td_payload_t *const *)x, b = (uintptr_t)*(const td_payload_t *const *)y;
    return (a > b) - (a < b);
}

/* What the payloads cost, each once. */
static td_status_t add_up(td_artifact_t *a, td_err_t *err) {
    const td_payload_t **p = a->arena.alloc->get(a->arena.alloc->ctx, (a->n_payloads + 1) * sizeof *p, 16);
    if (!p) return td_fail(err, TD_NOMEM, "out of memory for a list of %u payloads", a->n_payloads);
    if (a->n_payloads) memcpy(p, a->payloads, a->n_payloads * sizeof *p);
    qsort(p, a->n_payloads, sizeof *p, by_address);
    for (uint32_t i = 0; i < a->n_payloads; i++)
        if (!i || p[i] != p[i - 1]) a->payload_cost += td_payload_cost(p[i]->bytes.size);
    a->arena.alloc->put(a->arena.alloc->ctx, p, (a->n_payloads + 1) * sizeof *p);
    return TD_OK;
}

/* Moves the excise pass's lists into the artifact. */
static td_status_t take_lists(opening_t *o, td_err_t *err) {
    td_artifact_t *a = o->a;
    td_excise_t *x = &o->excise;
    a->arena.budget_bytes = SIZE_MAX;
    const td_payload_t **p = TD_NEW_N(&a->arena, const td_payload_t *, x->n_payloads);
    td_unknown_field_t *u = TD_NEW_N(&a->arena, td_unknown_field_t, x->n_unknown);
    if (!p || !u) return td_arena_fail(&a->arena, err);
    if (x->n_payloads) memcpy(p, x->payloads, x->n_payloads * sizeof *p);
    if (x->n_unknown) memcpy(u, x->unknown, x->n_unknown * sizeof *u);
    a->payloads = p;
    a->n_payloads = x->n_payloads;
    a->unknown = u;
    a->n_unknown = x->n_unknown;
    a->n_cut_strings = x->n_cut_strings;
    a->apart = x->apart;
    a->zeros = x->zeros;
    a->held_bytes = x->held_bytes;
    x->n_payloads = 0; /* the references are the artifact's now */
    x->zeros = NULL;
    td_arena_init(&x->apart, x->env.alloc, 0);
    return add_up(a, err);
}

static td_status_t read_envelope(opening_t *o, td_feed_t *in, td_err_t *err) {
    td_envelope_t e;
    td_status_t s = td_envelope_peel(in, &o->excise.env, &e, err);
    for (uint32_t i = 0; i < e.n_forms; i++) add_form(o->a, e.forms[i]);
    o->a->n_skipped_names = e.n_skipped_names;
    if (s == TD_OK) s = read_body(o, e.body, e.riegeli, err);
    if (s == TD_OK) s = td_envelope_end(&e, err);
    td_envelope_deinit(&e);
    return s;
}

static td_status_t open_into(opening_t *o, const td_source_t *source, const td_span_t *memory, td_err_t *err) {
    td_file_feed_t file = {0};
    td_feed_t bytes;
    td_status_t s = TD_OK;
    if (memory) td_feed_memory(&bytes, *memory);
    else s = td_file_feed_open(&file, source, &o->excise.env, err);
    if (s == TD_OK) s = read_envelope(o, memory ? &bytes : &file.s, err);
    td_file_feed_close(&file);
    if (s == TD_OK && o->excise.env.progress) atomic_store(o->excise.env.progress, o->a->input_bytes);
    if (s == TD_OK) s = take_messages(o, err);
    return s == TD_OK ? take_lists(o, err) : s;
}

/* *again: with more kept of what was read it may work. */
static td_status_t open_once(const td_source_t *source, const td_span_t *memory, const td_artifact_opts_t *opts,
                             td_keep_t keep, bool *again, td_artifact_t **out, td_err_t *err) {
    uint64_t size = memory ? memory->size : source->size;
    const td_alloc_t *alloc = opts->alloc;
    *again = false;
    if (size > TD_LIMIT_ARTIFACT_BYTES)
        return td_fail(err, TD_LIMIT, "%" PRIu64 " bytes, an artifact has at most %llu", size, TD_LIMIT_ARTIFACT_BYTES);
    td_artifact_t *a = alloc->get(alloc->ctx, sizeof *a, 16);
    if (!a) return td_fail(err, TD_NOMEM, "out of memory");
    *a = (td_artifact_t){.input_bytes = size, .pjrt_client_name = "", .table = opts->table,
                         .headers_only = opts->headers_only};
    td_arena_init(&a->arena, alloc, TD_LIMIT_PROTO_FLOOR_BYTES);
    opening_t o = {.a = a};
    td_excise_init(&o.excise, opts->table, alloc);
    o.excise.charge = opts->charge;
    o.excise.env = (td_feed_env_t){.alloc = alloc, .progress = opts->progress, .cancel = opts->cancel,
                                     .skips = opts->headers_only, .keep = keep};
    td_status_t s = open_into(&o, source, memory, err);
    *again = s == TD_UNSUPPORTED && o.excise.env.far_reference && keep < TD_KEEP_ALL;
    td_walk_end(&o.outer);
    td_walk_end(&o.inner);
    td_excise_deinit(&o.excise);
    if (s == TD_OK) *out = a;
    else td_artifact_close(a);
    return s;
}

static td_status_t open_any(const td_source_t *source, const td_span_t *memory, const td_artifact_opts_t *opts,
                            td_artifact_t **out, td_err_t *err) {
    bool again = true;
    td_status_t s = TD_OK;
    for (td_keep_t keep = opts->headers_only ? TD_KEEP_READ : TD_KEEP_FRAGMENT; again; keep++)
        s = open_once(source, memory, opts, keep, &again, out, err);
    return s;
}

td_status_t td_artifact_open_source(const td_source_t *source, const td_artifact_opts_t *opts, td_artifact_t **out,
                                    td_err_t *err) {
    return open_any(source, NULL, opts, out, err);
}

td_status_t td_artifact_open(td_span_t bytes, td_payload_table_t *table, const td_alloc_t *alloc, td_artifact_t **out,
                             td_err_t *err) {
    td_artifact_opts_t opts = {.table = table, .alloc = alloc};
    return open_any(NULL, &bytes, &opts, out, err);
}

void td_artifact_payloads(const td_artifact_t *a, uint64_t *out_total_bytes, uint64_t *out_resident_bytes) {
    *out_total_bytes = a->payload_cost;
    *out_resident_bytes = a->headers_only ? a->held_bytes : a->payload_cost;
}

void td_artifact_close(td_artifact_t *a) {
    if (!a) return;
    for (uint32_t i = 0; i < a->n_payloads && !a->headers_only; i++) td_payload_release(a->table, a->payloads[i]);
    const td_alloc_t *alloc = a->arena.alloc;
    if (a->zeros) munmap(a->zeros, TD_ZEROS_BYTES);
    if (a->apart.alloc) td_arena_deinit(&a->apart);
    td_arena_deinit(&a->arena);
    alloc->put(alloc->ctx, a, sizeof *a);
}
