/* SPDX-License-Identifier: Apache-2.0 */
/* What the system and the allocator say about this process's memory, in bytes. Thread: any. */
#ifndef TD_DAEMON_PROCESS_H
#define TD_DAEMON_PROCESS_H

#include <stdint.h>

typedef struct td_process {
    uint64_t resident, shared;                                /* /proc/self/statm; shared: of it, backed by files */
    uint64_t heap_allocated, heap_resident, heap_metadata; /* 0 without jemalloc */
} td_process_t;

/* What cannot be read is 0. */
td_process_t td_process_read(void);

#endif
