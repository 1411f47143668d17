/* SPDX-License-Identifier: Apache-2.0 */
/* ModelInfer, from the bytes of its message to the bytes of its answer. */
#ifndef TD_DAEMON_INFER_H
#define TD_DAEMON_INFER_H

#include "daemon/service.h"

/* infer.c: waits for the model, queued, run on a worker, cancelled by deadline or disconnect. Thread: the loop's. */
void td_infer_start(td_service_t *s, td_call_t *call);

/* infer_peek.c: what is needed to find the model. Thread: any. */
typedef struct td_infer_head {
    char model[256], version[256];
    char sequence[64]; /* "": none; numbers as decimal text, so that 7 and "7" are the same sequence */
    bool sequence_start, sequence_end;
} td_infer_head_t;
td_status_t td_infer_peek(td_span_t body, td_infer_head_t *out, td_err_t *err);

/* infer_codec.c. Thread: any. */
typedef struct td_infer_msg {
    td_span_t id;
    const td_model_info_t *info;
    td_run_tensor_t *inputs; /* in the model's order; into the request's body, or into memory of its own */
    td_run_tensor_t *states; /* behind the inputs; those not given have no data */
    bool has_states;         /* at least one is given */
    uint32_t *outputs;       /* what is asked for, in order */
    uint32_t n_outputs;
    int64_t *dims;           /* of inputs, then states */
    void **owned;            /* n_owned: copies of tensors that lay unaligned, or typed */
    uint32_t n_owned;
    td_memory_t *memory;     /* that the copies are charged to; NULL: to nobody */
    uint64_t charged;
} td_infer_msg_t;
/* body and info must outlive out. Free with td_infer_msg_free, also after a failure. head NULL: no sequence. */
td_status_t td_infer_decode(const td_model_info_t *info, const td_infer_head_t *head, td_span_t body,
                            td_memory_t *memory, td_infer_msg_t *out, td_err_t *err);
/* What was asked for, of the run's outputs. */
void td_infer_encode(const td_infer_msg_t *m, const td_run_slot_t *slot, td_pb_t *out);
/* Bytes of the tensors in the response: of this run, or (slot NULL) at most. */
uint64_t td_infer_output_bytes(const td_infer_msg_t *m, const td_run_slot_t *slot);
/* Bytes of the rest of the response, at most. */
uint64_t td_infer_other_bytes(const td_infer_msg_t *m);
void td_infer_msg_free(td_infer_msg_t *m);

#endif
