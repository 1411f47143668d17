/* SPDX-License-Identifier: Apache-2.0 */
/* Custom calls by their target: what the compiler does itself, else a typed FFI call.
 * Source: xla/service/gpu/thunk_emitter.cc (EmitCustomCall and below), xla/service/gpu/cublas_cudnn.h (names). */
#include <string.h>

#include "runtime/scheduled_in.h"
#include "runtime/thunk/attention.h"

/* Results of calls without a thunk: uninitialised memory, or the operand passed on. */
static bool does_nothing(const char *target) {
    return !strcmp(target, "AllocateBuffer") || !strcmp(target, "CreateBuffer") || !strcmp(target, "NopReturnToken");
}

static td_status_t operands(td_sched_t *s, const td_sched_instr_t *i, uint32_t n) {
    if (i->in->n_operands >= n) return TD_OK;
    return td_fail(s->err, TD_MALFORMED, "'%s': %s with %u operands", i->in->name, i->in->custom_call_target,
                   i->in->n_operands);
}

/* ---- __cublas$triangularSolve: (a, b) -> (x, scratch); x starts as a copy of b ---- */
static td_status_t solve_options(td_sched_t *s, const td_sched_instr_t *i, Xla__TriangularSolveOptions *o) {
    static const char *const turns[] = {"TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
    bool left = false, lower = false, unit = false;
    int turn = 0;
    json_t *j = NULL;
    td_status_t st = td_sched_config(s, i, NULL, &j);
    if (st) return st;
    if (!(st = td_sched_bool(s, j, "left_side", false, &left)) && !(st = td_sched_bool(s, j, "lower", false, &lower)) &&
        !(st = td_sched_bool(s, j, "unit_diagonal", false, &unit)))
        st = td_sched_enum(s, j, "transpose_a", turns, 4, 0, &turn);
    json_decref(j);
    o->has_left_side = o->has_lower = o->has_unit_diagonal = o->has_transpose_a = true;
    o->left_side = left, o->lower = lower, o->unit_diagonal = unit;
    o->transpose_a = (Xla__TriangularSolveOptions__Transpose)turn;
    return st;
}

static td_status_t triangular_solve(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i) {
    Xla__Gpu__TriangularSolveThunkProto *p = TD_NEW(s->arena, Xla__Gpu__TriangularSolveThunkProto);
    Xla__TriangularSolveOptions *o = TD_NEW(s->arena, Xla__TriangularSolveOptions);
    Xla__Gpu__ThunkProto *t;
    td_status_t st = operands(s, i, 2);
    if (st) return st;
    if (!p || !o) return td_arena_fail(s->arena, s->err);
    xla__gpu__triangular_solve_thunk_proto__init(p);
    xla__triangular_solve_options__init(o);
    const td_sched_instr_t *a = td_sched_instr(s, i->in->operands[0]), *b = td_sched_instr(s, i->in->operands[1]);
    if ((st = solve_options(s, i, o)) || (st = td_sched_copy(s, out, b, 0, i, 0)) ||
        (st = td_sched_shaped(s, a, 0, &p->a_buffer)) || (st = td_sched_shaped(s, i, 0, &p->b_buffer)) ||
        (st = td_sched_add(s, out, i->in->name, XLA__GPU__THUNK_PROTO__IMPL_TRIANGULAR_SOLVE_THUNK, &t)))
        return st;
    p->options = o;
    t->triangular_solve_thunk = p;
    return TD_OK;
}

/* ---- __cudnn$norm: (x, scale, [bias]) -> (y, [expectation, norm factor], scratch),
 *      backward: (x, scale, dy, expectation, norm factor) -> (dx, dscale, dbias, scratch) ---- */
typedef struct array { /* a leaf as a norm thunk has it: slice and shape apart */
    Xla__BufferAssignment__BufferAllocationSliceProto **slice;
    Xla__ShapeProto **shape;
} array_t;

static td_status_t norm_array(td_sched_t *s, const td_sched_instr_t *of, uint32_t leaf, array_t to) {
    *to.shape = (Xla__ShapeProto *)(uintptr_t)td_sched_shape(of, leaf);
    return td_sched_slice(s, of, leaf, to.slice);
}

static td_status_t norm_arrays(td_sched_t *s, const td_sched_instr_t *i, int kind, Xla__Gpu__NormThunkProto *p,
                               Xla__Gpu__GpuNormDescriptorProto *n) {
    const array_t x = {&p->x, &n->x_shape}, scale = {&p->scale, &n->scale_shape}, bias = {&p->bias, &n->bias_shape},
                  y = {&p->y_or_dx, &n->y_or_dx_shape}, mean = {&p->expectation, &n->expectation_shape},
                  factor = {&p->norm_factor, &n->norm_factor_shape}, dy = {&p->dy, &n->dy_shape},
                  dscale = {&p->dscale, &n->dscale_shape}, dbias = {&p->dbias, &n->dbias_shape};
    const array_t in[3][5] = {{x, scale, bias}, {x, scale, bias}, {x, scale, dy, mean, factor}};
    const array_t result[3][3] = {{y}, {y, mean, factor}, {y, dscale, dbias}};
    static const uint32_t n_in[] = {3, 3, 5}, n_out[] = {1, 3, 3};
    td_status_t st = operands(s, i, kind == 2 ? 5 : 2);
    if (!st && i->n_leaves < n_out[kind])
        st = td_fail(s->err, TD_MALFORMED, "'%s': norm with %u results", i->in->name, i->n_leaves);
    for (uint32_t k = 0; k < n_in[kind] && k < i->in->n_operands && !st; k++)
        st = norm_array(s, td_sched_instr(s, i->in->operands[k]), 0, in[kind][k]);
    for (uint32_t k = 0; k < n_out[kind] && !st; k++) st = norm_array(s, i, k, result[kind][k]);
    return st;
}

static td_status_t norm(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i) {
    static const char *const kinds[] = {"LAYER_FWD_INFER", "LAYER_FWD_TRAIN", "LAYER_BWD"};
    Xla__Gpu__NormThunkProto *p = TD_NEW(s->arena, Xla__Gpu__NormThunkProto);
    Xla__Gpu__GpuNormDescriptorProto *n = TD_NEW(s->arena, Xla__Gpu__GpuNormDescriptorProto);
    Xla__Gpu__CudnnNormBackendConfig *c = TD_NEW(s->arena, Xla__Gpu__CudnnNormBackendConfig);
    Xla__Gpu__ThunkProto *t;
    json_t *j = NULL;
    int kind = 0;
    double epsilon = 0;
    if (!p || !n || !c) return td_arena_fail(s->arena, s->err);
    td_status_t st = td_sched_config(s, i, "cudnn_norm_backend_config", &j);
    if (st) return st;
    if (!(st = td_sched_enum(s, j, "kind", kinds, 3, 0, &kind))) st = td_sched_number(s, j, "epsilon", 0, &epsilon);
    json_decref(j);
    if (st) return st;
    xla__gpu__norm_thunk_proto__init(p);
    xla__gpu__gpu_norm_descriptor_proto__init(n);
    xla__gpu__cudnn_norm_backend_config__init(c);
    c->has_epsilon = c->has_kind = true;
    c->epsilon = epsilon, c->kind = (Xla__Gpu__CudnnNormBackendConfig__Kind)kind;
    n->backend_config = c;
    p->norm_descriptor = n;
    if ((st = norm_arrays(s, i, kind, p, n)) ||
        (st = td_sched_add(s, out, i->in->name, XLA__GPU__THUNK_PROTO__IMPL_NORM_THUNK, &t)))
        return st;
    t->norm_thunk = p;
    return TD_OK;
}

static td_status_t rng_seed(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i) {
    Xla__Gpu__RngSeedThunkProto *p = TD_NEW(s->arena, Xla__Gpu__RngSeedThunkProto);
    Xla__Gpu__ThunkProto *t;
    if (!p) return td_arena_fail(s->arena, s->err);
    xla__gpu__rng_seed_thunk_proto__init(p);
    td_status_t st = td_sched_slice(s, i, 0, &p->dest_buffer);
    if (!st) st = td_sched_add(s, out, i->in->name, XLA__GPU__THUNK_PROTO__IMPL_RNG_SEED_THUNK, &t);
    if (!st) t->rng_seed_thunk = p;
    return st;
}

static bool one_of(const char *target, const char *const *names) {
    for (; *names; names++)
        if (!strcmp(target, *names)) return true;
    return false;
}

td_status_t td_sched_custom_call(td_sched_t *s, td_sched_out_t *out, td_sched_instr_t *i) {
    static const char *const gemms[] = {"__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8", NULL};
    static const char *const dynamic[] = {"PadToStatic", "SliceToDynamic", NULL};
    static const char *const pass[] = {"Pin", "Unpin", NULL};
    const char *target = i->in->custom_call_target ? i->in->custom_call_target : "";
    if (one_of(target, gemms)) return td_sched_gemm(s, out, i);
    if (!strncmp(target, "__cudnn$conv", 12)) return td_sched_convolution(s, out, i);
    if (!strcmp(target, "__cudnn$norm")) return norm(s, out, i);
    if (td_attention_target(target) || !strcmp(target, "__cudnn$blockScaledDot")) return td_sched_cudnn(s, out, i);
    if (!strcmp(target, "__cublas$triangularSolve")) return triangular_solve(s, out, i);
    if (!strcmp(target, "__gpu$TopK")) return td_sched_kernel(s, out, i);
    if (!strcmp(target, "GetRngSeed")) return rng_seed(s, out, i);
    if (does_nothing(target)) return TD_OK;
    if (one_of(target, pass)) {
        td_status_t st = operands(s, i, 1);
        const td_sched_instr_t *from = st ? NULL : td_sched_instr(s, i->in->operands[0]);
        return st ? st : td_sched_same(s, "a value passed on", i, i->places, i->n_leaves, from->places, from->n_leaves);
    }
    if (one_of(target, dynamic))
        return td_fail(s->err, TD_UNSUPPORTED, "'%s': %s, arrays of dynamic size are not supported", i->in->name,
                       target);
    if (!strncmp(target, "__cublas$", 9) || !strncmp(target, "__cudnn$", 8))
        return td_fail(s->err, TD_UNSUPPORTED, "'%s': custom call %.100s is not supported", i->in->name, target);
    return td_sched_ffi(s, out, i);
}
