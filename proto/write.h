/* SPDX-License-Identifier: Apache-2.0 */
/* An artifact written back, in any form that is read.
 *
 * riegeli-split   Riegeli file in a Riegeli file, each message in the records in which the compiler splits it
 * riegeli         the same two files, each message in one record
 * plain           plain outer message, split executable inside: what releases up to 0.11.0 write
 * plain-plain     both messages plain: what releases before 0.10 write
 * inner           the split executable alone; compile options are not in it
 * text            HumanReadableAotExecutable, as xla's split_proto_cli unpacks
 * Thread: one. */
#ifndef TD_PROTO_WRITE_H
#define TD_PROTO_WRITE_H

#include "proto/artifact.h"
#include "proto/codec.h"
#include "proto/riegeli_write.h"

typedef enum td_write_form {
    TD_WRITE_RIEGELI_SPLIT = 0,
    TD_WRITE_RIEGELI,
    TD_WRITE_PLAIN,
    TD_WRITE_PLAIN_PLAIN,
    TD_WRITE_INNER,
    TD_WRITE_TEXT,
    TD_WRITE_COUNT
} td_write_form_t;

const char *td_write_form_name(td_write_form_t f); /* "riegeli-split" */
td_status_t td_write_form_parse(const char *name, td_write_form_t *out, td_err_t *err);

/* Appends the file to out, which refers to the artifact's payloads and must go before it.
 * TD_UNSUPPORTED when the artifact holds strings that the messages could keep only in part. */
td_status_t td_artifact_write(const td_artifact_t *a, td_write_form_t form, td_compression_t c, td_rope_t *out,
                              td_err_t *err);

/* Wire bytes of the two messages: the outer one without its executable (nothing for a bare inner file). */
td_status_t td_artifact_pack_outer(const td_artifact_t *a, td_rope_t *out, td_err_t *err);
td_status_t td_artifact_pack_inner(const td_artifact_t *a, td_rope_t *out, td_err_t *err);
/* Both in canonical form, one behind the other: equal for artifacts that say the same. */
td_status_t td_artifact_canonical(const td_artifact_t *a, td_buffer_t *out, td_err_t *err);

#endif
