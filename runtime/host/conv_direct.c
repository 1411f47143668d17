/* SPDX-License-Identifier: Apache-2.0 */
/* Any convolution in forward form, block by block: the inputs that some rows (positions) and a part of the sum
 * meet are gathered into a matrix, zero where there is padding or a hole, and multiplied with the packed filter. */
#include <cblas.h>
#include <string.h>

#include "runtime/host/conv.h"

enum { SUM_BLOCK = 2048, GATHER_CELLS = 1 << 17, ROWS_MIN = 16, ROWS_MAX = 512 };

static int64_t product(const int64_t *v, uint32_t n) {
    int64_t p = 1;
    for (uint32_t i = 0; i < n; i++) p *= v[i];
    return p;
}

/* The filter to [group][tap][in][out]. */
static void plan_pack(const td_conv_plan_t *p, td_strided_t *pack) {
    const td_conv_form_t *f = &p->form;
    int64_t n[TD_CONV_SPATIAL + 4], dst[TD_CONV_SPATIAL + 4], src[TD_CONV_SPATIAL + 4], step = f->in * f->out;
    uint32_t size = td_type_bytes(f->w.type), r = f->n;
    if (p->d.reordered) {
        int64_t plain[8], o = f->out;
        td_conv_permutation(&p->d.w, n, src, plain);
        const int64_t to[8] = {8, 2, 1, 32 * o, 4 * o, o, n[7] * step, step};
        td_strided_plan(pack, size, 8, n, to, src);
        return;
    }
    for (uint32_t s = f->n; s-- > 0; step *= f->taps[s]) n[s] = f->taps[s], dst[s] = step, src[s] = f->w.spatial[s];
    n[r] = f->groups, dst[r] = step, src[r++] = f->w.group;
    n[r] = f->in / f->w.vector, dst[r] = f->w.vector * f->out, src[r++] = f->w.feature;
    n[r] = f->w.vector, dst[r] = f->out, src[r++] = f->w.lane;
    n[r] = f->out, dst[r] = 1, src[r++] = f->w.outer;
    td_strided_plan(pack, size, r, n, dst, src);
}

td_status_t td_conv_direct_make(td_conv_plan_t *p, uint64_t *scratch, td_err_t *err) {
    const td_conv_form_t *f = &p->form;
    td_conv_direct_t *k = &p->direct;
    if (f->out > INT32_MAX) return td_fail(err, TD_LIMIT, "convolution with %lld output features", (long long)f->out);
    k->taps = product(f->taps, f->n);
    k->rows = f->batch * product(f->positions, f->n);
    k->in_block = f->in < SUM_BLOCK ? f->in : SUM_BLOCK;
    k->tap_block = k->in_block && k->taps ? (SUM_BLOCK / k->in_block < k->taps ? SUM_BLOCK / k->in_block : k->taps) : 0;
    int64_t sum = k->tap_block * k->in_block, rows = sum ? GATHER_CELLS / sum : ROWS_MAX;
    if (f->out && rows > (1 << 22) / f->out) rows = (1 << 22) / f->out;
    rows = rows < ROWS_MIN ? ROWS_MIN : rows > ROWS_MAX ? ROWS_MAX : rows;
    if (rows > k->rows) rows = k->rows;
    int64_t unit = f->x.vector > 1 ? f->x.lane : f->x.feature;
    k->by_row = unit == 1 || f->in == 1;
    k->convert_x = f->x.type != p->work, k->convert_w = f->w.type != p->work;
    plan_pack(p, &k->pack);
    uint64_t work = td_type_bytes(p->work), cells = (uint64_t)rows * (uint64_t)sum, weights = (uint64_t)p->d.w.count;
    if (p->d.kind == TD_CONV_BACKWARD_FILTER) weights = (uint64_t)p->d.y.count;
    bool ok = td_conv_store_make(&p->store, &p->d, f, p->work, rows, scratch) &&
              td_reserve(scratch, (uint64_t)rows * (f->n + 1), 8, &k->pos_at) &&
              td_reserve(scratch, (uint64_t)rows, 8, &k->off_at) &&
              td_reserve(scratch, k->convert_x ? cells : 0, td_type_bytes(f->x.type), &k->raw_at) &&
              td_reserve(scratch, cells, work, &k->a_at) &&
              td_reserve(scratch, (uint64_t)rows * (uint64_t)f->out, work, &k->r_at) &&
              td_reserve(scratch, k->convert_w ? weights : 0, td_type_bytes(f->w.type), &k->w_raw_at) &&
              td_reserve(scratch, weights, work, &k->w_at);
    k->packed_bytes = weights * work;
    return ok ? TD_OK : td_fail(err, TD_LIMIT, "scratch of a convolution overflows");
}

void td_conv_direct_pack(const td_conv_plan_t *p, const void *w, void *packed, char *scratch) {
    const td_conv_direct_t *k = &p->direct;
    uint32_t size = td_type_bytes(p->form.w.type);
    void *raw = k->convert_w ? scratch + k->w_raw_at : packed;
    td_strided_copy(&k->pack, raw, (const char *)w + p->form.w.base * size);
    if (k->convert_w) td_convert_array(p->form.w.type, raw, p->work, packed, k->packed_bytes / td_type_bytes(p->work));
}

/* Of each row and dimension: the position's first input coordinate before dilation; then the batch's offset. */
static void row_positions(const td_conv_form_t *f, int64_t first, int64_t n, int64_t *pos) {
    int64_t p[TD_CONV_SPATIAL + 1], rest = first;
    for (uint32_t s = f->n; s-- > 0; rest /= f->positions[s]) p[s + 1] = rest % f->positions[s];
    p[0] = rest;
    for (int64_t i = 0; i < n; i++) {
        for (uint32_t s = 0; s < f->n; s++) pos[s * n + i] = p[s + 1] * f->step[s] - f->pad[s];
        pos[f->n * n + i] = f->x.base + p[0] * f->x.outer;
        uint32_t s = f->n;
        while (s > 0 && ++p[s] == f->positions[s - 1]) p[s--] = 0;
        if (s == 0) p[0]++;
    }
}

/* off[i] = where tap t of row i begins in the input; -1 in padding and holes. */
static void tap_offsets(const td_conv_form_t *f, int64_t t, int64_t n, const int64_t *pos, int64_t *off) {
    memcpy(off, pos + f->n * n, (size_t)n * sizeof *off);
    for (uint32_t s = f->n; s-- > 0; t /= f->taps[s]) {
        int64_t at = t % f->taps[s] * f->dilate[s], hole = f->hole[s], size = f->input[s], stride = f->x.spatial[s];
        const int64_t *p = pos + s * n;
        for (int64_t i = 0; i < n; i++) {
            int64_t x = p[i] + at;
            bool in = x >= 0;
            if (hole > 1) in = in && x % hole == 0, x = in ? x / hole : 0;
            off[i] = in && x < size && off[i] >= 0 ? off[i] + x * stride : -1;
        }
    }
}

#define ELEMENT(T)                                                                                          \
    static void gather_##T(const T *x, const int64_t *off, int64_t n, int64_t at, int64_t to, T *a) {        \
        static const T zero;                                                                                 \
        for (int64_t i = 0; i < n; i++) a[i * to] = off[i] < 0 ? zero : x[off[i] + at];                      \
    }
typedef struct { uint64_t v[2]; } wide_t;
ELEMENT(uint8_t) ELEMENT(uint16_t) ELEMENT(uint32_t) ELEMENT(uint64_t) ELEMENT(wide_t)

/* One feature of n rows, stored `to` elements apart. */
static void gather_one(uint32_t size, const void *x, const int64_t *off, int64_t n, int64_t at, int64_t to, void *a) {
    switch (size) {
    case 1: gather_uint8_t(x, off, n, at, to, a); break;
    case 2: gather_uint16_t(x, off, n, at, to, a); break;
    case 4: gather_uint32_t(x, off, n, at, to, a); break;
    case 8: gather_uint64_t(x, off, n, at, to, a); break;
    default: gather_wide_t(x, off, n, at, to, a);
    }
}

/* Features c…c+m of one tap: contiguous runs per row, or one feature of all rows after the other. */
static void gather_tap(const td_conv_plan_t *p, const char *x, const int64_t *off, int64_t n, int64_t c, int64_t m,
                       int64_t column, int64_t sum, char *a) {
    const td_conv_view_t *v = &p->form.x;
    uint32_t size = td_type_bytes(v->type);
    if (!p->direct.by_row || p->form.in == 1) {
        for (int64_t j = 0; j < m; j++) {
            int64_t at = (c + j) / v->vector * v->feature + (c + j) % v->vector * v->lane;
            if (p->direct.by_row) gather_one(size, x, off, n, at, sum, a + (column + j) * size);
            else gather_one(size, x, off, n, at, 1, a + (column + j) * n * size);
        }
        return;
    }
    int64_t run = v->vector > 1 ? v->vector : m;
    for (int64_t i = 0; i < n; i++) {
        char *to = a + (i * sum + column) * size;
        if (off[i] < 0) {
            memset(to, 0, (size_t)(m * size));
            continue;
        }
        for (int64_t j = 0, len; j < m; j += len) {
            int64_t at = v->vector > 1 ? (c + j) / run * v->feature + (c + j) % run : c + j;
            len = v->vector > 1 ? run - (c + j) % run : m;
            if (len > m - j) len = m - j;
            memcpy(to + j * size, x + (off[i] + at) * size, (size_t)(len * size));
        }
    }
}

#define INTEGERS(T) \
    static void multiply_##T(const T *a, int64_t row, int64_t col, const T *w, T *r, int64_t n, int64_t out, \
                             int64_t sum) { \
        for (int64_t i = 0; i < n; i++) \
            for (int64_t k = 0; k < sum; k++) { \
                T x = a[i * row + k * col]; \
                if (!x) continue; \
                for (int64_t o = 0; o < out; o++) r[i * out + o] += x * w[k * out + o]; \
            } \
    }
INTEGERS(uint32_t) INTEGERS(uint64_t)

/* r (n x out) += a (n x sum) x w (sum x out). */
static void multiply(const td_conv_plan_t *p, const void *a, const void *w, void *r, int64_t n, int64_t sum) {
    int64_t out = p->form.out;
    bool by_row = p->direct.by_row;
    blasint m = (blasint)n, o = (blasint)out, k = (blasint)sum, lda = by_row ? k : m;
    CBLAS_TRANSPOSE t = by_row ? CblasNoTrans : CblasTrans;
    const float one[2] = {1, 0};
    const double one_d[2] = {1, 0};
    switch (p->work) {
    case TD_F32: cblas_sgemm(CblasRowMajor, t, CblasNoTrans, m, o, k, 1, a, lda, w, o, 1, r, o); break;
    case TD_F64: cblas_dgemm(CblasRowMajor, t, CblasNoTrans, m, o, k, 1, a, lda, w, o, 1, r, o); break;
    case TD_C64: cblas_cgemm(CblasRowMajor, t, CblasNoTrans, m, o, k, one, a, lda, w, o, one, r, o); break;
    case TD_C128: cblas_zgemm(CblasRowMajor, t, CblasNoTrans, m, o, k, one_d, a, lda, w, o, one_d, r, o); break;
    case TD_S32: multiply_uint32_t(a, by_row ? sum : 1, by_row ? 1 : n, w, r, n, out, sum); break;
    default: multiply_uint64_t(a, by_row ? sum : 1, by_row ? 1 : n, w, r, n, out, sum);
    }
}

/* Rows first…first+n of one group into r. */
static void rows(const td_conv_plan_t *p, const char *x, const char *w, int64_t n, const int64_t *pos, char *scratch,
                 char *r) {
    const td_conv_form_t *f = &p->form;
    const td_conv_direct_t *k = &p->direct;
    size_t work = td_type_bytes(p->work);
    int64_t *off = (int64_t *)(void *)(scratch + k->off_at);
    char *raw = scratch + (k->convert_x ? k->raw_at : k->a_at), *a = scratch + k->a_at;
    memset(r, 0, (size_t)(n * f->out) * work);
    if (!k->tap_block) return;
    for (int64_t t = 0; t < k->taps; t += k->tap_block) {
        int64_t nt = k->taps - t < k->tap_block ? k->taps - t : k->tap_block;
        for (int64_t c = 0; c < f->in; c += k->in_block) {
            int64_t nc = f->in - c < k->in_block ? f->in - c : k->in_block, sum = nt * nc;
            for (int64_t i = 0; i < nt; i++) {
                tap_offsets(f, t + i, n, pos, off);
                gather_tap(p, x, off, n, c, nc, i * nc, sum, raw);
            }
            if (k->convert_x) td_convert_array(f->x.type, raw, p->work, a, (size_t)(n * sum));
            multiply(p, a, w + (size_t)((t * f->in + c) * f->out) * work, r, n, sum);
        }
    }
}

void td_conv_direct_run(const td_conv_plan_t *p, const td_conv_bufs_t *b, char *scratch) {
    const td_conv_form_t *f = &p->form;
    const td_conv_direct_t *k = &p->direct;
    td_conv_kind_t kind = p->d.kind;
    const char *x = kind == TD_CONV_BACKWARD_DATA ? b->y : b->x, *w = kind == TD_CONV_BACKWARD_FILTER ? b->y : b->w;
    void *y = kind == TD_CONV_BACKWARD_DATA ? b->x : kind == TD_CONV_BACKWARD_FILTER ? b->w : b->y;
    int64_t *pos = (int64_t *)(void *)(scratch + k->pos_at), step = p->store.rows_max;
    size_t work = td_type_bytes(p->work), xs = td_type_bytes(f->x.type);
    char *r = scratch + k->r_at;
    if (!k->rows || !f->out) return;
    const char *packed = b->packed_w;
    if (!packed) {
        td_conv_direct_pack(p, w, scratch + k->w_at, scratch);
        packed = scratch + k->w_at;
    }
    for (int64_t first = 0; first < k->rows; first += step) {
        int64_t n = k->rows - first < step ? k->rows - first : step;
        row_positions(f, first, n, pos);
        for (int64_t g = 0; g < f->groups; g++) {
            rows(p, x + (size_t)(g * f->x.group) * xs, packed + (size_t)(g * k->taps * f->in * f->out) * work, n, pos,
                 scratch, r);
            td_conv_store_rows(&p->store, g, first, n, r, b, y, scratch);
        }
    }
}
