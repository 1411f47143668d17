/* SPDX-License-Identifier: Apache-2.0 */
/* The lock, the count of calls, injected failures, faults, and what is said at exit. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fakecuda/capture.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/fakecuda/stream.h"

pthread_mutex_t fk_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fk_change = PTHREAD_COND_INITIALIZER;

static const char *const fault_names[] = {
#define X(e, s) s,
    FK_FAULTS(X)
#undef X
};
static fk_fn_t *functions;
static uint64_t calls, launches, faults[FK_FAULT_COUNT];
static char last_fault[512];
static _Thread_local const char *call_name = "a stream";
static pthread_once_t once = PTHREAD_ONCE_INIT;

const char *fk_call(void) { return call_name; }
void fk_note_launch(uint64_t kernels) { launches += kernels; }

/* Is the call one that FAKECUDA_FAIL names? Its code then; *later: the call itself succeeds. */
static CUresult injected(const fk_fn_t *fn, bool *later) {
    for (const char *s = fk_config.fail; s && *s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL) {
        size_t name = 0;
        if (*s == 'c') name = strcspn(s, ":,");
        char *end = NULL;
        const char *digits = name ? s + name + (s[name] == ':') : s;
        unsigned long long n = strtoull(digits, &end, 10);
        CUresult code = CUDA_ERROR_OUT_OF_MEMORY;
        if (end == digits) fprintf(stderr, "fakecuda: FAKECUDA_FAIL: no number in '%s'\n", s), exit(2);
        if (*end == ':') code = (CUresult)strtol(end + 1, &end, 10);
        if (name && (strlen(fn->name) != name || strncmp(fn->name, s, name))) continue;
        if (n != (name ? fn->calls : calls)) continue;
        *later = *end == '~';
        return code;
    }
    return CUDA_SUCCESS;
}

/* After a failed release something is left, whoever calls; that is then no fault. */
static void failed_call(const fk_fn_t *fn) {
    static const char *const ends[] = {"Destroy", "Free", "Unload", "Unregister", "Release", "SetCurrent"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strstr(fn->name, ends[i])) fk_config.leaks = false;
}

CUresult fk_enter(fk_fn_t *fn, unsigned flags) {
    pthread_once(&once, fk_config_read);
    pthread_mutex_lock(&fk_lock);
    call_name = fn->name;
    if (!fn->listed) {
        fn->listed = true;
        fn->next = functions;
        functions = fn;
    }
    fn->calls++;
    calls++;
    if (fk_config.count > 1) fprintf(stderr, "fakecuda: call %llu: %s\n", (unsigned long long)calls, fn->name);
    CUresult r = CUDA_SUCCESS;
    fk_ctx_t *c = fk_current();
    if (!(flags & FK_NO_INIT) && !fk_initialised) r = CUDA_ERROR_NOT_INITIALIZED;
    else if (!(flags & FK_NO_CONTEXT) && !c)
        r = fk_fault(FK_CONTEXT, CUDA_ERROR_INVALID_CONTEXT, "this thread has no current context");
    else if (!(flags & FK_NO_CONTEXT) && !c->base.live)
        r = fk_fault(FK_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context was ended by %s", c->base.died);
    else if (!(flags & FK_NO_CONTEXT) && c->sticky)
        r = c->sticky;
    if (!r && fk_config.fail) {
        bool later = false;
        CUresult code = injected(fn, &later);
        if (code)
            fprintf(stderr, "fakecuda: call %llu fails: %s, %d%s\n", (unsigned long long)calls, fn->name, code,
                    later ? " later" : "");
        if (code && c && fk_is_sticky(code)) fk_poison(c, code);
        if (code && !later) failed_call(fn), fk_capture_spoil();
        if (!later) r = code;
    }
    return r ? fk_leave(r) : CUDA_SUCCESS;
}

CUresult fk_leave(CUresult r) {
    call_name = "a stream";
    pthread_mutex_unlock(&fk_lock);
    return r;
}

CUresult fk_fault(fk_fault_t kind, CUresult code, const char *fmt, ...) {
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    faults[kind]++;
    snprintf(last_fault, sizeof last_fault, "%s: %s: %s", fault_names[kind], call_name, text);
    fprintf(stderr, "fakecuda: fault: %s\n", last_fault);
    return code;
}

/* ---- for tests ---- */
static uint64_t sum_faults(void) {
    uint64_t n = 0;
    for (int i = 0; i < FK_FAULT_COUNT; i++) n += faults[i];
    return n;
}
FK_EXPORT uint64_t fakecuda_faults(const char *kind) {
    uint64_t n = 0;
    pthread_mutex_lock(&fk_lock);
    for (int i = 0; i < FK_FAULT_COUNT; i++)
        if (!kind || !strcmp(kind, fault_names[i])) n += faults[i];
    pthread_mutex_unlock(&fk_lock);
    return n;
}
FK_EXPORT const char *fakecuda_last_fault(void) { return last_fault; }
FK_EXPORT void fakecuda_forgive(void) {
    pthread_mutex_lock(&fk_lock);
    memset(faults, 0, sizeof faults);
    last_fault[0] = 0;
    pthread_mutex_unlock(&fk_lock);
}
FK_EXPORT uint64_t fakecuda_calls(const char *function) {
    uint64_t n = 0;
    pthread_mutex_lock(&fk_lock);
    for (const fk_fn_t *f = functions; f; f = f->next)
        if (!function || !strcmp(function, f->name)) n += f->calls;
    pthread_mutex_unlock(&fk_lock);
    return n;
}

/* ---- at exit ---- */
static uint64_t peak(void) {
    uint64_t n = 0;
    fk_obj_t *o;
    for (uint32_t i = 0; (o = fk_obj_at(i)); i++)
        if (o->kind == FK_CONTEXT_OBJ && ((fk_ctx_t *)o)->peak > n) n = ((fk_ctx_t *)o)->peak;
    return n;
}
static void write_report(void) {
    FILE *f = fopen(fk_config.report, "ae");
    if (!f) {
        fprintf(stderr, "fakecuda: cannot write %s\n", fk_config.report);
        return;
    }
    fprintf(f, "{\"pid\":%ld,\"faults\":%llu,\"kinds\":{", (long)getpid(), (unsigned long long)sum_faults());
    for (int i = 0; i < FK_FAULT_COUNT; i++)
        fprintf(f, "%s\"%s\":%llu", i ? "," : "", fault_names[i], (unsigned long long)faults[i]);
    fprintf(f, "},\"launches\":%llu,\"peak_bytes\":%llu,\"streams_at_once\":%u,\"calls\":{",
            (unsigned long long)launches, (unsigned long long)peak(), fk_streams_at_once);
    for (const fk_fn_t *p = functions; p; p = p->next)
        fprintf(f, "\"%s\":%llu%s", p->name, (unsigned long long)p->calls, p->next ? "," : "");
    fprintf(f, "}}\n");
    fclose(f);
}

void fk_leaks_at_exit(void);
__attribute__((destructor)) static void at_exit(void) {
    if (!functions) return; /* never called */
    pthread_mutex_lock(&fk_lock);
    call_name = "exit";
    fk_leaks_at_exit();
    for (const fk_fn_t *p = functions; p && fk_config.count; p = p->next)
        fprintf(stderr, "fakecuda: %8llu %s\n", (unsigned long long)p->calls, p->name);
    if (fk_config.report) write_report();
    uint64_t n = sum_faults();
    pthread_mutex_unlock(&fk_lock);
    if (!n) return;
    fprintf(stderr, "fakecuda: %llu faults\n", (unsigned long long)n);
    if (!fk_config.exit_code) return;
    fflush(NULL);
    _exit(fk_config.exit_code);
}
