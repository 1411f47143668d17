/* SPDX-License-Identifier: Apache-2.0 */
/* Split protos written: a Riegeli file whose first record, the manifest, says how the others make up one message.
 * Record lists as xla's split_executable_and_options_writer and split_gpu_executable_writer make them. */
#ifndef TD_PROTO_SPLIT_WRITE_H
#define TD_PROTO_SPLIT_WRITE_H

#include "proto/artifact.h"
#include "proto/riegeli_write.h"

/* A whole message in one merge record. type: its full name. */
td_status_t td_split_write_whole(const char *type, const td_rope_t *wire, td_compression_t c, td_rope_t *out,
                                 td_err_t *err);
/* ExecutableAndOptionsProto: the executable's file as record 1, all other fields as record 2. */
td_status_t td_split_write_outer(const td_rope_t *executable, const td_rope_t *rest, td_compression_t c, td_rope_t *out,
                                 td_err_t *err);
/* GpuExecutableProto: assembly text, binary, library graphs, a record per constant, all other fields. Text and
 * binary that the message does not have get no record, so that reading gives the same message. */
td_status_t td_split_write_inner(const td_artifact_t *a, td_compression_t c, td_rope_t *out, td_err_t *err);

#endif
