/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

static const char *const names[TD_STATUS_COUNT] = {
    [TD_OK] = "ok",           [TD_MALFORMED] = "malformed", [TD_UNSUPPORTED] = "unsupported",
    [TD_MISMATCH] = "mismatch", [TD_LIMIT] = "limit",       [TD_NOMEM] = "out of memory",
    [TD_NOTFOUND] = "not found", [TD_BUSY] = "busy",        [TD_DEADLINE] = "deadline exceeded",
    [TD_CANCELLED] = "cancelled", [TD_DEVICE] = "device error", [TD_IO] = "i/o error",
    [TD_USAGE] = "usage",     [TD_INTERNAL] = "internal error",
};

const char *td_status_name(td_status_t s) {
    return (unsigned)s < TD_STATUS_COUNT ? names[s] : "unknown status";
}

/* Bytes of the UTF-8 character at p; 0 for anything that a terminal or JSON should not be given. */
static size_t character(const unsigned char *p) {
    static const unsigned least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
    if (n < 2) return n && p[0] >= 0x20 && p[0] != 0x7f ? 1 : 0;
    unsigned c = p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if (p[i] >> 6 != 2) return 0; /* also where the text ends */
        c = c << 6 | (p[i] & 0x3fu);
    }
    return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || (c >= 0x80 && c < 0xa0) ? 0 : n;
}

/* Texts quote names out of files: what is no printable character becomes '?'. */
static void clean(char *text) {
    for (unsigned char *p = (unsigned char *)text; *p;) {
        size_t n = *p == '\n' || *p == '\t' ? 1 : character(p);
        if (!n) *p = '?', n = 1;
        p += n;
    }
}

static td_status_t set(td_err_t *err, td_status_t code, uint64_t offset, const char *fmt, va_list ap) {
    if (err) {
        err->code = code;
        err->offset = offset;
        vsnprintf(err->text, sizeof err->text, fmt, ap);
        clean(err->text);
    }
    return code;
}

td_status_t td_fail(td_err_t *err, td_status_t code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    set(err, code, 0, fmt, ap);
    va_end(ap);
    return code;
}

td_status_t td_fail_at(td_err_t *err, td_status_t code, uint64_t offset, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    set(err, code, offset, fmt, ap);
    va_end(ap);
    return code;
}

td_status_t td_prefix(td_err_t *err, td_status_t code, const char *fmt, ...) {
    if (!err) return code;
    char prefix[160];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(prefix, sizeof prefix - 2, fmt, ap);
    va_end(ap);
    if (n < 0) return err->code;
    if ((size_t)n > sizeof prefix - 3) n = (int)sizeof prefix - 3;
    memcpy(prefix + n, ": ", 3);
    size_t plen = (size_t)n + 2, len = strlen(err->text);
    if (plen + len >= sizeof err->text) return err->code; /* the prefix goes, not the cause */
    memmove(err->text + plen, err->text, len + 1);
    memcpy(err->text, prefix, plen);
    clean(err->text);
    return err->code;
}
