/* SPDX-License-Identifier: Apache-2.0 */
/* Amounts of bytes, as people write and read them. Thread: any. */
#ifndef TD_BASE_SIZE_H
#define TD_BASE_SIZE_H

#include "base/status.h"

/* "12GiB", "1.5 GB", "800000000": bytes, of units KiB to TiB (powers of 1024), KB to TB (powers of 1000) and B.
 * "70%": of total; "auto": 80 % of total, which leaves room for what is not counted (the machine's other
 * programs, page tables, stacks); "none": UINT64_MAX. total 0: unknown, then only bytes and "none".
 * TD_USAGE: what is wrong with the text, without the text's place. *out is untouched then. */
td_status_t td_size_parse(const char *text, uint64_t total, uint64_t *out, td_err_t *err);

#define TD_SIZE_TEXT 32
/* "812.0 MiB", "12 bytes"; "no limit" for UINT64_MAX. Returns buf. */
const char *td_size_text(uint64_t bytes, char buf[TD_SIZE_TEXT]);

#endif
