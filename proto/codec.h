/* SPDX-License-Identifier: Apache-2.0 */
/* Decompression into a heap buffer whose size is bounded before and while it grows. */
#ifndef TD_PROTO_CODEC_H
#define TD_PROTO_CODEC_H

#include "base/alloc.h"
#include "base/span.h"
#include "base/status.h"

typedef struct td_buffer {
    uint8_t *data;
    size_t size, capacity;
    const td_alloc_t *alloc;
} td_buffer_t;

void td_buffer_init(td_buffer_t *b, const td_alloc_t *alloc);
/* Room for `more` bytes behind size; grows by half at least. */
td_status_t td_buffer_reserve(td_buffer_t *b, size_t more, td_err_t *err);
td_status_t td_buffer_append(td_buffer_t *b, const void *data, size_t size, td_err_t *err);
void td_buffer_deinit(td_buffer_t *b);
static inline td_span_t td_buffer_span(const td_buffer_t *b) {
    return (td_span_t){b->data, b->size};
}

/* method: 's' raw snappy block, 'z' zstd frame, 'b' brotli stream, 'd' zlib stream.
 * Appends to out at most size_max bytes; more, trailing input or an early end is TD_MALFORMED. */
td_status_t td_decompress(char method, td_span_t in, size_t size_max, td_buffer_t *out, td_err_t *err);

#endif
