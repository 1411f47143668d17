/* SPDX-License-Identifier: Apache-2.0 */
/* A view of bytes owned by somebody else. */
#ifndef TD_BASE_SPAN_H
#define TD_BASE_SPAN_H

#include <stddef.h>
#include <stdint.h>

typedef struct td_span {
    const uint8_t *data;
    size_t size;
} td_span_t;

#endif
