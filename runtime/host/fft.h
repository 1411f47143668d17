/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms on FFTW: a plan made once, run by any thread on any buffers.
 * Plans live outside the arena and are given back when it ends. FFTW's planner is not thread-safe: a lock
 * of this module's own guards it; running takes none. */
#ifndef TD_RUNTIME_HOST_FFT_H
#define TD_RUNTIME_HOST_FFT_H

#include "base/arena.h"
#include "runtime/library.h"

typedef struct td_fft td_fft_t;

/* out_scratch: bytes a run needs, 64-byte aligned. */
td_status_t td_fft_make(const td_fft_desc_t *desc, td_arena_t *arena, const td_fft_t **out, uint64_t *out_scratch,
                        td_err_t *err);
/* in is left as it was unless it overlaps out. Addresses aligned to their type. */
void td_fft_run(const td_fft_t *f, const void *in, void *out, void *scratch);

#endif
