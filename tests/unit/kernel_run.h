/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the host device's kernel compiler: computations as fusions whose arguments share memory as the
 * test says, and elements of any type as numbers. Builds on hlo_build.h; memory is that test's arena. */
#ifndef TD_TESTS_KERNEL_RUN_H
#define TD_TESTS_KERNEL_RUN_H

#include <math.h>
#include <stdint.h>

#include "runtime/host/loop.h"
#include "runtime/host/types.h"
#include "tests/unit/hlo_build.h"

/* The computation as a fusion of its parameters. All arrays of one shape each. */
static inline td_hlo_instr_t *fusion_of(const td_hlo_comp_t *c, td_hlo_instr_t *const *operands) {
    td_hlo_instr_t *f = TD_NEW(&arena, td_hlo_instr_t);
    *f = (td_hlo_instr_t){.opcode = TD_HLO_FUSION,
                          .opcode_name = "fusion",
                          .name = "fusion",
                          .shape = c->root->shape,
                          .operands = operands,
                          .n_operands = c->n_params,
                          .feature_group_count = 1,
                          .batch_group_count = 1};
    CALL(f, c);
    return f;
}

typedef struct kernel {
    const td_kernel_t *k;
    uint64_t scratch;
    uint32_t n_args;
} kernel_t;

/* slots: by argument (parameters, then results), which memory it lies in; NULL: each in its own. */
static inline kernel_t kernel_of(const td_hlo_comp_t *c, const uint32_t *slots) {
    td_kernel_arg_t args[16];
    const td_shape_t *shapes[16];
    uint32_t n = 0;
    for (; n < c->n_params; n++) shapes[n] = c->params[n]->shape;
    if (c->root->shape->type == TD_TUPLE)
        for (uint32_t i = 0; i < c->root->shape->rank; i++) shapes[n++] = c->root->shape->elements[i];
    else shapes[n++] = c->root->shape;
    ck_assert_uint_le(n, 16);
    for (uint32_t i = 0; i < n; i++)
        args[i] = (td_kernel_arg_t){.allocation = slots ? slots[i] : i,
                                    .size = shapes[i]->bytes,
                                    .shape = shapes[i],
                                    .written = i >= c->n_params};
    td_kernel_desc_t d = {.instr = fusion_of(c, c->params), .name = "k", .args = args, .n_args = n};
    td_kernel_t *k = NULL;
    kernel_t r = {.n_args = n};
    td_err_t err = {0};
    ck_assert_msg(!td_host_kernel_lower(NULL, &d, &arena, &k, &r.scratch, &err), "%s", err.text);
    r.k = k;
    return r;
}
static inline void kernel_run(const kernel_t *k, void *const *bufs) {
    void *s = NULL;
    ck_assert_int_eq(posix_memalign(&s, 64, k->scratch + 1), 0);
    memset(s, 0xa5, k->scratch);
    ck_assert_int_eq(k->k->run(k->k, bufs, s, NULL), TD_OK);
    free(s);
}
static inline void run_slots(const td_hlo_comp_t *c, const uint32_t *slots, void *const *bufs) {
    kernel_t k = kernel_of(c, slots);
    kernel_run(&k, bufs);
}
#define ON(...)    ((void *const[]){__VA_ARGS__})
#define SLOTS(...) ((const uint32_t[]){__VA_ARGS__})

/* The n-th step of a kind; NULL if there are fewer. */
static inline const td_step_t *step_of(const kernel_t *k, unsigned kind, uint32_t n) {
    for (uint32_t i = 0; i < k->k->n_steps; i++)
        if ((unsigned)k->k->steps[i].kind == kind && !n--) return &k->k->steps[i];
    return NULL;
}

static inline td_hlo_instr_t *scalar(td_type_t t, double x) {
    char bytes[16] = {0};
    td_convert_array(TD_F64, &x, t, bytes, 1);
    return constant(SHAPE(t), bytes);
}
static inline td_hlo_instr_t *broadcast(td_hlo_instr_t *x, const td_shape_t *to, td_ints_t dims) {
    td_hlo_instr_t *b = NODE(TD_HLO_BROADCAST, to, x);
    b->dimensions = dims;
    return b;
}
#define SPLAT(x, to) broadcast(x, to, (td_ints_t){0})
static inline td_hlo_instr_t *reduce(td_hlo_instr_t *x, td_hlo_instr_t *init, td_opcode_t op, const td_shape_t *to,
                                     td_ints_t dims) {
    td_hlo_instr_t *r = NODE(TD_HLO_REDUCE, to, x, init);
    static td_hlo_instr_t *mine[64];
    uint32_t n = n_made;
    memcpy(mine, made, sizeof mine);
    CALL(r, scalar2(op, x->shape->type, x->shape->type, 0, TD_CMP_EQ));
    memcpy(made, mine, sizeof mine);
    n_made = n;
    r->dimensions = dims;
    return r;
}
/* An integer list that outlives the block it is made in. */
static inline td_ints_t ints_of(uint32_t n, const int64_t *v) {
    int64_t *p = TD_NEW_N(&arena, int64_t, n + 1);
    memcpy(p, v, n * sizeof *p);
    return (td_ints_t){p, n};
}
#define LIST(...) ints_of(sizeof((int64_t[]){__VA_ARGS__}) / 8, (const int64_t[]){__VA_ARGS__})

/* Element i, and the array that holds the numbers; exactly bytes long, so that overruns are seen. */
static inline double number(td_type_t t, const void *p, size_t i) {
    double x;
    td_convert_array(t, (const char *)p + i * td_type_bytes(t), TD_F64, &x, 1);
    return x;
}
static inline void *array_of(td_type_t t, const double *x, size_t n) {
    void *p = malloc(n * td_type_bytes(t) + (n == 0));
    td_convert_array(TD_F64, x, t, p, n);
    return p;
}
static inline void *blank(td_type_t t, size_t n) {
    void *p = malloc(n * td_type_bytes(t) + (n == 0));
    memset(p, 0x5a, n * td_type_bytes(t) + (n == 0));
    return p;
}
/* Numbers that look random, the same on every machine: integers in [0, n). */
static inline int64_t dice(uint64_t *seed, int64_t n) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*seed >> 33) % (uint64_t)n);
}
static inline bool same(double a, double b) { return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b)); }

#endif
