/* SPDX-License-Identifier: Apache-2.0 */
/* Vector code chosen at start-up: some files are compiled once per instruction set (Makefile, ISAS), each
 * compilation giving one td_vec_t. Thread: any; td_vec() never changes its answer. */
#ifndef TD_RUNTIME_HOST_VEC_H
#define TD_RUNTIME_HOST_VEC_H

#include "runtime/host/pw.h"

#ifdef TD_ISA
#define TD_V3_(a, b) a##b
#define TD_V2_(a, b) TD_V3_(a, b)
#define TD_V(name) TD_V2_(name, TD_ISA)
#else
#define TD_V(name) name##_base
#endif

/* Pairs of f32 operations: g(f(a, b), c), f in {add, subtract, multiply}, g also c - f. */
enum { TD_PAIR_ADD, TD_PAIR_SUB, TD_PAIR_MUL, TD_PAIR_RSUB, TD_PAIRS };
/* One f32 operation with the second operand a scalar (its tile's first element), R: operands exchanged. */
enum { TD_ONE_ADD, TD_ONE_SUB, TD_ONE_MUL, TD_ONE_RSUB, TD_ONE_DIV, TD_ONE_RDIV, TD_ONE_MAX, TD_ONE_MIN,
       TD_ONE_RMAX, TD_ONE_RMIN, TD_ONES };

typedef struct td_vec {
    const char *name;
    /* By register type: pred, the native integers, f32, f64, c64, c128; NULL otherwise. */
    const td_pw_table_t *tables[TD_TYPE_COUNT];
    td_pw_fn_t select[5]; /* elements of 1, 2, 4, 8, 16 bytes */
    void (*convert)(td_type_t from, const void *src, td_type_t to, void *dst, size_t n);
    void (*small_load)(td_type_t t, const void *src, float *dst, size_t n);
    void (*small_store)(td_type_t t, const float *src, void *dst, size_t n);
    void (*small_round)(td_type_t t, const float *src, float *dst, size_t n);
    const td_pw_fn_t (*pair)[TD_PAIRS][4]; /* by f, g, and 1: b is a scalar + 2: c is a scalar */
    const td_pw_fn_t *scalar;              /* TD_ONES of them */
    const td_pw_fn_t *bf16;                /* add, subtract, multiply in f32, rounded to bf16 */
    /* An 8 x 8 block of elements of 2, 4 or 8 bytes, transposed; strides between rows in bytes. */
    void (*transpose8)(uint32_t size, const char *src, int64_t src_stride, char *dst, int64_t dst_stride);
    /* at[i] += clamp(index[i * step], 0, max) * stride; what does not fit in 32 bits must not come in. */
    void (*add_index)(const int32_t *index, int64_t step, int32_t max, int32_t stride, int32_t *at, size_t n);
    void (*take4)(const uint32_t *src, const int32_t *at, size_t n, uint32_t *dst); /* dst[i] = src[at[i]] */
    /* Sums in f32 lanes over runs of at most TD_PW_TILE elements: error of a tree. */
    float (*sum)(const float *x, size_t n);
    float (*dot)(const float *x, const float *y, size_t n);
    float (*dot_bf16)(const float *x, const uint16_t *y, size_t n);
    float (*dot_bf16_rounded)(const float *x, const uint16_t *y, size_t n); /* each product rounded to bf16 */
    void (*axpy)(float a, const float *x, float *y, size_t n); /* y += a x */
    void (*axpy_bf16)(float a, const uint16_t *x, float *y, size_t n);
    void (*axpy_bf16_rounded)(float a, const uint16_t *x, float *y, size_t n);
    void (*add_wide)(const float *x, double *y, size_t n); /* y += x */
    float (*max)(const float *x, size_t n); /* NaN wins; n at least 1 */
} td_vec_t;

/* That of this machine; before td_vec_use, the best it has. */
const td_vec_t *td_vec(void);
/* For tests: "base", "v3" or "v4"; false if the machine or the build lacks it. Thread: before any other use. */
bool td_vec_use(const char *name);

#endif
