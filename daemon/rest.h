/* SPDX-License-Identifier: Apache-2.0 */
/* What is answered over HTTP/1.1: health and the index of the Open Inference Protocol as JSON, and the metrics.
 * Thread: the loop's. */
#ifndef TD_DAEMON_REST_H
#define TD_DAEMON_REST_H

#include "daemon/service.h"

void td_rest_answer(td_service_t *s, const td_http_request_t *request, td_http_answer_t *out);

#endif
