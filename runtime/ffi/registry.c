/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ffi/registry.h"

#include <ctype.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "runtime/ffi/entry.h"
#include "runtime/ffi/internal.h"

typedef struct library {
    struct library *next;
    const char *path;
    void *handle;
    bool by_symbol; /* any symbol may be a target */
} library_t;

struct td_ffi_registry {
    const td_alloc_t *alloc;
    td_arena_t arena;
    td_ffi_handler_t *handlers;
    library_t *libraries;
};

td_status_t td_ffi_registry_create(const td_alloc_t *alloc, td_ffi_registry_t **out, td_err_t *err) {
    td_ffi_registry_t *r = alloc->get(alloc->ctx, sizeof *r, 16);
    if (!r) return td_fail(err, TD_NOMEM, "out of memory");
    *r = (td_ffi_registry_t){.alloc = alloc};
    td_arena_init(&r->arena, alloc, 0);
    *out = r;
    return TD_OK;
}
void td_ffi_registry_destroy(td_ffi_registry_t *r) {
    if (!r) return;
    td_arena_deinit(&r->arena);
    r->alloc->put(r->alloc->ctx, r, sizeof *r);
}
const td_ffi_handler_t *td_ffi_registry_list(const td_ffi_registry_t *r) { return r ? r->handlers : NULL; }

/* ---- the metadata query ---- */
static td_status_t query(const td_ffi_handler_t *h, td_ffi_handler_fn *fn, td_ffi_metadata_t *m, td_err_t *err) {
    *m = (td_ffi_metadata_t){.struct_size = TD_FFI_SIZE(td_ffi_metadata_t, state_type_id)};
    m->api_version.struct_size = TD_FFI_SIZE(td_ffi_api_version_t, minor_version);
    td_ffi_metadata_extension_t x = {.base = {.struct_size = sizeof x, .type = TD_FFI_EXTENSION_METADATA},
                                     .metadata = m};
    td_ffi_args_t none = {.struct_size = TD_FFI_SIZE(td_ffi_args_t, args)};
    td_ffi_call_frame_t f = {.struct_size = TD_FFI_SIZE(td_ffi_call_frame_t, attrs),
                             .extension_start = &x.base,
                             .api = h->api,
                             .stage = TD_FFI_EXECUTE,
                             .args = none,
                             .rets = none,
                             .attrs = {.struct_size = TD_FFI_SIZE(td_ffi_attrs_t, attrs)}};
    td_ffi_error_t *e = fn(&f);
    if (e) {
        td_status_t s = td_fail(err, TD_MISMATCH, "%s: handler '%s' refuses the metadata query: %.300s", h->library,
                                h->target, e->text);
        h->api->error_destroy(&(td_ffi_error_destroy_t){.struct_size = sizeof(td_ffi_error_destroy_t), .error = e});
        return s;
    }
    int32_t major = m->api_version.major_version, minor = m->api_version.minor_version;
    if (!major && !minor)
        return td_fail(
            err, TD_MISMATCH,
            "%s: handler '%s' does not answer the metadata query: it is no handler of XLA FFI %d.%d to %d.%d",
            h->library, h->target, TD_FFI_MAJOR, TD_FFI_MIN_MINOR, TD_FFI_MAJOR, TD_FFI_MINOR);
    if (major != TD_FFI_MAJOR || minor < TD_FFI_MIN_MINOR || minor > TD_FFI_MINOR)
        return td_fail(err, TD_MISMATCH,
                       "%s: handler '%s' is built for XLA FFI %d.%d; this build accepts %d.%d to %d.%d", h->library,
                       h->target, major, minor, TD_FFI_MAJOR, TD_FFI_MIN_MINOR, TD_FFI_MAJOR, TD_FFI_MINOR);
    return TD_OK;
}

static td_status_t query_all(td_ffi_handler_t *h, td_err_t *err) {
    td_ffi_handler_fn *const stages[] = {h->bundle.instantiate, h->bundle.prepare, h->bundle.initialize,
                                         h->bundle.record};
    td_ffi_metadata_t m = {0};
    td_status_t s = query(h, h->bundle.execute, &m, err);
    h->major = m.api_version.major_version;
    h->minor = m.api_version.minor_version;
    h->traits |= m.traits;
    for (size_t i = 0; !s && i < sizeof stages / sizeof *stages; i++)
        if (stages[i]) s = query(h, stages[i], &m, err);
    return s;
}

/* ---- names ---- */
static td_status_t name_ok(const char *what, td_ffi_span_t s, td_err_t *err) {
    if (!s.ptr || !s.len || s.len > 4096 || memchr(s.ptr, 0, s.len))
        return td_fail(err, TD_USAGE, "a %s must have 1 to 4096 bytes, none of them NUL", what);
    return TD_OK;
}

/* "CUDA" and "gpu" are one platform, and so are "Host" and "cpu". */
static const char *platform_of(td_arena_t *arena, td_ffi_span_t s) {
    char *p = td_arena_strndup(arena, s.len ? s.ptr : "", s.len);
    for (char *c = p; c && *c; c++) *c = (char)tolower((unsigned char)*c);
    if (p && !strcmp(p, "gpu")) return "cuda";
    return p && !strcmp(p, "cpu") ? "host" : p;
}

td_status_t td_ffi_registry_add(td_ffi_registry_t *r, const char *path, td_ffi_span_t target, td_ffi_span_t platform,
                                const td_ffi_bundle_t *bundle, uint32_t traits, td_err_t *err) {
    td_status_t s = name_ok("target", target, err);
    if (!s && platform.len) s = name_ok("platform", platform, err);
    if (s) return td_prefix(err, s, "%s", path);
    td_ffi_handler_t *h = TD_NEW(&r->arena, td_ffi_handler_t);
    const char *name = td_arena_strndup(&r->arena, target.ptr, target.len), *where = platform_of(&r->arena, platform);
    if (!h || !name || !where) return td_arena_fail(&r->arena, err);
    *h = (td_ffi_handler_t){
        .target = name, .platform = where, .library = path, .bundle = *bundle, .api = td_ffi_api(), .traits = traits};
    if (!bundle->execute) return td_fail(err, TD_USAGE, "%s: target '%s' has no execute handler", path, name);
    for (const td_ffi_handler_t *o = r->handlers; o; o = o->next) {
        if (strcmp(o->target, name) || strcmp(o->platform, where)) continue;
        if (!memcmp(&o->bundle, bundle, sizeof *bundle)) return TD_OK;
        return td_fail(err, TD_MISMATCH, "target '%s' has two handlers: in %s and in %s", name, o->library, path);
    }
    if ((s = query_all(h, err))) return s;
    h->next = r->handlers;
    r->handlers = h;
    return TD_OK;
}

/* ---- one library ---- */
static const char *const stage_suffix[] = {"@instantiate", "@prepare", "@initialize", "@execute"};
enum { N_STAGES = 4, EXECUTE = 3 };

/* "x@prepare" -> length of x, stage 1; no stage named: execute. */
static size_t split_key(const char *key, int *out_stage) {
    const char *at = strrchr(key, '@');
    *out_stage = EXECUTE;
    for (int i = 0; at && i < N_STAGES; i++)
        if (!strcmp(at, stage_suffix[i])) {
            *out_stage = i;
            return (size_t)(at - key);
        }
    return strlen(key);
}

static td_status_t add_mapped(td_ffi_registry_t *r, const library_t *l, const td_ffi_library_t *in, uint32_t first,
                              td_err_t *err) {
    td_ffi_handler_fn *fn[N_STAGES] = {0};
    int stage, other;
    size_t n = split_key(in->symbols[first].target, &stage), k;
    for (uint32_t i = 0; i < in->n_symbols; i++) {
        const td_ffi_symbol_t *s = &in->symbols[i];
        k = split_key(s->target, &other);
        if (k != n || memcmp(s->target, in->symbols[first].target, n)) continue;
        if (i < first) return TD_OK; /* done with the earlier one */
        if (fn[other]) return td_fail(err, TD_USAGE, "%s: '%s' is mapped twice", l->path, s->target);
        *(void **)(void *)&fn[other] = dlsym(l->handle, s->symbol);
        if (!fn[other])
            return td_fail(err, TD_NOTFOUND, "%s: there is no symbol '%s' for target '%.*s'", l->path, s->symbol,
                           (int)n, s->target);
    }
    td_ffi_bundle_t b = {.instantiate = fn[0], .prepare = fn[1], .initialize = fn[2], .execute = fn[EXECUTE]};
    td_status_t s =
        td_ffi_registry_add(r, l->path, (td_ffi_span_t){in->symbols[first].target, n}, (td_ffi_span_t){0}, &b, 0, err);
    for (td_ffi_handler_t *h = s ? NULL : r->handlers; h; h = h->next)
        if (!*h->platform && strlen(h->target) == n && !memcmp(h->target, in->symbols[first].target, n))
            h->mapped = true;
    return s;
}

/* A library with a map is called too, for it may register types, but what it tells is not used. */
static td_status_t add_entries(td_ffi_registry_t *r, const library_t *l, thunkd_ffi_handlers_fn *tell, bool mapped,
                               td_err_t *err) {
    size_t n = 0;
    const thunkd_ffi_entry_t *first = tell(td_ffi_api(), &n);
    td_status_t s = TD_OK;
    if (!first || !n || mapped) return TD_OK;
    size_t stride = first->struct_size;
    if (stride < TD_FFI_SIZE(thunkd_ffi_entry_t, execute) || stride % sizeof(void *) || stride > 4096)
        return td_fail(err, TD_MISMATCH, "%s: thunkd_ffi_handlers: entries of %zu bytes, expected at least %zu",
                       l->path, stride, TD_FFI_SIZE(thunkd_ffi_entry_t, execute));
    for (size_t i = 0; !s && i < n; i++) {
        const thunkd_ffi_entry_t *e = (const void *)((const char *)first + i * stride);
        td_ffi_bundle_t b = {
            .instantiate = e->instantiate, .prepare = e->prepare, .initialize = e->initialize, .execute = e->execute};
        td_ffi_span_t target = {e->target, e->target ? strlen(e->target) : 0},
                      platform = {e->platform, e->platform ? strlen(e->platform) : 0};
        s = td_ffi_registry_add(r, l->path, target, platform, &b, 0, err);
    }
    return s;
}

/* Everything that a library may say about itself, in the order of registry.h. */
static td_status_t load(td_ffi_registry_t *r, library_t *l, const td_ffi_library_t *in, const char *open_as,
                        td_err_t *err) {
    td_ffi_loading_t loading = {.registry = r, .path = l->path, .err = err};
    thunkd_ffi_handlers_fn *tell = NULL;
    td_status_t s = TD_OK;
    td_ffi_loading = &loading;
    l->handle = dlopen(open_as, RTLD_NOW | RTLD_LOCAL);
    if (!l->handle) {
        const char *why = dlerror(); /* most begin with the path */
        bool named = why && !strncmp(why, open_as, strlen(open_as));
        s = td_fail(err, TD_IO, "%.300s%s%.180s", named ? "" : l->path, named ? "" : ": ",
                    why ? why : "cannot be loaded");
    } else {
        *(void **)&tell = dlsym(l->handle, "thunkd_ffi_handlers");
        if (tell) s = add_entries(r, l, tell, in->n_symbols != 0, err);
        for (uint32_t i = 0; !s && i < in->n_symbols; i++) s = add_mapped(r, l, in, i, err);
        if (!s) s = loading.status;
    }
    td_ffi_loading = NULL;
    l->by_symbol = !in->n_symbols && !tell && !loading.registered;
    return s;
}

td_status_t td_ffi_registry_load(td_ffi_registry_t *r, const td_ffi_library_t *in, td_err_t *err) {
    library_t *l = TD_NEW(&r->arena, library_t);
    const char *open_as =
        in->path && strchr(in->path, '/') ? in->path : td_arena_printf(&r->arena, "./%s", in->path ? in->path : "");
    if (!in->path || !*in->path) return td_fail(err, TD_USAGE, "a library needs a path");
    if (!l || !open_as || !(l->path = td_arena_strndup(&r->arena, in->path, strlen(in->path))))
        return td_arena_fail(&r->arena, err);
    td_status_t s = load(r, l, in, open_as, err);
    if (s) return s;
    l->next = r->libraries;
    r->libraries = l;
    return TD_OK;
}

/* ---- finding ---- */
/* A function of the library itself, not of what it is linked with. */
static void *own_function(void *handle, const char *name) {
    struct link_map *of = NULL, *at = NULL;
    const ElfW(Sym) *sym = NULL;
    Dl_info info;
    void *p = dlsym(handle, name);
    if (!p || dlinfo(handle, RTLD_DI_LINKMAP, &of) || !dladdr1(p, &info, (void **)&at, RTLD_DL_LINKMAP) || of != at)
        return NULL;
    if (!dladdr1(p, &info, (void **)(void *)&sym, RTLD_DL_SYMENT) || !sym) return NULL;
    return ELF64_ST_TYPE(sym->st_info) == STT_FUNC ? p : NULL;
}

/* 0: not for the device. A map's word goes first, then the platform's name. */
static int rank(const td_ffi_handler_t *h, const char *device) {
    return h->mapped ? 3 : !strcmp(h->platform, device) ? 2 : !*h->platform;
}

td_status_t td_ffi_registry_find(const td_ffi_registry_t *r, const char *target, const char *device, td_arena_t *arena,
                                 const td_ffi_handler_t **out, td_err_t *err) {
    *out = NULL;
    for (const td_ffi_handler_t *h = r ? r->handlers : NULL; h; h = h->next)
        if (!strcmp(h->target, target) && rank(h, device) > (*out ? rank(*out, device) : 0)) *out = h;
    for (const library_t *l = r && !*out ? r->libraries : NULL; l; l = l->next) {
        void *p = l->by_symbol ? own_function(l->handle, target) : NULL;
        if (!p) continue;
        td_ffi_handler_t *h = TD_NEW(arena, td_ffi_handler_t);
        const char *name = td_arena_strndup(arena, target, strlen(target));
        if (!h || !name) return td_arena_fail(arena, err);
        *h = (td_ffi_handler_t){.target = name, .platform = "", .library = l->path, .api = td_ffi_api()};
        *(void **)(void *)&h->bundle.execute = p;
        td_status_t s = query_all(h, err);
        if (s) return s;
        *out = h;
        return TD_OK;
    }
    return TD_OK;
}

const char *td_ffi_registry_elsewhere(const td_ffi_registry_t *r, const char *target, char *buf, size_t size) {
    for (const td_ffi_handler_t *h = r ? r->handlers : NULL; h; h = h->next)
        if (!strcmp(h->target, target)) {
            snprintf(buf, size, "for platform '%.60s' only, in %.300s", h->platform, h->library);
            return buf;
        }
    return NULL;
}
