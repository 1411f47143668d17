/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes and the caller-owned error record.
 *
 * Every fallible function returns a td_status_t and takes a td_err_t * as its
 * last parameter (may be NULL). The record holds the cause as text; it owns no
 * memory, so it works when memory is gone. A caller adds a prefix only where it
 * tells *which one* ("thunks[7]"); when space ends, the outermost prefix goes,
 * never the cause. Library folders never log. Thread: any; records are not shared. */
#ifndef TD_BASE_STATUS_H
#define TD_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_MUST_USE __attribute__((warn_unused_result))
#define TD_PRINTF(f, a) __attribute__((format(printf, f, a)))

typedef enum td_status {
    TD_OK = 0,
    TD_MALFORMED,   /* bytes that break their format or a cross-reference */
    TD_UNSUPPORTED, /* well formed, but this build cannot do it */
    TD_MISMATCH,    /* two things that must agree do not (shape, dtype, target) */
    TD_LIMIT,       /* over a limit of base/limits.h or of the configuration */
    TD_NOMEM,
    TD_NOTFOUND,
    TD_BUSY, /* a queue is full */
    TD_DEADLINE,
    TD_CANCELLED,
    TD_DEVICE, /* the device failed; its context may be gone */
    TD_IO,     /* the operating system refused: file, socket */
    TD_USAGE,  /* the caller's words are off: option, config key */
    TD_INTERNAL,
    TD_STATUS_COUNT
} td_status_t;

typedef struct td_err {
    td_status_t code;
    uint64_t offset; /* byte offset in the input where that is known, else 0 */
    char text[512];
} td_err_t;

/* Short lower-case name: "malformed". Never NULL. */
const char *td_status_name(td_status_t s);

/* Sets the record and returns code, so that `return td_fail(err, …)` reads well. */
td_status_t td_fail(td_err_t *err, td_status_t code, const char *fmt, ...) TD_PRINTF(3, 4);
/* As td_fail, and notes the byte offset. */
td_status_t td_fail_at(td_err_t *err, td_status_t code, uint64_t offset, const char *fmt, ...) TD_PRINTF(4, 5);
/* Puts "prefix: " in front of the text and returns the record's code (`code` when err is NULL). */
td_status_t td_prefix(td_err_t *err, td_status_t code, const char *fmt, ...) TD_PRINTF(3, 4);

#endif
