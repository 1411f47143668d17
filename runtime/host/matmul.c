/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/matmul.h"

#include <cblas.h>
#include <dnnl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/checked.h"
#include "runtime/host/pool.h"

/* How BLAS reads a matrix whose result is row-major: plain or transposed, with a leading dimension. */
typedef struct form {
    bool transposed;
    int64_t ld;
} form_t;

enum { SLOTS = 8 }; /* runs of one bf16 product at a time; more wait */
typedef struct slot {
    dnnl_memory_t memory[4]; /* a, b, c, scratchpad */
    dnnl_stream_t stream;
    atomic_flag taken;
} slot_t;

struct td_matmul {
    td_type_t type; /* of the operands */
    int64_t m, n, k;
    form_t a, b, c;
    td_mat_t am, bm, cm;
    dnnl_primitive_t primitive; /* bf16 */
    slot_t slots[SLOTS];
};

static dnnl_engine_t engine;
static atomic_int engine_state; /* 0 none, 1 being made, 2 made, 3 failed */

static bool have_engine(void) {
    int none = 0;
    if (atomic_compare_exchange_strong(&engine_state, &none, 1))
        atomic_store(&engine_state, dnnl_engine_create(&engine, dnnl_cpu, 0) == dnnl_success ? 2 : 3);
    while (atomic_load(&engine_state) == 1) sched_yield();
    return atomic_load(&engine_state) == 2;
}

static form_t form_of(const td_mat_t *m) {
    bool plain = m->col_stride == 1 && (m->rows <= 1 || m->row_stride >= m->cols);
    int64_t ld = plain ? (m->rows <= 1 && m->row_stride < m->cols ? m->cols : m->row_stride)
                       : (m->cols <= 1 && m->col_stride < m->rows ? m->rows : m->col_stride);
    return (form_t){!plain, ld < 1 ? 1 : ld};
}

static void release(void *ctx) {
    td_matmul_t *m = ctx;
    for (int i = 0; i < SLOTS; i++) {
        for (int k = 0; k < 4; k++)
            if (m->slots[i].memory[k]) dnnl_memory_destroy(m->slots[i].memory[k]);
        if (m->slots[i].stream) dnnl_stream_destroy(m->slots[i].stream);
    }
    if (m->primitive) dnnl_primitive_destroy(m->primitive);
}

static bool describe(dnnl_memory_desc_t *d, const td_mat_t *m, dnnl_data_type_t type) {
    form_t f = form_of(m);
    dnnl_dims_t dims = {m->rows, m->cols}, strides = {f.transposed ? 1 : f.ld, f.transposed ? f.ld : 1};
    return dnnl_memory_desc_init_by_strides(d, 2, dims, type, strides) == dnnl_success;
}

static bool make_slots(td_matmul_t *m, const dnnl_memory_desc_t *const *d) {
    for (int i = 0; i < SLOTS; i++) {
        atomic_flag_clear(&m->slots[i].taken);
        if (dnnl_stream_create(&m->slots[i].stream, engine, dnnl_stream_default_flags) != dnnl_success) return false;
        for (int k = 0; k < 4; k++)
            if (dnnl_memory_create(&m->slots[i].memory[k], d[k], engine, DNNL_MEMORY_NONE) != dnnl_success) return false;
    }
    return true;
}

/* False: no such kernel here. */
static bool make_bf16(td_matmul_t *m, td_type_t out, uint64_t *scratch) {
    dnnl_memory_desc_t d[3];
    dnnl_matmul_desc_t op;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_attr_t attr = NULL;
    if (!have_engine() || !describe(&d[0], &m->am, dnnl_bf16) || !describe(&d[1], &m->bm, dnnl_bf16) ||
        !describe(&d[2], &m->cm, out == TD_BF16 ? dnnl_bf16 : dnnl_f32) ||
        dnnl_matmul_desc_init(&op, &d[0], &d[1], NULL, &d[2]) != dnnl_success || dnnl_primitive_attr_create(&attr) != dnnl_success)
        return false;
    dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    const char *how = "ref";
    bool ok = dnnl_primitive_desc_create(&pd, &op, attr, engine, NULL) == dnnl_success &&
              dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &how) == dnnl_success && how[0] != 'r' &&
              dnnl_primitive_create(&m->primitive, pd) == dnnl_success;
    if (ok) {
        const dnnl_memory_desc_t *s = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
        const dnnl_memory_desc_t *all[4] = {&d[0], &d[1], &d[2], s};
        *scratch = td_align_up(dnnl_memory_desc_get_size(s), 64);
        ok = make_slots(m, all);
    }
    if (pd) dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    return ok;
}

td_status_t td_matmul_make(td_type_t in, td_type_t out_type, const td_mat_t *a, const td_mat_t *b, const td_mat_t *c,
                           td_arena_t *arena, td_matmul_t **out, uint64_t *scratch, td_err_t *err) {
    bool blas = in == out_type && (in == TD_F32 || in == TD_F64 || in == TD_C64 || in == TD_C128);
    bool bf16 = in == TD_BF16 && (out_type == TD_BF16 || out_type == TD_F32) && c->rows && c->cols && a->cols;
    *out = NULL;
    *scratch = 0;
    if (!blas && !bf16) return TD_OK;
    td_matmul_t *m = TD_NEW(arena, td_matmul_t);
    if (!m) return td_arena_fail(arena, err);
    m->type = in, m->m = c->rows, m->n = c->cols, m->k = a->cols;
    m->a = form_of(a), m->b = form_of(b), m->c = form_of(c);
    m->am = *a, m->bm = *b, m->cm = *c;
    if (bf16) {
        bool ok = make_bf16(m, out_type, scratch);
        if (!ok || !td_arena_on_end(arena, release, m)) {
            release(m);
            return ok ? td_arena_fail(arena, err) : TD_OK;
        }
    }
    *out = m;
    return TD_OK;
}

static void run_bf16(const td_matmul_t *mm, const void *a, const void *b, void *c, void *scratch) {
    td_matmul_t *m = (td_matmul_t *)(uintptr_t)mm;
    int i = 0;
    while (atomic_flag_test_and_set_explicit(&m->slots[i].taken, memory_order_acquire))
        if (++i == SLOTS) i = 0, sched_yield();
    slot_t *s = &m->slots[i];
    void *const data[4] = {(void *)(uintptr_t)a, (void *)(uintptr_t)b, c, scratch};
    static const int names[4] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
    dnnl_exec_arg_t args[4];
    for (int k = 0; k < 4; k++) {
        dnnl_memory_set_data_handle(s->memory[k], data[k]);
        args[k] = (dnnl_exec_arg_t){names[k], s->memory[k]};
    }
    dnnl_primitive_execute(m->primitive, s->stream, 4, args);
    atomic_flag_clear_explicit(&s->taken, memory_order_release);
}

enum { SMALL = 1 << 18 }; /* multiplications: below, a call of oneDNN's costs more than it saves */

/* A result that is column-major is the row-major product of the transposed operands. */
static void run_blas(const td_matmul_t *m, const void *a, const void *b, void *c) {
    static const double one[2] = {1, 0}, zero[2] = {0, 0};
    static const float onef[2] = {1, 0}, zerof[2] = {0, 0};
    bool flip = m->c.transposed;
    const void *l = flip ? b : a, *r = flip ? a : b;
    form_t fl = flip ? m->b : m->a, fr = flip ? m->a : m->b;
    bool tl = fl.transposed != flip, tr = fr.transposed != flip;
    int64_t rows = flip ? m->n : m->m, cols = flip ? m->m : m->n;
    CBLAS_TRANSPOSE ct = tl ? CblasTrans : CblasNoTrans, cr = tr ? CblasTrans : CblasNoTrans;
    int mi = (int)rows, ni = (int)cols, ki = (int)m->k, ll = (int)fl.ld, lr = (int)fr.ld, lc = (int)m->c.ld;
    switch (m->type) {
    case TD_F32:
        if (rows * cols * m->k <= SMALL) cblas_sgemm(CblasRowMajor, ct, cr, mi, ni, ki, 1, l, ll, r, lr, 0, c, lc);
        else dnnl_sgemm(tl ? 'T' : 'N', tr ? 'T' : 'N', rows, cols, m->k, 1, l, fl.ld, r, fr.ld, 0, c, m->c.ld);
        break;
    case TD_F64: cblas_dgemm(CblasRowMajor, ct, cr, mi, ni, ki, 1, l, ll, r, lr, 0, c, lc); break;
    case TD_C64: cblas_cgemm(CblasRowMajor, ct, cr, mi, ni, ki, onef, l, ll, r, lr, zerof, c, lc); break;
    default: cblas_zgemm(CblasRowMajor, ct, cr, mi, ni, ki, one, l, ll, r, lr, zero, c, lc); break;
    }
}

void td_matmul_run(const td_matmul_t *m, const void *a, const void *b, void *c, void *scratch) {
    if (m->primitive) run_bf16(m, a, b, c, scratch);
    else run_blas(m, a, b, c);
}
