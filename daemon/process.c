/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/heap.h"

td_process_t td_process_read(void) {
    td_process_t p = {0};
    uint64_t resident = 0, shared = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%*u %" SCNu64 " %" SCNu64, &resident, &shared) == 2) { /* pages */
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        p.resident = resident * page;
        p.shared = shared * page;
    }
    if (f) fclose(f);
    td_heap_stats_t h = td_heap_process_stats();
    p.heap_allocated = h.allocated;
    p.heap_resident = h.resident;
    p.heap_metadata = h.metadata;
    return p;
}
