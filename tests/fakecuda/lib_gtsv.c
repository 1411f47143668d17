/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for cuSPARSE's tridiagonal systems, by LAPACK. What lies outside the matrix must be zero. */
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/sparse.h"
#include "tests/fakecuda/library.h"

#define DECLARE4(member, name, args)                                          \
    FK_EXPORT int cusparseS##name args;                                       \
    FK_EXPORT int cusparseD##name args;                                       \
    FK_EXPORT int cusparseC##name args;                                       \
    FK_EXPORT int cusparseZ##name args;
TD_SPARSE_TYPED(DECLARE4)
enum { NOT_INITIALIZED = 1, INVALID = 3, FAILED = 6, ROWS_LEAST = 3 };

typedef struct job {
    int t, m, n, ldb;
    uint64_t work;
} job_t;
static uint64_t elem(int t) { return t == 0 ? 4 : t == 3 ? 16 : 8; }
static uint64_t work_bytes(int t, int m, int n) { return (uint64_t)(m + n) * elem(t) + 128; }

static CUresult run(const void *args, void *const *memory) {
    static const char zero[16] = {0};
    const job_t *j = args;
    uint64_t size = elem(j->t), bytes = (uint64_t)j->m * size;
    memset(memory[4], 0xfe, j->work);
    if (memcmp(memory[0], zero, size) || memcmp((char *)memory[2] + bytes - size, zero, size)) {
        pthread_mutex_lock(&fk_lock);
        fk_fault(FK_KERNEL, 0, "gtsv2: the first of dl or the last of du is not zero");
        pthread_mutex_unlock(&fk_lock);
    }
    char *dl = malloc(bytes), *d = malloc(bytes), *du = malloc(bytes);
    memcpy(dl, memory[0], bytes);
    memcpy(d, memory[1], bytes);
    memcpy(du, memory[2], bytes);
    void *below = dl + size, *b = memory[3];
    int info = j->t == 0   ? LAPACKE_sgtsv(LAPACK_COL_MAJOR, j->m, j->n, below, (void *)d, (void *)du, b, j->ldb)
               : j->t == 1 ? LAPACKE_dgtsv(LAPACK_COL_MAJOR, j->m, j->n, below, (void *)d, (void *)du, b, j->ldb)
               : j->t == 2 ? LAPACKE_cgtsv(LAPACK_COL_MAJOR, j->m, j->n, below, (void *)d, (void *)du, b, j->ldb)
                           : LAPACKE_zgtsv(LAPACK_COL_MAJOR, j->m, j->n, below, (void *)d, (void *)du, b, j->ldb);
    uint64_t reals = info ? (uint64_t)j->ldb * (uint64_t)j->n * (j->t < 2 ? 1 : 2) : 0;
    for (uint64_t i = 0; i < reals; i++)
        if (j->t & 1) ((double *)b)[i] = NAN;
        else ((float *)b)[i] = NAN;
    free(dl);
    free(d);
    free(du);
    return CUDA_SUCCESS;
}

static int check(const char *who, int m, int n, int ldb) {
    if (m >= ROWS_LEAST && n >= 1 && ldb >= m) return 0;
    return (int)fk_fault(FK_ARGUMENTS, INVALID, "%s: %d equations, %d right sides, leading dimension %d", who, m, n,
                         ldb);
}
static int size(cusparseHandle_t h, const char *who, int t, int m, int n, int ldb, size_t *bytes) {
    if (!fk_library_get(h, "cuSPARSE handle")) return NOT_INITIALIZED;
    *bytes = work_bytes(t, m, n);
    return check(who, m, n, ldb);
}
static int solve(cusparseHandle_t h, const char *who, int t, int m, int n, const void *dl, const void *d,
                 const void *du, void *b, int ldb, void *buffer) {
    CUstream *s = fk_library_get(h, "cuSPARSE handle");
    int st = check(who, m, n, ldb);
    if (!s || st) return s ? st : NOT_INITIALIZED;
    if ((uintptr_t)buffer % 128)
        return (int)fk_fault(FK_ARGUMENTS, INVALID, "%s: the buffer is not aligned to 128", who);
    job_t j = {t, m, n, ldb, work_bytes(t, m, n)};
    uint64_t bytes = (uint64_t)m * elem(t);
    fk_range_t r[] = {{(uintptr_t)dl, bytes, false}, {(uintptr_t)d, bytes, false}, {(uintptr_t)du, bytes, false},
                      {(uintptr_t)b, (uint64_t)ldb * (uint64_t)n * elem(t), true}, {(uintptr_t)buffer, j.work, true}};
    return fk_library_enqueue(*s, "gtsv2", r, 5, run, &j, sizeof j) ? FAILED : 0;
}
#define TYPE(letter, t)                                                                                               \
    int cusparse##letter##gtsv2_bufferSizeExt(cusparseHandle_t handle, int m, int n, const void *dl, const void *d,   \
                                              const void *du, const void *b, int ldb, size_t *bytes) {                \
        FK_ENTER(cusparse##letter##gtsv2_bufferSizeExt, 0);                                                           \
        (void)dl, (void)d, (void)du, (void)b;                                                                         \
        return fk_leave(size(handle, __func__, t, m, n, ldb, bytes));                                                 \
    }                                                                                                                 \
    int cusparse##letter##gtsv2(cusparseHandle_t handle, int m, int n, const void *dl, const void *d, const void *du, \
                                void *b, int ldb, void *buffer) {                                                     \
        FK_ENTER(cusparse##letter##gtsv2, 0);                                                                         \
        return fk_leave(solve(handle, __func__, t, m, n, dl, d, du, b, ldb, buffer));                                 \
    }
TYPE(S, 0)
TYPE(D, 1)
TYPE(C, 2)
TYPE(Z, 3)
