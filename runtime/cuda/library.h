/* SPDX-License-Identifier: Apache-2.0 */
/* How the CUDA device does the operations of runtime/library.h: one function each, that chooses everything (algorithm,
 * descriptors, scratch) when a program is loaded, so that a launch only enqueues. What it makes of the library's
 * objects the kernel's release gives back. The context is current. Errors: TD_UNSUPPORTED names what is missing. */
#ifndef TD_RUNTIME_CUDA_LIBRARY_H
#define TD_RUNTIME_CUDA_LIBRARY_H

#include "runtime/cuda/cuda.h"

typedef td_status_t (*td_cuda_lower_fn)(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                                        uint64_t *out_scratch, td_err_t *err);
td_status_t td_cuda_fft_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                              uint64_t *out_scratch, td_err_t *err);
td_status_t td_cuda_custom_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                                 uint64_t *out_scratch, td_err_t *err);
td_status_t td_cuda_topk_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                               uint64_t *out_scratch, td_err_t *err);
/* topk.c: a kernel thunk whose code is linked into XLA: one of the runtime's own that does the same. */
td_status_t td_cuda_symbol_lower(td_cuda_device_t *d, const td_kernel_desc_t *desc, td_arena_t *arena,
                                 td_kernel_t **out,
                                 uint64_t *out_scratch, td_err_t *err);

#endif
