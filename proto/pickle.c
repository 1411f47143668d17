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

static td_status_t line(td_feed_t *in, td_err_t *err) {
    uint8_t b = 0;
    td_status_t s = TD_OK;
    while (s == TD_OK && b != '\n') s = td_feed_get(in, &b, 1, err);
    return s;
}

/* Reads one opcode's argument but for counted bytes, whose number comes back. */
static td_status_t argument_read(arg_t kind, td_feed_t *in, uint64_t *count, td_err_t *err) {
    *count = 0;
    td_status_t s = TD_OK;
    switch (kind) {
    case NONE: return TD_OK;
    case U1: return td_feed_skip(in, 1, err);
    case U2: return td_feed_skip(in, 2, err);
    case U4: return td_feed_skip(in, 4, err);
    case F8: return td_feed_skip(in, 8, err);
    case LINE: return line(in, err);
    case LINE2: return (s = line(in, err)) == TD_OK ? line(in, err) : s;
    case LEN1: return td_feed_get(in, count, 1, err); /* little-endian hosts only */
    case LEN4: return td_feed_get(in, count, 4, err);
    case LEN8: return td_feed_get(in, count, 8, err);
    case BAD: return td_fail(err, TD_MALFORMED, "unknown opcode");
    }
    return s;
}

/* The text "exec" in front of bytes makes them the executable. */
static td_status_t text_is_exec(td_feed_t *in, uint64_t n, bool *out, td_err_t *err) {
    char text[4];
    *out = false;
    if (n != sizeof text) return td_feed_skip(in, n, err);
    td_status_t s = td_feed_get(in, text, sizeof text, err);
    *out = s == TD_OK && memcmp(text, "exec", sizeof text) == 0;
    return s;
}

/* One opcode. *stop: at STOP, or in front of the executable's bytes, n of them. */
static td_status_t opcode(td_pickle_t *p, bool *stop, uint64_t *n, td_err_t *err) {
    uint64_t at = td_feed_position(p->in);
    uint8_t op = 0;
    if (td_feed_get(p->in, &op, 1, err) != TD_OK)
        return td_fail_at(err, TD_MALFORMED, at, "pickle ends without its STOP opcode");
    td_status_t s = argument_read(argument(op), p->in, n, err);
    *stop = op == '.';
    if (s == TD_OK && !*stop && !is_memo(op)) {
        bool exec = p->after_exec && is_bytes(op);
        if (exec && p->found) return td_fail(err, TD_UNSUPPORTED, "the pickle holds several executables");
        p->after_exec = false;
        if (exec) *stop = p->found = true;
        else if (is_unicode(op)) s = text_is_exec(p->in, *n, &p->after_exec, err);
        else s = td_feed_skip(p->in, *n, err);
    } else if (s == TD_OK) {
        s = td_feed_skip(p->in, *n, err);
    }
    if (s != TD_MALFORMED) return s;
    return td_fail_at(err, TD_MALFORMED, at, "pickle opcode 0x%02x at offset %" PRIu64 " is unknown or cut short", op,
                      at);
}

td_status_t td_pickle_open(td_pickle_t *p, td_feed_t *in, td_err_t *err) {
    *p = (td_pickle_t){.in = in};
    bool stop = false;
    uint64_t n = 0;
    td_status_t s = TD_OK;
    while (s == TD_OK && !stop) s = opcode(p, &stop, &n, err);
    if (s == TD_OK && !p->found)
        s = td_fail(err, TD_MALFORMED,
                    "the pickle holds no (\"exec\", bytes) object as jax.experimental.serialize_executable writes it");
    uint64_t at = td_feed_position(in);
    if (s == TD_OK && in->end != UINT64_MAX && n > in->end - at)
        s = td_fail_at(err, TD_MALFORMED, at, "pickle object of %" PRIu64 " bytes at offset %" PRIu64 " is cut short",
                       n, at);
    if (s == TD_OK) td_limit_open(&p->object, in, n);
    return s;
}

td_status_t td_pickle_end(td_pickle_t *p, td_err_t *err) {
    td_status_t s = td_limit_end(&p->object, err);
    bool stop = false;
    uint64_t n = 0;
    while (s == TD_OK && !stop) s = opcode(p, &stop, &n, err);
    return s;
}
