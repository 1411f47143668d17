/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fft_desc.h"

#include "base/limits.h"

_Static_assert(TD_FFT_BATCHES >= TD_LIMIT_RANK, "every dimension may be a batch dimension");

static td_type_t complex_of(td_type_t t) {
    switch (t) {
    case TD_F32:
    case TD_C64: return TD_C64;
    case TD_F64:
    case TD_C128: return TD_C128;
    default: return TD_TYPE_INVALID;
    }
}

static td_status_t check_types(td_fft_desc_t *d, const td_shape_t *in, const td_shape_t *out, td_err_t *err) {
    bool real_in = d->kind == TD_FFT_REAL, real_out = d->kind == TD_FFT_REAL_INVERSE;
    td_type_t c = complex_of(in->type);
    if (c == TD_TYPE_INVALID || c != complex_of(out->type) || real_in == td_type_is_complex(in->type) ||
        real_out == td_type_is_complex(out->type))
        return td_fail(err, TD_UNSUPPORTED, "fft of kind %d from %s to %s", (int)d->kind, td_type_name(in->type),
                       td_type_name(out->type));
    d->f64 = c == TD_C128;
    return TD_OK;
}

/* Elements of the last transformed dimension on the complex side of the real kinds. */
static int64_t half(int64_t n) { return n ? n / 2 + 1 : 0; }

static td_status_t check_dims(const td_fft_desc_t *d, const td_shape_t *in, const td_shape_t *out, td_err_t *err) {
    for (uint32_t i = 0; i < in->rank; i++) {
        int64_t a = in->dims[i], b = out->dims[i], want_in = a, want_out = a;
        if (i >= d->n_batches) {
            int64_t n = d->n[i - d->n_batches];
            bool last = i + 1 == in->rank;
            want_in = last && d->kind == TD_FFT_REAL_INVERSE ? half(n) : n;
            want_out = last && d->kind == TD_FFT_REAL ? half(n) : n;
        }
        if (a != want_in || b != want_out)
            return td_fail(err, TD_MISMATCH, "fft: dimension %u goes from %lld to %lld instead of %lld to %lld", i,
                           (long long)a, (long long)b, (long long)want_in, (long long)want_out);
    }
    return TD_OK;
}

td_status_t td_fft_describe(int kind, const int64_t *length, size_t n_length, const td_shape_t *in,
                            const td_shape_t *out, td_fft_desc_t *out_desc, td_err_t *err) {
    int64_t is[TD_LIMIT_RANK], os[TD_LIMIT_RANK];
    td_fft_desc_t d = {.kind = (td_fft_kind_t)kind};
    if (kind < TD_FFT_FORWARD || kind > TD_FFT_REAL_INVERSE) return td_fail(err, TD_UNSUPPORTED, "fft kind %d", kind);
    if (n_length < 1 || n_length > TD_FFT_RANK)
        return td_fail(err, TD_UNSUPPORTED, "fft of %zu dimensions instead of 1 to %d", n_length, TD_FFT_RANK);
    if (!td_type_is_array(in->type) || !td_type_is_array(out->type) || in->rank != out->rank || in->rank < n_length)
        return td_fail(err, TD_MALFORMED, "fft of %zu dimensions from rank %u to rank %u", n_length, in->rank,
                       out->rank);
    d.rank = (uint32_t)n_length;
    d.n_batches = in->rank - d.rank;
    for (uint32_t i = 0; i < d.rank; i++) d.n[i] = length[i];
    td_status_t s = check_types(&d, in, out, err);
    if (s || (s = check_dims(&d, in, out, err))) return s;
    td_shape_strides(in, is);
    td_shape_strides(out, os);
    for (uint32_t i = 0; i < d.n_batches; i++) d.batch[i] = in->dims[i], d.in_batch[i] = is[i], d.out_batch[i] = os[i];
    for (uint32_t i = 0; i < d.rank; i++) d.in_stride[i] = is[d.n_batches + i], d.out_stride[i] = os[d.n_batches + i];
    d.in_count = in->count;
    d.out_count = out->count;
    *out_desc = d;
    return TD_OK;
}
