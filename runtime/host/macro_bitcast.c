/* SPDX-License-Identifier: Apache-2.0 */
/* bitcast and bitcast-convert between element types of different widths.
 *
 * bitcast keeps the bytes in memory. bitcast-convert keeps the logical order: of a wide element and the dimension
 * of narrow ones that takes its place, the first narrow one is the low end. Both are repacking of a bit string,
 * the second between row-major forms. */
#include <string.h>

#include "runtime/host/macro_ops.h"
#include "runtime/host/types.h"

typedef struct side {
    td_type_t type;
    size_t count;
    bool narrow, copied; /* narrow: packed on devices */
    td_strided_t copy;   /* to or from row-major */
    uint64_t rows_at;
} side_t;
typedef struct bitcast {
    side_t from, to;
    uint64_t packed_at;
    size_t bytes;
} bitcast_t;

static bool side(const td_shape_t *s, bool logical, bool into, side_t *d, uint64_t *total) {
    int64_t own[TD_LIMIT_RANK], row[TD_LIMIT_RANK], n = 1;
    *d = (side_t){.type = s->type,
                  .count = (size_t)s->count,
                  .narrow = s->bits < 8,
                  .copied = logical && !s->default_layout && s->count > 1};
    if (!d->copied) return true;
    td_shape_strides(s, own);
    for (uint32_t i = s->rank; i-- > 0; n *= s->dims[i]) row[i] = n;
    td_strided_plan(&d->copy, td_elem(s), s->rank, s->dims, into ? own : row, into ? row : own);
    return td_reserve(total, (uint64_t)s->count, td_elem(s), &d->rows_at);
}

td_status_t td_bitcast_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                               td_err_t *err) {
    TD_NEED(instr->n_operands == 1, "%u operands", instr->n_operands);
    const td_shape_t *a = td_operand(instr, 0), *o = instr->shape;
    TD_NEED(td_type_is_array(a->type) && td_type_is_array(o->type), "operand or result is not an array");
    uint32_t wide = a->bits > o->bits ? a->bits : o->bits, narrow = a->bits > o->bits ? o->bits : a->bits;
    TD_NEED(narrow && wide % narrow == 0, "%s and %s", td_type_name(a->type), td_type_name(o->type));
    TD_NEED(a->bytes == o->bytes && (uint64_t)a->count * a->bits == (uint64_t)o->count * o->bits,
            "operand and result differ in size");
    bool logical = instr->opcode == TD_HLO_BITCAST_CONVERT;
    if (logical && a->bits != o->bits) {
        const td_shape_t *fine = a->bits < o->bits ? a : o, *coarse = a->bits < o->bits ? o : a;
        TD_NEED(fine->rank == coarse->rank + 1 && (!fine->count || fine->dims[coarse->rank] == wide / narrow),
                "ranks %u and %u", a->rank, o->rank);
        for (uint32_t i = 0; i < coarse->rank; i++) TD_NEED(fine->dims[i] == coarse->dims[i], "dimension %u", i);
    }
    bitcast_t *b = TD_NEW(arena, bitcast_t);
    if (!b) return td_arena_fail(arena, err);
    *out_scratch = 0;
    b->bytes = (size_t)a->bytes;
    TD_NEED_AS(TD_LIMIT,
               side(a, logical, false, &b->from, out_scratch) && side(o, logical, true, &b->to, out_scratch) &&
                   td_reserve(out_scratch, a->bytes, 1, &b->packed_at),
               "scratch overflows");
    *out_state = b;
    return TD_OK;
}

void td_bitcast_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const bitcast_t *b = state;
    char *s = scratch;
    const void *src = in[0];
    void *dst = b->to.copied ? s + b->to.rows_at : out[0];
    if (!b->bytes) return;
    if (b->from.copied) {
        td_strided_copy(&b->from.copy, s + b->from.rows_at, src);
        src = s + b->from.rows_at;
    }
    if (b->from.narrow) {
        td_subbyte_pack(b->from.type, src, s + b->packed_at, b->from.count);
        src = s + b->packed_at;
    }
    if (b->to.narrow) td_subbyte_unpack(b->to.type, src, dst, b->to.count);
    else memcpy(dst, src, b->bytes);
    if (b->to.copied) td_strided_copy(&b->to.copy, out[0], dst);
}
