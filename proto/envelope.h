/* SPDX-License-Identifier: Apache-2.0 */
/* What users really hold: envelopes around the PJRT bytes. One step of peeling
 * is a row of a table; a pickle is read, never executed. */
#ifndef TD_PROTO_ENVELOPE_H
#define TD_PROTO_ENVELOPE_H

#include "proto/artifact.h"
#include "proto/codec.h"

typedef struct td_envelope {
    td_form_t forms[4]; /* outermost first */
    uint32_t n_forms;
    td_span_t bytes;    /* Riegeli file or plain ExecutableAndOptionsProto; a view of the input or of storage */
    td_buffer_t storage;
    uint32_t n_skipped_names; /* of a text: names that no schema knows */
} td_envelope_t;

/* Peels pickle, cache entry and IFRT header, and reads text. Release with td_envelope_deinit (also after failure). */
td_status_t td_envelope_peel(td_span_t in, const td_alloc_t *alloc, td_envelope_t *out, td_err_t *err);
void td_envelope_deinit(td_envelope_t *e);

#endif
