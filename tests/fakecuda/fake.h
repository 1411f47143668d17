/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA driver for tests, without a GPU: inside of tests/fakecuda. fakecuda.h tells what it is for.
 *
 * One lock guards all state; it is held by an entry point from fk_enter to fk_leave and given up while a kernel or a
 * copy runs, or while a thread waits. Objects are never freed, only marked dead, so that a stale handle or address
 * is told apart from garbage. Handles are numbers made to look like pointers: nothing can be read through them. */
#ifndef FAKECUDA_FAKE_H
#define FAKECUDA_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/span.h"
#include "runtime/cuda/driver.h"

#define FK_EXPORT __attribute__((visibility("default")))
/* The entry points, as the runtime declares them: a definition that differs does not compile. */
#define FK_DECLARE(needed, function, args) FK_EXPORT CUresult function args;
TD_CUDA_SYMBOLS(FK_DECLARE)

/* ---- settings, read once from the environment (config.c) ---- */
typedef struct fk_config {
    int devices, cc_major, cc_minor, driver;
    uint64_t memory;       /* bytes of each device */
    uint64_t seed;         /* 0: no delays */
    uint64_t slow_us;      /* that each copy and kernel takes at least */
    bool run_inline;       /* no threads: work is done when it is enqueued */
    bool empty;            /* kernels do nothing */
    bool races, leaks;
    int count;             /* of calls, printed at exit; 2: each as it is made */
    int fill;              /* byte that new memory holds; -1: zeros, not touched */
    int exit_code;         /* when there were faults */
    const char *mig;       /* profile of the MIG instance that each device is; NULL: whole GPUs */
    const char *report;    /* file that a line is appended to; NULL: none */
    const char *artifacts; /* paths, ':' between them */
    const char *corrupt;   /* kernel:N */
    const char *fail;      /* [cuFoo:]N[:code][~], ',' between them */
} fk_config_t;
extern fk_config_t fk_config;
void fk_config_read(void);

/* ---- the lock and calls (report.c) ---- */
FK_EXPORT extern pthread_mutex_t fk_lock;
extern pthread_cond_t fk_change; /* anything that somebody may wait for has happened */

typedef struct fk_fn { /* one for each entry point, static in it */
    const char *name;
    uint64_t calls;
    struct fk_fn *next;
    bool listed;
} fk_fn_t;
enum { FK_NO_INIT = 1, FK_NO_CONTEXT = 2 }; /* works before cuInit; needs no current context */
/* Takes the lock, counts the call, injects a failure. Not CUDA_SUCCESS: return it, the lock is not held. */
FK_EXPORT CUresult fk_enter(fk_fn_t *fn, unsigned flags);
FK_EXPORT CUresult fk_leave(CUresult r);
const char *fk_call(void); /* name of the entry point that this thread is in */
#define FK_ENTER(function, flags)                      \
    static fk_fn_t fn_ = {.name = #function};          \
    do {                                               \
        CUresult r_ = fk_enter(&fn_, (flags));         \
        if (r_) return r_;                             \
    } while (0)

/* ---- faults: what a program must never do ---- */
#define FK_FAULTS(X)                                                                                                  \
    X(BOUNDS, "out-of-bounds") X(FREED, "use-after-free") X(DOUBLE_FREE, "double-free") X(POINTER, "bad-pointer")      \
    X(IN_USE, "freed-in-use") X(CONTEXT, "wrong-context") X(HANDLE, "bad-handle") X(ARGUMENTS, "bad-arguments")        \
    X(LAUNCH, "bad-launch") X(RACE, "race") X(KERNEL, "kernel") X(LEAK, "leak")
typedef enum fk_fault {
#define X(e, s) FK_##e,
    FK_FAULTS(X)
#undef X
    FK_FAULT_COUNT
} fk_fault_t;
/* Counts it and prints one line; returns code. */
FK_EXPORT CUresult fk_fault(fk_fault_t kind, CUresult code, const char *fmt, ...) TD_PRINTF(3, 4);
void fk_note_launch(uint64_t kernels); /* for the report */

/* ---- objects (object.c) ---- */
typedef enum fk_kind { FK_CONTEXT_OBJ = 1, FK_STREAM, FK_EVENT, FK_MODULE, FK_FUNCTION, FK_GRAPH, FK_EXEC,
    FK_LIBRARY /* library.h */, FK_KINDS } fk_kind_t;
typedef struct fk_ctx fk_ctx_t;
typedef struct fk_obj { /* first member of each */
    fk_kind_t kind;
    bool live;
    uint32_t number; /* of its kind */
    uint32_t index;
    fk_ctx_t *ctx;
    const char *died; /* call that ended it */
} fk_obj_t;
/* Zeroed, of `size` bytes; NULL when memory ended. */
void *fk_obj_new(fk_kind_t kind, size_t size, fk_ctx_t *ctx);
void fk_obj_end(fk_obj_t *o);
void *fk_handle(const fk_obj_t *o);
/* The live object, or a fault (*r is then the code to return). own: it must belong to the current context. */
void *fk_get(const void *handle, fk_kind_t kind, bool own, CUresult *r);
const char *fk_kind_name(fk_kind_t k);
/* The i-th object that was ever made, NULL behind the last. */
fk_obj_t *fk_obj_at(uint32_t i);

/* ---- contexts (context.c) ---- */
struct fk_ctx {
    fk_obj_t base;
    int device;
    unsigned refs;         /* of the primary context */
    CUresult sticky;       /* every call returns it */
    uint32_t threads;      /* of its streams, that still run */
    uint64_t used, peak;   /* bytes of device memory */
    struct fk_stream *null_stream;
    struct fk_clock *host; /* races.c */
};
fk_ctx_t *fk_current(void); /* NULL: none */
void fk_poison(fk_ctx_t *c, CUresult r);
bool fk_is_sticky(CUresult r);
extern bool fk_initialised;

/* ---- memory (heap.c) ---- */
typedef enum fk_mem_kind { FK_MEM_DEVICE, FK_MEM_GLOBAL, FK_MEM_PINNED, FK_MEM_REGISTERED } fk_mem_kind_t;
typedef struct fk_mem {
    uint64_t addr, size;
    uint8_t *alias; /* where the bytes are */
    void *map;      /* of the alias */
    size_t map_bytes;
    fk_mem_kind_t kind;
    bool live;
    uint32_t number, in_flight; /* items queued that use it */
    fk_ctx_t *ctx;
    const char *died;
    struct fk_access *accesses; /* races.c */
} fk_mem_t;
CUresult fk_mem_new(fk_mem_kind_t kind, fk_ctx_t *ctx, uint64_t bytes, fk_mem_t **out);
CUresult fk_mem_register(fk_ctx_t *ctx, void *p, uint64_t bytes);
/* Ends the memory of that kind which begins at addr; the faults it may be are told. */
CUresult fk_mem_end(fk_mem_kind_t kind, uint64_t addr);
/* No item uses it any more: its bytes may go. */
void fk_mem_unuse(fk_mem_t *m);
/* The memory that holds [addr, addr + bytes); NULL after a fault. what: "argument 2 of 'fusion'". */
fk_mem_t *fk_mem_find(uint64_t addr, uint64_t bytes, const char *what);
/* The live host memory (pinned, registered) that holds it all, else NULL. No fault. */
fk_mem_t *fk_mem_host(const void *p, uint64_t bytes);
bool fk_mem_is_device(uint64_t addr);
static inline uint8_t *fk_mem_at(const fk_mem_t *m, uint64_t addr) { return m->alias + (addr - m->addr); }
/* The i-th allocation ever, NULL behind the last. */
fk_mem_t *fk_mem_at_index(uint32_t i);
const char *fk_mem_kind_name(fk_mem_kind_t k);

#endif
