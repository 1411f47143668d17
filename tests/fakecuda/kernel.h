/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels mean. A kernel of an artifact is the HLO instruction that its thunk names, found by the bytes of its
 * image and its name, and computed by the host kernel compiler; a kernel of the runtime's own is a builtin, found by
 * its name alone. The lock is held; running takes place without it. */
#ifndef FAKECUDA_KERNEL_H
#define FAKECUDA_KERNEL_H

#include "runtime/device.h"
#include "tests/fakecuda/image.h"

/* A launch that some thunk asks for. */
typedef struct fk_dims {
    uint32_t grid[3], block[3], cluster[3]; /* cluster 0: none */
    uint32_t shared; /* dynamic, bytes */
} fk_dims_t;

typedef struct fk_meaning {
    struct fk_meaning *next;
    td_hash_t image;
    const char *name;
    const td_hlo_module_t *hlo;
    const td_hlo_instr_t *instr;
    const td_shape_t **leaves; /* of the operands, then of the results */
    uint32_t n_leaves, n_read;
    fk_dims_t *dims;
    uint32_t n_dims;
} fk_meaning_t;
/* NULL: no artifact has it. The artifacts are read at the first call. */
const fk_meaning_t *fk_meaning_find(td_hash_t image, const char *name);

/* A kernel that is not from an artifact. */
typedef struct fk_builtin {
    const char *name;
    uint32_t n_params;
    const uint32_t *sizes; /* bytes of each */
    /* Is parameter i an address? How many bytes from there are touched then; params: each one's bytes. */
    bool (*touches)(const uint8_t *const *params, uint32_t i, uint64_t *bytes, bool *write);
    /* memory[i]: where the bytes of address parameter i are. */
    void (*run)(const uint8_t *const *params, uint8_t *const *memory);
} fk_builtin_t;
const fk_builtin_t *fk_builtin_find(const char *name);
const fk_builtin_t *fk_builtin_cuda(const char *name); /* builtin_cuda.c; NULL: none of them */

/* Lowered for one way in which the arguments lie over each other. Of one loaded function: a kernel's state is that of
 * the module it was loaded with. */
typedef struct fk_lowered fk_lowered_t;
CUresult fk_lower(fk_lowered_t **list, const fk_meaning_t *m, const uint64_t *addresses, fk_lowered_t **out);
CUresult fk_run(const fk_lowered_t *l, const char *name, void *const *memory);
void fk_lowered_free(fk_lowered_t *list);

#endif
