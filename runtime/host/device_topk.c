/* SPDX-License-Identifier: Apache-2.0 */
/* The top-k library operation. Elements become unsigned keys, larger = earlier; a heap keeps the k best
 * seen so far, the worst on top. Order: that of XLA's total-order comparators (xla/hlo/builder/lib/comparators.cc). */
#include <limits.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/host/library.h"
#include "runtime/host/topk.h"

typedef struct entry {
    uint64_t key;
    int64_t at;
} entry_t;

td_status_t td_topk_check(const td_topk_desc_t *d, uint64_t *out_scratch, td_err_t *err) {
    uint64_t bytes;
    if (!td_type_is_array(d->type) || td_type_is_complex(d->type))
        return td_fail(err, TD_UNSUPPORTED, "top-k of element type %s", td_type_name(d->type));
    if (d->batch < 0 || d->k < 0 || d->n > INT_MAX || d->k > d->n)
        return td_fail(err, TD_MALFORMED, "top-k: the first %lld of %lld", (long long)d->k, (long long)d->n);
    if (!td_mul_u64((uint64_t)d->k, sizeof(entry_t), &bytes)) return td_fail(err, TD_LIMIT, "top-k: scratch overflows");
    *out_scratch = bytes;
    return TD_OK;
}

static uint64_t load(const char *p, unsigned bytes) {
    uint8_t a;
    uint16_t b;
    uint32_t c;
    uint64_t d;
    switch (bytes) {
    case 1: memcpy(&a, p, 1); return a;
    case 2: memcpy(&b, p, 2); return b;
    case 4: memcpy(&c, p, 4); return c;
    default: memcpy(&d, p, 8); return d;
    }
}

/* How bits become a key: floats are sign and magnitude, as in XLA's comparators whatever the format. */
typedef enum order { UNSIGNED, TWOS_COMPLEMENT, SIGN_MAGNITUDE } order_t;
typedef struct keys {
    order_t order;
    unsigned bytes;
    uint64_t sign, mask;
    bool smallest, zeros_equal;
} keys_t;

static keys_t keys_of(const td_topk_desc_t *d) {
    bool is_float = td_type_is_float(d->type) && d->type != TD_F8E8M0FNU;
    unsigned bytes = td_type_bytes(d->type), bits = is_float ? td_type_bits(d->type) : 8 * bytes;
    uint64_t sign = 1ull << (bits - 1);
    order_t order = is_float ? SIGN_MAGNITUDE : td_type_is_signed(d->type) ? TWOS_COMPLEMENT : UNSIGNED;
    return (keys_t){order, bytes, sign, sign | (sign - 1), d->smallest, d->zeros_equal};
}

static inline uint64_t key_of(const keys_t *k, const char *p) {
    uint64_t x = load(p, k->bytes) & k->mask;
    if (k->order == TWOS_COMPLEMENT) {
        x ^= k->sign;
    } else if (k->order == SIGN_MAGNITUDE) {
        if (k->zeros_equal && x == k->sign) x = 0;
        x = x & k->sign ? ~x & k->mask : x | k->sign;
    }
    return k->smallest ? ~x : x;
}

/* Does a come before b? Positions differ, so this is a strict order. */
static inline bool before(entry_t a, entry_t b) { return a.key != b.key ? a.key > b.key : a.at < b.at; }

/* Moves heap[i] down until no child comes after its parent: the last of all is on top. */
static void sift(entry_t *heap, int64_t n, int64_t i) {
    entry_t x = heap[i];
    for (int64_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && before(heap[child], heap[child + 1])) child++;
        if (!before(x, heap[child])) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = x;
}

/* heap[0, k) = the best of the row, in order. */
static void select_best(const keys_t *keys, int64_t n, int64_t k, const char *row, int64_t step, entry_t *heap) {
    for (int64_t i = 0; i < k; i++) heap[i] = (entry_t){key_of(keys, row + i * step), i};
    for (int64_t i = k / 2; i-- > 0;) sift(heap, k, i);
    for (int64_t i = k; i < n; i++) {
        uint64_t key = key_of(keys, row + i * step);
        if (key <= heap[0].key) continue; /* an equal one seen later comes after */
        heap[0] = (entry_t){key, i};
        sift(heap, k, 0);
    }
    for (int64_t i = k; i-- > 1;) {
        entry_t last = heap[0];
        heap[0] = heap[i];
        heap[i] = last;
        sift(heap, i, 0);
    }
}

void td_topk_row(const td_topk_desc_t *d, const void *row, int64_t stride, void *values, int64_t value_stride,
                 int32_t *positions, int64_t position_stride, void *scratch) {
    keys_t keys = keys_of(d);
    entry_t *best = scratch;
    size_t bytes = keys.bytes;
    if (!d->k) return;
    select_best(&keys, d->n, d->k, row, stride * (int64_t)bytes, best);
    for (int64_t i = 0; i < d->k; i++) {
        memcpy((char *)values + i * value_stride * (int64_t)bytes,
               (const char *)row + best[i].at * stride * (int64_t)bytes, bytes);
        positions[i * position_stride] = (int32_t)best[i].at;
    }
}

static td_status_t run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    const td_topk_desc_t *d = k->library;
    int64_t bytes = td_type_bytes(d->type);
    (void)err;
    for (int64_t i = 0; i < d->batch; i++)
        td_topk_row(d, (const char *)bufs[0] + i * d->n * bytes, 1, (char *)bufs[1] + i * d->k * bytes, 1,
                    (int32_t *)bufs[2] + i * d->k, 1, scratch);
    return TD_OK;
}

td_status_t td_host_topk_lower(td_device_t *dev, const void *desc, td_arena_t *arena, td_kernel_t **out,
                               uint64_t *out_scratch, td_err_t *err) {
    const td_topk_desc_t *d = desc;
    (void)dev;
    if (td_type_bits(d->type) < 8) return td_fail(err, TD_UNSUPPORTED, "top-k of packed %s", td_type_name(d->type));
    td_status_t s = td_topk_check(d, out_scratch, err);
    if (s) return s;
    td_kernel_t *k = TD_NEW(arena, td_kernel_t);
    td_topk_desc_t *t = TD_NEW(arena, td_topk_desc_t);
    if (!k || !t) return td_arena_fail(arena, err);
    *t = *d;
    k->library = t;
    k->run = run;
    *out = k;
    return TD_OK;
}
