/* SPDX-License-Identifier: Apache-2.0 */
/* What a code image says of itself, read before the driver sees it: the driver's loader is told no length, so an
 * image whose tables point outside of it would be read past its end.
 *
 * A cubin is an ELF64 file for machine 190. Read here: section and program headers, symbols, the target (e_flags, and
 * the tool's command line in .note.nv.tkinfo, which alone tells sm_90a from sm_90), and per kernel the parameters and
 * the block size that it was compiled for (.nv.info.NAME: KPARAM_INFO, CBANK_PARAM_SIZE, REQNTID).
 * Source: LLVM llvm/include/llvm/BinaryFormat/ELF.h (EF_CUDA_*); the .nv.info records as cuobjdump prints them.
 * Thread: any; results lie in the arena, names too. */
#ifndef TD_RUNTIME_CUDA_ELF_H
#define TD_RUNTIME_CUDA_ELF_H

#include "base/arena.h"
#include "base/span.h"

typedef struct td_cubin_param {
    uint32_t offset, size; /* bytes in the parameter block */
} td_cubin_param_t;

typedef struct td_cubin_kernel {
    const char *name;
    const td_cubin_param_t *params; /* by number */
    uint32_t n_params;
    bool params_known;
    uint32_t param_bytes;  /* of the block; 0: not said */
    uint32_t block[3];     /* compiled for this block size alone; zeros: any */
} td_cubin_kernel_t;

typedef struct td_cubin {
    uint32_t sm;   /* 90; 0: not said (fat binaries) */
    char feature;  /* 'a': that compute capability alone; 'f': its family; 0 */
    bool state;    /* has variables of its own that kernels may change between launches */
    const td_cubin_kernel_t *kernels;
    uint32_t n_kernels;
} td_cubin_t;

/* ELF or fat binary (of which only the extent is checked). TD_MALFORMED says where it breaks; TD_UNSUPPORTED: for
 * another machine. */
td_status_t td_cubin_read(td_span_t image, td_arena_t *arena, td_cubin_t *out, td_err_t *err);
const td_cubin_kernel_t *td_cubin_find(const td_cubin_t *c, const char *name); /* NULL: none */
/* May code for this target run on a device of capability major.minor? TD_MISMATCH tells why not. */
td_status_t td_cubin_fits(const td_cubin_t *c, int major, int minor, td_err_t *err);

#endif
