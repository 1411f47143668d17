/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the stand-in for cuBLAS (lib_blas*.c). */
#ifndef FAKECUDA_LIB_BLAS_H
#define FAKECUDA_LIB_BLAS_H

#include "runtime/cuda/blas.h"
#include "tests/fakecuda/library.h"

#define BLAS_DECLARE(needed, type, name, args) FK_EXPORT type name args;
TD_BLAS_SYMBOLS(BLAS_DECLARE)

extern const char BLAS_HANDLE[];
typedef struct blas_handle {
    CUstream stream;
    bool has_stream;
    void *workspace;
    size_t workspace_bytes;
    int pointer_mode;
} blas_handle_t;

#endif
