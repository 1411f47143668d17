/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/day.h"

#include <stdio.h>

static int days_in(int y, int m) {
    static const uint8_t n[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (y % 4 == 0 && y % 100) || y % 400 == 0;
    return m == 2 && leap ? 29 : n[m - 1];
}

static int32_t make(int y, int m, int d) { return y * 10000 + m * 100 + d; }

int32_t td_day_parse(const char *text) {
    int v[3] = {0};
    static const int digits[3] = {4, 2, 2};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < digits[i]; k++, text++) {
            if (*text < '0' || *text > '9') return 0;
            v[i] = v[i] * 10 + (*text - '0');
        }
        if (*text != (i < 2 ? '-' : 0)) return 0;
        text++;
    }
    if (v[0] < 1970 || v[1] < 1 || v[1] > 12 || v[2] < 1 || v[2] > days_in(v[0], v[1])) return 0;
    return make(v[0], v[1], v[2]);
}

/* Days since 1970-01-01, of the proleptic Gregorian calendar: years begin in March. */
static int64_t serial(int32_t day) {
    int64_t y = day / 10000, m = day / 100 % 100, d = day % 100;
    if (m <= 2) y--, m += 12;
    return 365 * y + y / 4 - y / 100 + y / 400 + (153 * (m - 3) + 2) / 5 + d - 719469;
}

int32_t td_day_of(int64_t unix_seconds) {
    int64_t n = unix_seconds / 86400;
    if (unix_seconds < 0 || n > 2932896) return 0; /* up to 9999-12-31 */
    int y = 1970, m = 1;
    while (n >= (days_in(y, 2) == 29 ? 366 : 365)) n -= days_in(y, 2) == 29 ? 366 : 365, y++;
    while (n >= days_in(y, m)) n -= days_in(y, m++);
    return make(y, m, (int)n + 1);
}

int32_t td_day_between(int32_t a, int32_t b) { return (int32_t)(serial(b) - serial(a)); }

int32_t td_day_add_months(int32_t day, int months) {
    int y = day / 10000, m = day / 100 % 100 - 1 + months, d = day % 100;
    y += m / 12;
    m %= 12;
    if (m < 0) m += 12, y--;
    int last = days_in(y, m + 1);
    return make(y, m + 1, d > last ? last : d);
}

char *td_day_text(int32_t day, char out[12]) {
    out[0] = 0;
    if (day > 0 && day < 100000000)
        snprintf(out, 12, "%04u-%02u-%02u", (unsigned)day / 10000 % 10000, (unsigned)day / 100 % 100,
                 (unsigned)day % 100);
    return out;
}

char *td_month_text(int32_t day_or_month, char out[16]) {
    static const char *const names[] = {"January", "February", "March",     "April",   "May",      "June",
                                        "July",    "August",   "September", "October", "November", "December"};
    int32_t month = day_or_month >= 10000000 ? day_or_month / 100 : day_or_month;
    out[0] = 0;
    if (month % 100 >= 1 && month % 100 <= 12)
        snprintf(out, 16, "%s %04u", names[month % 100 - 1], (unsigned)month / 100 % 10000);
    return out;
}
