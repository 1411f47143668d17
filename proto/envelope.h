/* SPDX-License-Identifier: Apache-2.0 */
/* What users really hold: envelopes around the PJRT bytes. One step of peeling
 * is a row of a table; a pickle is read, never executed. Envelopes are streams over
 * streams: none of them is held in memory, but text, which is a form for development. */
#ifndef TD_PROTO_ENVELOPE_H
#define TD_PROTO_ENVELOPE_H

#include "proto/artifact.h"
#include "proto/codec.h"
#include "proto/pickle.h"
#include "proto/feed.h"

/* A stream whose first bytes can be looked at before they are read. */
typedef struct td_peek {
    td_feed_t s;
    td_feed_t *in;
    uint64_t begin; /* position of in */
    td_buffer_t first;
    bool shown;
} td_peek_t;

enum { TD_ENVELOPES_MAX = 4 };

typedef struct td_layer {
    td_peek_t peek; /* over what is below */
    td_decoder_t decoder;
    td_pickle_t pickle;
    td_buffer_t text;
    td_feed_t memory;
} td_layer_t;

typedef struct td_envelope {
    td_form_t forms[TD_ENVELOPES_MAX]; /* outermost first */
    uint32_t n_forms;
    td_feed_t *body; /* Riegeli file or plain ExecutableAndOptionsProto, from position 0 to its end */
    bool riegeli;
    uint32_t n_skipped_names; /* of a text: names that no schema knows */
    td_layer_t layers[TD_ENVELOPES_MAX + 1];
    uint32_t n_layers;
    td_feed_env_t *env;
} td_envelope_t;

/* Is this stream, about whose first bytes one may be curious, a Riegeli file? Release with td_peek_close. */
td_status_t td_peek_open(td_peek_t *p, td_feed_t *in, td_feed_env_t *env, bool *out_riegeli, td_err_t *err);
void td_peek_close(td_peek_t *p);

/* Peels pickle, cache entry and IFRT header, and reads text. Release with td_envelope_deinit (also after failure). */
td_status_t td_envelope_peel(td_feed_t *in, td_feed_env_t *env, td_envelope_t *out, td_err_t *err);
/* The body was read: is what stands behind it in the envelopes whole too? */
td_status_t td_envelope_end(td_envelope_t *e, td_err_t *err);
void td_envelope_deinit(td_envelope_t *e);

#endif
