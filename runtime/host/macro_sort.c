/* SPDX-License-Identifier: Apache-2.0 */
/* sort: stable merge sort of indices, any comparator, several operands.
 *
 * Merges of one level run in step, so that one call of the comparator serves up
 * to a tile of them; long ones are cut into parts that do not depend on each other. */
#include <string.h>

#include "runtime/host/macro_ops.h"

typedef struct column {
    uint32_t size;
    td_dims_t in_rows, out_rows; /* first element of each row */
    td_dims_t in_row, out_row;   /* the elements of a row */
    uint64_t keys_at, a_at, b_at;
} column_t;

typedef struct sort {
    td_pw_t *less;
    uint32_t n_columns;
    column_t *columns;
    int64_t rows, n, batch; /* batch: short rows that are sorted in step */
    uint64_t index_at, other_at, off_at, lanes_at, less_at, pw_at;
} sort_t;

typedef struct merge {
    int64_t i, i_end, j, j_end, k;
} merge_t;

static td_status_t check(const td_hlo_instr_t *instr, td_err_t *err) {
    TD_NEED(instr->n_operands && instr->n_called == 1 && instr->dimensions.n == 1, "operands, comparator or dimension");
    TD_NEED_AS(TD_UNSUPPORTED, instr->n_operands <= TD_MACRO_ARRAYS, "%u arrays at once", instr->n_operands);
    const td_hlo_comp_t *c = instr->called[0];
    TD_NEED(c->n_params == 2 * instr->n_operands, "comparator has %u parameters", c->n_params);
    TD_NEED(c->root->shape->type == TD_PRED && c->root->shape->rank == 0, "comparator's result");
    TD_NEED(instr->shape->type == TD_TUPLE ? instr->shape->rank == instr->n_operands : instr->n_operands == 1, "results");
    for (uint32_t k = 0; k < instr->n_operands; k++) {
        const td_shape_t *a = td_operand(instr, k), *f = td_operand(instr, 0);
        TD_NEED(td_type_is_array(a->type) && td_shape_same_dims(a, td_result(instr, k)), "result %u differs", k);
        TD_NEED(a->rank == f->rank && !memcmp(a->dims, f->dims, a->rank * sizeof *a->dims), "operand %u differs", k);
        for (uint32_t i = 2 * k; i < 2 * k + 2; i++)
            TD_NEED(c->params[i]->shape->type == a->type && c->params[i]->shape->rank == 0, "comparator's parameter %u", i);
    }
    TD_NEED(instr->dimensions.v[0] >= 0 && instr->dimensions.v[0] < td_operand(instr, 0)->rank, "dimension");
    return TD_OK;
}

static void columns(const td_hlo_instr_t *instr, uint32_t k, column_t *c) {
    int64_t as[TD_LIMIT_RANK], os[TD_LIMIT_RANK];
    const td_shape_t *a = td_operand(instr, k);
    td_shape_strides(a, as);
    td_shape_strides(td_result(instr, k), os);
    for (uint32_t i = 0; i < a->rank; i++) {
        bool row = i == instr->dimensions.v[0];
        td_dims_add(row ? &c->in_row : &c->in_rows, a->dims[i], as[i]);
        td_dims_add(row ? &c->out_row : &c->out_rows, a->dims[i], os[i]);
    }
    c->size = td_elem(a);
}

td_status_t td_sort_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                            td_err_t *err) {
    td_status_t st = check(instr, err);
    if (st) return st;
    sort_t *s = TD_NEW(arena, sort_t);
    if (!s || !(s->columns = TD_NEW_N(arena, column_t, instr->n_operands))) return td_arena_fail(arena, err);
    if ((st = td_pw_compile_scalar(instr->called[0], arena, &s->less, err))) return td_prefix(err, st, "%s", instr->name);
    s->n_columns = instr->n_operands;
    s->n = td_operand(instr, 0)->count ? td_operand(instr, 0)->dims[instr->dimensions.v[0]] : 0;
    s->batch = s->n && s->n < TD_PW_TILE ? TD_PW_TILE / s->n : 1;
    uint64_t *t = out_scratch, all;
    *t = 0;
    bool ok = td_mul_u64((uint64_t)s->n, (uint64_t)s->batch, &all) && td_reserve(t, all, 8, &s->index_at) && td_reserve(t, all, 8, &s->other_at) &&
              td_reserve(t, TD_PW_TILE, 16, &s->off_at) && td_reserve(t, TD_PW_TILE, sizeof(merge_t), &s->lanes_at) &&
              td_reserve(t, TD_PW_TILE, 1, &s->less_at) && td_reserve(t, td_pw_scratch(s->less), 1, &s->pw_at);
    for (uint32_t k = 0; k < s->n_columns && ok; k++) {
        column_t *c = &s->columns[k];
        columns(instr, k, c);
        ok = td_reserve(t, all, c->size, &c->keys_at) && td_reserve(t, TD_PW_TILE, c->size, &c->a_at) &&
             td_reserve(t, TD_PW_TILE, c->size, &c->b_at);
    }
    TD_NEED_AS(TD_LIMIT, ok, "scratch of a sort overflows");
    s->rows = td_operand(instr, 0)->count ? td_dims_count(&s->columns[0].in_rows) : 0;
    *out_state = s;
    return TD_OK;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* less[l] = does the element at a[l] go before the one at b[l]? */
static const uint8_t *compare(const sort_t *s, char *m, const int64_t *a, const int64_t *b, size_t n) {
    const void *in[2 * TD_MACRO_ARRAYS];
    void *out[1] = {m + s->less_at};
    for (uint32_t k = 0; k < s->n_columns; k++) {
        const column_t *c = &s->columns[k];
        td_take(c->size, m + c->keys_at, a, n, m + c->a_at);
        td_take(c->size, m + c->keys_at, b, n, m + c->b_at);
        in[2 * k] = m + c->a_at;
        in[2 * k + 1] = m + c->b_at;
    }
    td_pw_run(s->less, in, out, n, m + s->pw_at);
    return out[0];
}

/* Drops finished merges after copying what is left of them. */
static size_t drop_finished(merge_t *lanes, size_t n, const int64_t *from, int64_t *to) {
    size_t left = 0;
    for (size_t l = 0; l < n; l++) {
        merge_t *x = &lanes[l];
        if (x->i < x->i_end && x->j < x->j_end) {
            lanes[left++] = *x;
            continue;
        }
        memcpy(to + x->k, from + x->i, (size_t)(x->i_end - x->i) * sizeof *to);
        memcpy(to + x->k + (x->i_end - x->i), from + x->j, (size_t)(x->j_end - x->j) * sizeof *to);
    }
    return left;
}

static void merge_lanes(const sort_t *s, char *m, merge_t *lanes, size_t n, const int64_t *from, int64_t *to) {
    int64_t *a = (int64_t *)(void *)(m + s->off_at), *b = a + TD_PW_TILE;
    while ((n = drop_finished(lanes, n, from, to))) {
        for (size_t l = 0; l < n; l++) {
            a[l] = from[lanes[l].j];
            b[l] = from[lanes[l].i];
        }
        const uint8_t *less = compare(s, m, a, b, n);
        for (size_t l = 0; l < n; l++) { /* the right one only if it is strictly before: stable */
            to[lanes[l].k++] = less[l] ? a[l] : b[l];
            lanes[l].j += less[l] != 0;
            lanes[l].i += less[l] == 0;
        }
    }
}

/* How many of the first k results of a merge come from its left run: searched between lo and hi. */
typedef struct cross {
    int64_t lo, hi, k;
} cross_t;

static void find_crossings(const sort_t *s, char *m, const merge_t *pair, cross_t *c, size_t n, const int64_t *from) {
    int64_t *a = (int64_t *)(void *)(m + s->off_at), *b = a + TD_PW_TILE;
    uint16_t who[TD_PW_TILE];
    for (;;) {
        size_t open = 0;
        for (size_t l = 0; l < n; l++) {
            if (c[l].lo >= c[l].hi) continue;
            int64_t i = (c[l].lo + c[l].hi) / 2, j = c[l].k - i; /* j is at least 1: lo >= k - right, i < hi <= k */
            a[open] = from[pair->j + j - 1], b[open] = from[pair->i + i];
            who[open++] = (uint16_t)l;
        }
        if (!open) return;
        const uint8_t *less = compare(s, m, a, b, open);
        for (size_t o = 0; o < open; o++) { /* the right one does not go first: the left one is among the k */
            cross_t *x = &c[who[o]];
            int64_t i = (x->lo + x->hi) / 2;
            if (less[o]) x->hi = i;
            else x->lo = i + 1;
        }
    }
}

enum { PARTS = 128, SHORT = 64 }; /* merges of few long runs are cut into so many, not shorter than that */

/* One long merge as several that run in step. */
static size_t cut(const sort_t *s, char *m, merge_t pair, merge_t *lanes, const int64_t *from) {
    cross_t c[PARTS + 1];
    int64_t left = pair.i_end - pair.i, right = pair.j_end - pair.j, all = left + right;
    int64_t parts = all / SHORT < PARTS ? all / SHORT : PARTS;
    if (parts < 2) {
        lanes[0] = pair;
        return 1;
    }
    for (int64_t p = 0; p <= parts; p++) {
        int64_t k = all / parts * p + all % parts * p / parts;
        c[p] = (cross_t){k > right ? k - right : 0, k < left ? k : left, k};
    }
    find_crossings(s, m, &pair, c, (size_t)parts + 1, from);
    for (int64_t p = 0; p < parts; p++) {
        int64_t i = c[p].lo, j = c[p].k - i, i_end = c[p + 1].lo, j_end = c[p + 1].k - i_end;
        lanes[p] = (merge_t){pair.i + i, pair.i + i_end, pair.j + j, pair.j + j_end, pair.k + c[p].k};
    }
    return (size_t)parts;
}

/* The sorted order of the keys of some rows, each by itself. */
static const int64_t *order(const sort_t *s, int64_t rows, char *m) {
    int64_t *from = (int64_t *)(void *)(m + s->index_at), *to = (int64_t *)(void *)(m + s->other_at);
    merge_t *lanes = (merge_t *)(void *)(m + s->lanes_at);
    for (int64_t i = 0; i < rows * s->n; i++) from[i] = i;
    for (int64_t w = 1; w < s->n; w *= 2) {
        int64_t row = 0, at = 0;
        while (row < rows) {
            size_t n = 0;
            for (; n + PARTS <= TD_PW_TILE && row < rows; at += 2 * w) {
                int64_t end = (row + 1) * s->n;
                if (at >= end) { /* the next row */
                    at = end - 2 * w, row++;
                    continue;
                }
                merge_t pair = {at, least(at + w, end), least(at + w, end), least(at + 2 * w, end), at};
                n += cut(s, m, pair, lanes + n, from);
            }
            merge_lanes(s, m, lanes, n, from, to);
        }
        int64_t *t = from;
        from = to;
        to = t;
    }
    return from;
}

static void load_row(const sort_t *s, const column_t *c, const void *in, int64_t row, int64_t to, char *m) {
    int64_t *off = (int64_t *)(void *)(m + s->off_at), base;
    td_dims_offsets(&c->in_rows, row, 1, &base);
    for (int64_t i = 0; i < s->n; i += TD_PW_TILE) {
        size_t n = (size_t)least(TD_PW_TILE, s->n - i);
        td_dims_offsets(&c->in_row, i, n, off);
        td_take(c->size, (const char *)in + base * c->size, off, n, m + c->keys_at + (to + i) * c->size);
    }
}

static void store_row(const sort_t *s, const column_t *c, void *out, int64_t row, const int64_t *sorted, char *m) {
    int64_t *off = (int64_t *)(void *)(m + s->off_at), base;
    td_dims_offsets(&c->out_rows, row, 1, &base);
    for (int64_t i = 0; i < s->n; i += TD_PW_TILE) {
        size_t n = (size_t)least(TD_PW_TILE, s->n - i);
        td_dims_offsets(&c->out_row, i, n, off);
        td_take(c->size, m + c->keys_at, sorted + i, n, m + c->a_at);
        td_put(c->size, m + c->a_at, off, n, (char *)out + base * c->size);
    }
}

void td_sort_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const sort_t *s = state;
    char *m = scratch;
    for (int64_t r = 0; r < s->rows; r += s->batch) {
        int64_t rows = least(s->batch, s->rows - r);
        for (uint32_t k = 0; k < s->n_columns; k++)
            for (int64_t b = 0; b < rows; b++) load_row(s, &s->columns[k], in[k], r + b, b * s->n, m);
        const int64_t *sorted = order(s, rows, m);
        for (uint32_t k = 0; k < s->n_columns; k++)
            for (int64_t b = 0; b < rows; b++) store_row(s, &s->columns[k], out[k], r + b, sorted + b * s->n, m);
    }
}
