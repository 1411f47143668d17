/* SPDX-License-Identifier: Apache-2.0 */
/* One number per domain, `used`, is charged + reserved and is what the limit binds; drawing on a reservation moves
 * bytes between its two parts and leaves it as it is. */
#include "store/budget.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct domain {
    uint64_t limit;
    _Alignas(64) _Atomic(uint64_t) used; /* charged + reserved <= limit */
    _Atomic(uint64_t) reserved;          /* at least the sum of what is left of the reservations */
    _Atomic(uint64_t) peak;              /* of used */
} domain_t;

struct td_account {
    td_charge_t charge;
    td_budget_t *budget;
    td_account_t *next, *prev;
    _Atomic(uint64_t) bytes;
    uint32_t domain;
    td_charge_kind_t kind;
    size_t size; /* of this block */
    char owner[];
};

struct td_budget {
    domain_t domains[TD_BUDGET_DOMAINS];
    uint32_t n_domains;
    const td_alloc_t *alloc;
    pthread_mutex_t lock; /* of the list */
    td_account_t *first;  /* accounts of one owner stand together */
    uint32_t n_accounts;
};

static const char *const kind_names[TD_CHARGE_KINDS] = {"payloads", "weights", "programs", "bindings",
                                                        "requests", "state",   "overhead"};
const char *td_charge_kind_name(td_charge_kind_t k) {
    return (unsigned)k < TD_CHARGE_KINDS ? kind_names[k] : "unknown kind";
}

/* ---- the numbers of a domain ---- */

static void note_peak(domain_t *d, uint64_t used) {
    uint64_t peak = atomic_load(&d->peak);
    while (used > peak && !atomic_compare_exchange_weak(&d->peak, &peak, used)) {}
}
static bool use(domain_t *d, uint64_t n) {
    uint64_t used = atomic_load(&d->used);
    do {
        if (n > d->limit - used) return false;
    } while (!atomic_compare_exchange_weak(&d->used, &used, used + n));
    note_peak(d, used + n);
    return true;
}
static void unuse(domain_t *d, uint64_t n) {
    uint64_t before = atomic_fetch_sub(&d->used, n);
    assert(before >= n);
    (void)before;
}

/* Takes up to n bytes of the reservation's rest; they still count as reserved. */
static uint64_t draw_left(td_reservation_t *r, uint32_t d, uint64_t n) {
    uint64_t left = atomic_load(&r->left[d]), k;
    do k = left < n ? left : n;
    while (k && !atomic_compare_exchange_weak(&r->left[d], &left, left - k));
    return k;
}
/* Puts up to n bytes back, which count as reserved already; at most what was reserved. */
static uint64_t refill(td_reservation_t *r, uint32_t d, uint64_t n) {
    uint64_t left = atomic_load(&r->left[d]), k, room;
    do room = r->need[d] - left, k = room < n ? room : n;
    while (k && !atomic_compare_exchange_weak(&r->left[d], &left, left + k));
    return k;
}

/* ---- taking and giving ---- */

static bool take(td_account_t *a, td_reservation_t *r, uint64_t n) {
    domain_t *d = &a->budget->domains[a->domain];
    uint64_t drawn = r ? draw_left(r, a->domain, n) : 0;
    if (n > drawn && !use(d, n - drawn)) {
        if (drawn) atomic_fetch_add(&r->left[a->domain], drawn);
        return false;
    }
    if (drawn) atomic_fetch_sub(&d->reserved, drawn);
    atomic_fetch_add(&a->bytes, n);
    return true;
}

static void give(td_account_t *a, td_reservation_t *r, uint64_t n) {
    domain_t *d = &a->budget->domains[a->domain];
    uint64_t before = atomic_fetch_sub(&a->bytes, n), kept = 0;
    assert(before >= n);
    (void)before;
    if (r) {
        atomic_fetch_add(&d->reserved, n);
        kept = refill(r, a->domain, n);
        atomic_fetch_sub(&d->reserved, n - kept);
    }
    unuse(d, n - kept);
}

static bool account_take(void *ctx, uint64_t n) { return take(ctx, NULL, n); }
static void account_give(void *ctx, uint64_t n) { give(ctx, NULL, n); }
static bool draw_take(void *ctx, uint64_t n) {
    td_draw_t *d = ctx;
    bool ok = take(d->account, d->reservation, n);
    if (!ok) atomic_store(&d->refused, n);
    return ok;
}
static void draw_give(void *ctx, uint64_t n) {
    td_draw_t *d = ctx;
    give(d->account, d->reservation, n);
}
void td_draw_init(td_draw_t *d, td_account_t *a, td_reservation_t *r) {
    *d = (td_draw_t){.charge = {draw_take, draw_give, d}, .account = a, .reservation = r};
}

/* ---- budget and accounts ---- */

td_status_t td_budget_create(const uint64_t *limits, uint32_t n_domains, const td_alloc_t *alloc, td_budget_t **out,
                             td_err_t *err) {
    if (!n_domains || n_domains > TD_BUDGET_DOMAINS)
        return td_fail(err, TD_LIMIT, "%u memory domains; at most %d: the host and 16 devices", n_domains,
                       TD_BUDGET_DOMAINS);
    td_budget_t *b = alloc->get(alloc->ctx, sizeof *b, _Alignof(td_budget_t));
    if (!b) return td_fail(err, TD_NOMEM, "out of memory");
    memset(b, 0, sizeof *b);
    b->alloc = alloc;
    b->n_domains = n_domains;
    for (uint32_t d = 0; d < n_domains; d++) b->domains[d].limit = limits[d];
    pthread_mutex_init(&b->lock, NULL);
    *out = b;
    return TD_OK;
}

void td_budget_destroy(td_budget_t *b) {
    if (!b) return;
    assert(!b->first);
    pthread_mutex_destroy(&b->lock);
    b->alloc->put(b->alloc->ctx, b, sizeof *b);
}

/* Before the first account of the same owner, else at the front. */
static void link_account(td_budget_t *b, td_account_t *a) {
    td_account_t *at = b->first;
    while (at && strcmp(at->owner, a->owner)) at = at->next;
    if (!at) at = b->first;
    a->next = at;
    a->prev = at ? at->prev : NULL;
    if (at) at->prev = a;
    if (a->prev) a->prev->next = a;
    else b->first = a;
    b->n_accounts++;
}

td_status_t td_account_open(td_budget_t *b, uint32_t domain, td_charge_kind_t kind, const char *owner,
                            td_account_t **out, td_err_t *err) {
    if (domain >= b->n_domains || (unsigned)kind >= TD_CHARGE_KINDS)
        return td_fail(err, TD_INTERNAL, "%s: no account of domain %u and kind %u: %u domains, %d kinds", owner, domain,
                       (unsigned)kind, b->n_domains, TD_CHARGE_KINDS);
    size_t n = strlen(owner) + 1;
    td_account_t *a = b->alloc->get(b->alloc->ctx, sizeof *a + n, _Alignof(max_align_t));
    if (!a) return td_fail(err, TD_NOMEM, "out of memory");
    memset(a, 0, sizeof *a);
    a->charge = (td_charge_t){account_take, account_give, a};
    a->budget = b;
    a->domain = domain;
    a->kind = kind;
    a->size = sizeof *a + n;
    memcpy(a->owner, owner, n);
    pthread_mutex_lock(&b->lock);
    link_account(b, a);
    pthread_mutex_unlock(&b->lock);
    *out = a;
    return TD_OK;
}

void td_account_close(td_account_t *a) {
    if (!a) return;
    td_budget_t *b = a->budget;
    give(a, NULL, atomic_load(&a->bytes));
    pthread_mutex_lock(&b->lock);
    if (a->next) a->next->prev = a->prev;
    if (a->prev) a->prev->next = a->next;
    else b->first = a->next;
    b->n_accounts--;
    pthread_mutex_unlock(&b->lock);
    b->alloc->put(b->alloc->ctx, a, a->size);
}

const td_charge_t *td_account_charge(td_account_t *a) { return &a->charge; }
uint64_t td_account_bytes(const td_account_t *a) { return atomic_load(&a->bytes); }

/* ---- reservations ---- */

td_status_t td_budget_reserve(td_budget_t *b, const uint64_t need[TD_BUDGET_DOMAINS], const char *what,
                              td_reservation_t *out, td_err_t *err) {
    for (uint32_t d = b->n_domains; d < TD_BUDGET_DOMAINS; d++)
        if (need[d])
            return td_fail(err, TD_INTERNAL, "%s: memory of domain %u is needed, there are %u domains", what, d,
                           b->n_domains);
    for (uint32_t d = 0; d < b->n_domains; d++) {
        if (use(&b->domains[d], need[d])) continue;
        uint32_t missing = d;
        while (d-- > 0) unuse(&b->domains[d], need[d]);
        return td_budget_refuse(b, missing, need[missing], what, err);
    }
    for (uint32_t d = 0; d < TD_BUDGET_DOMAINS; d++) {
        out->need[d] = need[d];
        if (d < b->n_domains) atomic_fetch_add(&b->domains[d].reserved, need[d]);
        atomic_init(&out->left[d], need[d]);
    }
    out->budget = b;
    return TD_OK;
}

void td_reservation_end(td_reservation_t *r) {
    td_budget_t *b = r->budget;
    if (!b) return;
    for (uint32_t d = 0; d < b->n_domains; d++) {
        uint64_t left = atomic_exchange(&r->left[d], 0);
        r->need[d] = 0;
        atomic_fetch_sub(&b->domains[d].reserved, left);
        unuse(&b->domains[d], left);
    }
    r->budget = NULL;
}

/* ---- what is taken ---- */

uint32_t td_budget_domains(const td_budget_t *b) { return b->n_domains; }

td_budget_totals_t td_budget_totals(const td_budget_t *b, uint32_t domain) {
    if (domain >= b->n_domains) return (td_budget_totals_t){0};
    const domain_t *d = &b->domains[domain];
    uint64_t used = atomic_load(&d->used), reserved = atomic_load(&d->reserved), peak = atomic_load(&d->peak);
    if (reserved > used) reserved = used; /* it grew in between */
    return (td_budget_totals_t){d->limit, used - reserved, reserved, peak > used ? peak : used};
}

static int by_bytes(const void *x, const void *y) {
    const td_budget_row_t *a = x, *b = y;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    if (a->domain != b->domain) return a->domain < b->domain ? -1 : 1;
    int c = strcmp(a->owner, b->owner);
    return c ? c : (int)a->kind - (int)b->kind;
}

static td_status_t copy_rows(td_budget_t *b, td_arena_t *arena, td_budget_row_t **out, uint32_t *out_n, td_err_t *err) {
    td_budget_row_t *rows = TD_NEW_N(arena, td_budget_row_t, b->n_accounts);
    uint32_t n = 0;
    if (!rows) return td_arena_fail(arena, err);
    for (const td_account_t *a = b->first; a; a = a->next) {
        char *owner = td_arena_strndup(arena, a->owner, strlen(a->owner));
        if (!owner) return td_arena_fail(arena, err);
        rows[n++] = (td_budget_row_t){a->domain, a->kind, owner, td_account_bytes(a)};
    }
    qsort(rows, n, sizeof *rows, by_bytes);
    *out = rows;
    *out_n = n;
    return TD_OK;
}
td_status_t td_budget_rows(td_budget_t *b, td_arena_t *arena, td_budget_row_t **out, uint32_t *out_n, td_err_t *err) {
    pthread_mutex_lock(&b->lock);
    td_status_t s = copy_rows(b, arena, out, out_n, err);
    pthread_mutex_unlock(&b->lock);
    return s;
}

/* ---- refusals ---- */

#define LARGEST 3
typedef struct owner_sum {
    const char *name;
    uint64_t bytes;
} owner_sum_t;

static void keep_largest(owner_sum_t top[LARGEST], owner_sum_t x) {
    for (size_t i = 0; x.bytes && i < LARGEST; i++)
        if (x.bytes > top[i].bytes) {
            owner_sum_t moved = top[i];
            top[i] = x;
            x = moved;
        }
}

/* ": the largest: gpt2/1 400.1 MiB, …"; the lock is held. */
static void write_largest(td_budget_t *b, uint32_t domain, char *buf, size_t size) {
    owner_sum_t top[LARGEST] = {{0}};
    char amount[TD_SIZE_TEXT];
    for (const td_account_t *a = b->first; a;) {
        owner_sum_t x = {a->owner, 0};
        for (; a && !strcmp(a->owner, x.name); a = a->next)
            if (a->domain == domain) x.bytes += td_account_bytes(a);
        keep_largest(top, x);
    }
    size_t at = 0;
    for (size_t i = 0; i < LARGEST && top[i].bytes && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%.64s %s", i ? ", " : "; the largest: ", top[i].name,
                               td_size_text(top[i].bytes, amount));
}

td_status_t td_budget_refuse(td_budget_t *b, uint32_t domain, uint64_t need, const char *what, td_err_t *err) {
    td_budget_totals_t t = td_budget_totals(b, domain);
    uint64_t left = t.limit - t.charged - t.reserved;
    char needs[TD_SIZE_TEXT], frees[TD_SIZE_TEXT], limit[TD_SIZE_TEXT], loads[TD_SIZE_TEXT];
    char name[24] = "host", largest[320] = "", loading[64] = "";
    if (domain) snprintf(name, sizeof name, "device %u", domain - 1);
    if (!strcmp(td_size_text(need, needs), td_size_text(left, frees))) { /* the difference is in the digits left out */
        snprintf(needs, sizeof needs, "%llu bytes", (unsigned long long)need);
        snprintf(frees, sizeof frees, "%llu", (unsigned long long)left);
    }
    if (t.reserved) snprintf(loading, sizeof loading, "; loads under way %s", td_size_text(t.reserved, loads));
    pthread_mutex_lock(&b->lock);
    write_largest(b, domain, largest, sizeof largest);
    pthread_mutex_unlock(&b->lock);
    return td_fail(err, TD_LIMIT, "%.80s needs %s of %s memory, %s of %s are free%s%s", what, needs, name, frees,
                   td_size_text(t.limit, limit), largest, loading);
}
