/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the stand-in for cuBLASLt. The lock is held. */
#ifndef FAKECUDA_LIB_BLASLT_H
#define FAKECUDA_LIB_BLASLT_H

#include "runtime/cuda/blas.h"
#include "tests/fakecuda/library.h"

#ifndef FAKE_BLASLT_VERSION
#define FAKE_BLASLT_VERSION 130100
#endif

#define DECLARE(needed, type, name, args) FK_EXPORT type name args;
TD_BLASLT_SYMBOLS(DECLARE)

extern const char LT_HANDLE[], LT_LAYOUT[], LT_DESC[], LT_PREFERENCE[];
typedef struct lt_layout {
    int type;
    int32_t batch;
    uint64_t rows, cols;
    int64_t ld, stride;
} lt_layout_t;
enum {
    LT_BIAS,
    LT_A_SCALE,
    LT_B_SCALE,
    LT_C_SCALE,
    LT_D_SCALE,
    LT_AUX,
    LT_AMAX,
    LT_POINTERS
}; /* as td_gemm_desc_t's buffers */
typedef struct lt_desc {
    int compute, scale;
    int32_t op[2], bias_type, mode[2];
    uint32_t epilogue;
    uint64_t at[LT_POINTERS];
    int64_t aux_ld, aux_stride;
    int8_t fast;
} lt_desc_t;
typedef struct lt_preference {
    uint64_t workspace;
    uint32_t alignment[4];
} lt_preference_t;

#endif
