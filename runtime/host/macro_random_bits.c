/* SPDX-License-Identifier: Apache-2.0 */
/* rng-bit-generator, bit for bit what XLA's expansion of it gives (xla/hlo/builder/lib/prng.cc).
 *
 * State u64[2] or, with Philox, u64[3]: key, then counter (low word first). Philox numbers the words of its blocks
 * through the array in row-major order. Threefry of up to 32 bits halves one dimension (the first even one, else
 * the first of the largest) and takes the two words of a block for neighbours along it; of 64 bits a block makes
 * one element. Narrow elements are the low bits of a word. The default algorithm is Philox. */
#include "runtime/host/macro_ops.h"
#include "runtime/host/random.h"
#include "runtime/host/types.h"

typedef struct bits {
    td_dims_t out;    /* row-major walk over the result */
    td_dims_t half;   /* Threefry: strides of the halved array; the split dimension counts twice */
    uint32_t split;
    td_type_t type;
    int64_t count;
    uint64_t advance; /* of the counter */
    bool philox, wide, long_state;
} bits_t;

static void halve(const td_shape_t *o, bits_t *b) {
    int64_t n = 1;
    uint32_t d = 0;
    bool even = false;
    for (uint32_t i = 0; i < o->rank && !even; i++)
        if (o->dims[i] % 2 == 0) d = i, even = true;
    for (uint32_t i = 1; i < o->rank && !even; i++)
        if (o->dims[i] > o->dims[d]) d = i;
    b->split = d;
    for (uint32_t i = 0; i < o->rank; i++) td_dims_add(&b->half, o->dims[i], 0);
    for (uint32_t i = o->rank; i-- > 0;) {
        b->half.stride[i] = n;
        n *= i == d ? o->dims[i] / 2 + o->dims[i] % 2 : o->dims[i];
    }
    b->advance = (uint64_t)n;
}

td_status_t td_random_bits_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state,
                                   uint64_t *out_scratch, td_err_t *err) {
    const td_shape_t *t = instr->shape;
    TD_NEED(instr->n_operands == 1 && t->type == TD_TUPLE && t->rank == 2, "%u operands", instr->n_operands);
    const td_shape_t *s = td_operand(instr, 0), *o = t->elements[1];
    TD_NEED_AS(TD_UNSUPPORTED, s->type == TD_U64 && s->rank == 1, "state is not u64[2] or u64[3]");
    TD_NEED(td_shape_same_dims(s, t->elements[0]) && td_type_is_array(o->type), "result");
    TD_NEED_AS(TD_UNSUPPORTED, instr->rng_algorithm >= 0 && instr->rng_algorithm <= 2, "algorithm %d",
               (int)instr->rng_algorithm);
    TD_NEED_AS(TD_UNSUPPORTED, td_type_is_integer(o->type), "random %s", td_type_name(o->type));
    bits_t *b = TD_NEW(arena, bits_t);
    if (!b) return td_arena_fail(arena, err);
    b->philox = instr->rng_algorithm != 1;
    TD_NEED(s->dims[0] == 2 || (b->philox && s->dims[0] == 3), "state of %lld words", (long long)s->dims[0]);
    int64_t strides[TD_LIMIT_RANK];
    td_shape_strides(o, strides);
    for (uint32_t i = 0; i < o->rank; i++) td_dims_add(&b->out, o->dims[i], strides[i]);
    b->type = o->type, b->count = o->count, b->wide = td_elem(o) == 8, b->long_state = s->dims[0] == 3;
    if (b->philox)
        b->advance = b->wide ? (uint64_t)o->count / 2 + o->count % 2 : (uint64_t)o->count / 4 + (o->count % 4 != 0);
    else if (b->wide) b->advance = (uint64_t)o->count;
    else if (o->count) halve(o, b);
    *out_state = b;
    *out_scratch = 0;
    return TD_OK;
}

enum { TILE = 256 };

static void philox_words(uint64_t key, uint64_t low, uint64_t high, uint64_t first, size_t n, uint32_t *w) {
    uint32_t block[4];
    for (size_t i = 0; i < n; i++) {
        uint64_t at = first + i, c = low + at / 4;
        if (!i || at % 4 == 0) td_philox(key, c, high + (c < low), block);
        w[i] = block[at % 4];
    }
}

static void threefry_words(const bits_t *b, uint64_t key, uint64_t low, int64_t first, size_t n, uint32_t *w) {
    int64_t coordinate[TD_LIMIT_RANK], x = first;
    for (uint32_t d = b->half.rank; d-- > 0; x /= b->half.n[d]) coordinate[d] = x % b->half.n[d];
    for (size_t i = 0; i < n; i++) {
        uint64_t at = 0;
        for (uint32_t d = 0; d < b->half.rank; d++)
            at += (uint64_t)((d == b->split ? coordinate[d] / 2 : coordinate[d]) * b->half.stride[d]);
        uint64_t block = td_threefry(key, low + at);
        bool second = b->half.rank && coordinate[b->split] % 2;
        w[i] = second ? (uint32_t)(block >> 32) : (uint32_t)block;
        for (uint32_t d = b->half.rank; d-- > 0 && ++coordinate[d] == b->half.n[d];) coordinate[d] = 0;
    }
}

static void words(const bits_t *b, uint64_t key, uint64_t low, uint64_t high, int64_t first, size_t n, uint32_t *w) {
    if (b->philox) {
        philox_words(key, low, high, (uint64_t)first * (b->wide ? 2 : 1), b->wide ? 2 * n : n, w);
        return;
    }
    if (!b->wide) {
        threefry_words(b, key, low, first, n, w);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t block = td_threefry(key, low + (uint64_t)first + i);
        w[2 * i] = (uint32_t)block, w[2 * i + 1] = (uint32_t)(block >> 32);
    }
}

void td_random_bits_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const bits_t *b = state;
    const uint64_t *s = in[0], key = s[0], low = s[1], high = b->long_state ? s[2] : s[0];
    uint64_t *next = out[0], tile[TILE];
    int64_t off[TILE];
    uint32_t w[2 * TILE], size = td_type_bytes(b->type);
    (void)scratch;
    next[0] = key, next[1] = low + b->advance;
    if (b->long_state) next[2] = high + (low + b->advance < low);
    for (int64_t first = 0; first < b->count; first += TILE) {
        size_t n = b->count - first < TILE ? (size_t)(b->count - first) : TILE;
        words(b, key, low, high, first, n, w);
        td_dims_offsets(&b->out, first, n, off);
        if (b->wide) {
            for (size_t i = 0; i < n; i++) tile[i] = w[2 * i] | (uint64_t)w[2 * i + 1] << 32;
            td_put(8, tile, off, n, out[1]);
            continue;
        }
        td_convert_array(TD_U32, w, b->type, tile, n);
        td_put(size, tile, off, n, out[1]);
    }
}
