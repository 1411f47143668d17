/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/grpc.h"

#include "base/checked.h"

td_grpc_code_t td_grpc_code(td_status_t s) {
    switch (s) {
    case TD_OK: return TD_GRPC_OK;
    case TD_MALFORMED:
    case TD_MISMATCH:
    case TD_USAGE: return TD_GRPC_INVALID_ARGUMENT;
    case TD_NOTFOUND: return TD_GRPC_NOT_FOUND;
    case TD_BUSY:
    case TD_LIMIT:
    case TD_NOMEM: return TD_GRPC_RESOURCE_EXHAUSTED;
    case TD_UNSUPPORTED: return TD_GRPC_FAILED_PRECONDITION;
    case TD_DEADLINE: return TD_GRPC_DEADLINE_EXCEEDED;
    case TD_CANCELLED: return TD_GRPC_CANCELLED;
    case TD_DEVICE:
    case TD_IO:
    case TD_INTERNAL:
    case TD_STATUS_COUNT: break;
    }
    return TD_GRPC_INTERNAL;
}

td_status_t td_grpc_unframe(td_span_t body, td_span_t *out_message, td_err_t *err) {
    if (body.size < TD_GRPC_PREFIX)
        return td_fail(err, TD_MALFORMED, "the request holds no message: expected at least 5 bytes, got %zu",
                       body.size);
    const uint8_t *p = body.data;
    if (p[0] > 1) return td_fail(err, TD_MALFORMED, "message prefix: expected flag 0, got %u", p[0]);
    if (p[0] == 1)
        return td_fail(err, TD_UNSUPPORTED, "compressed messages are not taken: send with identity encoding");
    uint32_t n = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
    if (n != body.size - TD_GRPC_PREFIX)
        return td_fail(err, TD_MALFORMED, "the message's prefix says %u bytes, got %zu", n, body.size - TD_GRPC_PREFIX);
    *out_message = (td_span_t){p + TD_GRPC_PREFIX, n};
    return TD_OK;
}

void td_grpc_prefix(uint8_t out[TD_GRPC_PREFIX], uint32_t message_size) {
    out[0] = 0;
    for (int i = 0; i < 4; i++) out[1 + i] = (uint8_t)(message_size >> (24 - 8 * i));
}

bool td_grpc_timeout(const char *text, size_t size, uint64_t *out_ns) {
    if (size < 2 || size > 9) return false;
    uint64_t v = 0, unit;
    for (size_t i = 0; i < size - 1; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        v = 10 * v + (uint64_t)(text[i] - '0');
    }
    switch (text[size - 1]) {
    case 'H': unit = 3600000000000u; break;
    case 'M': unit = 60000000000u; break;
    case 'S': unit = 1000000000u; break;
    case 'm': unit = 1000000u; break;
    case 'u': unit = 1000u; break;
    case 'n': unit = 1u; break;
    default: return false;
    }
    if (!td_mul_u64(v, unit, out_ns)) *out_ns = UINT64_MAX;
    return true;
}

size_t td_grpc_encode(const char *text, char *out, size_t room) {
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;
    for (const char *p = text; room && *p; p++) {
        uint8_t c = (uint8_t)*p;
        bool plain = c >= 0x20 && c <= 0x7e && c != '%';
        if (room - n <= (plain ? 1u : 3u)) break;
        if (plain) {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = hex[c >> 4];
            out[n++] = hex[c & 15];
        }
    }
    if (room) out[n] = 0;
    return n;
}
