/* SPDX-License-Identifier: Apache-2.0 */
/* gpu-probe [ARTIFACT...]: which GPU this is, and whether programs leave memory on it.
 *
 * Prints `card NAME`, `capability M.N`, `driver N` (as CUDA counts: 13000), `memory BYTES`. Each artifact is then
 * loaded, run on zeros and unloaded ROUNDS times: `left BYTES FILE` is what of the device's free memory has gone from the end
 * of the first round to the end of the last (the first loads what libraries keep), `refused FILE: why` if it cannot be
 * loaded. The device is cuda, or what THUNKD_DEVICE says. Exit 1 when anything was left, 2 without a GPU. */
#include <stdio.h>
#include <stdlib.h>

#include "proto/artifact.h"
#include "runtime/cuda/cuda.h"
#include "runtime/program_in.h"

enum { ROUNDS = 5 };
static td_err_t err;

static uint64_t free_bytes(td_cuda_device_t *d) {
    size_t left = 0, total = 0;
    if (td_cuda_enter(d, NULL) || d->cu.cuMemGetInfo_v2(&left, &total)) return 0;
    return left;
}

static td_status_t run(td_program_t *p) {
    td_binding_t *b = NULL;
    const void **in = calloc(p->n_inputs + 1u, sizeof *in), **out = calloc(p->n_outputs + 1u, sizeof *out);
    td_status_t st = in && out ? td_binding_create(p, td_alloc_default(), &b, &err) : TD_NOMEM;
    for (uint32_t i = 0; i < p->n_inputs && !st; i++)
        in[i] = calloc(1, (size_t)td_io_host_bytes(p->inputs[i].shape) + 64);
    if (!st) st = td_program_run(b, in, out, NULL, &err);
    td_binding_destroy(b);
    for (uint32_t i = 0; in && i < p->n_inputs; i++) free((void *)(uintptr_t)in[i]);
    free(in);
    free(out);
    return st;
}

static td_status_t once(const char *path, td_device_t *dev) {
    td_payload_table_t *table = NULL;
    td_artifact_t *a = NULL;
    td_module_t *m = NULL;
    td_program_t *p = NULL;
    td_status_t st = td_payload_table_create(td_alloc_default(), &table, &err);
    if (!st) st = td_artifact_open_file(path, table, td_alloc_default(), &a, &err);
    if (!st) st = td_module_open(a, td_alloc_default(), &m, &err);
    if (!st) st = td_program_create(m, &(td_program_opts_t){.dev = dev}, &p, &err);
    if (!st) st = run(p);
    td_program_destroy(p);
    td_module_close(m);
    td_artifact_close(a);
    td_payload_table_destroy(table);
    return st;
}

static bool leaks(const char *path, td_cuda_device_t *d) {
    uint64_t first = 0, last = 0;
    for (int i = 0; i < ROUNDS; i++) {
        if (once(path, &d->base)) {
            printf("refused %s: %s\n", path, err.text);
            return false;
        }
        last = free_bytes(d);
        if (!i) first = last;
    }
    printf("left %lld %s\n", (long long)(first - last), path);
    return first > last;
}

int main(int argc, char **argv) {
    const char *spec = getenv("THUNKD_DEVICE") ? getenv("THUNKD_DEVICE") : "cuda";
    td_device_t *dev = NULL;
    bool bad = false;
    if (td_device_open(spec, td_alloc_default(), &dev, &err)) {
        fprintf(stderr, "gpu-probe: %s\n", err.text);
        return 2;
    }
    td_cuda_device_t *d = (td_cuda_device_t *)dev;
    size_t left = 0, total = 0;
    (void)d->cu.cuMemGetInfo_v2(&left, &total);
    printf("card %s\ncapability %d.%d\ndriver %d\nmemory %zu\n", d->name, d->major, d->minor, d->cu.version, total);
    for (int i = 1; i < argc; i++) bad |= leaks(argv[i], d);
    td_device_destroy(dev);
    return bad;
}
