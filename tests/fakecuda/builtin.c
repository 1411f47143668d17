/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that are in no artifact: those of the runtime's own PTX, each a row here. */
#include <string.h>

#include "tests/fakecuda/kernel.h"

static uint64_t number(const uint8_t *p, size_t n) {
    uint64_t v = 0;
    memcpy(&v, p, n);
    return v;
}

/* fakecuda_scale(const float *from, float *to, float factor, unsigned n): for the stand-in's own tests. */
static const uint32_t scale_sizes[] = {8, 8, 4, 4};
static bool scale_touches(const uint8_t *const *params, uint32_t i, uint64_t *bytes, bool *write) {
    *bytes = 4 * number(params[3], 4);
    *write = i == 1;
    return i < 2;
}
static void scale_run(const uint8_t *const *params, uint8_t *const *memory) {
    float factor = 0;
    memcpy(&factor, params[2], 4);
    for (uint64_t i = 0, n = number(params[3], 4); i < n; i++) {
        float v = 0;
        memcpy(&v, memory[0] + 4 * i, 4);
        v *= factor;
        memcpy(memory[1] + 4 * i, &v, 4);
    }
}

static const fk_builtin_t builtins[] = {
    {"fakecuda_scale", 4, scale_sizes, scale_touches, scale_run},
};

const fk_builtin_t *fk_builtin_find(const char *name) {
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        if (!strcmp(builtins[i].name, name)) return &builtins[i];
    return fk_builtin_cuda(name);
}
