/* SPDX-License-Identifier: Apache-2.0 */
/* cuFFT as far as thunkd calls it: our own declarations of facts of the public header cufft.h. X(needed, type, name,
 * (arguments)); the stand-in for tests defines its entry points from the same list. */
#ifndef TD_RUNTIME_CUDA_FFT_H
#define TD_RUNTIME_CUDA_FFT_H

#include "runtime/cuda/driver.h"

typedef int cufftHandle;
enum {
    CUFFT_SUCCESS = 0,
    CUFFT_ALLOC_FAILED = 2,
    CUFFT_R2C = 0x2a,
    CUFFT_C2R = 0x2c,
    CUFFT_C2C = 0x29,
    CUFFT_D2Z = 0x6a,
    CUFFT_Z2D = 0x6c,
    CUFFT_Z2Z = 0x69,
    CUFFT_FORWARD = -1,
    CUFFT_INVERSE = 1
};

#define TD_FFT_SYMBOLS(X)                                                                                              \
    X(1, int, cufftGetVersion, (int *version))                                                                         \
    X(1, int, cufftCreate, (cufftHandle * plan))                                                                       \
    X(1, int, cufftDestroy, (cufftHandle plan))                                                                        \
    X(1, int, cufftSetAutoAllocation, (cufftHandle plan, int on))                                                      \
    X(1, int, cufftMakePlanMany64,                                                                                     \
      (cufftHandle plan, int rank, long long *n, long long *in_embed, long long in_stride, long long in_dist,          \
       long long *out_embed, long long out_stride, long long out_dist, int type, long long batch, size_t *work_bytes)) \
    X(1, int, cufftSetWorkArea, (cufftHandle plan, void *work))                                                        \
    X(1, int, cufftSetStream, (cufftHandle plan, CUstream stream))                                                     \
    X(1, int, cufftExecC2C, (cufftHandle plan, void *in, void *out, int direction))                                    \
    X(1, int, cufftExecR2C, (cufftHandle plan, void *in, void *out))                                                   \
    X(1, int, cufftExecC2R, (cufftHandle plan, void *in, void *out))                                                   \
    X(1, int, cufftExecZ2Z, (cufftHandle plan, void *in, void *out, int direction))                                    \
    X(1, int, cufftExecD2Z, (cufftHandle plan, void *in, void *out))                                                   \
    X(1, int, cufftExecZ2D, (cufftHandle plan, void *in, void *out))

#endif
