/* SPDX-License-Identifier: Apache-2.0 */
/* The pointwise engine: a list of vector operations over one tile of elements.
 *
 * A program is built value by value, then finished: that fixes where each value
 * lives (inputs, constant tiles in the arena, scratch tiles shared by last use).
 * Small floats are held as f32, rounded after each operation; sub-byte integers
 * as one byte. Building: one thread. Running: any number, each with its scratch. */
#ifndef TD_RUNTIME_HOST_PW_H
#define TD_RUNTIME_HOST_PW_H

#include "runtime/host/host_op.h"

/* d, a, b, c: tiles of n elements; d may equal an operand exactly. */
typedef void (*td_pw_fn_t)(void *d, const void *a, const void *b, const void *c, size_t n);

typedef enum td_pw_kind { TD_PW_FN, TD_PW_LOAD, TD_PW_STORE, TD_PW_ROUND, TD_PW_WRAP, TD_PW_CONVERT, TD_PW_BITCAST,
    TD_PW_REDUCE_PRECISION, TD_PW_DEAD } td_pw_kind_t;
typedef struct td_pw_op {
    uint8_t kind, from, to; /* from, to: td_type_t */
    int8_t exponent, mantissa;
    int32_t d, a, b, c; /* value numbers; places once finished; -1: unused */
    td_pw_fn_t fn;
} td_pw_op_t;

typedef struct td_pw_value {
    uint8_t type;     /* logical element type */
    uint8_t raw;      /* as stored in arrays, not in register form */
    int32_t loaded;   /* register form of a raw small float, once made; else -1 */
    int32_t input;    /* input number or -1 */
    const void *tile; /* constant tile or NULL */
    int32_t last, place;
} td_pw_value_t;

typedef struct td_pw_builder {
    td_arena_t *arena;
    td_pw_op_t *ops;
    td_pw_value_t *values;
    int32_t *outs, *taps;
    uint32_t n_ops, cap_ops, n_values, cap_values, n_outs, cap_outs, n_taps, cap_taps, n_inputs;
    bool failed; /* memory ended */
} td_pw_builder_t;

void td_pw_begin(td_pw_builder_t *b, td_arena_t *arena);
/* All return a value number, -1 when memory ended (reported by td_pw_finish). */
int32_t td_pw_input(td_pw_builder_t *b, td_type_t type);
/* One element of `type`, as stored one per element. */
int32_t td_pw_const(td_pw_builder_t *b, td_type_t type, const void *element);
/* Is the opcode element-wise, and known for these types? */
bool td_pw_supported(const td_hlo_instr_t *instr);
td_status_t td_pw_add(td_pw_builder_t *b, const td_hlo_instr_t *instr, const int32_t *operands, int32_t *out,
                      td_err_t *err);
int32_t td_pw_bitcast(td_pw_builder_t *b, td_type_t to, int32_t value);
/* The value itself, or a copy in a tile if it is an input and there are several outputs (one of which may
 * lie where the input does). */
int32_t td_pw_copied(td_pw_builder_t *b, int32_t value, uint32_t n_outputs);
void td_pw_output(td_pw_builder_t *b, int32_t value);
/* Keeps the value, in register form, readable after td_pw_run; returns the tap's number. */
uint32_t td_pw_tap(td_pw_builder_t *b, int32_t value);
/* The tile of tap `k` after a run with this scratch. */
const void *td_pw_tapped(const td_pw_t *p, uint32_t k, const void *scratch);
/* pw_fuse.c: pairs of f32 operations in one pass, constants as scalars, rounding with the operation. */
void td_pw_fuse(td_pw_builder_t *b);
td_status_t td_pw_finish(td_pw_builder_t *b, td_pw_t **out, td_err_t *err);

/* Tables of each register type, by opcode; compare and the like by direction. */
typedef struct td_pw_table {
    td_pw_fn_t fn[TD_HLO_OPCODE_COUNT];
    td_pw_fn_t compare[6], total[6];
} td_pw_table_t;
/* NULL if the register type has none. */
const td_pw_table_t *td_pw_table(td_type_t reg);
/* Operations on integers below 8 bits that look at their own width; NULL for all others. */
td_pw_fn_t td_pw_narrow(td_type_t t, td_opcode_t op);
void td_pw_reduce_precision_f32(float *d, const float *s, size_t n, int exponent, int mantissa);
/* Of f16 values held as f32: their own subnormals are numbers of that format and no exponents too small. */
void td_pw_reduce_precision_f16(float *d, const float *s, size_t n, int exponent, int mantissa);
void td_pw_reduce_precision_f64(double *d, const double *s, size_t n, int exponent, int mantissa);

#define PW_LOOP(body) _Pragma("GCC ivdep") for (size_t i = 0; i < n; i++) { body; }
#define PW_UN2(name, T, R, expr)                                                                          \
    static void name(void *d_, const void *a_, const void *b_, const void *c_, size_t n) {                 \
        R *d = d_;                                                                                         \
        const T *a = a_;                                                                                   \
        (void)b_, (void)c_;                                                                                \
        PW_LOOP(T x = a[i]; d[i] = (R)(expr))                                                              \
    }
#define PW_BIN2(name, T, R, expr)                                                                         \
    static void name(void *d_, const void *a_, const void *b_, const void *c_, size_t n) {                 \
        R *d = d_;                                                                                         \
        const T *a = a_, *b = b_;                                                                          \
        (void)c_;                                                                                          \
        PW_LOOP(T x = a[i]; T y = b[i]; d[i] = (R)(expr))                                                  \
    }
#define PW_CLAMP(name, T, expr)                                                                           \
    static void name(void *d_, const void *a_, const void *b_, const void *c_, size_t n) {                 \
        T *d = d_;                                                                                         \
        const T *a = a_, *b = b_, *c = c_;                                                                 \
        PW_LOOP(T lo = a[i]; T x = b[i]; T hi = c[i]; d[i] = (T)(expr))                                    \
    }
#define PW_UN(name, T, expr) PW_UN2(name, T, T, expr)
#define PW_BIN(name, T, expr) PW_BIN2(name, T, T, expr)
#define PW_COMPARES(p, T)                                                                                 \
    PW_BIN2(p##_eq, T, uint8_t, x == y) PW_BIN2(p##_ne, T, uint8_t, x != y) PW_BIN2(p##_ge, T, uint8_t, x >= y) \
    PW_BIN2(p##_gt, T, uint8_t, x > y) PW_BIN2(p##_le, T, uint8_t, x <= y) PW_BIN2(p##_lt, T, uint8_t, x < y)
#define PW_COMPARE_ROW(p) {[TD_CMP_EQ] = p##_eq, [TD_CMP_NE] = p##_ne, [TD_CMP_GE] = p##_ge, [TD_CMP_GT] = p##_gt, \
                           [TD_CMP_LE] = p##_le, [TD_CMP_LT] = p##_lt}

#endif
