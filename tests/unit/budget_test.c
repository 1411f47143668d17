/* SPDX-License-Identifier: Apache-2.0 */
#include "store/budget.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1ull << 20)

static td_counting_alloc_t mem;
static td_budget_t *b;
static td_err_t err;

static void open_budget(uint64_t host, uint64_t device) {
    td_counting_alloc_init(&mem, td_alloc_default());
    ck_assert_int_eq(td_budget_create((uint64_t[]){host, device}, 2, &mem.base, &b, &err), TD_OK);
}
static td_account_t *account(uint32_t domain, td_charge_kind_t kind, const char *owner) {
    td_account_t *a = NULL;
    ck_assert_msg(td_account_open(b, domain, kind, owner, &a, &err) == TD_OK, "%s", err.text);
    return a;
}
static void close_budget(void) {
    for (uint32_t d = 0; d < 2; d++) {
        ck_assert_uint_eq(td_budget_totals(b, d).charged, 0);
        ck_assert_uint_eq(td_budget_totals(b, d).reserved, 0);
    }
    td_budget_destroy(b);
    ck_assert_uint_eq(mem.live_bytes, 0);
}
static void expect(uint32_t domain, uint64_t charged, uint64_t reserved, uint64_t peak) {
    td_budget_totals_t t = td_budget_totals(b, domain);
    ck_assert_uint_eq(t.charged, charged);
    ck_assert_uint_eq(t.reserved, reserved);
    ck_assert_uint_eq(t.peak, peak);
}
#define NEED(host, device) ((uint64_t[TD_BUDGET_DOMAINS]){host, device})

START_TEST(an_account_takes_what_is_free) {
    open_budget(100, 10);
    td_account_t *a = account(0, TD_CHARGE_WEIGHTS, "mlp/2"), *d = account(1, TD_CHARGE_STATE, "mlp/2");
    ck_assert(td_charge_take(td_account_charge(a), 60));
    ck_assert(!td_charge_take(td_account_charge(a), 41));
    ck_assert(td_charge_take(td_account_charge(a), 40));
    ck_assert(!td_charge_take(td_account_charge(a), 1));
    ck_assert(td_charge_take(td_account_charge(a), 0));
    ck_assert(!td_charge_take(td_account_charge(d), UINT64_MAX));
    ck_assert(td_charge_take(td_account_charge(d), 10));
    ck_assert_uint_eq(td_account_bytes(a), 100);
    expect(0, 100, 0, 100);
    expect(1, 10, 0, 10);
    td_charge_give(td_account_charge(a), 70);
    expect(0, 30, 0, 100);
    td_account_close(a); /* gives the rest back */
    td_account_close(d);
    td_account_close(NULL);
    close_budget();
}
END_TEST

START_TEST(a_load_has_what_it_reserved) {
    open_budget(100, 10);
    td_account_t *a = account(0, TD_CHARGE_PROGRAMS, "mlp/2"), *other = account(0, TD_CHARGE_REQUESTS, "gpt2/1");
    td_reservation_t r = {0};
    td_draw_t draw;
    ck_assert_int_eq(td_budget_reserve(b, NEED(70, 0), "mlp/2", &r, &err), TD_OK);
    td_draw_init(&draw, a, &r);
    ck_assert(!td_charge_take(td_account_charge(other), 31));
    ck_assert(td_charge_take(td_account_charge(other), 20));
    ck_assert(td_charge_take(&draw.charge, 60));
    expect(0, 80, 10, 90);
    ck_assert(!td_charge_take(&draw.charge, 21)); /* 10 reserved and 10 free */
    expect(0, 80, 10, 90);
    ck_assert(td_charge_take(&draw.charge, 15));
    expect(0, 95, 0, 95);
    td_charge_give(&draw.charge, 75); /* 70 are reserved again, 5 are free */
    expect(0, 20, 70, 95);
    ck_assert(!td_charge_take(td_account_charge(other), 11));
    ck_assert(td_charge_take(&draw.charge, 50));
    draw.reservation = NULL;
    td_reservation_end(&r);
    td_reservation_end(&r);
    expect(0, 70, 0, 95);
    td_charge_give(&draw.charge, 50);
    expect(0, 20, 0, 95);
    td_account_close(a), td_account_close(other);
    close_budget();
}
END_TEST

START_TEST(reservations_are_all_or_none) {
    open_budget(100, 10);
    td_reservation_t r = {0}, second = {0};
    ck_assert_int_eq(td_budget_reserve(b, NEED(50, 11), "mlp/2", &r, &err), TD_LIMIT);
    ck_assert_str_eq(err.text, "mlp/2 needs 11 bytes of device 0 memory, 10 bytes of 10 bytes are free");
    td_reservation_end(&r); /* of one that never was */
    expect(1, 0, 0, 0);
    ck_assert_uint_eq(td_budget_totals(b, 0).reserved, 0);
    ck_assert_int_eq(td_budget_reserve(b, NEED(50, 10), "mlp/2", &r, &err), TD_OK);
    expect(0, 0, 50, 50);
    ck_assert_int_eq(td_budget_reserve(b, NEED(51, 0), "gpt2/1", &second, &err), TD_LIMIT);
    ck_assert_str_eq(err.text, "gpt2/1 needs 51 bytes of host memory, 50 bytes of 100 bytes are free; "
                               "loads under way 50 bytes");
    uint64_t odd[TD_BUDGET_DOMAINS] = {[2] = 1};
    ck_assert_int_eq(td_budget_reserve(b, odd, "x", &second, &err), TD_INTERNAL);
    td_reservation_end(&r);
    close_budget();
}
END_TEST

START_TEST(a_refusal_names_the_largest) {
    open_budget(1024 * MIB, 0);
    td_account_t *v[6] = {account(0, TD_CHARGE_WEIGHTS, "gpt2/1"), account(0, TD_CHARGE_PAYLOADS, "payloads"),
                          account(0, TD_CHARGE_WEIGHTS, "resnet/3"), account(0, TD_CHARGE_REQUESTS, "small/1"),
                          account(0, TD_CHARGE_STATE, "gpt2/1"), account(1, TD_CHARGE_STATE, "small/1")};
    static const uint64_t tenths[5] = {3001, 800, 2000, 436, 1000};
    for (int i = 0; i < 5; i++) ck_assert(td_charge_take(td_account_charge(v[i]), tenths[i] * MIB / 10));
    td_reservation_t r = {0};
    ck_assert_int_eq(td_budget_reserve(b, NEED(812 * MIB, 0), "mlp/2", &r, &err), TD_LIMIT);
    ck_assert_str_eq(err.text, "mlp/2 needs 812.0 MiB of host memory, 300.3 MiB of 1.0 GiB are free; the largest: "
                               "gpt2/1 400.1 MiB, resnet/3 200.0 MiB, payloads 80.0 MiB");
    uint64_t left = 1024 * MIB - td_budget_totals(b, 0).charged;
    char want[128];
    snprintf(want, sizeof want, "mlp/2 needs %llu bytes of host memory, %llu of 1.0 GiB are free; ",
             (unsigned long long)left + 1, (unsigned long long)left);
    ck_assert_int_eq(td_budget_reserve(b, NEED(left + 1, 0), "mlp/2", &r, &err), TD_LIMIT);
    ck_assert_msg(!strncmp(err.text, want, strlen(want)), "%s", err.text);
    for (int i = 0; i < 6; i++) td_account_close(v[i]);
    close_budget();
}
END_TEST

START_TEST(rows_are_sorted) {
    open_budget(UINT64_MAX, 100);
    td_account_t *v[3] = {account(0, TD_CHARGE_WEIGHTS, "a"), account(1, TD_CHARGE_STATE, "b"),
                          account(0, TD_CHARGE_REQUESTS, "c")};
    static const uint64_t bytes[3] = {5, 9, 1ull << 62};
    for (int i = 0; i < 3; i++) ck_assert(td_charge_take(td_account_charge(v[i]), bytes[i]));
    td_arena_t arena;
    td_arena_init(&arena, td_alloc_default(), 0);
    td_budget_row_t *rows = NULL;
    uint32_t n = 0;
    ck_assert_int_eq(td_budget_rows(b, &arena, &rows, &n, &err), TD_OK);
    for (int i = 0; i < 3; i++) td_account_close(v[i]);
    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(rows[0].owner, "c");
    ck_assert_uint_eq(rows[0].bytes, 1ull << 62);
    ck_assert_str_eq(td_charge_kind_name(rows[0].kind), "requests");
    ck_assert_str_eq(rows[1].owner, "b");
    ck_assert_uint_eq(rows[1].domain, 1);
    ck_assert_str_eq(rows[2].owner, "a");
    ck_assert_int_eq(td_budget_rows(b, &arena, &rows, &n, &err), TD_OK);
    ck_assert_uint_eq(n, 0);
    td_arena_deinit(&arena);
    close_budget();
}
END_TEST

START_TEST(bad_arguments_and_no_memory) {
    td_account_t *a = NULL;
    uint64_t limits[TD_BUDGET_DOMAINS + 1] = {0};
    td_counting_alloc_init(&mem, td_alloc_default());
    ck_assert_int_eq(td_budget_create(limits, 0, &mem.base, &b, &err), TD_LIMIT);
    ck_assert_int_eq(td_budget_create(limits, TD_BUDGET_DOMAINS + 1, &mem.base, &b, &err), TD_LIMIT);
    mem.fail_at = 1;
    ck_assert_int_eq(td_budget_create(limits, 1, &mem.base, &b, &err), TD_NOMEM);
    open_budget(1, 1);
    ck_assert_int_eq(td_account_open(b, 2, TD_CHARGE_STATE, "x", &a, &err), TD_INTERNAL);
    ck_assert_int_eq(td_account_open(b, 0, TD_CHARGE_KINDS, "x", &a, &err), TD_INTERNAL);
    mem.fail_at = mem.gets + 1;
    ck_assert_int_eq(td_account_open(b, 0, TD_CHARGE_STATE, "x", &a, &err), TD_NOMEM);
    ck_assert_ptr_null(a);
    close_budget();
    td_budget_destroy(NULL);
}
END_TEST

/* ---- random operations beside a simple model: plain numbers, one thread ---- */

#define N_ACCOUNTS 6
#define N_LOADS 3
typedef struct load {
    td_reservation_t r;
    td_draw_t draw;
    uint64_t need, left, bytes; /* the model's */
    bool open;
} load_t;

static uint64_t seed;
static uint32_t rnd(uint32_t n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}
static uint64_t less(uint64_t x, uint64_t y) { return x < y ? x : y; }

START_TEST(random_operations_agree_with_the_model) {
    enum { LIMIT = 1000 };
    uint64_t bytes[N_ACCOUNTS] = {0}, charged = 0, reserved = 0, peak = 0;
    td_account_t *a[N_ACCOUNTS];
    load_t loads[N_LOADS] = {0};
    seed = (uint64_t)_i + 1;
    open_budget(LIMIT, 1);
    for (int i = 0; i < N_ACCOUNTS; i++) a[i] = account(0, TD_CHARGE_WEIGHTS, "x");
    for (int step = 0; step < 4000; step++) {
        uint64_t n = rnd(300), k;
        uint32_t i = rnd(N_ACCOUNTS), j = rnd(N_LOADS); /* load j charges account j */
        load_t *l = &loads[j];
        switch (rnd(6)) {
        case 0:
            ck_assert_int_eq(td_charge_take(td_account_charge(a[i]), n), charged + reserved + n <= LIMIT);
            if (charged + reserved + n <= LIMIT) charged += n, bytes[i] += n;
            break;
        case 1:
            n = less(n, i < N_LOADS ? bytes[i] - loads[i].bytes : bytes[i]);
            td_charge_give(td_account_charge(a[i]), n);
            charged -= n, bytes[i] -= n;
            break;
        case 2:
            if (l->open) break;
            ck_assert_int_eq(td_budget_reserve(b, NEED(n, 0), "x", &l->r, &err) == TD_OK,
                             charged + reserved + n <= LIMIT);
            if (charged + reserved + n > LIMIT) break;
            td_draw_init(&l->draw, a[j], &l->r);
            l->open = true, l->need = l->left = n, reserved += n;
            break;
        case 3:
            if (!l->open || rnd(4)) break;
            l->draw.reservation = NULL;
            td_reservation_end(&l->r);
            reserved -= l->left, l->open = false, l->bytes = 0;
            break;
        case 4:
            if (!l->open) break;
            k = less(n, l->left);
            ck_assert_int_eq(td_charge_take(&l->draw.charge, n), charged + reserved + n - k <= LIMIT);
            if (charged + reserved + n - k > LIMIT) break;
            charged += n, reserved -= k, l->left -= k, bytes[j] += n, l->bytes += n;
            break;
        default:
            if (!l->open) break;
            n = less(n, l->bytes), k = less(n, l->need - l->left);
            td_charge_give(&l->draw.charge, n);
            charged -= n, reserved += k, l->left += k, bytes[j] -= n, l->bytes -= n;
        }
        if (charged + reserved > peak) peak = charged + reserved;
        expect(0, charged, reserved, peak);
        ck_assert_uint_eq(td_account_bytes(a[i]), bytes[i]);
    }
    for (int j = 0; j < N_LOADS; j++) td_reservation_end(&loads[j].r);
    for (int i = 0; i < N_ACCOUNTS; i++) td_account_close(a[i]);
    close_budget();
}
END_TEST

/* ---- many threads: the limit holds at every sample, and all comes back ---- */

static atomic_bool stop;
static _Atomic(uint64_t) over, taken;

static void *watch(void *arg) {
    (void)arg;
    while (!stop) {
        td_budget_totals_t t = td_budget_totals(b, 0);
        if (t.charged + t.reserved > t.limit) over++;
    }
    return NULL;
}
static void *serve(void *arg) { /* an account of its own; loads of its own, too */
    char owner[16];
    uint64_t s = (uintptr_t)arg, held = 0;
    td_err_t e;
    snprintf(owner, sizeof owner, "model/%u", (unsigned)s % 3);
    for (int round = 0; round < 40; round++) {
        td_account_t *a = NULL;
        td_reservation_t r = {0};
        td_draw_t d;
        if (td_account_open(b, 0, TD_CHARGE_STATE, owner, &a, &e) != TD_OK) abort();
        bool loading = td_budget_reserve(b, NEED(400, 0), owner, &r, &e) == TD_OK;
        td_draw_init(&d, a, loading ? &r : NULL);
        held = 0;
        for (int i = 0; i < 300; i++) {
            s = s * 6364136223846793005u + 1442695040888963407u;
            uint64_t n = (s >> 40) % 200;
            if (s >> 63 && td_charge_take(&d.charge, n)) held += n, taken++;
            else if (held >= n) td_charge_give(&d.charge, n), held -= n;
            if (i == 200) d.reservation = NULL, td_reservation_end(&r);
        }
        if (td_account_bytes(a) != held) over++;
        td_account_close(a);
    }
    return NULL;
}
START_TEST(threads_never_pass_the_limit) {
    open_budget(1000, 1);
    pthread_t watcher, t[4];
    ck_assert_int_eq(pthread_create(&watcher, NULL, watch, NULL), 0);
    for (uintptr_t i = 0; i < 4; i++) ck_assert_int_eq(pthread_create(&t[i], NULL, serve, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    stop = true;
    pthread_join(watcher, NULL);
    ck_assert_uint_eq(over, 0);
    ck_assert_uint_gt(taken, 1000);
    ck_assert_uint_le(td_budget_totals(b, 0).peak, 1000);
    close_budget();
}
END_TEST

/* One load of several threads: together they get what was reserved and no more. */
static td_draw_t shared_draw;
static _Atomic(uint64_t) shared_bytes;
static void *load_part(void *arg) {
    (void)arg;
    for (int i = 0; i < 2000; i++) {
        if (!td_charge_take(&shared_draw.charge, 7)) continue;
        if (i % 2) td_charge_give(&shared_draw.charge, 7);
        else shared_bytes += 7;
    }
    return NULL;
}
START_TEST(threads_of_one_load) {
    open_budget(1000, 1);
    td_account_t *a = account(0, TD_CHARGE_PAYLOADS, "payloads"), *full = account(0, TD_CHARGE_STATE, "s");
    td_reservation_t r = {0};
    ck_assert_int_eq(td_budget_reserve(b, NEED(700, 0), "x", &r, &err), TD_OK);
    ck_assert(td_charge_take(td_account_charge(full), 300));
    td_draw_init(&shared_draw, a, &r);
    pthread_t t[4];
    for (int i = 0; i < 4; i++) ck_assert_int_eq(pthread_create(&t[i], NULL, load_part, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    ck_assert_uint_eq(shared_bytes, 700);
    expect(0, 1000, 0, 1000);
    td_charge_give(&shared_draw.charge, 700);
    expect(0, 300, 700, 1000);
    td_reservation_end(&r);
    td_account_close(a), td_account_close(full);
    close_budget();
}
END_TEST

/* ---- limits as text ---- */

static const struct {
    const char *text;
    uint64_t total, bytes; /* 0: refused */
    const char *cause;
} sizes[] = {
    {"12GiB", 0, 12ull << 30, NULL}, {"500 MiB", 0, 500ull << 20, NULL}, {"800000000", 0, 800000000, NULL},
    {"1.5GiB", 0, 3ull << 29, NULL}, {"1 TB", 0, 1000000000000, NULL},   {"2kb", 0, 2000, NULL},
    {"0.5 TiB", 0, 1ull << 39, NULL}, {"7B", 0, 7, NULL},                {"70%", 1000, 700, NULL},
    {"12.5 %", 1000, 125, NULL},     {"100%", UINT64_MAX - 1, UINT64_MAX - 1, NULL}, {"auto", 1000, 800, NULL},
    {"none", 0, UINT64_MAX, NULL},   {"18446744073709551614", 0, UINT64_MAX - 1, NULL},
    {"", 0, 0, "expected a size"}, {"GiB", 0, 0, "expected a size"}, {"-1", 0, 0, "expected a size"},
    {"1.", 0, 0, "expected a size"}, {"1.0000000001 GiB", 0, 0, "expected a size"}, {"Auto", 9, 0, "expected a size"},
    {"12 G", 0, 0, "unknown unit 'G'"}, {"12 GiB ", 0, 0, "unknown unit 'GiB '"}, {"1e9", 0, 0, "unknown unit 'e9'"},
    {"0", 0, 0, "for no limit say none"}, {"0.1", 0, 0, "leaves nothing"}, {"101%", 100, 0, "over 100%"},
    {"100.1%", 100, 0, "over 100%"}, {"0%", 100, 0, "leaves nothing"}, {"70%", 0, 0, "unknown amount"},
    {"auto", 0, 0, "unknown amount"}, {"18446744073709551615", 0, 0, "over 16 EiB"},
    {"99999999999999999999999", 0, 0, "expected a size"}, {"17000000 TiB", 0, 0, "over 16 EiB"},
    {"18446744073709551614 TiB", 0, 0, "over 16 EiB"},
};
START_TEST(size_texts) {
    uint64_t got = 77;
    td_status_t s = td_budget_parse(sizes[_i].text, sizes[_i].total, &got, &err);
    if (sizes[_i].bytes) {
        ck_assert_msg(s == TD_OK, "%s", err.text);
        ck_assert_uint_eq(got, sizes[_i].bytes);
        return;
    }
    ck_assert_int_eq(s, TD_USAGE);
    ck_assert_uint_eq(got, 77);
    ck_assert_msg(strstr(err.text, sizes[_i].cause) != NULL, "%s", err.text);
}
END_TEST

START_TEST(sizes_as_text) {
    char buf[TD_SIZE_TEXT];
    ck_assert_str_eq(td_size_text(0, buf), "0 bytes");
    ck_assert_str_eq(td_size_text(1023, buf), "1023 bytes");
    ck_assert_str_eq(td_size_text(1024, buf), "1.0 KiB");
    ck_assert_str_eq(td_size_text(MIB - 1, buf), "1.0 MiB");
    ck_assert_str_eq(td_size_text(812 * MIB, buf), "812.0 MiB");
    ck_assert_str_eq(td_size_text(UINT64_MAX - 1, buf), "16.0 EiB");
    ck_assert_str_eq(td_size_text(UINT64_MAX, buf), "no limit");
}
END_TEST

/* ---- the machine's memory, in a folder made for it ---- */

static void put(const char *root, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = '\0';
        mkdir(path, 0700);
    }
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}
#define V1 "sys/fs/cgroup/memory"
#define V2 "sys/fs/cgroup"
static const struct {
    uint64_t bytes;
    const char *files[5][2]; /* name, text */
} machines[] = {
    {4096000, {{"proc/meminfo", "MemFree: 1 kB\nMemTotal:    4000 kB\nX: 9 kB\n"}}},
    {0, {{"proc/meminfo", "nothing\n"}}},
    {4096000, {{"proc/meminfo", "MemTotal: 4000 kB\n"}, {"proc/self/cgroup", "0::/\n"}, {V2 "/memory.max", "max\n"}}},
    {300, {{"proc/meminfo", "MemTotal: 4000 kB\n"}, {"proc/self/cgroup", "0::/a/b\n"}, {V2 "/a/b/memory.max", "max\n"},
           {V2 "/a/memory.max", "300\n"}, {V2 "/memory.max", "900\n"}}},
    {200, {{"proc/meminfo", "MemTotal: 4000 kB\n"}, {"proc/self/cgroup", "0::/a/b/\n"}, {V2 "/a/b/memory.max", "200\n"},
           {V2 "/a/memory.max", "300\n"}}},
    {250, {{"proc/meminfo", "MemTotal: 4000 kB\n"}, {"proc/self/cgroup", "3:cpu:/z\n0::/a\n"},
           {V2 "/unified/a/memory.max", "250\n"}, {V2 "/z/memory.max", "1\n"}}},
    {500, {{"proc/meminfo", "MemTotal: 4000 kB\n"}, {"proc/self/cgroup", "9:cpuset:/c\n4:hugetlb,memory:/d/e\n"},
           {V1 "/d/memory.limit_in_bytes", "500\n"}, {V1 "/d/e/memory.limit_in_bytes", "9223372036854771712\n"}}},
    {700, {{"proc/meminfo", "MemTotal: 4000 kB\n"}, {"proc/self/cgroup", "4:memory:/docker/0123\n"},
           {V1 "/memory.limit_in_bytes", "700\n"}}},
    {4096000, {{"proc/meminfo", "MemTotal: 4000 kB\n"}, {"proc/self/cgroup", "4:memory_x:/d\nbroken\n:\n"},
               {V1 "/d/memory.limit_in_bytes", "1\n"}}},
    {900, {{"proc/meminfo", "MemTotal: 4000 kB\n"}, {"proc/self/cgroup", "0::/../../other\n"},
           {V2 "/memory.max", "900\n"}}},
    {800, {{"proc/self/cgroup", "0::/\n"}, {V2 "/memory.max", "800\n"}}},
};
START_TEST(memory_of_machine_and_group) {
    char root[] = "/tmp/td_budget_XXXXXX", cmd[64];
    ck_assert_ptr_nonnull(mkdtemp(root));
    for (int i = 0; i < 5 && machines[_i].files[i][0]; i++)
        put(root, machines[_i].files[i][0], machines[_i].files[i][1]);
    uint64_t got = td_budget_host_memory(root);
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", root);
    ck_assert_int_eq(system(cmd), 0);
    ck_assert_uint_eq(got, machines[_i].bytes);
}
END_TEST

START_TEST(memory_of_this_machine) {
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), got = td_budget_host_memory("");
    ck_assert_uint_gt(got, 0);
    ck_assert_uint_le(got, all + all / 8);
    ck_assert_uint_eq(td_budget_host_memory("/nonexistent"), 0);
}
END_TEST

#define COUNT(x) ((int)(sizeof(x) / sizeof *(x)))
int main(void) {
    Suite *s = suite_create("budget");
    TCase *t = tcase_create("budget");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, an_account_takes_what_is_free);
    tcase_add_test(t, a_load_has_what_it_reserved);
    tcase_add_test(t, reservations_are_all_or_none);
    tcase_add_test(t, a_refusal_names_the_largest);
    tcase_add_test(t, rows_are_sorted);
    tcase_add_test(t, bad_arguments_and_no_memory);
    tcase_add_loop_test(t, random_operations_agree_with_the_model, 0, 20);
    tcase_add_test(t, threads_never_pass_the_limit);
    tcase_add_test(t, threads_of_one_load);
    tcase_add_loop_test(t, size_texts, 0, COUNT(sizes));
    tcase_add_test(t, sizes_as_text);
    tcase_add_loop_test(t, memory_of_machine_and_group, 0, COUNT(machines));
    tcase_add_test(t, memory_of_this_machine);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
