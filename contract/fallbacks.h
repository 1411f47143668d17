/* SPDX-License-Identifier: Apache-2.0 */
/* The former forms that this runtime still reads. One row each: what it is, the last release that wrote it, and the
 * month from which on no artifact inside the window has it. The code that reads a form names its row in a comment:
 * "Fallback NAME: …. Can be removed in MONTH YEAR." tools/check_contract.py compares comments and rows.
 * Constant data. Thread: any. */
#ifndef TD_CONTRACT_FALLBACKS_H
#define TD_CONTRACT_FALLBACKS_H

#include "contract/scan.h"

typedef struct td_fallback {
    const char *name;      /* "dynamic-memcpy" */
    const char *form;      /* the former form, for people */
    const char *construct; /* of the ledger: the former one, or the one that replaced it */
    const char *last;      /* the last release that wrote the form */
    int32_t month;         /* yyyymm: can be removed then, and is off after it */
    bool (*used)(const td_artifact_t *a, const td_scan_t *s);
} td_fallback_t;

extern const td_fallback_t td_fallbacks[];
extern const uint32_t td_fallback_count;

/* yyyymm from which on a form last written by that release can go: the month after its window ends. */
int32_t td_fallback_month(const char *last);
/* Where the artifact uses it: the construct's place, or "container". NULL: not at all. */
const char *td_fallback_place(const td_fallback_t *f, const td_artifact_t *a, const td_scan_t *s);

#endif
