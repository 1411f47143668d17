/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that decode ModelInferRequest. Thread: any. */
#ifndef TD_DAEMON_INFER_IN_H
#define TD_DAEMON_INFER_IN_H

#include <string.h>

#include "daemon/infer.h"

/* A client's words in a message: "%.*s". */
#define TD_INFER_TEXT(s) (int)((s).size < 64 ? (s).size : 64), (s).size ? (const char *)(s).data : ""

static inline bool td_infer_is(td_span_t s, const char *text) {
    return s.size == strlen(text) && (!s.size || !memcmp(s.data, text, s.size));
}
static inline td_status_t td_infer_broken(td_err_t *err) {
    return td_fail(err, TD_MALFORMED, "the request is not a ModelInferRequest");
}

/* infer_typed.c: InferTensorContents into `bytes` bytes at `at`, of the tensor `info`. */
td_status_t td_infer_fill(const td_tensor_info_t *info, td_span_t contents, void *at, uint64_t bytes, td_err_t *err);

#endif
