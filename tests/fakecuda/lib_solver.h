/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the stand-in for cuSOLVER (lib_solver*.c), which computes with LAPACK. Workspaces are asked for, checked
 * and spoiled, so that one that is too small or shared shows. */
#ifndef FAKECUDA_LIB_SOLVER_H
#define FAKECUDA_LIB_SOLVER_H

#include <lapacke.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/solver.h"
#include "tests/fakecuda/library.h"

#define SV_DECLARE(needed, type, name, args) FK_EXPORT type name args;
TD_SOLVER_SYMBOLS(SV_DECLARE)
#define SV_DECLARE4(member, real, complex, args)                                              \
    FK_EXPORT int cusolverDnS##real args;                                                     \
    FK_EXPORT int cusolverDnD##real args;                                                     \
    FK_EXPORT int cusolverDnC##complex args;                                                  \
    FK_EXPORT int cusolverDnZ##complex args;
TD_SOLVER_TYPED(SV_DECLARE4)

/* Elements f32, f64, c64, c128: 0 to 3. */
static inline uint64_t sv_elem(int t) { return t == 0 ? 4 : t == 3 ? 16 : 8; }
static inline uint64_t sv_real(int t) { return t & 1 ? 8 : 4; }
static inline int sv_type_of(int cuda) { return cuda < 2 ? cuda : cuda - 2; } /* cudaDataType */

/* What a call says, kept for when the stream gets there. */
typedef struct sv_job {
    int t, uplo, m, n, k, lda, job, econ, side, op, batch, ldu, ldv;
    bool v_adjoint; /* V^H is wanted, not V */
    bool w_real;
    uint64_t work_bytes;
} sv_job_t;

/* The handle's stream, or NULL and a fault. */
bool sv_stream(cusolverDnHandle_t handle, CUstream *out);
/* Faults of arguments; returns the status. */
int sv_bad(const char *who, const char *what, long long have, long long want);
/* Enqueues; a status. work: index of the range that is the workspace. */
int sv_enqueue(cusolverDnHandle_t handle, const char *who, const fk_range_t *ranges, uint32_t n, fk_library_fn run,
               const sv_job_t *job);
static inline fk_range_t sv_range(const void *p, uint64_t bytes, bool write) {
    return (fk_range_t){(uintptr_t)p, bytes, write};
}
/* Elements that a call of that size needs, in one formula for all. */
static inline int sv_lwork(int m, int n) { return 37 + 4 * (m > n ? m : n); }

#define SV_LAPACK(t, s, d, c, z, ...)                                       \
    ((t) == 0   ? LAPACKE_##s(LAPACK_COL_MAJOR, __VA_ARGS__)                \
     : (t) == 1 ? LAPACKE_##d(LAPACK_COL_MAJOR, __VA_ARGS__)                \
     : (t) == 2 ? LAPACKE_##c(LAPACK_COL_MAJOR, __VA_ARGS__)                \
                : LAPACKE_##z(LAPACK_COL_MAJOR, __VA_ARGS__))

bool sv_finite(int t, const void *p, uint64_t n);
void sv_nan(int t, void *p, uint64_t n);

/* The four functions of a family: the body is written once, with t. */
#define FOUR(real, complex, args, call)                                       \
    int cusolverDnS##real args {                                              \
        FK_ENTER(cusolverDnS##real, 0);                                       \
        const int t = 0;                                                      \
        return fk_leave(call);                                                \
    }                                                                         \
    int cusolverDnD##real args {                                              \
        FK_ENTER(cusolverDnD##real, 0);                                       \
        const int t = 1;                                                      \
        return fk_leave(call);                                                \
    }                                                                         \
    int cusolverDnC##complex args {                                           \
        FK_ENTER(cusolverDnC##complex, 0);                                    \
        const int t = 2;                                                      \
        return fk_leave(call);                                                \
    }                                                                         \
    int cusolverDnZ##complex args {                                           \
        FK_ENTER(cusolverDnZ##complex, 0);                                    \
        const int t = 3;                                                      \
        return fk_leave(call);                                                \
    }

#endif
