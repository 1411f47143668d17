/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of safetensors files and their indexes: parsed only when the parsed form stays small. Thread: any. */
#ifndef TD_STORE_ST_JSON_H
#define TD_STORE_ST_JSON_H

#include <jansson.h>

#include "base/span.h"
#include "base/status.h"

/* *out is the caller's to json_decref. Names within one object must differ. Errors: TD_LIMIT when the text or what it
 * would take is over TD_LIMIT_ST_HEADER_BYTES or TD_LIMIT_ST_JSON_BYTES; TD_MALFORMED with the offset in the text. */
td_status_t td_st_json(td_span_t text, json_t **out, td_err_t *err);

#endif
