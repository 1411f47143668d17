/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors and names as text. Thread: one. */
#ifndef TD_CTL_PRINT_H
#define TD_CTL_PRINT_H

#include <jansson.h>

#include "ctl/online.h"

/* "F32[2,3]" into buf. Returns buf. */
char *ctl_print_dims(const char *type, const int64_t *dims, uint32_t rank, char *buf, size_t size);
/* One line: name, type, shape and the first values. */
void ctl_print_tensor(const oip_tensor_t *t);

/* A JSON string. Names in an artifact, and in a file system, may be no UTF-8: then every byte beyond ASCII is a '?'. */
json_t *ctl_json_text(const char *text);

#endif
