/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for cuFFT, on FFTW. A plan must have its work area from the caller; a transform from complex to real uses
 * its input up, as the real one may. */
#include <fftw3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/fft.h"
#include "tests/fakecuda/library.h"

#define DECLARE(needed, type, name, args) FK_EXPORT type name args;
TD_FFT_SYMBOLS(DECLARE)

enum { PLANS = 4096, RANK = 3, SUCCESS = 0, INVALID_PLAN = 1, ALLOC_FAILED = 2, INVALID_VALUE = 4, EXEC_FAILED = 6,
    WORK_ALIGN = 256 };
static const char PLAN[] = "cuFFT plan";
typedef struct side {
    long long embed[RANK], stride, dist;
} side_t;
typedef struct plan {
    bool automatic, made;
    int rank, type;
    long long n[RANK], batch;
    side_t in, out;
    CUstream stream;
    uint64_t work, work_bytes;
} plan_t;
static void *plans[PLANS]; /* the handle is the index + 1 */

static plan_t *find(cufftHandle h) {
    if (h > 0 && h <= PLANS && plans[h - 1]) return fk_library_get(plans[h - 1], PLAN);
    fk_fault(FK_HANDLE, 0, "%d is no handle of a %s", h, PLAN);
    return NULL;
}

int cufftGetVersion(int *version) {
    *version = 12000;
    return SUCCESS;
}
int cufftCreate(cufftHandle *out) {
    FK_ENTER(cufftCreate, 0);
    int i = 0;
    while (i < PLANS && plans[i]) i++;
    if (i == PLANS || !(plans[i] = fk_library_new(PLAN, sizeof(plan_t)))) return fk_leave(ALLOC_FAILED);
    ((plan_t *)fk_library_get(plans[i], PLAN))->automatic = true;
    *out = i + 1;
    return fk_leave(SUCCESS);
}
int cufftDestroy(cufftHandle h) {
    FK_ENTER(cufftDestroy, 0);
    if (!find(h)) return fk_leave(INVALID_PLAN);
    fk_library_end(plans[h - 1], PLAN);
    plans[h - 1] = NULL;
    return fk_leave(SUCCESS);
}
int cufftSetAutoAllocation(cufftHandle h, int on) {
    FK_ENTER(cufftSetAutoAllocation, 0);
    plan_t *p = find(h);
    if (p) p->automatic = on;
    return fk_leave(p ? SUCCESS : INVALID_PLAN);
}
int cufftSetStream(cufftHandle h, CUstream stream) {
    FK_ENTER(cufftSetStream, 0);
    plan_t *p = find(h);
    if (p) p->stream = stream;
    return fk_leave(p ? SUCCESS : INVALID_PLAN);
}
int cufftSetWorkArea(cufftHandle h, void *work) {
    FK_ENTER(cufftSetWorkArea, 0);
    plan_t *p = find(h);
    if (p) p->work = (uintptr_t)work;
    return fk_leave(p ? SUCCESS : INVALID_PLAN);
}

static bool real_in(const plan_t *p) { return p->type == CUFFT_R2C || p->type == CUFFT_D2Z; }
static bool real_out(const plan_t *p) { return p->type == CUFFT_C2R || p->type == CUFFT_Z2D; }
static bool f64(const plan_t *p) { return p->type & 0x40; }
/* Elements along axis i of that side. */
static long long extent(const plan_t *p, int i, bool out) {
    bool half = i == p->rank - 1 && ((out && real_in(p)) || (!out && real_out(p)));
    return half ? p->n[i] / 2 + 1 : p->n[i];
}
static long long step(const plan_t *p, int i, const side_t *s) {
    long long v = s->stride;
    for (int k = p->rank - 1; k > i; k--) v *= s->embed[k];
    return v;
}
static uint64_t bytes(const plan_t *p, const side_t *s, bool out) {
    long long last = (p->batch - 1) * s->dist;
    for (int i = 0; i < p->rank; i++) last += (extent(p, i, out) - 1) * step(p, i, s);
    unsigned elem = (f64(p) ? 8 : 4) * (out ? (real_out(p) ? 1 : 2) : real_in(p) ? 1 : 2);
    return (uint64_t)(last + 1) * elem;
}

static bool known(int type) {
    return type == CUFFT_C2C || type == CUFFT_R2C || type == CUFFT_C2R || type == CUFFT_Z2Z || type == CUFFT_D2Z ||
           type == CUFFT_Z2D;
}
int cufftMakePlanMany64(cufftHandle h, int rank, long long *n, long long *in_embed, long long in_stride,
                        long long in_dist, long long *out_embed, long long out_stride, long long out_dist, int type,
                        long long batch, size_t *work_bytes) {
    FK_ENTER(cufftMakePlanMany64, 0);
    plan_t *p = find(h);
    if (!p || p->made) return fk_leave(INVALID_PLAN);
    if (rank < 1 || rank > RANK || batch < 1 || !known(type) || in_stride < 1 || out_stride < 1)
        return fk_leave(fk_fault(FK_ARGUMENTS, INVALID_VALUE, "rank %d, type %#x, batch %lld, strides %lld and %lld",
                                 rank, (unsigned)type, batch, in_stride, out_stride));
    p->rank = rank, p->type = type, p->batch = batch, p->made = true;
    p->in = (side_t){.stride = in_stride, .dist = in_dist}, p->out = (side_t){.stride = out_stride, .dist = out_dist};
    for (int i = 0; i < rank; i++) p->n[i] = n[i], p->in.embed[i] = in_embed[i], p->out.embed[i] = out_embed[i];
    for (int i = 0; i < rank; i++)
        if (n[i] < 1 || (i && (in_embed[i] < extent(p, i, false) || out_embed[i] < extent(p, i, true))))
            return fk_leave(fk_fault(FK_ARGUMENTS, INVALID_VALUE,
                                     "axis %d: %lld elements in embeddings of %lld and %lld", i, n[i], in_embed[i],
                                     out_embed[i]));
    p->work_bytes = *work_bytes = 512 + bytes(p, &p->in, false) / 2;
    return fk_leave(SUCCESS);
}

/* ---- the transform ---- */
typedef struct job {
    plan_t plan;
    int direction;
} job_t;
static pthread_mutex_t planner = PTHREAD_MUTEX_INITIALIZER;

static CUresult run(const void *args, void *const *memory) {
    const job_t *j = args;
    const plan_t *p = &j->plan;
    fftw_iodim64 n[RANK], b = {p->batch, p->in.dist, p->out.dist};
    fftwf_iodim64 nf[RANK], bf = {p->batch, p->in.dist, p->out.dist};
    unsigned flags = FFTW_ESTIMATE | FFTW_UNALIGNED | (real_out(p) ? FFTW_DESTROY_INPUT : FFTW_PRESERVE_INPUT);
    fftw_plan d = NULL;
    fftwf_plan f = NULL;
    void *in = memory[0], *out = memory[1];
    for (int i = 0; i < p->rank; i++) {
        n[i] = (fftw_iodim64){p->n[i], step(p, i, &p->in), step(p, i, &p->out)};
        nf[i] = (fftwf_iodim64){n[i].n, n[i].is, n[i].os};
    }
    memset(memory[2], 0xff, p->work_bytes);
    pthread_mutex_lock(&planner);
    switch (p->type) {
    case CUFFT_C2C: f = fftwf_plan_guru64_dft(p->rank, nf, 1, &bf, in, out, j->direction, flags); break;
    case CUFFT_R2C: f = fftwf_plan_guru64_dft_r2c(p->rank, nf, 1, &bf, in, out, flags); break;
    case CUFFT_C2R: f = fftwf_plan_guru64_dft_c2r(p->rank, nf, 1, &bf, in, out, flags); break;
    case CUFFT_Z2Z: d = fftw_plan_guru64_dft(p->rank, n, 1, &b, in, out, j->direction, flags); break;
    case CUFFT_D2Z: d = fftw_plan_guru64_dft_r2c(p->rank, n, 1, &b, in, out, flags); break;
    default: d = fftw_plan_guru64_dft_c2r(p->rank, n, 1, &b, in, out, flags); break;
    }
    pthread_mutex_unlock(&planner);
    if (f) fftwf_execute(f);
    if (d) fftw_execute(d);
    pthread_mutex_lock(&planner);
    if (f) fftwf_destroy_plan(f);
    if (d) fftw_destroy_plan(d);
    pthread_mutex_unlock(&planner);
    if (real_out(p)) memset(in, 0xff, bytes(p, &p->in, false));
    return f || d ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

static int execute(cufftHandle h, const char *who, int type, void *in, void *out, int direction) {
    plan_t *p = find(h);
    if (!p || !p->made) return INVALID_PLAN;
    if (p->type != type)
        return fk_fault(FK_ARGUMENTS, INVALID_VALUE, "%s of a plan of type %#x", who, (unsigned)p->type);
    if (p->automatic) return fk_fault(FK_ARGUMENTS, EXEC_FAILED, "%s: the plan has a work area of its own", who);
    uintptr_t elem = f64(p) ? 8 : 4, a = (uintptr_t)in, b = (uintptr_t)out;
    if (a % elem || b % elem || p->work % WORK_ALIGN)
        return fk_fault(FK_ARGUMENTS, EXEC_FAILED, "%s: arrays or work area are not aligned: %p, %p, %#llx", who, in,
                        out, (unsigned long long)p->work);
    fk_range_t ranges[] = {{a, bytes(p, &p->in, false), real_out(p) || a == b}, {b, bytes(p, &p->out, true), true},
                           {p->work, p->work_bytes, true}};
    job_t job = {*p, direction};
    return fk_library_enqueue(p->stream, who, ranges, 3, run, &job, sizeof job) ? EXEC_FAILED : SUCCESS;
}
#define EXECUTE(name, type, direction)                                        \
    {                                                                         \
        FK_ENTER(name, 0);                                                    \
        return fk_leave(execute(plan, #name, type, in, out, direction));      \
    }
int cufftExecC2C(cufftHandle plan, void *in, void *out, int direction) EXECUTE(cufftExecC2C, CUFFT_C2C, direction)
int cufftExecR2C(cufftHandle plan, void *in, void *out) EXECUTE(cufftExecR2C, CUFFT_R2C, 0)
int cufftExecC2R(cufftHandle plan, void *in, void *out) EXECUTE(cufftExecC2R, CUFFT_C2R, 0)
int cufftExecZ2Z(cufftHandle plan, void *in, void *out, int direction) EXECUTE(cufftExecZ2Z, CUFFT_Z2Z, direction)
int cufftExecD2Z(cufftHandle plan, void *in, void *out) EXECUTE(cufftExecD2Z, CUFFT_D2Z, 0)
int cufftExecZ2D(cufftHandle plan, void *in, void *out) EXECUTE(cufftExecZ2D, CUFFT_Z2D, 0)
