/* SPDX-License-Identifier: Apache-2.0 */
/* Names out of a newer schema: a FileDescriptorSet, as protoc writes it (descriptor.proto's numbers). It only names
 * what this build does not know; nothing is read with it. Thread: one. */
#ifndef TD_CONTRACT_SCHEMA_H
#define TD_CONTRACT_SCHEMA_H

#include "base/span.h"
#include "base/status.h"

/* The bytes must outlive the answers. TD_MALFORMED: no FileDescriptorSet. */
td_status_t td_schema_check(td_span_t set, td_err_t *err);
/* The name of field `number` of a message, or of an enum's value, by the type's full name. Size 0: not there. */
td_span_t td_schema_name(td_span_t set, const char *type, int64_t number, bool is_value);

#endif
