/* SPDX-License-Identifier: Apache-2.0 */
/* An artifact decoded: any envelope in, messages and payloads out.
 *
 * td_artifact_open peels the envelopes, reads the split protos, cuts large bytes
 * fields out of the wire bytes into payloads (excise), bounds nesting, counts and
 * amplification, and only then lets protobuf-c unpack into the artifact's arena.
 * The input bytes are not needed after the call. Messages live until
 * td_artifact_close; payloads are references into the table given. Thread: one. */
#ifndef TD_PROTO_ARTIFACT_H
#define TD_PROTO_ARTIFACT_H

#include "base/arena.h"
#include "base/span.h"
#include "proto/payload.h"

typedef struct Xla__Gpu__GpuExecutableProto td_gpu_executable_msg_t;
typedef struct Xla__CompileOptionsProto td_compile_options_msg_t;
typedef struct Xla__ExecutableAndOptionsProto td_outer_msg_t;

typedef enum td_form {
    TD_FORM_UNKNOWN = 0,
    TD_FORM_PICKLE,        /* JAX pickle: only byte-string opcodes are read */
    TD_FORM_CACHE,         /* persistent-cache entry (zstd or zlib) */
    TD_FORM_IFRT,
    TD_FORM_PJRT_RIEGELI,  /* split ExecutableAndOptionsProto */
    TD_FORM_PJRT_PLAIN,    /* plain ExecutableAndOptionsProto */
    TD_FORM_INNER_RIEGELI, /* split GpuExecutableProto */
    TD_FORM_INNER_PLAIN,   /* plain GpuExecutableProto inside an outer form */
    TD_FORM_TEXT,
    TD_FORM_COUNT
} td_form_t;
const char *td_form_name(td_form_t f); /* "pjrt-riegeli" */

typedef struct td_unknown_field {
    const char *message; /* full name of the message it stands in */
    uint32_t number;
    uint32_t count;
} td_unknown_field_t;

typedef struct td_artifact {
    td_form_t forms[6]; /* outermost first: pickle, ifrt, pjrt-riegeli, inner-riegeli */
    uint32_t n_forms;
    char compression[2]; /* of the outer and inner Riegeli file's data chunks: 0, 's', 'z', 'b'; 0 if plain */
    uint64_t input_bytes;
    const char *pjrt_client_name;            /* "" if absent */
    const td_compile_options_msg_t *options; /* NULL if absent */
    const td_outer_msg_t *outer;             /* without field 1; NULL for a bare inner file */
    const td_gpu_executable_msg_t *exe;      /* never NULL */
    uint32_t n_cut_strings;                  /* strings with a NUL inside: the messages hold what stands before it */
    uint32_t n_skipped_names;                /* of a text: field and enum names that no schema knows */
    const td_payload_t *const *payloads;     /* by id; ids are what *_payload fields hold */
    uint32_t n_payloads;
    const td_unknown_field_t *unknown; /* kept and reported, not interpreted */
    uint32_t n_unknown;
    td_payload_table_t *table;
    td_arena_t arena;
} td_artifact_t;

/* On success *out owns everything; on failure it is untouched.
 * table must outlive the artifact. alloc feeds the arena (the struct itself too). */
td_status_t td_artifact_open(td_span_t bytes, td_payload_table_t *table, const td_alloc_t *alloc, td_artifact_t **out,
                             td_err_t *err);
/* Reads the whole file (bounded, regular files only), then opens it. The path is in every error. */
td_status_t td_artifact_open_file(const char *path, td_payload_table_t *table, const td_alloc_t *alloc,
                                  td_artifact_t **out, td_err_t *err);
/* Releases payload references and frees the messages. NULL is fine. */
void td_artifact_close(td_artifact_t *a);

/* The bytes of a field that excise may have moved: the payload if *_payload is set, else the inline bytes. */
static inline td_span_t td_artifact_bytes(const td_artifact_t *a, int has_payload, uint32_t payload_id,
                                          const void *inline_data, size_t inline_size) {
    if (has_payload && payload_id < a->n_payloads) return a->payloads[payload_id]->bytes;
    return (td_span_t){(const uint8_t *)inline_data, inline_size};
}

#endif
