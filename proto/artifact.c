/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/artifact.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "executable.pb-c.h"
#include "proto/envelope.h"
#include "proto/excise.h"
#include "proto/riegeli.h"
#include "proto/split.h"
#include "proto/wire.h"

static const char OUTER[] = "xla.ExecutableAndOptionsProto";
static const char INNER[] = "xla.gpu.GpuExecutableProto";
enum { OUTER_EXECUTABLE = 1 }; /* xla/pjrt/proto/compile_options.proto */

typedef struct opening {
    td_artifact_t *a;
    td_excise_t excise;
    td_envelope_t envelope;
    td_split_t outer, inner;
    td_span_t inner_bytes;
    td_buffer_t *input; /* the file's bytes, NULL when they are the caller's; freed as soon as nothing refers to them */
} opening_t;

/* All of the input, and of what it was wrapped in, has been copied out. */
static void drop_input(opening_t *o) {
    td_envelope_deinit(&o->envelope);
    if (o->input) td_buffer_deinit(o->input);
    o->inner_bytes = (td_span_t){0};
}

static void add_form(td_artifact_t *a, td_form_t f) {
    if (a->n_forms < sizeof a->forms / sizeof *a->forms) a->forms[a->n_forms++] = f;
}

static td_status_t unpack(opening_t *o, const ProtobufCMessageDescriptor *desc, td_span_t wire, ProtobufCMessage **out, td_err_t *err) {
    td_arena_t *arena = &o->a->arena;
    uint64_t more = TD_LIMIT_PROTO_FLOOR_BYTES + (uint64_t)wire.size * TD_LIMIT_PROTO_AMPLIFICATION;
    arena->budget_bytes = arena->reserved_bytes + (size_t)more;
    return td_excise_unpack(&o->excise, desc, wire, arena, out, err);
}

static td_status_t check_client(const char *name, td_err_t *err) {
    static const char expected[] = "PjRtStreamExecutorClient";
    if (!*name || strcmp(name, expected) == 0) return TD_OK;
    return td_fail(err, TD_MISMATCH, "written for PJRT client \"%.64s\", this runtime reads \"%s\"", name, expected);
}

/* Everything of the outer message but field 1, which may be huge and is not copied. */
static td_status_t outer_rest(opening_t *o, td_span_t wire, td_err_t *err) {
    td_buffer_t rest;
    td_buffer_init(&rest, o->excise.alloc);
    td_status_t s = TD_OK;
    td_wire_field_t f;
    while (s == TD_OK && wire.size) {
        if (!td_wire_next(&wire, &f)) s = td_fail(err, TD_MALFORMED, "broken field in %s", OUTER);
        else if (f.number != OUTER_EXECUTABLE) s = td_buffer_append(&rest, f.whole.data, f.whole.size, err);
        else if (f.type == TD_WIRE_LEN) o->inner_bytes = f.bytes;
    }
    ProtobufCMessage *m = NULL;
    if (s == TD_OK) s = unpack(o, &xla__executable_and_options_proto__descriptor, td_buffer_span(&rest), &m, err);
    td_buffer_deinit(&rest);
    if (s != TD_OK) return s;
    const Xla__ExecutableAndOptionsProto *outer = (const Xla__ExecutableAndOptionsProto *)m;
    o->a->outer = outer;
    o->a->options = outer->compile_options;
    if (outer->pjrt_client_name) o->a->pjrt_client_name = outer->pjrt_client_name;
    s = check_client(o->a->pjrt_client_name, err);
    if (s == TD_OK && o->inner_bytes.size == 0)
        s = td_fail(err, TD_MALFORMED, "the artifact holds options and no executable (compiled with early exit?)");
    return s;
}

/* From PJRT bytes to the wire bytes of GpuExecutableProto. */
static td_status_t to_inner(opening_t *o, td_span_t *out, td_err_t *err) {
    td_artifact_t *a = o->a;
    td_span_t bytes = o->envelope.bytes;
    td_status_t s;
    if (td_riegeli_is(bytes)) {
        if ((s = td_split_read(bytes, o->excise.alloc, &o->outer, err)) != TD_OK) return s;
        if (strcmp(o->outer.type, INNER) == 0) { /* bare inner file */
            add_form(a, TD_FORM_INNER_RIEGELI);
            a->compression[1] = o->outer.compression;
            *out = td_buffer_span(&o->outer.wire);
            drop_input(o);
            return TD_OK;
        }
        if (strcmp(o->outer.type, OUTER) != 0)
            return td_fail(err, TD_UNSUPPORTED, "split proto of type %s; expected %s or %s", o->outer.type, OUTER, INNER);
        add_form(a, TD_FORM_PJRT_RIEGELI);
        a->compression[0] = o->outer.compression;
        bytes = td_buffer_span(&o->outer.wire);
        drop_input(o);
    } else {
        /* Fallback outer-plain: a plain message, no split proto. Can be removed in February 2027. */
        add_form(a, TD_FORM_PJRT_PLAIN);
    }
    if ((s = outer_rest(o, bytes, err)) != TD_OK) return s;
    if (!td_riegeli_is(o->inner_bytes)) {
        /* Fallback inner-plain: the executable is no split proto. Can be removed in February 2027. */
        add_form(a, TD_FORM_INNER_PLAIN);
        *out = o->inner_bytes;
        return TD_OK;
    }
    add_form(a, TD_FORM_INNER_RIEGELI);
    if ((s = td_split_read(o->inner_bytes, o->excise.alloc, &o->inner, err)) != TD_OK) return td_prefix(err, s, "executable");
    if (strcmp(o->inner.type, INNER) != 0)
        return td_fail(err, TD_UNSUPPORTED, "executable of type %s; expected %s", o->inner.type, INNER);
    a->compression[1] = o->inner.compression;
    *out = td_buffer_span(&o->inner.wire);
    drop_input(o);
    td_split_deinit(&o->outer);
    return TD_OK;
}

/* Moves the excise pass's lists into the artifact; they stay heap blocks of the same allocator. */
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
    x->n_payloads = 0; /* the references are the artifact's now */
    return TD_OK;
}

static td_status_t open_into(opening_t *o, td_span_t bytes, td_err_t *err) {
    td_status_t s = td_envelope_peel(bytes, o->excise.alloc, &o->envelope, err);
    if (s != TD_OK) return s;
    for (uint32_t i = 0; i < o->envelope.n_forms; i++) add_form(o->a, o->envelope.forms[i]);
    o->a->n_skipped_names = o->envelope.n_skipped_names;
    td_span_t wire = {0};
    if ((s = to_inner(o, &wire, err)) != TD_OK) return s;
    ProtobufCMessage *m = NULL;
    if ((s = unpack(o, &xla__gpu__gpu_executable_proto__descriptor, wire, &m, err)) != TD_OK) return td_prefix(err, s, "executable");
    o->a->exe = (const Xla__Gpu__GpuExecutableProto *)m;
    return take_lists(o, err);
}

static td_status_t open_any(td_span_t bytes, td_buffer_t *input, td_payload_table_t *table, const td_alloc_t *alloc,
                            td_artifact_t **out, td_err_t *err) {
    if (bytes.size > TD_LIMIT_ARTIFACT_BYTES)
        return td_fail(err, TD_LIMIT, "%zu bytes, an artifact has at most %llu", bytes.size, TD_LIMIT_ARTIFACT_BYTES);
    td_artifact_t *a = alloc->get(alloc->ctx, sizeof *a, 16);
    if (!a) return td_fail(err, TD_NOMEM, "out of memory");
    *a = (td_artifact_t){.input_bytes = bytes.size, .pjrt_client_name = "", .table = table};
    td_arena_init(&a->arena, alloc, TD_LIMIT_PROTO_FLOOR_BYTES);
    opening_t o = {.a = a, .input = input};
    td_excise_init(&o.excise, table, alloc);
    td_status_t s = open_into(&o, bytes, err);
    td_excise_deinit(&o.excise);
    td_split_deinit(&o.inner);
    td_split_deinit(&o.outer);
    td_envelope_deinit(&o.envelope);
    if (s == TD_OK) *out = a;
    else td_artifact_close(a);
    return s;
}

td_status_t td_artifact_open(td_span_t bytes, td_payload_table_t *table, const td_alloc_t *alloc, td_artifact_t **out, td_err_t *err) {
    return open_any(bytes, NULL, table, alloc, out, err);
}

static td_status_t read_all(int fd, const char *path, const td_alloc_t *alloc, td_buffer_t *buf, td_err_t *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return td_fail(err, TD_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return td_fail(err, TD_IO, "%s: not a regular file", path);
    if ((uint64_t)st.st_size > TD_LIMIT_ARTIFACT_BYTES)
        return td_fail(err, TD_LIMIT, "%s: %lld bytes, an artifact has at most %llu", path, (long long)st.st_size, TD_LIMIT_ARTIFACT_BYTES);
    td_buffer_init(buf, alloc);
    size_t want = (size_t)st.st_size;
    td_status_t s = td_buffer_reserve(buf, want, err);
    while (s == TD_OK && buf->size < want) {
        ssize_t n = read(fd, buf->data + buf->size, want - buf->size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) s = td_fail(err, TD_IO, "%s: %s", path, strerror(errno));
        else if (n == 0) s = td_fail(err, TD_IO, "%s: shrank from %zu to %zu bytes while being read", path, want, buf->size);
        else buf->size += (size_t)n;
    }
    return s;
}

td_status_t td_artifact_open_file(const char *path, td_payload_table_t *table, const td_alloc_t *alloc, td_artifact_t **out,
                                  td_err_t *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return td_fail(err, errno == ENOENT ? TD_NOTFOUND : TD_IO, "%s: %s", path, strerror(errno));
    td_buffer_t buf = {0};
    td_status_t s = read_all(fd, path, alloc, &buf, err);
    close(fd);
    if (s == TD_OK) {
        s = open_any(td_buffer_span(&buf), &buf, table, alloc, out, err);
        if (s != TD_OK) td_prefix(err, s, "%s", path);
    }
    td_buffer_deinit(&buf);
    return s;
}

void td_artifact_close(td_artifact_t *a) {
    if (!a) return;
    for (uint32_t i = 0; i < a->n_payloads; i++) td_payload_release(a->table, a->payloads[i]);
    const td_alloc_t *alloc = a->arena.alloc;
    td_arena_deinit(&a->arena);
    alloc->put(alloc->ctx, a, sizeof *a);
}
