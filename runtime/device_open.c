/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the device plugin: linked in, beside the executable, or installed. It stays loaded. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/device.h"

extern __typeof__(td_host_device_open) td_host_device_open __attribute__((weak));

td_status_t td_device_open(const char *spec, const td_alloc_t *alloc, td_device_t **out, td_err_t *err) {
    char path[PATH_MAX + 32];
    if (!strncmp(spec, "cuda", 4) && (!spec[4] || spec[4] == ':'))
        return td_cuda_device_open(spec[4] ? spec + 5 : "", alloc, out, err);
    if (strncmp(spec, "host", 4) || (spec[4] && spec[4] != ':'))
        return td_fail(err, TD_USAGE, "unknown device '%s'; known: host, cuda", spec);
    const char *options = spec[4] ? spec + 5 : "";
    if (td_host_device_open) return td_host_device_open(options, alloc, out, err);
    /* Idle helper threads look for work for some tens of microseconds, then sleep: other work shares these cores.
     * OpenMP reads it when it is loaded; what the user says of waiting stands. */
    if (!getenv("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", "2000", 0);
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    void *h = NULL;
    if (n > 0) {
        path[n] = 0;
        char *slash = strrchr(path, '/');
        strcpy(slash ? slash + 1 : path, "thunkd-host.so");
        if (!access(path, R_OK)) h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        else h = dlopen(TD_PREFIX "/lib/thunkd/thunkd-host.so", RTLD_NOW | RTLD_LOCAL);
    }
    if (!h) return td_fail(err, TD_IO, "cannot load the host device: %s", dlerror());
    __typeof__(&td_host_device_open) create;
    *(void **)&create = dlsym(h, "td_host_device_open");
    if (!create) return td_fail(err, TD_IO, "the host device has no td_host_device_open");
    return create(options, alloc, out, err);
}

td_status_t td_device_take(td_device_t *dev, const td_charge_t *charge, uint64_t bytes, const char *what, void **out,
                           td_err_t *err) {
    if (!td_charge_take(charge, bytes))
        return td_fail(err, TD_LIMIT, "the budget has no %llu bytes more for %s", (unsigned long long)bytes, what);
    td_status_t st = dev->ops->mem_get(dev, bytes, out, err);
    if (!st) return TD_OK;
    td_charge_give(charge, bytes);
    return td_prefix(err, st, "%s", what);
}

void td_device_give(td_device_t *dev, const td_charge_t *charge, void *memory, uint64_t bytes) {
    if (!memory) return;
    dev->ops->mem_put(dev, memory, bytes);
    td_charge_give(charge, bytes);
}
