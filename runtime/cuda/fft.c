/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms through cuFFT. The plan is made at load, without memory of its own: its work area lies in the
 * launch's scratch. cuFFT takes nested strides and one batch; what the layouts have beyond that is a loop of calls.
 * How XLA calls it: xla/stream_executor/cuda/cuda_fft.cc. */
#include <stdio.h>

#include "base/checked.h"
#include "runtime/cuda/fft.h"
#include "runtime/cuda/lib.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/own.h"

enum { LEAST = 11000, /* of CUDA 12.0 */ WORK_ALIGN = 256 };

typedef struct fft_lib {
    TD_FFT_SYMBOLS(TD_CUDA_LIB_MEMBER)
} fft_lib_t;
#define ROW(needed, type, name, args) TD_CUDA_LIB_ROW(fft_lib_t, needed, name)
static const td_cuda_symbol_t symbols[] = {TD_FFT_SYMBOLS(ROW)};

static td_status_t start(td_cuda_device_t *d, void *lib, const char *file, td_err_t *err);
static const td_cuda_lib_t library = {
    .name = "cuFFT", .package = "the cuFFT library of CUDA 12 or 13",
    .files = {{"libcufft.so.12", 13000}, {"libcufft.so.11", 0}},
    .symbols = symbols, .n_symbols = sizeof symbols / sizeof *symbols, .bytes = sizeof(fft_lib_t), .start = start};

static td_status_t start(td_cuda_device_t *d, void *lib, const char *file, td_err_t *err) {
    int version = 0;
    (void)d;
    if (((fft_lib_t *)lib)->cufftGetVersion(&version)) version = 0;
    char have[24];
    snprintf(have, sizeof have, "%d.%d", version / 1000, version % 1000 / 100);
    return td_cuda_lib_version(&library, file, version, LEAST, have, "11.0", err);
}

/* One axis of the transform or of its batch. */
typedef struct axis {
    int64_t n, in, out;
} axis_t;

typedef struct fft {
    td_kernel_t base;
    td_cuda_device_t *device;
    fft_lib_t *lib;
    pthread_mutex_t lock; /* a plan has one stream and one work area at a time */
    bool locked, planned, f64, copies;
    td_fft_kind_t kind;
    cufftHandle plan;
    uint64_t in_bytes, out_bytes, work_at;
    axis_t loops[TD_FFT_BATCHES]; /* strides in bytes; a call for each */
    uint32_t n_loops;
    CUfunction scale; /* NULL: as it is */
    double factor;
    uint64_t reals; /* of the output */
} fft_t;

static const char *name_of(int r) {
    static const char *const names[] = {
        [1] = "CUFFT_INVALID_PLAN",    "CUFFT_ALLOC_FAILED",        "CUFFT_INVALID_TYPE",
        "CUFFT_INVALID_VALUE",         "CUFFT_INTERNAL_ERROR",      "CUFFT_EXEC_FAILED",
        "CUFFT_SETUP_FAILED",          "CUFFT_INVALID_SIZE",        "CUFFT_UNALIGNED_DATA",
        [11] = "CUFFT_INVALID_DEVICE", [13] = "CUFFT_NO_WORKSPACE", "CUFFT_NOT_IMPLEMENTED",
        [16] = "CUFFT_NOT_SUPPORTED"};
    const char *s = r > 0 && r < (int)(sizeof names / sizeof *names) ? names[r] : NULL;
    return s ? s : "an error without a name";
}
static td_status_t check(int r, const char *call, td_status_t otherwise, td_err_t *err) {
    if (!r) return TD_OK;
    return td_fail(err, r == CUFFT_ALLOC_FAILED ? TD_NOMEM : otherwise, "Fourier transform: %s: %s (%d)", call,
                   name_of(r), r);
}

static void release(td_kernel_t *k) {
    fft_t *f = (fft_t *)k;
    if (f->planned) {
        (void)td_cuda_enter(f->device, NULL);
        f->lib->cufftDestroy(f->plan);
    }
    if (f->locked) pthread_mutex_destroy(&f->lock);
    f->planned = f->locked = false;
}

/* ---- the launch ---- */
static int one(const fft_t *f, void *in, void *out) {
    int direction = f->kind == TD_FFT_FORWARD ? CUFFT_FORWARD : CUFFT_INVERSE;
    switch (f->kind) {
    case TD_FFT_REAL: return f->f64 ? f->lib->cufftExecD2Z(f->plan, in, out) : f->lib->cufftExecR2C(f->plan, in, out);
    case TD_FFT_REAL_INVERSE:
        return f->f64 ? f->lib->cufftExecZ2D(f->plan, in, out) : f->lib->cufftExecC2R(f->plan, in, out);
    default:
        return f->f64 ? f->lib->cufftExecZ2Z(f->plan, in, out, direction)
                      : f->lib->cufftExecC2C(f->plan, in, out, direction);
    }
}
static td_status_t all(const fft_t *f, char *in, char *out, td_err_t *err) {
    int64_t at[TD_FFT_BATCHES] = {0};
    for (;;) {
        td_status_t st = check(one(f, in, out), "cufftExec", TD_DEVICE, err);
        if (st) return st;
        uint32_t i = 0;
        for (; i < f->n_loops; i++) { /* the next in all loops */
            const axis_t *l = &f->loops[i];
            if (++at[i] < l->n) {
                in += l->in, out += l->out;
                break;
            }
            in -= (l->n - 1) * l->in, out -= (l->n - 1) * l->out;
            at[i] = 0;
        }
        if (i == f->n_loops) return TD_OK;
    }
}

static bool overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes) {
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return x < y ? y - x < a_bytes : x - y < b_bytes;
}

static td_status_t launch(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                          td_err_t *err) {
    fft_t *f = (fft_t *)(uintptr_t)k;
    CUstream q = ((td_cuda_stream_t *)s)->handle;
    void *in = bufs[0], *out = bufs[1];
    (void)n;
    if (!f->planned) return TD_OK;
    char *area = (char *)td_align_up((uintptr_t)scratch, WORK_ALIGN);
    td_status_t st = TD_OK;
    if (f->copies) {
        if ((st = td_cuda_copy(s, area, in, f->in_bytes, err))) return st;
        in = area;
    } else if (overlap(in, f->in_bytes, out, f->out_bytes)) {
        return td_fail(err, TD_MISMATCH, "Fourier transform: input and output share memory");
    }
    pthread_mutex_lock(&f->lock);
    st = check(f->lib->cufftSetStream(f->plan, q), "cufftSetStream", TD_DEVICE, err);
    if (!st) st = check(f->lib->cufftSetWorkArea(f->plan, area + f->work_at), "cufftSetWorkArea", TD_DEVICE, err);
    if (!st) st = all(f, in, out, err);
    pthread_mutex_unlock(&f->lock);
    if (st || !f->scale) return st;
    float factor = (float)f->factor;
    void *params[] = {&out, &f->reals, f->f64 ? (void *)&f->factor : &factor};
    return td_cuda_own_launch(s, f->scale, f->reals, params, "scaling of a Fourier transform", err);
}

/* ---- the plan ---- */
static void sort(axis_t *v, uint32_t n) { /* longest steps of the input first */
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = i; j && v[j - 1].in < v[j].in; j--) {
            axis_t t = v[j];
            v[j] = v[j - 1], v[j - 1] = t;
        }
}

/* The transform's axes, outer first. Those of length 1 change nothing; the last of a real kind has its own meaning. */
static uint32_t axes(const td_fft_desc_t *d, axis_t *v) {
    bool real = d->kind == TD_FFT_REAL || d->kind == TD_FFT_REAL_INVERSE;
    uint32_t n = 0, free_axes = real ? d->rank - 1 : d->rank;
    for (uint32_t i = 0; i < free_axes; i++)
        if (d->n[i] > 1) v[n++] = (axis_t){d->n[i], d->in_stride[i], d->out_stride[i]};
    sort(v, n);
    if (!real && n) return n;
    uint32_t last = d->rank - 1;
    v[n] = (axis_t){d->n[last], d->in_stride[last], d->out_stride[last]};
    return n + 1;
}
/* Batch axes, joined where one continues the other; longest first. */
static uint32_t batches(const td_fft_desc_t *d, axis_t *v) {
    uint32_t n = 0, kept = 0;
    for (uint32_t i = 0; i < d->n_batches; i++)
        if (d->batch[i] > 1) v[n++] = (axis_t){d->batch[i], d->in_batch[i], d->out_batch[i]};
    sort(v, n);
    for (uint32_t i = 0; i < n; i++) {
        axis_t *o = kept ? &v[kept - 1] : NULL;
        if (o && o->in == v[i].in * v[i].n && o->out == v[i].out * v[i].n)
            *o = (axis_t){o->n * v[i].n, v[i].in, v[i].out};
        else v[kept++] = v[i];
    }
    for (uint32_t i = 1; i < kept; i++)
        if (v[i].n > v[0].n) {
            axis_t t = v[0];
            v[0] = v[i], v[i] = t;
        }
    return kept;
}

/* Strides as cuFFT wants them: the innermost one, and for each outer axis how many inner ones it steps over. */
static bool embed(const axis_t *v, uint32_t rank, bool out, long long *e, long long *stride) {
    *stride = out ? v[rank - 1].out : v[rank - 1].in;
    e[0] = v[0].n;
    for (uint32_t i = rank - 1; i > 0; i--) {
        int64_t inner = out ? v[i].out : v[i].in, outer = out ? v[i - 1].out : v[i - 1].in;
        if (inner < 1 || outer < 1 || outer % inner) return false;
        e[i] = outer / inner;
    }
    return *stride > 0;
}

static td_status_t make_plan(fft_t *f, const td_fft_desc_t *d, size_t *work, td_err_t *err) {
    axis_t v[TD_FFT_RANK], b[TD_FFT_BATCHES];
    long long n[TD_FFT_RANK], in[TD_FFT_RANK], out[TD_FFT_RANK], in_stride = 0, out_stride = 0;
    static const int types[2][4] = {{CUFFT_C2C, CUFFT_C2C, CUFFT_R2C, CUFFT_C2R},
                                    {CUFFT_Z2Z, CUFFT_Z2Z, CUFFT_D2Z, CUFFT_Z2D}};
    uint32_t rank = axes(d, v), n_b = batches(d, b);
    int64_t elem = d->f64 ? 8 : 4, in_elem = d->kind == TD_FFT_REAL ? elem : 2 * elem;
    int64_t out_elem = d->kind == TD_FFT_REAL_INVERSE ? elem : 2 * elem;
    if (!embed(v, rank, false, in, &in_stride) || !embed(v, rank, true, out, &out_stride))
        return td_fail(err, TD_UNSUPPORTED,
                       "Fourier transform: cuFFT has no plan for layouts that differ or are not nested");
    for (uint32_t i = 0; i < rank; i++) n[i] = v[i].n;
    axis_t batch = n_b ? b[0] : (axis_t){1, d->in_count, d->out_count};
    for (uint32_t i = 1; i < n_b; i++)
        f->loops[f->n_loops++] = (axis_t){b[i].n, b[i].in * in_elem, b[i].out * out_elem};
    td_status_t st = check(f->lib->cufftCreate(&f->plan), "cufftCreate", TD_DEVICE, err);
    if (st) return st;
    f->planned = true;
    if ((st = check(f->lib->cufftSetAutoAllocation(f->plan, 0), "cufftSetAutoAllocation", TD_DEVICE, err))) return st;
    return check(f->lib->cufftMakePlanMany64(f->plan, (int)rank, n, in, in_stride, batch.in, out, out_stride, batch.out,
                                             types[d->f64][d->kind], batch.n, work),
                 "cufftMakePlanMany64", TD_UNSUPPORTED, err);
}

static td_status_t prepare(td_cuda_device_t *d, fft_t *f, const td_fft_desc_t *desc, uint64_t *out_scratch,
                           td_err_t *err) {
    size_t work = 0;
    bool inverse = desc->kind == TD_FFT_INVERSE || desc->kind == TD_FFT_REAL_INVERSE;
    td_status_t st = td_cuda_lib_get(d, &library, "Fourier transforms", &f->lib, err);
    if (st) return st;
    uint64_t real = desc->f64 ? 8 : 4, size = 0;
    f->f64 = desc->f64, f->kind = desc->kind;
    f->in_bytes = (uint64_t)desc->in_count * real * (desc->kind == TD_FFT_REAL ? 1 : 2);
    f->reals = (uint64_t)desc->out_count * (desc->kind == TD_FFT_REAL_INVERSE ? 1 : 2);
    f->out_bytes = f->reals * real;
    f->copies = desc->kind == TD_FFT_REAL_INVERSE; /* it may use its input up */
    if ((st = make_plan(f, desc, &work, err))) return st;
    f->work_at = f->copies ? td_align_up(f->in_bytes, WORK_ALIGN) : 0;
    if (!td_add_u64(f->work_at, work, &size) || !td_add_u64(size, WORK_ALIGN, &size))
        return td_fail(err, TD_LIMIT, "Fourier transform: a work area of %zu bytes", work);
    *out_scratch = size;
    if (!inverse) return TD_OK;
    double n = 1;
    for (uint32_t i = 0; i < desc->rank; i++) n *= (double)desc->n[i];
    f->factor = desc->f64 ? 1 / n : (double)(1 / (float)n);
    return td_cuda_own_get(d, desc->f64 ? "td_scale_f64" : "td_scale_f32", &f->scale, err);
}

/* Sizes this large are never meant, and keep all products below in range. */
#define ELEMENTS_MOST (1ll << 40)

td_status_t td_cuda_fft_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                              uint64_t *out_scratch, td_err_t *err) {
    const td_fft_desc_t *t = desc;
    if (t->in_count < 0 || t->out_count < 0 || t->in_count > ELEMENTS_MOST || t->out_count > ELEMENTS_MOST)
        return td_fail(err, TD_LIMIT, "fft of %lld to %lld elements", (long long)t->in_count, (long long)t->out_count);
    fft_t *f = TD_NEW(arena, fft_t);
    if (!f) return td_arena_fail(arena, err);
    f->base = (td_kernel_t){.launch = launch, .release = release};
    f->device = d;
    *out_scratch = 0;
    if (t->in_count && t->out_count) {
        pthread_mutex_init(&f->lock, NULL);
        f->locked = true;
        td_status_t st = prepare(d, f, t, out_scratch, err);
        if (st) {
            release(&f->base);
            return st;
        }
    }
    *out = &f->base;
    return TD_OK;
}
