/* SPDX-License-Identifier: Apache-2.0 */
/* Names for content whose bytes are not kept to be compared: a 256-bit HighwayHash with a secret key.
 *
 * Equal names are as good as equal bytes. Whoever writes artifacts or weights does not know the key (256 bits of
 * getrandom for each process, which never leave it), and never sees a name, so there is nothing better for him than
 * guessing: HighwayHash is a pseudo-random function as far as anybody knows, and two contents meet with a chance of
 * 2^-256 a pair. An error of the memory that would be compared is many orders of magnitude likelier. (td_hash_bytes has
 * no key: whoever knows it can make two contents with one hash.)
 * Names mean nothing in another process. Thread: any. */
#ifndef TD_PROTO_CONTENT_H
#define TD_PROTO_CONTENT_H

#include <string.h>

#include "base/span.h"
#include "base/status.h"

typedef struct td_content {
    uint64_t name[4];
} td_content_t;

/* TD_IO: the system gives no random bytes. */
td_status_t td_content_of(td_span_t bytes, td_content_t *out, td_err_t *err);

static inline bool td_content_equal(const td_content_t *a, const td_content_t *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

#endif
