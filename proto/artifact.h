/* SPDX-License-Identifier: Apache-2.0 */
/* An artifact decoded: any envelope in, messages and payloads out.
 *
 * Opening peels the envelopes, reads the split protos, cuts large bytes
 * fields out of the wire bytes into payloads (excise), bounds nesting, counts and
 * amplification, and only then lets protobuf-c unpack into the artifact's arena.
 * All of this is done while the file is read, through windows of some hundred KiB: neither the file nor a
 * decompressed chunk is ever held. Messages live until td_artifact_close; payloads are references into the table
 * given. Thread: one. */
#ifndef TD_PROTO_ARTIFACT_H
#define TD_PROTO_ARTIFACT_H

#include "base/arena.h"
#include "base/span.h"
#include "proto/payload.h"
#include "proto/feed.h"

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
    /* Opened for its headers: payloads of TD_PAYLOAD_MAP_BYTES and more have their size and read as zeros, the others
     * their bytes; none is in the table. */
    bool headers_only;
    uint64_t payload_cost; /* td_artifact_payloads */
    uint64_t held_bytes; /* then: cost of the payloads that the table seems to hold */
    td_arena_t apart;    /* then: the payloads */
    void *zeros;         /* then: TD_ZEROS_BYTES that take no memory */
} td_artifact_t;

typedef struct td_artifact_opts {
    td_payload_table_t *table; /* outlives the artifact */
    const td_alloc_t *alloc;   /* feeds the arena (the struct itself too) and what opening takes for a while */
    const td_charge_t *charge; /* payload memory is taken from it, see payload.h; NULL: the table's */
    bool headers_only;         /* contents of large payloads are passed over, with their hashes */
    _Atomic(uint64_t) *progress; /* NULL, or the bytes of the file that are done */
    const _Atomic(int) *cancel;  /* NULL, or: set to end the opening with TD_CANCELLED, from any thread */
} td_artifact_opts_t;

/* Opens a regular file, which is read through a window and must not change meanwhile (TD_IO, as for one that
 * cannot be read). The path is in every error. TD_LIMIT with "budget" in the text: the charge refused.
 * On success *out owns everything; on failure it is untouched. */
td_status_t td_artifact_open_path(const char *path, const td_artifact_opts_t *opts, td_artifact_t **out, td_err_t *err);
/* The same from any source. */
td_status_t td_artifact_open_source(const td_source_t *source, const td_artifact_opts_t *opts, td_artifact_t **out,
                                    td_err_t *err);
/* Bytes in memory, which are not needed after the call. */
td_status_t td_artifact_open(td_span_t bytes, td_payload_table_t *table, const td_alloc_t *alloc, td_artifact_t **out,
                             td_err_t *err);
static inline td_status_t td_artifact_open_file(const char *path, td_payload_table_t *table, const td_alloc_t *alloc,
                                                td_artifact_t **out, td_err_t *err) {
    td_artifact_opts_t opts = {.table = table, .alloc = alloc};
    return td_artifact_open_path(path, &opts, out, err);
}
/* What the payloads cost (td_payload_cost, each different one once, in an artifact opened for its headers each one),
 * and how much of that the table holds: all of it, or for headers what it seems to hold, by size and first bytes. */
void td_artifact_payloads(const td_artifact_t *a, uint64_t *out_total_bytes, uint64_t *out_resident_bytes);
/* Releases payload references and frees the messages. NULL is fine. */
void td_artifact_close(td_artifact_t *a);

/* The bytes of a field that excise may have moved: the payload if *_payload is set, else the inline bytes. */
static inline td_span_t td_artifact_bytes(const td_artifact_t *a, int has_payload, uint32_t payload_id,
                                          const void *inline_data, size_t inline_size) {
    if (has_payload && payload_id < a->n_payloads) return a->payloads[payload_id]->bytes;
    return (td_span_t){(const uint8_t *)inline_data, inline_size};
}

#endif
