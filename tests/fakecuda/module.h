/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded modules and their functions. The lock is held. */
#ifndef FAKECUDA_MODULE_H
#define FAKECUDA_MODULE_H

#include "tests/fakecuda/kernel.h"

enum { FK_SHARED_STATIC_MOST = 49152, FK_SHARED_MOST = 232448 };

typedef struct fk_module {
    fk_obj_t base;
    fk_image_t image;
    fk_mem_t *code;       /* each launch is a use of it, so unloading too early is seen as any early free */
    fk_mem_t **variables; /* NULL until asked for */
    struct fk_function *functions;
} fk_module_t;
typedef struct fk_function {
    fk_obj_t base;
    struct fk_function *next; /* of the module */
    fk_module_t *module;
    const fk_kernel_info_t *info;
    const fk_meaning_t *meaning; /* or */
    const fk_builtin_t *builtin; /* NULL both: nothing is known of it but its parameters */
    fk_lowered_t *lowered;
    uint64_t dynamic_shared; /* what was allowed */
    const char *name;        /* a copy that outlives the module, as records of accesses do */
} fk_function_t;

#endif
