/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/vec.h"

#include <string.h>

#include "runtime/host/types.h"

extern const td_vec_t td_vec_base;
#ifdef TD_HAVE_ISAS
extern const td_vec_t td_vec_v3, td_vec_v4;
static bool has_v3(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"); }
static bool has_v4(void) {
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
}
static const td_vec_t *const sets[] = {&td_vec_base, &td_vec_v3, &td_vec_v4};
static bool has(int i) { return i == 2 ? has_v4() : i == 1 ? has_v3() : true; }
#else
static const td_vec_t *const sets[] = {&td_vec_base};
static bool has(int i) { return i == 0; }
#endif
enum { SETS = sizeof sets / sizeof *sets };

static const td_vec_t *current = &td_vec_base;

__attribute__((constructor)) static void choose(void) {
    for (int i = 0; i < SETS; i++)
        if (has(i)) current = sets[i];
}

const td_vec_t *td_vec(void) { return current; }

bool td_vec_use(const char *name) {
    for (int i = 0; i < SETS; i++)
        if (!strcmp(sets[i]->name, name) && has(i)) {
            current = sets[i];
            return true;
        }
    return false;
}

void td_convert_array(td_type_t from, const void *src, td_type_t to, void *dst, size_t n) {
    current->convert(from, src, to, dst, n);
}
void td_small_load(td_type_t t, const void *src, float *dst, size_t n) { current->small_load(t, src, dst, n); }
void td_small_store(td_type_t t, const float *src, void *dst, size_t n) { current->small_store(t, src, dst, n); }
void td_small_round(td_type_t t, const float *src, float *dst, size_t n) { current->small_round(t, src, dst, n); }

const td_pw_table_t *td_pw_table(td_type_t reg) { return (unsigned)reg < TD_TYPE_COUNT ? current->tables[reg] : NULL; }
