/* SPDX-License-Identifier: Apache-2.0 */
/* A Fourier transform's description from its shapes, verified: what the fft thunk and the HLO opcode share.
 * Any dense layout; the two arrays agree in everything but the last dimension of the real kinds.
 * Thread: any; writes only *out. */
#ifndef TD_RUNTIME_FFT_DESC_H
#define TD_RUNTIME_FFT_DESC_H

#include "runtime/library.h"

/* kind: a number of xla.FftType. length: the sizes of the transformed (innermost) dimensions. */
td_status_t td_fft_describe(int kind, const int64_t *length, size_t n_length, const td_shape_t *in, const td_shape_t *out,
                            td_fft_desc_t *out_desc, td_err_t *err);

#endif
