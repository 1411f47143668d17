/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/checked.h"

#define AUTO_PERCENT 80
/* Digits behind the point: more say nothing that matters. */
#define FRACTION_DIGITS 9

static const struct {
    const char *name;
    uint64_t bytes;
} units[] = {
    {"", 1}, {"B", 1}, {"KiB", 1ull << 10}, {"MiB", 1ull << 20}, {"GiB", 1ull << 30}, {"TiB", 1ull << 40},
    {"KB", 1000}, {"MB", 1000000}, {"GB", 1000000000}, {"TB", 1000000000000},
};

/* A decimal number: whole + fraction / 10^9. */
typedef struct number {
    uint64_t whole, fraction;
} number_t;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Moves *at behind the number; false: there is none, or it is over 64 bits. */
static bool read_number(const char **at, number_t *out) {
    const char *p = *at;
    number_t n = {0, 0};
    if (!is_digit(*p)) return false;
    for (; is_digit(*p); p++)
        if (!td_mul_u64(n.whole, 10, &n.whole) || !td_add_u64(n.whole, (uint64_t)(*p - '0'), &n.whole)) return false;
    if (*p == '.') {
        uint32_t digits = 0;
        for (p++; is_digit(*p) && digits < FRACTION_DIGITS; p++, digits++)
            n.fraction = n.fraction * 10 + (uint64_t)(*p - '0');
        if (!digits || is_digit(*p)) return false;
        for (; digits < FRACTION_DIGITS; digits++) n.fraction *= 10;
    }
    *at = p;
    *out = n;
    return true;
}

/* n * by / per, rounded down; false: over 64 bits, or no finite limit any more. */
static bool scale(const number_t *n, uint64_t by, uint64_t per, uint64_t *out) {
    unsigned __int128 billionths = (unsigned __int128)n->whole * 1000000000u + n->fraction;
    unsigned __int128 r = 0;
    if (by && billionths > ~(unsigned __int128)0 / by) return false;
    r = billionths * by / 1000000000u / per;
    if (r >= UINT64_MAX) return false;
    *out = (uint64_t)r;
    return true;
}

static td_status_t read_percent(const char *text, const number_t *n, uint64_t total, uint64_t *out, td_err_t *err) {
    if (n->whole > 100 || (n->whole == 100 && n->fraction))
        return td_fail(err, TD_USAGE, "'%.64s' is over 100%%", text);
    if (!total) return td_fail(err, TD_USAGE, "'%.64s' of an unknown amount of memory: give bytes, as in 12GiB", text);
    uint64_t bytes = 0;
    (void)scale(n, total, 100, &bytes); /* at most total */
    if (!bytes) return td_fail(err, TD_USAGE, "'%.64s' leaves nothing", text);
    *out = bytes;
    return TD_OK;
}

static td_status_t read_bytes(const char *text, const number_t *n, const char *unit, uint64_t *out, td_err_t *err) {
    size_t i = 0;
    while (i < sizeof units / sizeof *units && strcasecmp(unit, units[i].name)) i++;
    if (i == sizeof units / sizeof *units)
        return td_fail(err, TD_USAGE, "'%.64s': unknown unit '%.16s'; KiB, MiB, GiB, TiB, KB, MB, GB, TB or %%", text,
                       unit);
    uint64_t bytes = 0;
    if (!scale(n, units[i].bytes, 1, &bytes))
        return td_fail(err, TD_USAGE, "'%.64s' is over 16 EiB; for no limit say none", text);
    if (!bytes) return td_fail(err, TD_USAGE, "'%.64s' leaves nothing; for no limit say none", text);
    *out = bytes;
    return TD_OK;
}

td_status_t td_size_parse(const char *text, uint64_t total, uint64_t *out, td_err_t *err) {
    const char *at = text;
    number_t n = {AUTO_PERCENT, 0};
    if (!strcmp(text, "auto")) return read_percent(text, &n, total, out, err);
    if (!strcmp(text, "none")) {
        *out = UINT64_MAX;
        return TD_OK;
    }
    if (!read_number(&at, &n))
        return td_fail(err, TD_USAGE, "expected a size as 12GiB, 70%%, auto or none, got '%.64s'", text);
    while (*at == ' ') at++;
    if (!strcmp(at, "%")) return read_percent(text, &n, total, out, err);
    return read_bytes(text, &n, at, out, err);
}

const char *td_size_text(uint64_t bytes, char buf[TD_SIZE_TEXT]) {
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes == UINT64_MAX) {
        snprintf(buf, TD_SIZE_TEXT, "no limit");
    } else if (bytes < 1024) {
        snprintf(buf, TD_SIZE_TEXT, "%u bytes", (unsigned)bytes);
    } else {
        size_t i = 0;
        double v = (double)bytes / 1024;
        for (; v >= 1023.95 && i + 1 < sizeof names / sizeof *names; i++) v /= 1024; /* not "1024.0 MiB" */
        snprintf(buf, TD_SIZE_TEXT, "%.1f %s", v, names[i]);
    }
    return buf;
}
