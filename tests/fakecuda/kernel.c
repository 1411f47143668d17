/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakecuda/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/host/plan.h"

struct fk_lowered {
    fk_lowered_t *next;
    td_arena_t arena;
    td_kernel_t *kernel;
    uint64_t scratch;
    td_kernel_arg_t *args; /* where they lie to each other */
    uint32_t n;
};
static td_device_t *host;

static bool overlap(const fk_meaning_t *m, const uint64_t *a, uint32_t i, uint32_t k) {
    uint64_t ni = m->leaves[i]->bytes, nk = m->leaves[k]->bytes;
    return ni && nk && (a[i] < a[k] ? a[k] - a[i] < ni : a[i] - a[k] < nk);
}
/* Arguments that share memory get one allocation (the number of the first of them) and their distances in it; so two
 * launches lie alike if these are equal. */
static void place(const fk_meaning_t *m, const uint64_t *a, td_kernel_arg_t *v) {
    enum { MIDDLE = 1 << 30 };
    for (uint32_t i = 0; i < m->n_leaves; i++) {
        uint32_t group = i;
        for (uint32_t k = 0; k < i; k++)
            if (overlap(m, a, i, k) && v[k].allocation < group) group = v[k].allocation;
        for (uint32_t k = 0; k < i; k++)
            if (overlap(m, a, i, k) && v[k].allocation != group)
                for (uint32_t j = 0, old = v[k].allocation; j < i; j++)
                    if (v[j].allocation == old) v[j].allocation = group;
        v[i] = (td_kernel_arg_t){.allocation = group, .size = m->leaves[i]->bytes, .shape = m->leaves[i],
                                 .written = i >= m->n_read};
    }
    for (uint32_t i = 0; i < m->n_leaves; i++) v[i].offset = ((uint64_t)MIDDLE << 16) + a[i] - a[v[i].allocation];
}
static bool alike(const td_kernel_arg_t *a, const td_kernel_arg_t *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (a[i].allocation != b[i].allocation || a[i].offset != b[i].offset) return false;
    return true;
}

static CUresult lower(fk_lowered_t *l, const fk_meaning_t *m) {
    td_err_t err = {0};
    td_status_t st = TD_OK;
    if (!host) st = td_host_device_open("threads=1", td_alloc_default(), &host, &err);
    td_kernel_desc_t d = {.module = m->hlo, .instr = m->instr, .name = m->name, .args = l->args, .n_args = l->n};
    td_arena_init(&l->arena, td_alloc_default(), 0);
    if (!st) st = host->ops->kernel_lower(host, &d, &l->arena, &l->kernel, &l->scratch, &err);
    if (!st) return CUDA_SUCCESS;
    td_arena_deinit(&l->arena);
    return fk_fault(FK_KERNEL, CUDA_ERROR_LAUNCH_FAILED, "'%s': %s", m->name, err.text);
}

CUresult fk_lower(fk_lowered_t **list, const fk_meaning_t *m, const uint64_t *addresses, fk_lowered_t **out) {
    fk_lowered_t *l = calloc(1, sizeof *l);
    if (l) l->args = calloc(m->n_leaves + 1, sizeof *l->args);
    if (!l || !l->args) {
        free(l);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    l->n = m->n_leaves;
    place(m, addresses, l->args);
    CUresult r = CUDA_SUCCESS;
    for (fk_lowered_t *k = *list; k && !*out; k = k->next)
        if (alike(k->args, l->args, l->n)) *out = k;
    if (!*out && !(r = lower(l, m))) {
        l->next = *list;
        *out = *list = l;
        return CUDA_SUCCESS;
    }
    free(l->args);
    free(l);
    return r;
}
CUresult fk_run(const fk_lowered_t *l, const char *name, void *const *memory) {
    td_err_t err = {0};
    size_t bytes = l->scratch ? (l->scratch + 63) & ~(size_t)63 : 0;
    void *scratch = bytes ? aligned_alloc(64, bytes) : NULL;
    if (bytes && !scratch) return CUDA_ERROR_LAUNCH_FAILED;
    td_status_t st = l->kernel->run(l->kernel, memory, scratch, &err);
    free(scratch);
    if (!st) return CUDA_SUCCESS;
    pthread_mutex_lock(&fk_lock);
    fk_fault(FK_KERNEL, 0, "'%s': %s", name, err.text);
    pthread_mutex_unlock(&fk_lock);
    return CUDA_ERROR_LAUNCH_FAILED;
}
void fk_lowered_free(fk_lowered_t *l) {
    for (fk_lowered_t *next; l; l = next) {
        next = l->next;
        if (l->kernel && l->kernel->release) l->kernel->release(l->kernel);
        td_arena_deinit(&l->arena);
        free(l->args);
        free(l);
    }
}
