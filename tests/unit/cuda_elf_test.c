/* SPDX-License-Identifier: Apache-2.0 */
/* Code images read before the driver sees them: every cubin of the golden executables, against what their thunks and
 * their target say; then each damaged at every place that matters. Images lie at the end of a page that is followed by
 * one without access, so that reading past the end is a crash. */
#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "executable.pb-c.h"
#include "proto/artifact.h"
#include "runtime/cuda/elf.h"

static td_payload_table_t *table;
static td_artifact_t *artifact;
static td_arena_t arena;
static td_err_t err;
static td_cubin_t cubin;

static void setup(void) {
    ck_assert_int_eq(td_payload_table_create(td_alloc_default(), &table, &err), TD_OK);
    td_arena_init(&arena, td_alloc_default(), 0);
}
static void teardown(void) {
    td_artifact_close(artifact);
    artifact = NULL;
    td_payload_table_destroy(table);
    td_arena_deinit(&arena);
}
static void load(const char *path) {
    td_artifact_close(artifact);
    artifact = NULL;
    ck_assert_msg(!td_artifact_open_file(path, table, td_alloc_default(), &artifact, &err), "%s", err.text);
}

/* ---- an image whose end is the end of the memory ---- */
static uint8_t *fence;
static size_t fence_bytes;
static td_span_t fenced(td_span_t image, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (size + page) / page * page;
    fence_bytes = room + page;
    fence = mmap(NULL, fence_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(fence, MAP_FAILED);
    ck_assert_int_eq(mprotect(fence + room, page, PROT_NONE), 0);
    if (size) memcpy(fence + room - size, image.data, size);
    return (td_span_t){fence + room - size, size};
}
static void unfence(void) { munmap(fence, fence_bytes); }

static td_status_t read_copy(td_span_t image, size_t size) {
    td_span_t s = fenced(image, size);
    td_arena_reset(&arena);
    td_status_t st = td_cubin_read(s, &arena, &cubin, &err);
    unfence();
    return st;
}

static td_span_t image_of(const StreamExecutor__KernelLoaderSpecProto *s) {
    if (!s || s->payload_case != STREAM_EXECUTOR__KERNEL_LOADER_SPEC_PROTO__PAYLOAD_CUBIN) return (td_span_t){0};
    return td_artifact_bytes(artifact, s->cubin->has_data_payload, s->cubin->data_payload, s->cubin->data.data, s->cubin->data.len);
}

static const StreamExecutor__KernelLoaderSpecProto *spec_of(size_t i) {
    const Xla__Gpu__ThunkProto *t = artifact->exe->thunks[i];
    if (t->impl_case != XLA__GPU__THUNK_PROTO__IMPL_CUSTOM_KERNEL_THUNK || !t->custom_kernel_thunk->custom_kernel) return NULL;
    return t->custom_kernel_thunk->custom_kernel->kernel_spec;
}

/* The first cubin of the artifact. */
static td_span_t first(void) {
    for (size_t i = 0; i < artifact->exe->n_thunks; i++) {
        td_span_t s = image_of(spec_of(i));
        if (s.size) return s;
    }
    ck_abort_msg("no cubin");
    return (td_span_t){0};
}

static const char *const names[] = {"attention", "control", "convolution", "mlp", "norm", "sorting", "spectral", "streams"};
enum { NAMES = sizeof names / sizeof *names, VERSIONS = 6 };

static uint32_t n_images;
static void check_thunks(const char *path) {
    for (size_t i = 0; i < artifact->exe->n_thunks; i++) {
        const StreamExecutor__KernelLoaderSpecProto *s = spec_of(i);
        td_span_t image = image_of(s);
        if (!image.size) continue;
        const Xla__Gpu__CustomKernelProto *k = artifact->exe->thunks[i]->custom_kernel_thunk->custom_kernel;
        ck_assert_msg(!read_copy(image, image.size), "%s thunks[%zu]: %s", path, i, err.text);
        const td_cubin_kernel_t *c = td_cubin_find(&cubin, s->kernel_name);
        ck_assert_msg(c != NULL, "%s: no %s", path, s->kernel_name);
        ck_assert_uint_eq(cubin.sm, 90);
        ck_assert_int_eq(cubin.feature, 'a');
        ck_assert(!cubin.state);
        ck_assert(c->params_known);
        ck_assert_int_eq((int)c->n_params, s->arity);
        for (uint32_t p = 0; p < c->n_params; p++) {
            ck_assert_uint_eq(c->params[p].size, 8); /* addresses, one after the other */
            ck_assert_uint_eq(c->params[p].offset, 8 * p);
        }
        ck_assert_uint_eq(c->param_bytes, 8 * c->n_params);
        ck_assert_int_eq(c->block[0], k->thread_dims->coordinates->x);
        ck_assert_int_eq(c->block[1], k->thread_dims->coordinates->y);
        ck_assert_int_eq(c->block[2], k->thread_dims->coordinates->z);
        ck_assert_ptr_null(td_cubin_find(&cubin, "no_such_kernel"));
        n_images++;
    }
}

START_TEST(goldens) {
    char path[160];
    for (int v = 1; v <= VERSIONS; v++)
        for (int i = 0; i < NAMES; i++) {
            snprintf(path, sizeof path, "tests/golden/executables/h100_sxm/v%d/%s/executable.aot", v, names[i]);
            load(path);
            check_thunks(path);
        }
    ck_assert_uint_ge(n_images, 100);
}
END_TEST

/* The module-wide binary of the first release holds the constants' variables and, of one kernel, the code. */
START_TEST(module_binary) {
    load("tests/golden/executables/h100_sxm/v1/mlp/executable.aot");
    const Xla__Gpu__GpuExecutableProto *e = artifact->exe;
    td_span_t b = td_artifact_bytes(artifact, e->has_binary_payload, e->binary_payload, e->binary.data, e->binary.len);
    ck_assert_uint_gt(b.size, 0);
    ck_assert_msg(!read_copy(b, b.size), "%s", err.text);
    ck_assert_uint_eq(cubin.sm, 90);
    ck_assert(!cubin.state); /* constants are filled once */
}
END_TEST

START_TEST(targets) {
    static const struct { uint32_t sm; char feature; int major, minor; bool fits; } v[] = {
        {90, 'a', 9, 0, true}, {90, 'a', 10, 0, false}, {90, 0, 9, 0, true}, {80, 0, 8, 6, true}, {86, 0, 8, 0, false},
        {80, 0, 9, 0, false}, {100, 'a', 10, 0, true}, {100, 'a', 10, 3, false}, {100, 'f', 10, 3, true},
        {103, 'f', 10, 0, false}, {120, 0, 12, 1, true}, {0, 0, 7, 5, true},
    };
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        td_cubin_t c = {.sm = v[i].sm, .feature = v[i].feature};
        ck_assert_int_eq(td_cubin_fits(&c, v[i].major, v[i].minor, &err), v[i].fits ? TD_OK : TD_MISMATCH);
    }
    ck_assert_int_eq(td_cubin_fits(&(td_cubin_t){.sm = 90, .feature = 'a'}, 10, 0, &err), TD_MISMATCH);
    ck_assert_ptr_nonnull(strstr(err.text, "sm_90a"));
    ck_assert_ptr_nonnull(strstr(err.text, "10.0"));
}
END_TEST

/* Cut off anywhere, it is refused (its last table ends where it does), and never read past its end. */
START_TEST(cut) {
    load("tests/golden/executables/h100_sxm/v6/mlp/executable.aot");
    td_span_t s = first();
    for (size_t n = 0; n < s.size; n += n < 2048 ? 1 : 13) ck_assert_msg(read_copy(s, n) != TD_OK, "%zu of %zu bytes", n, s.size);
    ck_assert_int_eq(read_copy(s, s.size), TD_OK);
}
END_TEST

static td_status_t poked(td_span_t s, size_t at, const void *v, size_t n) {
    uint8_t *copy = malloc(s.size);
    ck_assert(at + n <= s.size);
    memcpy(copy, s.data, s.size);
    memcpy(copy + at, v, n);
    td_status_t st = read_copy((td_span_t){copy, s.size}, s.size);
    free(copy);
    return st;
}

START_TEST(fields) {
    load("tests/golden/executables/h100_sxm/v6/mlp/executable.aot");
    td_span_t s = first();
    static const uint64_t huge[] = {UINT64_MAX, UINT64_MAX - 63, 1ull << 63, 1ull << 32};
    Elf64_Ehdr h;
    memcpy(&h, s.data, sizeof h);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(poked(s, offsetof(Elf64_Ehdr, e_shoff), &huge[i], 8), TD_MALFORMED);
        ck_assert_int_eq(poked(s, offsetof(Elf64_Ehdr, e_phoff), &huge[i], 8), TD_MALFORMED);
        for (int k = 1; k < h.e_shnum; k++) {
            size_t at = h.e_shoff + (size_t)k * sizeof(Elf64_Shdr);
            Elf64_Shdr x;
            memcpy(&x, s.data + at, sizeof x);
            if (x.sh_type == SHT_NOBITS) continue;
            ck_assert_int_eq(poked(s, at + offsetof(Elf64_Shdr, sh_offset), &huge[i], 8), TD_MALFORMED);
            ck_assert_int_eq(poked(s, at + offsetof(Elf64_Shdr, sh_size), &huge[i], 8), TD_MALFORMED);
        }
    }
    const uint16_t many = 0xffff, x86 = EM_X86_64;
    ck_assert_int_eq(poked(s, offsetof(Elf64_Ehdr, e_shnum), &many, 2), TD_MALFORMED);
    ck_assert_int_eq(poked(s, offsetof(Elf64_Ehdr, e_shstrndx), &many, 2), TD_MALFORMED);
    ck_assert_int_eq(poked(s, offsetof(Elf64_Ehdr, e_shentsize), &many, 2), TD_MALFORMED);
    ck_assert_int_eq(poked(s, offsetof(Elf64_Ehdr, e_machine), &x86, 2), TD_UNSUPPORTED);
    ck_assert_int_eq(poked(s, EI_CLASS, &(uint8_t){ELFCLASS32}, 1), TD_UNSUPPORTED);
    ck_assert_int_eq(poked(s, 0, "\177EL", 3), TD_OK);
    ck_assert_int_eq(poked(s, 0, "\0\0\0\0", 4), TD_MALFORMED);
}
END_TEST

/* Every byte in turn takes other values: an answer each time, and none that names memory outside of the image. */
START_TEST(any_byte) {
    load("tests/golden/executables/h100_sxm/v6/mlp/executable.aot");
    td_span_t s = first();
    static const uint8_t masks[] = {0xff, 0x80, 0x01};
    for (size_t at = 0; at < s.size; at++)
        for (int i = 0; i < 3; i++) {
            uint8_t v = s.data[at] ^ masks[i];
            (void)poked(s, at, &v, 1);
        }
}
END_TEST

START_TEST(fat) {
    uint8_t v[64] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 48};
    td_span_t s = {v, sizeof v};
    ck_assert_int_eq(read_copy(s, 64), TD_OK);
    ck_assert(cubin.state && !cubin.sm);
    ck_assert_int_eq(read_copy(s, 63), TD_MALFORMED);
    ck_assert_int_eq(read_copy(s, 12), TD_MALFORMED);
    memset(v + 8, 0xff, 8);
    ck_assert_int_eq(read_copy(s, 64), TD_MALFORMED);
    ck_assert_int_eq(read_copy((td_span_t){(const uint8_t *)"//\n.version", 11}, 11), TD_MALFORMED);
}
END_TEST

START_TEST(memory_ends) {
    load("tests/golden/executables/h100_sxm/v6/mlp/executable.aot");
    td_span_t s = first();
    td_counting_alloc_t c;
    td_status_t st = TD_NOMEM;
    for (unsigned n = 1; st; n++) {
        ck_assert_uint_lt(n, 50);
        td_counting_alloc_init(&c, td_alloc_default());
        c.fail_at = n;
        td_arena_t a;
        td_arena_init(&a, &c.base, 0);
        st = td_cubin_read(s, &a, &cubin, &err);
        ck_assert(!st || st == TD_NOMEM);
        td_arena_deinit(&a);
        ck_assert_uint_eq(c.live_bytes, 0);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_elf");
    TCase *t = tcase_create("images");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, goldens);
    tcase_add_test(t, module_binary);
    tcase_add_test(t, targets);
    tcase_add_test(t, cut);
    tcase_add_test(t, fields);
    tcase_add_test(t, any_byte);
    tcase_add_test(t, fat);
    tcase_add_test(t, memory_ends);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
