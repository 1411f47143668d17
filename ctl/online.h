/* SPDX-License-Identifier: Apache-2.0 */
/* Open Inference Protocol messages for the online verbs. Thread: one. */
#ifndef TD_CTL_ONLINE_H
#define TD_CTL_ONLINE_H

#include "base/limits.h"
#include "ctl/grpc_client.h"
#include "store/safetensors.h"

#define CTL_DEFAULT_SOCKET "/run/thunkd/thunkd.sock"
#define OIP_SERVICE "/inference.GRPCInferenceService/"
#define OIP_TENSORS_MAX 4096

typedef struct oip_tensor {
    char *name, *datatype;
    uint32_t rank;
    int64_t dims[TD_LIMIT_RANK];
    const void *data; /* of a request or response */
    uint64_t bytes;
} oip_tensor_t;

typedef struct oip_tensors {
    oip_tensor_t *items;
    uint32_t n, capacity;
} oip_tensors_t;

/* Adds the TensorMetadata or InferOutputTensor (the same first fields) in `msg`. */
td_status_t oip_tensors_add(oip_tensors_t *t, td_span_t msg, td_err_t *err);
void oip_tensors_free(oip_tensors_t *t);
/* "FP32" to "F32"; NULL if safetensors has no such type. */
const char *oip_to_dtype(const char *datatype);
const char *oip_from_dtype(const char *dtype);
/* Bytes of a tensor; false when the size is not known (-1 in the shape, BYTES) or overflows. */
bool oip_bytes(const oip_tensor_t *t, uint64_t *out);

/* A call whose error status is an error here, too: "NOT_FOUND: model x …". *reply must be freed either way. */
td_status_t oip_call(const char *socket, const char *rpc, td_span_t request, int timeout_ms, grpc_reply_t *reply,
                     td_span_t *out_message, td_err_t *err);

#endif
