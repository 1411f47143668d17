/* SPDX-License-Identifier: Apache-2.0 */
/* The fft library operation, and the core it shares with the HLO opcode. Layouts and batches are FFTW's
 * "guru" dimensions, so nothing is transposed. Two plans each: FFTW's vector code needs aligned arrays. */
#include <fftw3.h>
#include <pthread.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/host/fft.h"
#include "runtime/host/library.h"

/* Transforms of dimensions this long cost days; also keeps every product below in range. */
#define MAX_ELEMENTS (1ll << 40)

struct td_fft {
    td_fft_desc_t d;
    uint64_t in_bytes, out_bytes;
    double scale; /* of inverse transforms, else 1 */
    union {
        fftw_plan d;
        fftwf_plan s;
    } aligned, any; /* NULL when there is nothing to do */
};

static pthread_mutex_t planner = PTHREAD_MUTEX_INITIALIZER;
/* Planning by estimate looks at addresses only: two with the best alignment. */
static _Alignas(64) char place_in[64], place_out[64];

typedef struct dims {
    fftw_iodim64 n[TD_FFT_RANK], batch[TD_FFT_BATCHES];
    fftwf_iodim64 nf[TD_FFT_RANK], batchf[TD_FFT_BATCHES];
} dims_t;

static void set_dims(const td_fft_desc_t *d, dims_t *x) {
    for (uint32_t i = 0; i < d->rank; i++) {
        x->n[i] = (fftw_iodim64){d->n[i], d->in_stride[i], d->out_stride[i]};
        x->nf[i] = (fftwf_iodim64){d->n[i], d->in_stride[i], d->out_stride[i]};
    }
    for (uint32_t i = 0; i < d->n_batches; i++) {
        x->batch[i] = (fftw_iodim64){d->batch[i], d->in_batch[i], d->out_batch[i]};
        x->batchf[i] = (fftwf_iodim64){d->batch[i], d->in_batch[i], d->out_batch[i]};
    }
}

static fftw_plan plan_f64(const td_fft_desc_t *d, const dims_t *x, unsigned flags) {
    int r = (int)d->rank, b = (int)d->n_batches;
    void *in = place_in, *out = place_out;
    switch (d->kind) {
    case TD_FFT_FORWARD: return fftw_plan_guru64_dft(r, x->n, b, x->batch, in, out, FFTW_FORWARD, flags);
    case TD_FFT_INVERSE: return fftw_plan_guru64_dft(r, x->n, b, x->batch, in, out, FFTW_BACKWARD, flags);
    case TD_FFT_REAL: return fftw_plan_guru64_dft_r2c(r, x->n, b, x->batch, in, out, flags);
    default: return fftw_plan_guru64_dft_c2r(r, x->n, b, x->batch, in, out, flags);
    }
}
static fftwf_plan plan_f32(const td_fft_desc_t *d, const dims_t *x, unsigned flags) {
    int r = (int)d->rank, b = (int)d->n_batches;
    void *in = place_in, *out = place_out;
    switch (d->kind) {
    case TD_FFT_FORWARD: return fftwf_plan_guru64_dft(r, x->nf, b, x->batchf, in, out, FFTW_FORWARD, flags);
    case TD_FFT_INVERSE: return fftwf_plan_guru64_dft(r, x->nf, b, x->batchf, in, out, FFTW_BACKWARD, flags);
    case TD_FFT_REAL: return fftwf_plan_guru64_dft_r2c(r, x->nf, b, x->batchf, in, out, flags);
    default: return fftwf_plan_guru64_dft_c2r(r, x->nf, b, x->batchf, in, out, flags);
    }
}

static void destroy(void *ctx) {
    td_fft_t *f = ctx;
    pthread_mutex_lock(&planner);
    if (f->d.f64) {
        if (f->aligned.d) fftw_destroy_plan(f->aligned.d);
        if (f->any.d) fftw_destroy_plan(f->any.d);
    } else {
        if (f->aligned.s) fftwf_destroy_plan(f->aligned.s);
        if (f->any.s) fftwf_destroy_plan(f->any.s);
    }
    pthread_mutex_unlock(&planner);
}

static bool make_plans(td_fft_t *f) {
    dims_t x = {0};
    /* Complex to real uses up its input: run always gives it a copy. */
    unsigned keep = f->d.kind == TD_FFT_REAL_INVERSE ? FFTW_DESTROY_INPUT : FFTW_PRESERVE_INPUT;
    set_dims(&f->d, &x);
    pthread_mutex_lock(&planner);
    if (f->d.f64) {
        f->aligned.d = plan_f64(&f->d, &x, FFTW_ESTIMATE | keep);
        f->any.d = plan_f64(&f->d, &x, FFTW_ESTIMATE | keep | FFTW_UNALIGNED);
    } else {
        f->aligned.s = plan_f32(&f->d, &x, FFTW_ESTIMATE | keep);
        f->any.s = plan_f32(&f->d, &x, FFTW_ESTIMATE | keep | FFTW_UNALIGNED);
    }
    pthread_mutex_unlock(&planner);
    return f->d.f64 ? f->aligned.d && f->any.d : f->aligned.s && f->any.s;
}

td_status_t td_fft_make(const td_fft_desc_t *desc, td_arena_t *arena, const td_fft_t **out, uint64_t *out_scratch,
                        td_err_t *err) {
    if (desc->in_count < 0 || desc->out_count < 0 || desc->in_count > MAX_ELEMENTS || desc->out_count > MAX_ELEMENTS)
        return td_fail(err, TD_LIMIT, "fft of %lld to %lld elements", (long long)desc->in_count,
                       (long long)desc->out_count);
    td_fft_t *f = TD_NEW(arena, td_fft_t);
    if (!f) return td_arena_fail(arena, err);
    f->d = *desc;
    uint64_t real = desc->f64 ? 8 : 4;
    f->in_bytes = (uint64_t)desc->in_count * real * (desc->kind == TD_FFT_REAL ? 1 : 2);
    f->out_bytes = (uint64_t)desc->out_count * real * (desc->kind == TD_FFT_REAL_INVERSE ? 1 : 2);
    f->scale = 1;
    if (desc->kind == TD_FFT_INVERSE || desc->kind == TD_FFT_REAL_INVERSE) {
        double n = 1;
        for (uint32_t i = 0; i < desc->rank; i++) n *= (double)desc->n[i];
        f->scale = desc->f64 ? 1 / n : (double)(1 / (float)n);
    }
    *out = f;
    *out_scratch = f->in_bytes;
    if (!desc->in_count || !desc->out_count) return TD_OK;
    if (!td_arena_on_end(arena, destroy, f)) return td_arena_fail(arena, err);
    if (!make_plans(f)) return td_fail(err, TD_UNSUPPORTED, "fft: FFTW has no plan for these sizes and layouts");
    return TD_OK;
}

/* The "new-array" functions take non-const inputs; PRESERVE_INPUT plans do not write them. */
static void run_f64(const td_fft_t *f, void *in, void *out) {
    bool ok = !fftw_alignment_of(in) && !fftw_alignment_of(out);
    fftw_plan p = ok ? f->aligned.d : f->any.d;
    double *r = out;
    if (f->d.kind == TD_FFT_REAL) fftw_execute_dft_r2c(p, in, out);
    else if (f->d.kind == TD_FFT_REAL_INVERSE) fftw_execute_dft_c2r(p, in, out);
    else fftw_execute_dft(p, in, out);
    for (size_t i = 0; f->scale != 1 && i < f->out_bytes / 8; i++) r[i] *= f->scale;
}
static void run_f32(const td_fft_t *f, void *in, void *out) {
    bool ok = !fftwf_alignment_of(in) && !fftwf_alignment_of(out);
    fftwf_plan p = ok ? f->aligned.s : f->any.s;
    float *r = out, scale = (float)f->scale;
    if (f->d.kind == TD_FFT_REAL) fftwf_execute_dft_r2c(p, in, out);
    else if (f->d.kind == TD_FFT_REAL_INVERSE) fftwf_execute_dft_c2r(p, in, out);
    else fftwf_execute_dft(p, in, out);
    for (size_t i = 0; f->scale != 1 && i < f->out_bytes / 4; i++) r[i] *= scale;
}

static bool overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes) {
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return x < y ? y - x < a_bytes : x - y < b_bytes;
}

void td_fft_run(const td_fft_t *f, const void *in, void *out, void *scratch) {
    if (!f->d.in_count || !f->d.out_count) return;
    if (f->d.kind == TD_FFT_REAL_INVERSE || overlap(in, f->in_bytes, out, f->out_bytes))
        in = memcpy(scratch, in, f->in_bytes);
    if (f->d.f64) run_f64(f, (void *)(uintptr_t)in, out);
    else run_f32(f, (void *)(uintptr_t)in, out);
}

static td_status_t run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    (void)err;
    td_fft_run(k->library, bufs[0], bufs[1], scratch);
    return TD_OK;
}

td_status_t td_host_fft_lower(td_device_t *dev, const void *desc, td_arena_t *arena, td_kernel_t **out,
                              uint64_t *out_scratch, td_err_t *err) {
    (void)dev;
    const td_fft_t *f = NULL;
    td_kernel_t *k = TD_NEW(arena, td_kernel_t);
    if (!k) return td_arena_fail(arena, err);
    td_status_t s = td_fft_make(desc, arena, &f, out_scratch, err);
    if (s) return s;
    k->library = f;
    k->run = run;
    *out = k;
    return TD_OK;
}
