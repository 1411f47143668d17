/* SPDX-License-Identifier: Apache-2.0 */
/* Shape buckets: which dims of a request go together, which bucket takes it, and moving tensors between a
 * request's dims and a bucket's. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "store/store_in.h"

/* ---- axes ---- */

static int64_t dim_in(const td_resident_t *r, uint32_t bucket, bool output, uint32_t tensor, uint32_t d) {
    const td_program_t *p = r->buckets[bucket].program;
    const td_io_t *io = output ? td_program_output(p, r->visible_outputs[tensor])
                               : td_program_input(p, r->visible_inputs[tensor]);
    return io->shape->dims[d];
}

/* Have they the same size in every bucket? */
static bool alike(const td_resident_t *r, bool output, uint32_t t, uint32_t d, uint32_t input, uint32_t e) {
    for (uint32_t k = 0; k < r->n_buckets; k++)
        if (dim_in(r, k, output, t, d) != dim_in(r, k, false, input, e)) return false;
    return true;
}

static const td_words_t *axis_names(const td_model_yaml_t *c, const char *tensor) {
    for (uint32_t i = 0; i < c->n_axes; i++)
        if (!strcmp(c->axes[i].tensor.text, tensor)) return &c->axes[i].names;
    return NULL;
}

/* The name that the settings give this dim; NULL: none. */
static const char *axis_name(const td_model_yaml_t *c, const td_tensor_info_t *t, uint32_t d) {
    const td_words_t *w = axis_names(c, t->name);
    return w && d < w->n && *w->items[d].text ? w->items[d].text : NULL;
}

static td_status_t check_axes_config(const td_resident_t *r, const td_model_yaml_t *c, td_err_t *err) {
    for (uint32_t i = 0; i < c->n_axes; i++) {
        const td_tensor_info_t *t = NULL;
        for (uint32_t k = 0; k < r->info.n_inputs; k++)
            if (!strcmp(r->info.inputs[k].name, c->axes[i].tensor.text)) t = &r->info.inputs[k];
        for (uint32_t k = 0; k < r->info.n_outputs; k++)
            if (!strcmp(r->info.outputs[k].name, c->axes[i].tensor.text)) t = &r->info.outputs[k];
        if (!t) return td_word_fail(&c->axes[i].tensor, err, TD_MISMATCH, "axes: there is no input or output %.100s",
                                    c->axes[i].tensor.text);
        if (c->axes[i].names.n != t->rank)
            return td_word_fail(&c->axes[i].tensor, err, TD_MISMATCH, "axes: %u names, %s has %u dims",
                                c->axes[i].names.n, t->name, t->rank);
    }
    return TD_OK;
}

typedef struct axis {
    const char *name;
    uint32_t input, dim; /* its first */
} axis_t;

static td_status_t input_axis(td_resident_t *r, const td_model_yaml_t *c, axis_t *axes, uint32_t i, uint32_t d,
                              td_err_t *err) {
    const char *name = axis_name(c, &r->info.inputs[i], d);
    for (uint32_t a = 0; a < r->n_axes; a++) {
        bool same = name || axes[a].name ? name && axes[a].name && !strcmp(name, axes[a].name)
                                         : axes[a].dim == d && alike(r, false, i, d, axes[a].input, axes[a].dim);
        if (!same) continue;
        r->input_axes[i][d] = (uint8_t)a;
        return TD_OK;
    }
    if (r->n_axes == TD_AXES_MOST) return td_fail(err, TD_LIMIT, "over %d dims differ between the buckets",
                                                  TD_AXES_MOST);
    axes[r->n_axes] = (axis_t){name, i, d};
    r->input_axes[i][d] = (uint8_t)r->n_axes++;
    return TD_OK;
}

static td_status_t output_axis(td_resident_t *r, const td_model_yaml_t *c, const axis_t *axes, uint32_t o, uint32_t d,
                               td_err_t *err) {
    const td_tensor_info_t *t = &r->info.outputs[o];
    const char *name = axis_name(c, t, d);
    uint32_t found = TD_NO_AXIS, n = 0;
    for (uint32_t a = 0; a < r->n_axes; a++) {
        bool same = name ? axes[a].name && !strcmp(name, axes[a].name)
                         : alike(r, true, o, d, axes[a].input, axes[a].dim);
        if (!same) continue;
        if (!n++ || axes[a].dim == d) found = a;
    }
    uint32_t at_d = 0;
    for (uint32_t a = 0; a < r->n_axes && !name; a++)
        at_d += axes[a].dim == d && alike(r, true, o, d, axes[a].input, axes[a].dim);
    if (!n)
        return td_fail(err, TD_MISMATCH,
                       "dim %u of output %s differs between the buckets, but no input's dim goes with it%s%s; "
                       "name the dims with `axes` in model.yaml", d, t->name,
                       name ? ": there is no axis " : "", name ? name : "");
    if (n > 1 && at_d != 1)
        return td_fail(err, TD_MISMATCH, "dim %u of output %s could go with several dims of the inputs; name them with "
                       "`axes` in model.yaml",
                       d, t->name);
    r->output_axes[o][d] = (uint8_t)found;
    return TD_OK;
}

static td_status_t make_rows(td_resident_t *r, const td_tensor_info_t *t, uint32_t n, uint8_t ***out, td_err_t *err) {
    *out = TD_NEW_N(&r->arena, uint8_t *, n + 1u);
    for (uint32_t i = 0; *out && i < n; i++) {
        (*out)[i] = td_arena_array(&r->arena, t[i].rank + 1u, 1);
        if (!(*out)[i]) return td_arena_fail(&r->arena, err);
        memset((*out)[i], TD_NO_AXIS, t[i].rank + 1u);
    }
    return *out ? TD_OK : td_arena_fail(&r->arena, err);
}

/* ---- padding ---- */

static td_status_t element(td_type_t type, const td_pad_config_t *c, uint8_t out[16], td_err_t *err) {
    double v = c->number;
    int64_t whole = v > -9e18 && v < 9e18 ? (int64_t)v : 0;
    if (v == 0) return TD_OK;
    switch (type) {
    case TD_F32: memcpy(out, &(float){(float)v}, 4); return TD_OK;
    case TD_F64: memcpy(out, &v, 8); return TD_OK;
    case TD_F16: memcpy(out, &(_Float16){(_Float16)v}, 2); return TD_OK;
    case TD_BF16: {
        uint32_t u;
        memcpy(&u, &(float){(float)v}, 4);
        u += 0x7fff + (u >> 16 & 1);
        memcpy(out, &(uint16_t){(uint16_t)(u >> 16)}, 2);
        return TD_OK;
    }
    case TD_PRED: case TD_S4: case TD_U4: case TD_S8: case TD_U8: case TD_S16: case TD_U16: case TD_S32: case TD_U32:
    case TD_S64:
    case TD_U64:
        if ((double)whole != v)
            return td_word_fail(&c->value, err, TD_MISMATCH, "pad: %g is no whole number, and %s is %s", v,
                                c->tensor.text, td_type_name(type));
        memcpy(out, &whole, 8);
        return TD_OK;
    default: return td_word_fail(&c->value, err, TD_UNSUPPORTED, "pad: inputs of type %s are filled up with 0 only",
                                 td_type_name(type));
    }
}

static td_status_t find_pads(td_resident_t *r, const td_model_yaml_t *c, td_err_t *err) {
    r->pads = td_arena_array(&r->arena, r->info.n_inputs + 1u, sizeof *r->pads);
    if (!r->pads) return td_arena_fail(&r->arena, err);
    for (uint32_t k = 0; k < c->n_pads; k++) {
        uint32_t i = 0;
        while (i < r->info.n_inputs && strcmp(r->info.inputs[i].name, c->pads[k].tensor.text) != 0) i++;
        if (i == r->info.n_inputs) return td_word_fail(&c->pads[k].tensor, err, TD_MISMATCH,
                                                       "pad: there is no input %.100s", c->pads[k].tensor.text);
        td_status_t st = element(r->info.inputs[i].type, &c->pads[k], r->pads[i], err);
        if (st != TD_OK) return st;
    }
    return TD_OK;
}

td_status_t td_resident_find_axes(td_resident_t *r, const td_model_yaml_t *c, td_err_t *err) {
    axis_t axes[TD_AXES_MOST];
    td_status_t st = make_rows(r, r->info.inputs, r->info.n_inputs, &r->input_axes, err);
    if (st == TD_OK) st = make_rows(r, r->info.outputs, r->info.n_outputs, &r->output_axes, err);
    if (st == TD_OK) st = check_axes_config(r, c, err);
    for (uint32_t i = 0; i < r->info.n_inputs; i++)
        for (uint32_t d = 0; d < r->info.inputs[i].rank && st == TD_OK; d++)
            if (r->info.inputs[i].dims[d] < 0) st = input_axis(r, c, axes, i, d, err);
    for (uint32_t o = 0; o < r->info.n_outputs; o++)
        for (uint32_t d = 0; d < r->info.outputs[o].rank && st == TD_OK; d++)
            if (r->info.outputs[o].dims[d] < 0) st = output_axis(r, c, axes, o, d, err);
    return st == TD_OK ? find_pads(r, c, err) : st;
}

/* ---- requests ---- */

static td_status_t read_sizes(const td_resident_t *r, const td_run_tensor_t *inputs, int64_t *sizes, td_err_t *err) {
    for (uint32_t a = 0; a < r->n_axes; a++) sizes[a] = -1;
    for (uint32_t i = 0; i < r->info.n_inputs; i++) {
        const td_tensor_info_t *t = &r->info.inputs[i];
        for (uint32_t d = 0; d < t->rank; d++) {
            uint32_t a = r->input_axes[i][d];
            int64_t v = inputs[i].dims ? inputs[i].dims[d] : t->max_dims[d];
            if (a == TD_NO_AXIS ? v != t->dims[d] : v < 0)
                return td_fail(err, TD_MISMATCH, "input %s: dim %u is %lld, the model wants %lld", t->name, d,
                               (long long)v, (long long)t->max_dims[d]);
            if (a == TD_NO_AXIS) continue;
            if (sizes[a] >= 0 && sizes[a] != v)
                return td_fail(err, TD_MISMATCH,
                               "input %s: dim %u is %lld, that of another input which goes with it %lld", t->name, d,
                               (long long)v, (long long)sizes[a]);
            sizes[a] = v;
        }
    }
    return TD_OK;
}

static bool fits(const td_resident_t *r, uint32_t bucket, const int64_t *sizes) {
    for (uint32_t i = 0; i < r->info.n_inputs; i++)
        for (uint32_t d = 0; d < r->info.inputs[i].rank; d++) {
            uint32_t a = r->input_axes[i][d];
            if (a != TD_NO_AXIS && sizes[a] > dim_in(r, bucket, false, i, d)) return false;
        }
    return true;
}

td_status_t td_bucket_pick(const td_resident_t *r, const td_run_tensor_t *inputs, int64_t *sizes, td_bucket_t **out,
                           td_err_t *err) {
    td_status_t st = read_sizes(r, inputs, sizes, err);
    if (st != TD_OK) return st;
    for (uint32_t k = 0; k < r->n_buckets; k++)
        if (fits(r, k, sizes)) {
            *out = &r->buckets[k];
            return TD_OK;
        }
    for (uint32_t i = 0; i < r->info.n_inputs; i++)
        for (uint32_t d = 0; d < r->info.inputs[i].rank; d++) {
            uint32_t a = r->input_axes[i][d];
            if (a != TD_NO_AXIS && sizes[a] > r->info.inputs[i].max_dims[d])
                return td_fail(err, TD_MISMATCH, "input %s: dim %u is %lld, the largest bucket has %lld",
                               r->info.inputs[i].name, d,
                               (long long)sizes[a], (long long)r->info.inputs[i].max_dims[d]);
        }
    return td_fail(err, TD_MISMATCH, "no bucket of the model takes inputs of these sizes together");
}

void td_corner_copy(void *dst, const int64_t *to, const void *src, const int64_t *from, uint32_t rank, uint64_t elem,
                    const void *fill) {
    int64_t idx[TD_LIMIT_RANK] = {0}, rows = 1;
    uint64_t total = elem;
    for (uint32_t d = 0; d < rank; d++) total *= (uint64_t)to[d];
    for (uint64_t k = 0; fill && k < total; k += elem) memcpy((char *)dst + k, fill, elem);
    uint64_t run = elem * (rank ? (uint64_t)(to[rank - 1] < from[rank - 1] ? to[rank - 1] : from[rank - 1]) : 1);
    for (uint32_t d = 0; d + 1 < rank; d++) rows *= to[d] < from[d] ? to[d] : from[d];
    if (!run || !rows || !total) return;
    for (int64_t k = 0; k < rows; k++) {
        int64_t a = 0, b = 0;
        for (uint32_t d = 0; d < rank; d++) a = a * to[d] + idx[d], b = b * from[d] + idx[d];
        memcpy((char *)dst + (uint64_t)a * elem, (const char *)src + (uint64_t)b * elem, run);
        for (uint32_t d = rank > 1 ? rank - 1 : 0; d-- > 0;) {
            if (++idx[d] < (to[d] < from[d] ? to[d] : from[d])) break;
            idx[d] = 0;
        }
    }
}
