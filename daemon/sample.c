/* SPDX-License-Identifier: Apache-2.0 */
/* One block of memory: the struct, then each array and tensor, aligned. */
#include "daemon/sample.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "store/reference.h"

enum { ALIGN = 64 }; /* whatever td_io_align says is less */

bool td_sample_due(double share, uint64_t n) {
    uint64_t z = (n + 1) * 0x9e3779b97f4a7c15u; /* splitmix64, https://prng.di.unimi.it/splitmix64.c (public domain) */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53 < share;
}

/* Measures while base is NULL, then copies. */
typedef struct block {
    uint8_t *base;
    size_t size;
    bool over;
} block_t;

static void *lay(block_t *b, const void *src, uint64_t bytes) {
    size_t at = b->size, end;
    if (bytes > SIZE_MAX - ALIGN || !td_add_size(at, td_align_up((size_t)bytes, ALIGN), &end)) {
        b->over = true;
        return NULL;
    }
    b->size = end;
    if (!b->base) return NULL;
    if (src && bytes) memcpy(b->base + at, src, (size_t)bytes);
    return b->base + at;
}

/* Of a tensor as requests and responses hold it. */
static bool bytes_of(const td_tensor_info_t *t, const int64_t *dims, uint64_t *out) {
    uint64_t n = td_type_bytes(t->type);
    for (uint32_t d = 0; d < t->rank; d++)
        if (!td_mul_u64(n, (uint64_t)dims[d], &n)) return false;
    *out = n;
    return true;
}

static void lay_tensor(block_t *b, const td_tensor_info_t *t, const td_run_tensor_t *from, td_run_tensor_t *to) {
    const int64_t *dims = from->dims ? from->dims : t->max_dims;
    uint64_t bytes;
    td_run_tensor_t got = {NULL, NULL};
    if (!bytes_of(t, dims, &bytes)) {
        b->over = true;
        return;
    }
    got.dims = lay(b, dims, (uint64_t)t->rank * sizeof *dims);
    got.data = lay(b, from->data, bytes);
    if (b->base) *to = got;
}

static void lay_all(block_t *b, const td_resident_t *r, const td_run_tensor_t *inputs, const td_run_slot_t *slot) {
    const td_model_info_t *i = td_resident_info(r);
    td_sample_t *s = lay(b, NULL, sizeof *s);
    const char *model = lay(b, i->name, strlen(i->name) + 1), *version = lay(b, i->version, strlen(i->version) + 1);
    td_run_tensor_t *in = lay(b, NULL, i->n_inputs * sizeof *in), *out = lay(b, NULL, i->n_outputs * sizeof *out);
    uint64_t *bytes = lay(b, NULL, i->n_outputs * sizeof *bytes);
    if (s)
        *s = (td_sample_t){.model = model, .version = version, .stamp = td_resident_stamp(r), .inputs = in,
                           .outputs = out, .output_bytes = bytes, .n_inputs = i->n_inputs, .n_outputs = i->n_outputs};
    for (uint32_t k = 0; k < i->n_inputs && !b->over; k++)
        lay_tensor(b, &i->inputs[k], &inputs[k], in ? &in[k] : NULL);
    for (uint32_t k = 0; k < i->n_outputs && !b->over; k++) {
        uint64_t n;
        td_run_tensor_t t = td_run_slot_output(slot, k, &n);
        lay_tensor(b, &i->outputs[k], &t, out ? &out[k] : NULL);
        if (bytes) bytes[k] = n;
    }
}

td_status_t td_sample_keep(const td_resident_t *r, const td_run_tensor_t *inputs, const td_run_slot_t *slot,
                           const td_charge_t *charge, td_sample_t **out, td_err_t *err) {
    block_t b = {0};
    lay_all(&b, r, inputs, slot);
    uint64_t bytes = b.size;
    if (b.over || !td_charge_take(charge, bytes))
        return td_fail(err, TD_LIMIT, "no room for the %llu bytes of a sample", (unsigned long long)bytes);
    uint8_t *base = aligned_alloc(ALIGN, b.size);
    if (!base) {
        td_charge_give(charge, bytes);
        return td_fail(err, TD_NOMEM, "out of memory");
    }
    b = (block_t){.base = base};
    lay_all(&b, r, inputs, slot);
    *out = (td_sample_t *)(void *)base;
    (*out)->charge = charge;
    (*out)->charged = bytes;
    return TD_OK;
}

void td_sample_free(td_sample_t *s) {
    if (!s) return;
    const td_charge_t *charge = s->charge;
    uint64_t bytes = s->charged;
    free(s);
    td_charge_give(charge, bytes);
}
