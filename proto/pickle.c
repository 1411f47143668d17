/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/pickle.h"

#include <inttypes.h>
#include <string.h>

/* Arguments of pickle opcodes (protocols 0 to 5), as Python's pickletools documents them. */
typedef enum arg { NONE, U1, U2, U4, F8, LINE, LINE2, LEN1, LEN4, LEN8, BAD } arg_t;

static arg_t argument(uint8_t op) {
    switch (op) {
    case '(': case '.': case '0': case '1': case '2': case 'N': case 'Q': case 'R': case 'a': case 'b': case 'd': case '}':
    case 'e': case 'l': case ']': case 'o': case 's': case 't': case ')': case 'u': case 0x81: case 0x85: case 0x86: case 0x87:
    case 0x88: case 0x89: case 0x8f: case 0x90: case 0x91: case 0x92: case 0x93: case 0x94: case 0x97: case 0x98: return NONE;
    case 'K': case 'h': case 'q': case 0x80: case 0x82: return U1;
    case 'M': case 0x83: return U2;
    case 'J': case 'j': case 'r': case 0x84: return U4;
    case 'G': case 0x95: return F8;
    case 'F': case 'I': case 'L': case 'P': case 'S': case 'V': case 'g': case 'p': return LINE;
    case 'c': case 'i': return LINE2;
    case 'U': case 'C': case 0x8a: case 0x8c: return LEN1;
    case 'T': case 'B': case 'X': case 0x8b: return LEN4;
    case 0x8d: case 0x8e: case 0x96: return LEN8;
    default: return BAD;
    }
}

static bool is_bytes(uint8_t op) {
    return op == 'C' || op == 'B' || op == 0x8e || op == 0x96;
}
static bool is_unicode(uint8_t op) {
    return op == 'X' || op == 0x8c || op == 0x8d;
}
static bool is_memo(uint8_t op) {
    return op == 0x94 || op == 'q' || op == 'r' || op == 0x95;
}

/* Takes one opcode's argument off *in; counted arguments come back in *out. */
static bool take_argument(arg_t kind, td_span_t *in, td_span_t *out) {
    uint64_t n = 0, skip = 0;
    unsigned lines = 0;
    switch (kind) {
    case NONE: break;
    case U1: n = 1; break;
    case U2: n = 2; break;
    case U4: n = 4; break;
    case F8: n = 8; break;
    case LINE: lines = 1; break;
    case LINE2: lines = 2; break;
    case LEN1: skip = 1; break;
    case LEN4: skip = 4; break;
    case LEN8: skip = 8; break;
    case BAD: return false;
    }
    for (; lines; lines--) {
        const uint8_t *nl = in->size ? memchr(in->data + n, '\n', in->size - n) : NULL;
        if (!nl) return false;
        n = (uint64_t)(nl - in->data) + 1;
    }
    if (skip) {
        if (in->size < skip) return false;
        memcpy(&n, in->data, skip); /* little-endian hosts only */
        in->data += skip;
        in->size -= skip;
    }
    if (n > in->size) return false;
    *out = (td_span_t){in->data, (size_t)n};
    in->data += n;
    in->size -= (size_t)n;
    return true;
}

td_status_t td_pickle_find_exec(td_span_t in, td_span_t *out, td_err_t *err) {
    td_span_t found = {0};
    size_t total = in.size;
    bool after_exec = false;
    for (;;) {
        if (!in.size) return td_fail_at(err, TD_MALFORMED, total, "pickle ends without its STOP opcode");
        uint8_t op = *in.data;
        size_t at = total - in.size;
        td_span_t arg;
        in.data++, in.size--;
        if (!take_argument(argument(op), &in, &arg))
            return td_fail_at(err, TD_MALFORMED, at, "pickle opcode 0x%02x at offset %zu is unknown or cut short", op, at);
        if (op == '.') break;
        if (is_memo(op)) continue;
        if (after_exec && is_bytes(op)) {
            if (found.data) return td_fail(err, TD_UNSUPPORTED, "the pickle holds several executables");
            found = arg;
        }
        after_exec = is_unicode(op) && arg.size == 4 && memcmp(arg.data, "exec", 4) == 0;
    }
    if (!found.data)
        return td_fail(err, TD_MALFORMED, "the pickle holds no (\"exec\", bytes) object as jax.experimental.serialize_executable writes it");
    *out = found;
    return TD_OK;
}
