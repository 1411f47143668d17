/* SPDX-License-Identifier: Apache-2.0 */
/* For stand-ins of CUDA's libraries (lib_*.c, one shared library each, beside the stand-in driver which they link to).
 *
 * An entry point is written like the driver's: FK_ENTER(cublasFoo, 0) first, `return fk_leave(r)` last; in between the
 * lock is held, as all functions here need. FAKECUDA_FAIL=cublasFoo:N:CODE works on them too; without a code the call
 * returns 2. What a library computes, the host device does (fk_host_run). */
#ifndef FAKECUDA_LIBRARY_H
#define FAKECUDA_LIBRARY_H

#include "runtime/library.h"
#include "tests/fakecuda/fake.h"

/* An object with a handle: of the current context, counted as a leak when that ends. what: "cublasLt handle". */
FK_EXPORT void *fk_library_new(const char *what, size_t bytes); /* the handle; the body is zeroed. NULL: no memory */
/* The live object's body; NULL after a fault. */
FK_EXPORT void *fk_library_get(const void *handle, const char *what);
FK_EXPORT bool fk_library_end(void *handle, const char *what);

typedef struct fk_range { /* of device memory that the work touches */
    uint64_t addr, bytes; /* 0 bytes: none */
    bool write;
} fk_range_t;
/* When the stream gets there, without the lock. memory[i]: the bytes of range i, NULL if it has none. Not 0: the context
 * is lost. */
typedef CUresult (*fk_library_fn)(const void *args, void *const *memory);
/* Puts the work on the stream (NULL: the null stream), or into the graph that the stream captures. who: the call's
 * name, a literal. args are copied. Ranges outside live memory are faults, then the context is lost. */
FK_EXPORT CUresult fk_library_enqueue(CUstream stream, const char *who, const fk_range_t *ranges, uint32_t n,
                                      fk_library_fn run, const void *args, size_t bytes);
/* For use in an fk_library_fn that finds addresses in device memory: where those bytes are, NULL after a fault. */
FK_EXPORT void *fk_library_memory(uint64_t addr, uint64_t bytes, const char *who);
/* Does the operation as the host device does it; bufs as runtime/library.h says. For use in an fk_library_fn. */
FK_EXPORT CUresult fk_host_run(const char *who, td_library_op_t op, const void *desc, void *const *bufs);

#endif
