/* SPDX-License-Identifier: Apache-2.0 */
/* What an image (cubin or PTX) says of its kernels and variables.
 *
 * Sources: a cubin is an ELF file for machine 190; a kernel NAME has a function symbol with bit 0x10 in st_other, its
 * code in .text.NAME, static shared memory as the size of .nv.shared.NAME, and attributes in .nv.info.NAME. An
 * attribute is format (1 byte), number (1 byte), then a 2-byte value, or for format 4 a 2-byte size and that many
 * bytes. Number 0x17 describes a parameter: u32 index, u16 ordinal, u16 offset, u32 whose bits from 18 up are the
 * size; 0x19 all parameters' bytes; 0x05 the most threads of a block, 0x10 those it must have (three u32). The
 * registers are in the code section's sh_info, from bit 24 up, or in .nv.info: number 0x2f, u32 symbol, u32 count.
 * e_flags hold the architecture, 90 for sm_90: from bit 8 up where EI_ABIVERSION is 8, in the low byte
 * before. (Seen in the output of ptxas 12.8 and 13.0.)
 * Thread: any; an open image does not change. */
#ifndef FAKECUDA_IMAGE_H
#define FAKECUDA_IMAGE_H

#include "tests/fakecuda/fake.h"

typedef struct fk_param {
    uint32_t offset, size;
} fk_param_t;
typedef struct fk_kernel_info {
    char *name;
    fk_param_t *params;
    uint32_t n_params, param_bytes;
    uint32_t max_threads, static_shared, registers, symbol;
    uint32_t required[3]; /* threads of a block; 0: any */
} fk_kernel_info_t;
typedef struct fk_variable {
    char *name;
    uint64_t bytes, n_init;
    const uint8_t *init; /* n_init bytes inside the image, zeros behind them */
} fk_variable_t;
typedef struct fk_image {
    uint8_t *bytes; /* a copy; for PTX with a NUL behind it */
    size_t size;
    td_hash_t hash;
    bool ptx;
    int architecture; /* 90: sm_90 */
    fk_kernel_info_t *kernels;
    uint32_t n_kernels;
    fk_variable_t *variables;
    uint32_t n_variables;
} fk_image_t;

/* Bytes of the ELF file that begins there, of at most `most`; 0: it is none. */
size_t fk_elf_bytes(const void *image, size_t most);
/* image: an ELF file, or text that ends with a NUL. why: what is wrong with it. */
CUresult fk_image_open(const void *image, fk_image_t *out, const char **why);
void fk_image_close(fk_image_t *im);

/* Private: image.c, ptx.c. */
fk_kernel_info_t *fk_image_kernel(fk_image_t *im, const char *name, size_t n);
fk_param_t *fk_image_param(fk_kernel_info_t *k, uint32_t index);
CUresult fk_ptx_read(fk_image_t *im, const char **why);

#endif
