/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/window_rows.h"

#include <string.h>

#include "runtime/host/pool.h"

bool td_window_rows_fit(td_window_rows_t *r, const td_windows_t *w, const td_combiner_t *f, const td_shape_t *in,
                        const td_shape_t *out, uint64_t *scratch) {
    *r = (td_window_rows_t){0};
    if (!f->fn || f->n != 1 || !in->rank || !w->count || !in->count) return false;
    int64_t is[TD_LIMIT_RANK], os[TD_LIMIT_RANK];
    td_shape_strides(in, is);
    td_shape_strides(out, os);
    int32_t row = in->minor_to_major[0];
    const td_window_dim_t *d = &w->dims[row];
    if (os[row] != 1 || d->size != 1 || d->stride != 1 || d->pad_low || d->pad_high || d->base_dilation != 1 || in->dims[row] < 8) return false;
    r->rows = 1;
    for (uint32_t i = 0; i < in->rank; i++) {
        if (i == (uint32_t)row) continue;
        if (w->dims[i].base_dilation != 1) return false;
        r->dim[r->outer] = i, r->in_stride[r->outer] = is[i], r->out_stride[r->outer++] = os[i];
        r->rows *= out->dims[i];
    }
    r->type = in->type, r->size = td_elem(in), r->reg_size = td_type_bytes(f->reg);
    r->worker = 3ull * TD_PW_TILE * 16;
    if (!td_reserve(scratch, (uint64_t)td_host_threads(), r->worker, &r->at)) return false;
    r->cols = in->dims[row];
    return true;
}

typedef struct work {
    const td_window_rows_t *r;
    const td_windows_t *w;
    const td_combiner_t *f;
    const char *in, *init;
    char *out, *scratch;
} work_t;

/* Offset of the row at window position pos of the window at `place`; -1 in the padding. */
static int64_t source(const work_t *w, const int64_t *place, const int64_t *pos) {
    int64_t at = 0;
    for (uint32_t k = 0; k < w->r->outer; k++) {
        uint32_t i = w->r->dim[k];
        const td_window_dim_t *d = &w->w->dims[i];
        int64_t step = d->reversal ? d->size - 1 - pos[i] : pos[i];
        int64_t c = place[k] * d->stride - d->pad_low + step * d->window_dilation;
        if (c < 0 || c >= w->w->base[i]) return -1;
        at += c * w->r->in_stride[k];
    }
    return at;
}

static void one_row(const work_t *w, const int64_t *place, int64_t to, char *own) {
    const td_window_rows_t *r = w->r;
    bool convert = w->f->reg != r->type;
    char *acc = own, *x = own + TD_PW_TILE * 16, one[16];
    td_convert_array(r->type, w->init, w->f->reg, one, 1);
    for (int64_t c = 0; c < r->cols; c += TD_PW_TILE) {
        size_t n = (size_t)(r->cols - c < TD_PW_TILE ? r->cols - c : TD_PW_TILE);
        int64_t pos[TD_LIMIT_RANK] = {0};
        td_fill(r->reg_size, one, n, acc);
        for (int64_t p = 0; p < w->w->positions; p++, td_windows_next(w->w, pos)) {
            int64_t at = source(w, place, pos);
            if (at < 0) continue;
            const void *src = w->in + (at + c) * r->size;
            if (convert) td_convert_array(r->type, src, w->f->reg, x, n), src = x;
            w->f->fn(acc, acc, src, NULL, n);
        }
        char *dst = w->out + (to + c) * r->size;
        if (convert) td_convert_array(w->f->reg, acc, r->type, dst, n);
        else memcpy(dst, acc, n * r->size);
    }
}

static void rows(void *ctx, int64_t first, int64_t last, int worker) {
    const work_t *w = ctx;
    const td_window_rows_t *r = w->r;
    char *own = w->scratch + r->at + r->worker * (uint64_t)worker;
    for (int64_t row = first; row < last; row++) {
        int64_t place[TD_LIMIT_RANK], rest = row, to = 0;
        for (uint32_t k = r->outer; k-- > 0;) {
            place[k] = rest % w->w->places[r->dim[k]], rest /= w->w->places[r->dim[k]];
            to += place[k] * r->out_stride[k];
        }
        one_row(w, place, to, own);
    }
}

void td_window_rows_run(const td_window_rows_t *r, const td_windows_t *w, const td_combiner_t *f, const void *in,
                        const void *init, void *out, char *scratch) {
    enum { WORTH_A_TEAM = 65536 }; /* combinations */
    work_t k = {r, w, f, in, init, out, scratch};
    if (r->rows * r->cols * w->positions >= WORTH_A_TEAM) td_pool_run(r->rows, rows, &k);
    else rows(&k, 0, r->rows, 0);
}
