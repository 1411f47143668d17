/* SPDX-License-Identifier: Apache-2.0 */
/* The cores of this machine for one kernel at a time: OpenMP's team, so that BLAS-like libraries built on
 * OpenMP share it. A caller that finds the team taken does all the work itself.
 * Thread: any. Never allocates after its first use by a thread. */
#ifndef TD_RUNTIME_HOST_POOL_H
#define TD_RUNTIME_HOST_POOL_H

#include <stdbool.h>
#include <stdint.h>

enum { TD_HOST_THREADS_MOST = 64 };

/* Threads at most; the CPUs this process may run on, unless td_host_set_threads said otherwise. */
int td_host_threads(void);
void td_host_set_threads(int n);
/* Scratch of lowered kernels is as large as the count says, so a device holds it while it is open. n: 0 takes the
 * count in force. false: a device holds another count. */
bool td_host_threads_hold(int n);
void td_host_threads_drop(void); /* the last one takes back what td_host_threads_hold set */

/* fn(ctx, first, last, worker): units [first, last); worker < td_host_threads() tells scratch areas apart.
 * Units are dealt out in equal runs, so results do not depend on who is faster. */
typedef void (*td_pool_fn_t)(void *ctx, int64_t first, int64_t last, int worker);
void td_pool_run(int64_t units, td_pool_fn_t fn, void *ctx);

/* Around a library call that uses OpenMP itself: the team for it alone; one thread if the team is taken, or if
 * the work (multiplications, about) is not worth waking it. Returns what to give to td_pool_leave. */
int td_pool_enter(double work);
void td_pool_leave(int entered);

#endif
