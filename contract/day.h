/* SPDX-License-Identifier: Apache-2.0 */
/* Days of the calendar, as the contract counts them: yyyymmdd as a number, 0 = none. Pure functions. */
#ifndef TD_CONTRACT_DAY_H
#define TD_CONTRACT_DAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "2026-11-30"; 0 when it is no such day. */
int32_t td_day_parse(const char *text);
/* The day of a Unix time, UTC. */
int32_t td_day_of(int64_t unix_seconds);
/* Days from a to b. */
int32_t td_day_between(int32_t a, int32_t b);
/* The same day so many months later, or that month's last one. */
int32_t td_day_add_months(int32_t day, int months);
/* "2026-11-30" into out; "" for 0. Returns out. */
char *td_day_text(int32_t day, char out[12]);
/* "February 2027", of a day or of a month alone (yyyymm). Returns out. */
char *td_month_text(int32_t day_or_month, char out[16]);

#endif
