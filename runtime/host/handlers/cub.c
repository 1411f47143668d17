/* SPDX-License-Identifier: Apache-2.0 */
/* XLA's own sorts and scans.
 * xla.gpu.ext.cub_sort_keys: keys -> keys, scratch u8; xla.gpu.ext.cub_sort_pairs: keys, values -> keys, values,
 *   scratch. Attributes descending, batch_size: rows of count / batch_size elements, contiguous in memory, are
 *   sorted by themselves (batch_size 0 or 1: one row). Stable in both directions. Floats in the order of their
 *   bits: -NaN, -inf … -0 = +0 … +inf, +NaN. Values: any type of 1, 2, 4 or 8 bytes.
 * xla.gpu.ext.cub_scan: in -> out, scratch; inclusive sums of column_length rows of row_length elements, added one
 *   after the other in the element type; attributes vector_length 1, kind 1 (sum), is_reverse false.
 * The artifact's scratch is not used. Facts: xla/stream_executor/cuda/cub_{sort,scan}_kernel_cuda.cc. */
#include <string.h>

#include "runtime/host/handlers/common.h"
#include "runtime/host/handlers/families.h"
#include "runtime/host/types.h"

typedef struct sort {
    td_type_t key;
    unsigned key_bytes, value_bytes; /* 0: no values */
    bool descending;
    int64_t rows, n; /* elements of a row */
    uint64_t rank_at[2], index_at[2], copy_at;
} sort_t;

static bool is_key(td_type_t t) {
    return t == TD_BF16 || t == TD_F16 || t == TD_F32 || t == TD_F64 || (t >= TD_S8 && t <= TD_S64) || (t >= TD_U8 &&
                                                                                                        t <= TD_U64);
}

static td_status_t same(const char *what, const td_shape_t *s, td_type_t type, const td_shape_t *keys, td_err_t *err) {
    char have[160], want[160];
    bool ok = s->type == type && s->rank == keys->rank && s->bits % 8 == 0;
    for (uint32_t i = 0; ok && i < s->rank; i++)
        ok = s->dims[i] == keys->dims[i] && s->minor_to_major[i] == keys->minor_to_major[i];
    if (ok) return TD_OK;
    return td_fail(err, TD_MISMATCH, "%s is %s, expected %s in the shape of %s", what, td_shape_print(s, true, have,
                                                                                                      sizeof have),
                   td_type_name(type), td_shape_print(keys, true, want, sizeof want));
}

td_status_t td_cub_sort_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                                td_err_t *err) {
    bool pairs = strcmp(d->target, "xla.gpu.ext.cub_sort_pairs") == 0;
    sort_t k = {0};
    int64_t batch = 0;
    td_status_t s = td_hc_arity(d, pairs ? 2 : 1, pairs ? 3 : 2, err);
    if (s || (s = td_hc_bool(d, "descending", &k.descending, err)) || (s = td_hc_int(d, "batch_size", &batch,
                                                                                     err))) return s;
    const td_shape_t *keys = d->operands[0], *values = pairs ? d->operands[1] : NULL;
    if (!is_key(keys->type)) return td_fail(err, TD_UNSUPPORTED, "keys of type %s", td_type_name(keys->type));
    if ((s = same("keys_out", d->results[0], keys->type, keys, err))) return s;
    if (values && ((s = same("values", values, values->type, keys, err)) ||
                   (s = same("values_out", d->results[1], values->type, keys, err))))
        return s;
    k.key = keys->type;
    k.key_bytes = td_type_bytes(k.key);
    k.value_bytes = values ? td_type_bytes(values->type) : 0;
    if (k.value_bytes > 8) return td_fail(err, TD_UNSUPPORTED, "values of type %s", td_type_name(values->type));
    k.rows = batch > 1 ? batch : 1;
    if (keys->count % k.rows || keys->count / k.rows > UINT32_MAX)
        return td_fail(err, TD_MISMATCH, "%lld keys in a batch of %lld", (long long)keys->count, (long long)batch);
    k.n = keys->count / k.rows;
    uint64_t n = (uint64_t)k.n, widest = k.key_bytes > k.value_bytes ? k.key_bytes : k.value_bytes;
    *scratch = 0;
    for (int i = 0; i < 2; i++)
        if ((s = td_hc_scratch(scratch, n, 8, &k.rank_at[i], err)) || (s = td_hc_scratch(scratch, n, 4,
                                                                                         &k.index_at[i], err)))
            return s;
    if ((s = td_hc_scratch(scratch, n, widest, &k.copy_at, err))) return s;
    return td_hc_state(arena, &k, sizeof k, state, err);
}

/* Unsigned numbers in the order of the keys. */
static void ranks(const sort_t *k, const void *keys, uint64_t *out) {
    unsigned bits = 8 * k->key_bytes;
    uint64_t sign = 1ull << (bits - 1), all = sign | (sign - 1);
    for (int64_t i = 0; i < k->n; i++) {
        uint64_t v = 0;
        memcpy(&v, (const char *)keys + (size_t)i * k->key_bytes, k->key_bytes); /* little-endian */
        if (td_type_is_float(k->key)) {
            if (v == sign) v = 0;
            v = v & sign ? ~v & all : v | sign;
        } else if (td_type_is_signed(k->key)) {
            v ^= sign;
        }
        out[i] = k->descending ? ~v & all : v;
    }
}

/* One pass per byte from the lowest; a byte that all ranks share is skipped. Returns the sorted indices. */
static const uint32_t *radix(const sort_t *k, uint64_t *rank[2], uint32_t *index[2]) {
    int from = 0;
    for (unsigned shift = 0; shift < 8 * k->key_bytes; shift += 8) {
        uint32_t starts[256] = {0}, at = 0;
        const uint64_t *r = rank[from];
        for (int64_t i = 0; i < k->n; i++) starts[r[i] >> shift & 255]++;
        if (starts[r[0] >> shift & 255] == k->n) continue;
        for (int b = 0; b < 256; b++) {
            uint32_t count = starts[b];
            starts[b] = at;
            at += count;
        }
        for (int64_t i = 0; i < k->n; i++) {
            uint32_t to = starts[r[i] >> shift & 255]++;
            rank[!from][to] = r[i];
            index[!from][to] = index[from][i];
        }
        from = !from;
    }
    return index[from];
}

/* out[i] = in[index[i]]; out may be in. */
static void gather(const void *in, void *out, void *copy, const uint32_t *index, int64_t n, unsigned bytes) {
    if (in == out) {
        memcpy(copy, in, (size_t)n * bytes);
        in = copy;
    }
    switch (bytes) {
    case 1: for (int64_t i = 0; i < n; i++) ((uint8_t *)out)[i] = ((const uint8_t *)in)[index[i]]; break;
    case 2: for (int64_t i = 0; i < n; i++) ((uint16_t *)out)[i] = ((const uint16_t *)in)[index[i]]; break;
    case 4: for (int64_t i = 0; i < n; i++) ((uint32_t *)out)[i] = ((const uint32_t *)in)[index[i]]; break;
    default: for (int64_t i = 0; i < n; i++) ((uint64_t *)out)[i] = ((const uint64_t *)in)[index[i]]; break;
    }
}

td_status_t td_cub_sort_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const sort_t *k = state;
    uint64_t *rank[2] = {td_at(scratch, k->rank_at[0]), td_at(scratch, k->rank_at[1])};
    uint32_t *index[2] = {td_at(scratch, k->index_at[0]), td_at(scratch, k->index_at[1])};
    void *copy = td_at(scratch, k->copy_at);
    unsigned operands = k->value_bytes ? 2 : 1;
    (void)err;
    if (!k->n) return TD_OK;
    for (int64_t row = 0; row < k->rows; row++) {
        uint64_t at = (uint64_t)row * (uint64_t)k->n;
        ranks(k, td_at(bufs[0], at * k->key_bytes), rank[0]);
        for (int64_t i = 0; i < k->n; i++) index[0][i] = (uint32_t)i;
        const uint32_t *order = radix(k, rank, index);
        gather(td_at(bufs[0], at * k->key_bytes), td_at(bufs[operands], at * k->key_bytes), copy, order, k->n,
               k->key_bytes);
        if (k->value_bytes)
            gather(td_at(bufs[1], at * k->value_bytes), td_at(bufs[3], at * k->value_bytes), copy, order, k->n,
                   k->value_bytes);
    }
    return TD_OK;
}

typedef struct scan {
    td_type_t type;
    int64_t rows, n;
} scan_t;

td_status_t td_cub_scan_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                                td_err_t *err) {
    scan_t c = {0};
    int64_t vector = 0, kind = 0, count = 0;
    bool reverse = false;
    td_status_t s = td_hc_arity(d, 1, 2, err);
    if (s || (s = td_hc_int(d, "vector_length", &vector, err)) || (s = td_hc_int(d, "row_length", &c.n, err)) ||
        (s = td_hc_int(d, "column_length", &c.rows, err)) || (s = td_hc_int(d, "kind", &kind, err)) ||
        (s = td_hc_bool(d, "is_reverse", &reverse, err)))
        return s;
    const td_shape_t *in = d->operands[0];
    if (vector != 1 || kind != 1 || reverse)
        return td_fail(err, TD_UNSUPPORTED,
                       "scan of kind %lld, vectors of %lld%s; expected forward sums of single elements",
                       (long long)kind, (long long)vector, reverse ? ", reversed" : "");
    if (!is_key(in->type)) return td_fail(err, TD_UNSUPPORTED, "scan of type %s", td_type_name(in->type));
    if (c.n < 0 || c.rows < 0 || __builtin_mul_overflow(c.n, c.rows, &count) || count != in->count)
        return td_fail(err, TD_MISMATCH, "%lld rows of %lld elements in an array of %lld", (long long)c.rows,
                       (long long)c.n,
                       (long long)in->count);
    if ((s = same("out", d->results[0], in->type, in, err))) return s;
    c.type = in->type;
    *scratch = 0;
    return td_hc_state(arena, &c, sizeof c, state, err);
}

#define SCAN(T)                                                                        \
    do {                                                                               \
        const T *in = from;                                                            \
        T *out = to, sum = 0;                                                          \
        for (int64_t i = 0; i < n; i++) out[i] = sum = (T)(sum + in[i]);               \
    } while (0)

/* Signed and unsigned sums wrap alike. */
static void scan_row(td_type_t t, const void *from, void *to, int64_t n) {
    if (t == TD_F32) SCAN(float);
    else if (t == TD_F64) SCAN(double);
    else if (td_type_is_float(t)) {
        const uint16_t *in = from;
        uint16_t *out = to;
        float sum = 0;
        for (int64_t i = 0; i < n; i++) {
            out[i] = (uint16_t)td_small_encode(t, (double)(sum + td_small_decode(t, in[i])));
            sum = td_small_decode(t, out[i]);
        }
    } else if (td_type_bytes(t) == 1) SCAN(uint8_t);
    else if (td_type_bytes(t) == 2) SCAN(uint16_t);
    else if (td_type_bytes(t) == 4) SCAN(uint32_t);
    else SCAN(uint64_t);
}

td_status_t td_cub_scan_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const scan_t *c = state;
    uint64_t row = (uint64_t)c->n * td_type_bytes(c->type);
    (void)scratch, (void)err;
    for (int64_t i = 0; i < c->rows; i++)
        scan_row(c->type, td_at(bufs[0], (uint64_t)i * row), td_at(bufs[1], (uint64_t)i * row), c->n);
    return TD_OK;
}
