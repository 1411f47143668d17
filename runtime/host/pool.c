/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static atomic_int threads;
static atomic_flag busy = ATOMIC_FLAG_INIT;

int td_host_threads(void) {
    int n = atomic_load_explicit(&threads, memory_order_relaxed);
    if (n) return n;
#ifdef _OPENMP
    cpu_set_t set;
    n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
#else
    n = 1;
#endif
    td_host_set_threads(n);
    return atomic_load_explicit(&threads, memory_order_relaxed);
}

void td_host_set_threads(int n) {
    n = n < 1 ? 1 : n > TD_HOST_THREADS_MOST ? TD_HOST_THREADS_MOST : n;
#ifndef _OPENMP
    n = 1;
#endif
    atomic_store_explicit(&threads, n, memory_order_relaxed);
}

static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned held;
static bool held_chosen; /* by a device, not by td_host_set_threads or the CPUs */

bool td_host_threads_hold(int n) {
    pthread_mutex_lock(&held_lock);
    bool ok = !n || !held || n == td_host_threads();
    if (ok && n && !held) {
        td_host_set_threads(n);
        held_chosen = true;
    }
    if (ok) held++;
    pthread_mutex_unlock(&held_lock);
    return ok;
}

void td_host_threads_drop(void) {
    pthread_mutex_lock(&held_lock);
    if (!--held && held_chosen) {
        atomic_store_explicit(&threads, 0, memory_order_relaxed); /* counted anew when asked for */
        held_chosen = false;
    }
    pthread_mutex_unlock(&held_lock);
}

void td_pool_run(int64_t units, td_pool_fn_t fn, void *ctx) {
    int n = td_host_threads();
    if (n > units) n = (int)units;
#ifdef _OPENMP
    if (n > 1 && !omp_in_parallel() && !atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) {
#pragma omp parallel num_threads(n)
        {
            int64_t team = omp_get_num_threads(), w = omp_get_thread_num(), each = units / team, more = units % team;
            int64_t first = w * each + (w < more ? w : more);
            fn(ctx, first, first + each + (w < more), (int)w);
        }
        atomic_flag_clear_explicit(&busy, memory_order_release);
        return;
    }
#endif
    (void)busy;
    if (units > 0) fn(ctx, 0, units, 0);
}

int td_pool_enter(double work) {
#ifdef _OPENMP
    const double worth_a_team = 1 << 20; /* some tens of microseconds */
    int n = td_host_threads();
    if (n > 1 && work >= worth_a_team && !omp_in_parallel() && !atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) {
        omp_set_num_threads(n);
        return 1;
    }
    omp_set_num_threads(1);
#else
    (void)work;
#endif
    return 0;
}

void td_pool_leave(int entered) {
    if (entered) atomic_flag_clear_explicit(&busy, memory_order_release);
}
