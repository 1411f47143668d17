/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of the Open Inference Protocol, by file. Thread: the loop's. */
#ifndef TD_DAEMON_METHODS_H
#define TD_DAEMON_METHODS_H

#include "daemon/rows.h"
#include "daemon/service.h"

/* String fields 1 and 2 of a small request. */
typedef struct td_names {
    char v[2][256];
} td_names_t;
td_status_t td_names_read(td_span_t in, td_names_t *out, td_err_t *err);
/* TD_NOTFOUND: there is no such model. */
td_status_t td_names_find(const td_rows_t *rows, const td_names_t *n, const td_model_row_t **out, td_err_t *err);

/* service.c: the message in the call's body; false: the call has failed. The body is the caller's to free. */
bool td_service_message(td_call_t *call, td_pb_t *body, td_span_t *out);
/* False: the peer has no right to change things, and the call has failed. doing: "unloading a model" */
bool td_service_allowed(const td_service_t *s, td_call_t *call, const char *doing);

/* metadata.c: loads the model if need be. */
void td_metadata_start(td_service_t *s, td_call_t *call);

/* repository.c */
td_status_t td_repository_index(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err);
void td_repository_load(td_service_t *s, td_call_t *call);
void td_repository_unload(td_service_t *s, td_call_t *call);

#endif
