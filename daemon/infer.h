/* SPDX-License-Identifier: Apache-2.0 */
/* ModelInfer: queued, run on a worker, cancelled by deadline or disconnect. Thread: the loop's. */
#ifndef TD_DAEMON_INFER_H
#define TD_DAEMON_INFER_H

#include "daemon/service.h"

void td_infer_start(td_service_t *s, td_call_t *call);

/* infer_codec.c. Thread: any. */
typedef struct td_infer_msg {
    td_span_t id;
    td_model_t *model;
    const void **inputs;   /* in the model's order; into the request's body, or into `packed` */
    uint32_t *outputs;     /* what is asked for, in order */
    uint32_t n_outputs;
    void *packed;
} td_infer_msg_t;
/* body must outlive out. Free with td_infer_msg_free, also after a failure. */
td_status_t td_infer_decode(td_store_t *store, td_span_t body, td_infer_msg_t *out, td_err_t *err);
void td_infer_encode(const td_infer_msg_t *m, const td_slot_t *slot, td_pb_t *out);
/* Bytes of the tensors in the response. */
uint64_t td_infer_output_bytes(const td_infer_msg_t *m);
void td_infer_msg_free(td_infer_msg_t *m);

#endif
