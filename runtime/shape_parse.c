/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shape_parse.h"

#include "base/limits.h"
#include "executable.pb-c.h"

static td_status_t parse(td_arena_t *arena, const Xla__ShapeProto *p, unsigned depth, const td_shape_t **out,
                         td_err_t *err) {
    if (!p) return td_fail(err, TD_MALFORMED, "shape is missing");
    if (depth > TD_LIMIT_TUPLE_DEPTH) return td_fail(err, TD_LIMIT, "tuple nested deeper than %u", TD_LIMIT_TUPLE_DEPTH);
    td_type_t type = (td_type_t)p->element_type;
    if ((int)p->element_type <= 0 || (int)p->element_type >= TD_TYPE_COUNT)
        return td_fail(err, TD_MALFORMED, "element type %d is unknown", (int)p->element_type);
    if (!td_type_is_array(type)) {
        td_shape_t *s = TD_NEW(arena, td_shape_t);
        if (!s) return td_arena_fail(arena, err);
        s->type = type;
        s->default_layout = true;
        if (type == TD_TUPLE) {
            const td_shape_t **e = TD_NEW_N(arena, const td_shape_t *, p->n_tuple_shapes);
            if (!e) return td_arena_fail(arena, err);
            s->rank = (uint32_t)p->n_tuple_shapes;
            s->bytes = 8 * (uint64_t)s->rank;
            s->elements = e;
            for (uint32_t i = 0; i < s->rank; i++) {
                td_status_t st = parse(arena, p->tuple_shapes[i], depth + 1, &e[i], err);
                if (st) return st;
            }
        }
        *out = s;
        return TD_OK;
    }
    const Xla__LayoutProto *l = p->layout;
    int32_t m2m[TD_LIMIT_RANK];
    size_t rank = p->n_dimensions;
    if (rank > TD_LIMIT_RANK) return td_fail(err, TD_LIMIT, "rank %zu over the limit of %u", rank, TD_LIMIT_RANK);
    bool with = l && (l->n_minor_to_major || rank == 0);
    if (with) {
        if (l->n_minor_to_major != rank)
            return td_fail(err, TD_MALFORMED, "layout has %zu entries for rank %zu", l->n_minor_to_major, rank);
        for (size_t i = 0; i < rank; i++) {
            int64_t m = l->minor_to_major[i];
            m2m[i] = m < 0 || m >= (int64_t)rank ? -1 : (int32_t)m;
        }
    }
    td_status_t st = td_shape_make(arena, type, (uint32_t)rank, p->dimensions, with ? m2m : NULL, out, err);
    if (st) return st;
    td_shape_t *s = (td_shape_t *)*out;
    if (l && l->memory_space >= 0 && l->memory_space < 256) s->memory_space = (int32_t)l->memory_space;
    for (size_t i = 0; i < p->n_is_dynamic_dimension; i++)
        if (p->is_dynamic_dimension[i]) s->dynamic = true;
    return TD_OK;
}

td_status_t td_shape_parse(td_arena_t *arena, const Xla__ShapeProto *msg, const td_shape_t **out_shape, td_err_t *err) {
    const td_shape_t *s = NULL;
    td_status_t st = parse(arena, msg, 0, &s, err);
    if (!st) *out_shape = s;
    return st;
}
