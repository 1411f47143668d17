/* SPDX-License-Identifier: Apache-2.0 */
/* Memory with addresses that are never used twice. Device addresses lie in a reservation that cannot be touched;
 * the bytes lie elsewhere, at the end of their pages, so that a kernel which runs past them faults. Pinned memory is
 * what the host sees itself; after the free it is a hole. The lock is held. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "tests/fakecuda/stream.h"

#ifdef __SANITIZE_THREAD__
enum { DEVICE_BITS = 38, PINNED_BITS = 34 }; /* all memory of the process has to lie in 1.5 TiB there */
#else
enum { DEVICE_BITS = 43, PINNED_BITS = 40 };
#endif
enum { GAP = 4096, DEVICE_ALIGN = 512 };

typedef struct region {
    uint64_t base, next, end;
    fk_mem_t **v; /* ascending, dead ones too */
    uint32_t n, cap;
} region_t;
static region_t device, pinned;
static fk_mem_t **registered; /* in no order; dead ones too */
static uint32_t n_registered, cap_registered;

const char *fk_mem_kind_name(fk_mem_kind_t k) {
    static const char *const names[] = {"device", "module", "pinned host", "registered host"};
    return names[k];
}

static bool reserve(region_t *r, unsigned bits) {
    if (r->base) return true;
    uint64_t bytes = 1ull << bits;
    /* Not through the C library: sanitizers need no shadow of what is never touched. */
    long p = syscall(SYS_mmap, NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == -1) {
        fprintf(stderr, "fakecuda: no %llu bytes of address space\n", (unsigned long long)bytes);
        return false;
    }
    r->base = (uint64_t)p;
    r->next = r->base + GAP;
    r->end = r->base + bytes;
    return true;
}
static bool room(fk_mem_t ***v, uint32_t n, uint32_t *cap) {
    if (n < *cap) return true;
    uint32_t more = *cap ? 2 * *cap : 64;
    fk_mem_t **w = realloc(*v, more * sizeof *w);
    if (!w) return false;
    *v = w, *cap = more;
    return true;
}

static void fill(fk_mem_t *m) {
    if (fk_config.fill >= 0) memset(m->alias, fk_config.fill, m->size);
}
/* The bytes of device memory: at the end of their pages, with one behind that faults. */
static bool make_alias(fk_mem_t *m) {
    size_t bytes = td_align_up(m->size, 256);
    m->map_bytes = td_align_up(bytes, 4096) + 4096;
    m->map = mmap(NULL, m->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m->map == MAP_FAILED) return false;
    mprotect((char *)m->map + m->map_bytes - 4096, 4096, PROT_NONE);
    m->alias = (uint8_t *)m->map + m->map_bytes - 4096 - bytes;
    return true;
}
static bool open_pinned(fk_mem_t *m) {
    m->map = m->alias = (uint8_t *)(uintptr_t)m->addr;
    m->map_bytes = td_align_up(m->size, 4096);
    return mmap(m->map, m->map_bytes, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0) != MAP_FAILED;
}

CUresult fk_mem_new(fk_mem_kind_t kind, fk_ctx_t *ctx, uint64_t bytes, fk_mem_t **out) {
    bool host = kind == FK_MEM_PINNED;
    region_t *r = host ? &pinned : &device;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!host && bytes > fk_config.memory - ctx->used) return CUDA_ERROR_OUT_OF_MEMORY;
    if (bytes > SIZE_MAX / 4 || !reserve(r, host ? PINNED_BITS : DEVICE_BITS)) return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t span = td_align_up(bytes, 4096) + GAP;
    if (span > r->end - r->next || !room(&r->v, r->n, &r->cap)) return CUDA_ERROR_OUT_OF_MEMORY;
    fk_mem_t *m = calloc(1, sizeof *m);
    if (!m) return CUDA_ERROR_OUT_OF_MEMORY;
    *m = (fk_mem_t){.addr = r->next, .size = bytes, .kind = kind, .live = true, .number = r->n + 1, .ctx = ctx};
    if (!(host ? open_pinned(m) : make_alias(m))) {
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    fill(m);
    r->next += span;
    r->v[r->n++] = m;
    if (!host) ctx->used += td_align_up(bytes, DEVICE_ALIGN);
    if (ctx->used > ctx->peak) ctx->peak = ctx->used;
    *out = m;
    return CUDA_SUCCESS;
}

CUresult fk_mem_register(fk_ctx_t *ctx, void *p, uint64_t bytes) {
    uint64_t a = (uintptr_t)p;
    if (!p || !bytes || bytes > UINT64_MAX - a) return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < n_registered; i++) {
        const fk_mem_t *m = registered[i];
        if (m->live && (a < m->addr ? m->addr - a < bytes : a - m->addr < m->size))
            return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    if (!room(&registered, n_registered, &cap_registered)) return CUDA_ERROR_OUT_OF_MEMORY;
    fk_mem_t *m = calloc(1, sizeof *m);
    if (!m) return CUDA_ERROR_OUT_OF_MEMORY;
    *m = (fk_mem_t){.addr = a, .size = bytes, .alias = p, .kind = FK_MEM_REGISTERED, .live = true,
                    .number = n_registered + 1, .ctx = ctx};
    registered[n_registered++] = m;
    return CUDA_SUCCESS;
}

/* The last one that begins at or before the address. */
static fk_mem_t *at_or_before(const region_t *r, uint64_t addr) {
    uint32_t lo = 0, hi = r->n;
    if (addr < r->base || addr >= r->end) return NULL;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (r->v[mid]->addr <= addr) lo = mid + 1;
        else hi = mid;
    }
    return lo ? r->v[lo - 1] : NULL;
}
static fk_mem_t *registered_at(uint64_t addr) {
    for (uint32_t i = n_registered; i-- > 0;)
        if (registered[i]->live && addr - registered[i]->addr < registered[i]->size) return registered[i];
    return NULL;
}
static fk_mem_t *nearest(uint64_t addr) {
    fk_mem_t *m = at_or_before(&device, addr);
    if (!m) m = at_or_before(&pinned, addr);
    return m ? m : registered_at(addr);
}

static CUresult told(fk_fault_t kind, const fk_mem_t *m, uint64_t addr, const char *text) {
    return fk_fault(kind, CUDA_ERROR_INVALID_VALUE, "%s: %#llx, %s allocation %u at %#llx of %llu bytes%s%s", text,
                    (unsigned long long)addr, fk_mem_kind_name(m->kind), m->number, (unsigned long long)m->addr,
                    (unsigned long long)m->size, m->live ? "" : ", freed by ", m->live ? "" : m->died);
}

fk_mem_t *fk_mem_find(uint64_t addr, uint64_t bytes, const char *what) {
    fk_mem_t *m = nearest(addr);
    if (!m || addr - m->addr > m->size + GAP) {
        fk_fault(FK_POINTER, 0, "%s: %#llx is no device address", what, (unsigned long long)addr);
        return NULL;
    }
    if (!m->live) {
        told(FK_FREED, m, addr, what);
        return NULL;
    }
    if (td_range_ok(addr - m->addr, bytes, m->size)) return m;
    fk_fault(FK_BOUNDS, 0, "%s: %llu bytes at %#llx, offset %llu of %s allocation %u, which has %llu", what,
             (unsigned long long)bytes, (unsigned long long)addr, (unsigned long long)(addr - m->addr),
             fk_mem_kind_name(m->kind), m->number, (unsigned long long)m->size);
    return NULL;
}

fk_mem_t *fk_mem_host(const void *p, uint64_t bytes) {
    uint64_t a = (uintptr_t)p;
    fk_mem_t *m = at_or_before(&pinned, a);
    if (!m) m = registered_at(a);
    return m && m->live && td_range_ok(a - m->addr, bytes, m->size) ? m : NULL;
}
bool fk_mem_is_device(uint64_t addr) { return device.base && addr - device.base < device.end - device.base; }

void fk_mem_unuse(fk_mem_t *m) {
    if (m->live || m->in_flight || !m->map) return;
    if (m->kind == FK_MEM_PINNED) /* stays a hole */
        mmap(m->map, m->map_bytes, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    else munmap(m->map, m->map_bytes);
    m->map = NULL;
    m->alias = NULL;
}

static fk_mem_t *registered_begin(uint64_t addr) {
    for (uint32_t i = n_registered; i-- > 0;)
        if (registered[i]->addr == addr) return registered[i];
    return NULL;
}
CUresult fk_mem_end(fk_mem_kind_t kind, uint64_t addr) {
    fk_mem_t *m = kind == FK_MEM_REGISTERED ? registered_begin(addr) : nearest(addr);
    if (!m) return fk_fault(FK_POINTER, CUDA_ERROR_INVALID_VALUE, "%#llx is no allocation", (unsigned long long)addr);
    if (!m->live) return told(FK_DOUBLE_FREE, m, addr, "freed again");
    if (m->addr != addr || m->kind != kind)
        return told(FK_POINTER, m, addr, m->kind == kind ? "not the begin of its allocation" : "of another kind");
    CUresult r = CUDA_SUCCESS;
    if (m->in_flight || !fk_accesses_seen(m)) told(FK_IN_USE, m, addr, "work that uses it may still run");
    m->live = false;
    m->died = fk_call();
    if (kind == FK_MEM_DEVICE || kind == FK_MEM_GLOBAL) m->ctx->used -= td_align_up(m->size, DEVICE_ALIGN);
    fk_accesses_free(m);
    fk_mem_unuse(m);
    return r;
}

fk_mem_t *fk_mem_at_index(uint32_t i) {
    if (i < device.n) return device.v[i];
    i -= device.n;
    if (i < pinned.n) return pinned.v[i];
    i -= pinned.n;
    return i < n_registered ? registered[i] : NULL;
}
