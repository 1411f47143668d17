/* SPDX-License-Identifier: Apache-2.0 */
/* The one injected clock. Production reads CLOCK_MONOTONIC; tests replace it. */
#ifndef TD_BASE_CLOCK_H
#define TD_BASE_CLOCK_H

#include <stdint.h>

typedef struct td_clock {
    uint64_t (*now_ns)(void *ctx); /* monotonic, nanoseconds */
    void *ctx;
} td_clock_t;

const td_clock_t *td_clock_system(void);
static inline uint64_t td_now_ns(const td_clock_t *c) {
    return c->now_ns(c->ctx);
}

#endif
