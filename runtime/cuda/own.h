/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the runtime's own (kernels.cu): for what XLA or jaxlib have kernels linked in and no library does.
 * One module of the device, loaded when a program first needs it; the driver compiles its PTX. */
#ifndef TD_RUNTIME_CUDA_OWN_H
#define TD_RUNTIME_CUDA_OWN_H

#include "runtime/cuda/cuda.h"

/* name: "td_scale_f32". The context is current. Thread: any. */
td_status_t td_cuda_own_get(td_cuda_device_t *d, const char *name, CUfunction *out, td_err_t *err);
/* Enough threads for `count` items, each of which may take several. Nothing to do for none. params: addresses of the
 * parameters, as cuLaunchKernel takes them. */
td_status_t td_cuda_own_launch(td_stream_t *s, CUfunction f, uint64_t count, void **params, const char *what,
                               td_err_t *err);
/* One block: for kernels whose threads work together. */
td_status_t td_cuda_own_launch_block(td_stream_t *s, CUfunction f, void **params, const char *what, td_err_t *err);

#endif
