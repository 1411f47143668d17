/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch-bench ARTIFACT...: what launching a kernel costs above the driver's own call, with any driver.
 *
 * The kernel thunks of a program are enqueued many times in the order of the program. Printed per thunk, each the best
 * of some rounds: `all`, what that takes; `driver`, the same calls of the driver with the same arguments made directly;
 * `own`, the thunks with a driver whose launch does nothing, which is what thunkd itself takes; and the bytes that were
 * allocated meanwhile. The device is cuda, or what THUNKD_DEVICE says. Exits with 1 when own is over --most ns (150) or
 * anything was allocated. With the stand-in driver: FAKECUDA_EMPTY=1 FAKECUDA_INLINE=1 FAKECUDA_RACES=0. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "proto/artifact.h"
#include "runtime/cuda/cuda.h"
#include "runtime/program_in.h"

enum { ROUNDS = 20, LAUNCHES = 20000, LAUNCHES_MOST = 4096, PARAMS_MOST = 512 };

typedef struct call { /* one launch, to be made again */
    bool newer;
    CUlaunchConfig config;
    CUlaunchAttribute attributes[2];
    CUfunction function;
    void *params[PARAMS_MOST];
} call_t;

static td_cuda_t real; /* the driver's own functions */
static call_t *calls;
static uint32_t n_calls;
static td_err_t err;

/* jemalloc's count for this thread; with another allocator nothing is told. */
int mallctl(const char *name, void *old, size_t *old_size, void *value, size_t size) __attribute__((weak));
static uint64_t allocated(void) {
    uint64_t n = 0;
    size_t size = sizeof n;
    return mallctl && !mallctl("thread.allocated", &n, &size, NULL, 0) ? n : 0;
}
static void must(td_status_t st, const char *what) {
    if (!st) return;
    fprintf(stderr, "dispatch-bench: %s: %s\n", what, err.text);
    exit(2);
}

/* ---- the driver, replaced ---- */
static void record(CUfunction f, const CUlaunchConfig *c, bool newer, void **params) {
    size_t offset = 0, size = 0;
    if (n_calls == LAUNCHES_MOST) return;
    call_t *k = &calls[n_calls++];
    *k = (call_t){.newer = newer, .config = *c, .function = f};
    for (unsigned i = 0; i < c->numAttrs && i < 2; i++) k->attributes[i] = c->attrs[i];
    k->config.attrs = k->attributes;
    if (!real.cuFuncGetParamInfo) return;
    for (unsigned i = 0; i < PARAMS_MOST && !real.cuFuncGetParamInfo(f, i, &offset, &size); i++) {
        k->params[i] = aligned_alloc(64, (size + 63) & ~(size_t)63);
        if (k->params[i]) memcpy(k->params[i], params[i], size);
    }
}
static CUresult record_plain(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                             unsigned shared, CUstream s, void **params, void **extra) {
    const CUlaunchConfig c = {.gridDimX = gx, .gridDimY = gy, .gridDimZ = gz, .blockDimX = bx, .blockDimY = by,
                              .blockDimZ = bz, .sharedMemBytes = shared, .hStream = s};
    record(f, &c, false, params);
    return real.cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, s, params, extra);
}
static CUresult record_newer(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
    record(f, c, true, params);
    return real.cuLaunchKernelEx(c, f, params, extra);
}
static CUresult nothing_plain(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                              unsigned bz, unsigned shared, CUstream s, void **params, void **extra) {
    (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)s;
    (void)params, (void)extra;
    return CUDA_SUCCESS;
}
static CUresult nothing_newer(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
    (void)c, (void)f, (void)params, (void)extra;
    return CUDA_SUCCESS;
}

/* ---- measuring ---- */
static void again(void) {
    for (uint32_t i = 0; i < n_calls; i++) {
        call_t *k = &calls[i];
        const CUlaunchConfig *c = &k->config;
        CUresult r = k->newer ? real.cuLaunchKernelEx(c, k->function, k->params, NULL)
                              : real.cuLaunchKernel(k->function, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX,
                                                    c->blockDimY, c->blockDimZ, c->sharedMemBytes, c->hStream,
                                                    k->params, NULL);
        if (r) must(td_fail(&err, TD_DEVICE, "error %d", r), "a launch");
    }
}
typedef struct job {
    td_run_t *run; /* NULL: the recorded calls */
    td_seq_t seq;
} job_t;
static double best_ns(const job_t *j, td_stream_t *s) { /* per thunk */
    double best = 1e30;
    uint32_t times = LAUNCHES / (j->seq.n ? j->seq.n : 1) / ROUNDS + 1;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start = td_now_ns(td_clock_system());
        for (uint32_t i = 0; i < times; i++) {
            if (j->run) must(td_thunk_run_seq(j->run, "thunks", &j->seq), "run");
            else again();
        }
        double ns = (double)(td_now_ns(td_clock_system()) - start) / ((double)times * j->seq.n);
        if (ns < best) best = ns;
        must(s->device->ops->stream_sync(s, &err), "sync");
    }
    return best;
}

/* The kernels among the program's thunks, those of loops and branches too. */
static void kernels_of(const td_seq_t *s, td_thunk_t *out, uint32_t *n) {
    for (uint32_t i = 0; i < s->n; i++) {
        const td_thunk_t *t = &s->v[i];
        if (t->kind->lower == td_kernel_thunk_lower && !t->skip && *n < LAUNCHES_MOST) out[(*n)++] = *t;
        for (uint32_t k = 0; k < t->n_seqs && t->kind->enqueue != td_slice_fusion_enqueue; k++)
            kernels_of(&t->seqs[k], out, n);
    }
}

static bool measure(const char *path, td_program_t *p, td_binding_t *b, double most) {
    td_cuda_device_t *d = (td_cuda_device_t *)p->dev;
    td_thunk_t *v = calloc(LAUNCHES_MOST, sizeof *v);
    job_t thunks = {.run = &b->run, .seq = {v, 0}}, direct = {0};
    const void **in = calloc(p->n_inputs + 1u, sizeof *in), **out = calloc(p->n_outputs + 1u, sizeof *out);
    if (!v || !in || !out) must(td_fail(&err, TD_NOMEM, "out of memory"), path);
    for (uint32_t i = 0; i < p->n_inputs; i++) in[i] = calloc(1, (size_t)td_io_host_bytes(p->inputs[i].shape) + 64);
    must(td_program_run(b, in, out, NULL, &err), path); /* binds the inputs */
    kernels_of(&p->thunks, v, &thunks.seq.n);
    td_run_lane(&b->run, 0);
    b->run.err = &err;
    real = d->cu;
    n_calls = 0;
    d->cu.cuLaunchKernel = record_plain;
    if (real.cuLaunchKernelEx) d->cu.cuLaunchKernelEx = record_newer;
    must(td_thunk_run_seq(&b->run, "thunks", &thunks.seq), path);
    d->cu.cuLaunchKernel = real.cuLaunchKernel;
    d->cu.cuLaunchKernelEx = real.cuLaunchKernelEx;
    direct.seq.n = n_calls;
    double all = best_ns(&thunks, b->run.stream), driver = best_ns(&direct, b->run.stream);
    d->cu.cuLaunchKernel = nothing_plain;
    if (real.cuLaunchKernelEx) d->cu.cuLaunchKernelEx = nothing_newer;
    uint64_t before = allocated();
    double own = best_ns(&thunks, b->run.stream);
    uint64_t bytes = allocated() - before;
    d->cu = real;
    uint64_t args = 0;
    for (uint32_t i = 0; i < thunks.seq.n; i++) args += v[i].n_args;
    const char *name = strlen(path) > 48 ? path + strlen(path) - 48 : path;
    printf("%-48s %3u kernels, %4.1f arguments: all %5.0f ns, driver %5.0f ns, own %3.0f ns, %llu bytes allocated\n",
           name, thunks.seq.n, (double)args / (thunks.seq.n ? thunks.seq.n : 1), all, driver, own,
           (unsigned long long)bytes);
    return thunks.seq.n && own <= most && !bytes;
}

static bool bench(const char *path, td_device_t *dev, double most) {
    td_payload_table_t *table = NULL;
    td_artifact_t *a = NULL;
    td_module_t *m = NULL;
    td_program_t *p = NULL;
    td_binding_t *b = NULL;
    must(td_payload_table_create(td_alloc_default(), &table, &err), path);
    must(td_artifact_open_file(path, table, td_alloc_default(), &a, &err), path);
    must(td_module_open(a, td_alloc_default(), &m, &err), path);
    must(td_program_create(m, &(td_program_opts_t){.dev = dev}, &p, &err), path);
    must(td_binding_create(p, td_alloc_default(), &b, &err), path);
    bool good = measure(path, p, b, most);
    td_binding_destroy(b);
    td_program_destroy(p);
    td_module_close(m);
    td_artifact_close(a);
    td_payload_table_destroy(table);
    return good;
}

int main(int argc, char **argv) {
    const char *spec = getenv("THUNKD_DEVICE") ? getenv("THUNKD_DEVICE") : "cuda";
    double most = 150;
    bool good = true;
    int i = 1;
    td_device_t *dev = NULL;
    if (argc > 2 && !strcmp(argv[1], "--most")) most = atof(argv[2]), i = 3;
    if (!(calls = calloc(LAUNCHES_MOST, sizeof *calls))) return 2;
    must(td_device_open(spec, td_alloc_default(), &dev, &err), spec);
    for (; i < argc; i++) good &= bench(argv[i], dev, most);
    td_device_destroy(dev);
    return good ? 0 : 1;
}
