/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPU: by number, by UUID, or the best one. An instance of a divided GPU (MIG) is a device of its own: its name
 * has " MIG " and its profile in it, and cuDeviceGetUuid_v2 tells the instance's UUID. Best is the highest compute capability, then the most free memory;
 * the reasons are kept as text, and are the error when none will do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/cuda/cuda.h"

typedef struct candidate {
    CUdevice handle;
    int major, minor, mode;
    uint64_t free_bytes, total_bytes; /* free: only where it decides */
    char name[96], uuid[37];
} candidate_t;

enum { MOST = 64 }; /* GPUs of one machine */

static td_status_t look(td_cuda_device_t *d, int ordinal, candidate_t *c, td_err_t *err) {
    char what[32];
    CUuuid u = {{0}};
    size_t total = 0;
    td_status_t st;
    snprintf(what, sizeof what, "device %d", ordinal);
    if ((st = TD_CU(d, what, err, cuDeviceGet, &c->handle, ordinal)) ||
        (st = TD_CU(d, what, err, cuDeviceGetName, c->name, (int)sizeof c->name, c->handle)) ||
        (st = TD_CU(d, what, err, cuDeviceGetUuid_v2, &u, c->handle)) ||
        (st = TD_CU(d, what, err, cuDeviceTotalMem_v2, &total, c->handle)) ||
        (st = TD_CU(d, what, err, cuDeviceGetAttribute, &c->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                    c->handle)) ||
        (st = TD_CU(d, what, err, cuDeviceGetAttribute, &c->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                    c->handle)) ||
        (st = TD_CU(d, what, err, cuDeviceGetAttribute, &c->mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, c->handle)))
        return st;
    c->name[sizeof c->name - 1] = 0;
    c->total_bytes = total;
    for (int i = 0, at = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) c->uuid[at++] = '-';
        at += snprintf(c->uuid + at, sizeof c->uuid - (size_t)at, "%02x", u.bytes[i]);
    }
    return TD_OK;
}

/* Free memory is known in a context only. */
static td_status_t free_memory(td_cuda_device_t *d, candidate_t *c, td_err_t *err) {
    CUcontext context = NULL;
    size_t free_bytes = 0, total = 0;
    td_status_t st = TD_CU(d, c->name, err, cuDevicePrimaryCtxRetain, &context, c->handle);
    if (st) return st;
    st = TD_CU(d, c->name, err, cuCtxSetCurrent, context);
    if (!st) st = TD_CU(d, c->name, err, cuMemGetInfo_v2, &free_bytes, &total);
    td_cuda_leave(d);
    d->cu.cuDevicePrimaryCtxRelease_v2(c->handle);
    c->free_bytes = free_bytes;
    return st;
}

static bool is_mig(const candidate_t *c) { return strstr(c->name, " MIG ") != NULL; }

static bool is_uuid(const char *selector, const candidate_t *c) {
    if (!strncmp(selector, "GPU-", 4) || !strncmp(selector, "MIG-", 4)) selector += 4;
    return *selector && !strcasecmp(selector, c->uuid);
}

/* NULL: it will do. */
static const char *refused(const candidate_t *c, const char *capability, char room[32]) {
    snprintf(room, 32, "%d.%d", c->major, c->minor);
    if (capability && strcmp(capability, room)) return "not that capability";
    if (c->mode == CU_COMPUTEMODE_PROHIBITED) return "its compute mode is 'prohibited'";
    return NULL;
}

static void append(char *text, size_t size, const char *part) {
    size_t n = strlen(text);
    snprintf(text + n, size - n, "%s%s", n ? "; " : "", part);
}

static void take(td_cuda_device_t *d, int ordinal, const candidate_t *c, const char *why) {
    d->ordinal = ordinal;
    d->handle = c->handle;
    d->base.memory_bytes = c->total_bytes;
    d->major = c->major, d->minor = c->minor;
    memcpy(d->name, c->name, sizeof d->name);
    snprintf(d->choice, sizeof d->choice, "cuda:%d, %s, compute capability %d.%d, %llu MiB, %s-%s: %s", ordinal,
             c->name,
             c->major, c->minor, (unsigned long long)(c->total_bytes >> 20), is_mig(c) ? "MIG" : "GPU", c->uuid, why);
}

static bool better(const candidate_t *a, const candidate_t *b) {
    if (a->major != b->major) return a->major > b->major;
    if (a->minor != b->minor) return a->minor > b->minor;
    return a->free_bytes > b->free_bytes;
}

static td_status_t best(td_cuda_device_t *d, candidate_t *v, int n, const char *capability, td_err_t *err) {
    char reasons[400] = "", part[160], room[32];
    int at = -1, left = 0;
    for (int i = 0; i < n; i++) {
        const char *no = refused(&v[i], capability, room);
        if (no) v[i].mode = CU_COMPUTEMODE_PROHIBITED;
        else left++;
        if (!no) continue;
        snprintf(part, sizeof part, "cuda:%d %.40s (%s): %s", i, v[i].name, room, no);
        append(reasons, sizeof reasons, part);
    }
    for (int i = 0; i < n; i++) {
        if (v[i].mode == CU_COMPUTEMODE_PROHIBITED) continue;
        td_err_t why = {0};
        if (left > 1 && free_memory(d, &v[i], &why)) {
            snprintf(part, sizeof part, "cuda:%d %.40s: %.80s", i, v[i].name, why.text);
            append(reasons, sizeof reasons, part);
            continue;
        }
        if (at < 0 || better(&v[i], &v[at])) at = i;
    }
    if (at < 0) return td_fail(err, TD_NOTFOUND, "no GPU will do: %s", *reasons ? reasons : "there is none");
    if (left > 1) snprintf(part, sizeof part, "the best of %d by capability, then free memory (%llu MiB)", left,
                           (unsigned long long)(v[at].free_bytes >> 20));
    else snprintf(part, sizeof part, "the only one that will do");
    append(part, sizeof part, reasons);
    take(d, at, &v[at], part);
    return TD_OK;
}

td_status_t td_cuda_choose(td_cuda_device_t *d, const char *selector, const char *capability, td_err_t *err) {
    candidate_t v[MOST] = {0};
    char room[32];
    int n = 0;
    td_status_t st = TD_CU(d, "devices", err, cuDeviceGetCount, &n);
    if (st) return st;
    if (n < 1) return td_fail(err, TD_NOTFOUND, "the CUDA driver finds no GPU in this machine");
    if (n > MOST) n = MOST;
    for (int i = 0; i < n; i++)
        if ((st = look(d, i, &v[i], err))) return st;
    if (!*selector && !capability) selector = "0";
    if (!*selector || !strcmp(selector, "auto")) return best(d, v, n, capability, err);
    int at = -1;
    if (strspn(selector, "0123456789") == strlen(selector)) {
        long k = strlen(selector) > 4 ? MOST : strtol(selector, NULL, 10);
        if (k >= n) return td_fail(err, TD_NOTFOUND, "no device cuda:%s: there are %d, from cuda:0 on", selector, n);
        at = (int)k;
    }
    for (int i = 0; i < n && at < 0; i++)
        if (is_uuid(selector, &v[i])) at = i;
    if (at < 0)
        return td_fail(err, TD_NOTFOUND, "no device with the UUID '%s' among %d%s", selector, n,
                       strncmp(selector, "MIG-", 4) ? "" : ": the driver shows a process one MIG instance, the first "
                       "unless CUDA_VISIBLE_DEVICES names another");
    const char *no = refused(&v[at], capability, room);
    if (no) return td_fail(err, TD_MISMATCH, "cuda:%d, %s, compute capability %s: %s", at, v[at].name, room, no);
    take(d, at, &v[at], "asked for");
    return TD_OK;
}
