/* SPDX-License-Identifier: Apache-2.0 */
/* cuModule*, cuFunc*. */
#include "tests/fakecuda/module.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/stream.h"

/* Text into the buffer that the caller gave for the compiler's errors. */
static void say(unsigned n, const int *options, void **values, const char *text) {
    char *buffer = NULL;
    size_t size = 0;
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = values[i];
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) size = (size_t)(uintptr_t)values[i];
    }
    if (buffer && size) snprintf(buffer, size, "%s", text);
}

static CUresult runs_here(const fk_image_t *im, const char **why) {
    int have = 10 * fk_config.cc_major + fk_config.cc_minor, want = im->architecture;
    *why = "made for another architecture";
    if (im->ptx ? want <= have : want / 10 == fk_config.cc_major && want <= have) return CUDA_SUCCESS;
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

FK_EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n, int *options, void **values) {
    FK_ENTER(cuModuleLoadDataEx, 0);
    const char *why = "";
    if (!image) return fk_leave(CUDA_ERROR_INVALID_VALUE);
    fk_image_t im;
    CUresult r = fk_image_open(image, &im, &why);
    if (!r && (r = runs_here(&im, &why))) fk_image_close(&im);
    if (r) {
        say(n, options, values, why);
        return fk_leave(r);
    }
    fk_module_t *m = fk_obj_new(FK_MODULE, sizeof *m, fk_current());
    if (m) m->variables = calloc(im.n_variables + 1, sizeof(fk_mem_t *));
    r = m && m->variables ? fk_mem_new(FK_MEM_GLOBAL, fk_current(), im.size, &m->code) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r) {
        if (m) {
            free(m->variables);
            fk_obj_end(&m->base);
        }
        fk_image_close(&im);
        return fk_leave(r);
    }
    m->image = im;
    *module = fk_handle(&m->base);
    return fk_leave(CUDA_SUCCESS);
}

FK_EXPORT CUresult cuModuleUnload(CUmodule module) {
    FK_ENTER(cuModuleUnload, 0);
    CUresult r = CUDA_SUCCESS;
    fk_module_t *m = fk_get(module, FK_MODULE, true, &r);
    if (!m) return fk_leave(r);
    bool busy = m->code->in_flight;
    for (uint32_t i = 0; i < m->image.n_variables; i++)
        if (m->variables[i]) fk_mem_end(FK_MEM_GLOBAL, m->variables[i]->addr);
    fk_mem_end(FK_MEM_GLOBAL, m->code->addr);
    for (fk_function_t *f = m->functions; f; f = f->next) {
        if (!busy) fk_lowered_free(f->lowered); /* else what runs still needs it */
        f->lowered = NULL;
        fk_obj_end(&f->base);
    }
    if (!busy) fk_image_close(&m->image);
    free(m->variables);
    fk_obj_end(&m->base);
    return fk_leave(CUDA_SUCCESS);
}

FK_EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    FK_ENTER(cuModuleGetFunction, 0);
    CUresult r = CUDA_SUCCESS;
    fk_module_t *m = fk_get(module, FK_MODULE, true, &r);
    if (!m) return fk_leave(r);
    if (!name) return fk_leave(CUDA_ERROR_INVALID_VALUE);
    const fk_kernel_info_t *info = NULL;
    for (uint32_t i = 0; i < m->image.n_kernels; i++)
        if (!strcmp(m->image.kernels[i].name, name)) info = &m->image.kernels[i];
    if (!info) return fk_leave(CUDA_ERROR_NOT_FOUND);
    fk_function_t *f = m->functions;
    while (f && f->info != info) f = f->next;
    if (!f) {
        f = fk_obj_new(FK_FUNCTION, sizeof *f, m->base.ctx);
        if (!f || !(f->name = strdup(name))) return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
        f->module = m;
        f->info = info;
        f->meaning = fk_meaning_find(m->image.hash, name);
        f->builtin = f->meaning ? NULL : fk_builtin_find(name);
        f->next = m->functions;
        m->functions = f;
    }
    *function = fk_handle(&f->base);
    return fk_leave(CUDA_SUCCESS);
}

FK_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *p, size_t *bytes, CUmodule module, const char *name) {
    FK_ENTER(cuModuleGetGlobal_v2, 0);
    CUresult r = CUDA_SUCCESS;
    fk_module_t *m = fk_get(module, FK_MODULE, true, &r);
    uint32_t i = 0;
    if (!m) return fk_leave(r);
    while (i < m->image.n_variables && strcmp(m->image.variables[i].name, name)) i++;
    if (i == m->image.n_variables) return fk_leave(CUDA_ERROR_NOT_FOUND);
    const fk_variable_t *v = &m->image.variables[i];
    if (!m->variables[i]) {
        if ((r = fk_mem_new(FK_MEM_GLOBAL, m->base.ctx, v->bytes, &m->variables[i]))) return fk_leave(r);
        memset(m->variables[i]->alias, 0, v->bytes);
        if (v->n_init) memcpy(m->variables[i]->alias, v->init, v->n_init);
    }
    if (p) *p = m->variables[i]->addr;
    if (bytes) *bytes = v->bytes;
    return fk_leave(CUDA_SUCCESS);
}

/* ---- functions ---- */
FK_EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    FK_ENTER(cuFuncGetAttribute, 0);
    CUresult r = CUDA_SUCCESS;
    fk_function_t *f = fk_get(function, FK_FUNCTION, true, &r);
    if (!f) return fk_leave(r);
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = (int)f->info->max_threads; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)f->info->static_shared; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = (int)f->info->registers; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = (int)f->dynamic_shared; break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: *value = 0; break;
    default: r = CUDA_ERROR_INVALID_VALUE;
    }
    return fk_leave(r);
}
FK_EXPORT CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    FK_ENTER(cuFuncSetAttribute, 0);
    CUresult r = CUDA_SUCCESS;
    fk_function_t *f = fk_get(function, FK_FUNCTION, true, &r);
    if (!f) return fk_leave(r);
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || (uint64_t)value + f->info->static_shared > FK_SHARED_MOST)
            return fk_leave(CUDA_ERROR_INVALID_VALUE);
        f->dynamic_shared = (uint64_t)value;
    } else if (attribute != CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
        r = CUDA_ERROR_INVALID_VALUE;
    }
    return fk_leave(r);
}
FK_EXPORT CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
    FK_ENTER(cuFuncGetParamInfo, 0);
    CUresult r = CUDA_SUCCESS;
    fk_function_t *f = fk_get(function, FK_FUNCTION, true, &r);
    if (!f) return fk_leave(r);
    if (index >= f->info->n_params) return fk_leave(CUDA_ERROR_INVALID_VALUE);
    *offset = f->info->params[index].offset;
    if (size) *size = f->info->params[index].size;
    return fk_leave(CUDA_SUCCESS);
}
