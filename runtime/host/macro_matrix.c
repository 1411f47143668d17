/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/macro_matrix.h"

#include "runtime/host/types.h"

static td_type_t work_type(td_type_t t) {
    switch (t) {
    case TD_F32:
    case TD_F64:
    case TD_C64:
    case TD_C128: return t;
    default: return td_type_is_small_float(t) ? TD_F32 : TD_TYPE_INVALID;
    }
}

bool td_matrices_init(td_matrices_t *m, const td_shape_t *shape) {
    int64_t strides[TD_LIMIT_RANK];
    *m = (td_matrices_t){.type = shape->type, .work = work_type(shape->type)};
    if (m->work == TD_TYPE_INVALID || shape->rank < 2) return false;
    td_shape_strides(shape, strides);
    uint32_t r = shape->rank - 2, size = td_elem(shape);
    for (uint32_t i = 0; i < r; i++) td_dims_add(&m->first, shape->dims[i], strides[i]);
    m->rows = shape->dims[r];
    m->cols = shape->dims[r + 1];
    m->batch = shape->count ? td_dims_count(&m->first) : 0;
    const int64_t dims[2] = {m->rows, m->cols}, dense[2] = {1, m->rows};
    td_strided_plan(&m->load, size, 2, dims, dense, strides + r);
    td_strided_plan(&m->store, size, 2, dims, strides + r, dense);
    return true;
}

static int64_t first_byte(const td_matrices_t *m, int64_t i) {
    int64_t at = 0;
    td_dims_offsets(&m->first, i, 1, &at);
    return at * (int64_t)td_type_bytes(m->type);
}

void td_matrix_load(const td_matrices_t *m, const void *base, int64_t i, void *dense, void *raw) {
    const char *src = (const char *)base + first_byte(m, i);
    bool direct = m->type == m->work;
    td_strided_copy(&m->load, direct ? dense : raw, src);
    if (!direct) td_convert_array(m->type, raw, m->work, dense, (size_t)td_matrix_count(m));
}

void td_matrix_store(const td_matrices_t *m, void *base, int64_t i, const void *dense, void *raw) {
    char *dst = (char *)base + first_byte(m, i);
    bool direct = m->type == m->work;
    if (!direct) td_convert_array(m->work, dense, m->type, raw, (size_t)td_matrix_count(m));
    td_strided_copy(&m->store, dst, direct ? dense : raw);
}
