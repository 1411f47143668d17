/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/memory.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/limits.h"

struct td_memory {
    td_budget_t *budget;
    td_account_t *account, *aside;
    uint64_t room;          /* of what is set aside; 0 if the budget had not even that */
    _Atomic(uint64_t) used; /* of room */
    td_reservation_t reserved;
    td_draw_t draw; /* on account, from reserved first */
    td_charge_t charge;
};

static bool take_aside(td_memory_t *m, uint64_t bytes) {
    if (bytes > TD_LIMIT_SMALL_BUFFER_BYTES) return false;
    uint64_t used = atomic_load(&m->used);
    do
        if (bytes > m->room - used) return false;
    while (!atomic_compare_exchange_weak(&m->used, &used, used + bytes));
    return true;
}

static bool take(void *ctx, uint64_t bytes) {
    td_memory_t *m = ctx;
    return td_charge_take(&m->draw.charge, bytes) || take_aside(m, bytes);
}

/* Bytes are alike: what is set aside fills up first. */
static void give(void *ctx, uint64_t bytes) {
    td_memory_t *m = ctx;
    uint64_t used = atomic_load(&m->used), back;
    do
        back = bytes < used ? bytes : used;
    while (!atomic_compare_exchange_weak(&m->used, &used, used - back));
    if (bytes > back) td_charge_give(&m->draw.charge, bytes - back);
}

td_status_t td_memory_create(td_budget_t *budget, uint64_t aside, td_memory_t **out, td_err_t *err) {
    *out = NULL;
    td_memory_t *m = calloc(1, sizeof *m);
    if (!m) return td_fail(err, TD_NOMEM, "out of memory");
    m->budget = budget;
    m->charge = (td_charge_t){take, give, m};
    td_status_t s = td_account_open(budget, 0, TD_CHARGE_REQUESTS, "requests", &m->account, err);
    if (s == TD_OK) s = td_account_open(budget, 0, TD_CHARGE_OVERHEAD, "small requests", &m->aside, err);
    if (s != TD_OK) {
        td_memory_destroy(m);
        return s;
    }
    bool room = td_charge_take(td_account_charge(m->aside), TD_LIMIT_SMALL_BUFFERS_BYTES);
    m->room = room ? TD_LIMIT_SMALL_BUFFERS_BYTES : 0;
    while (aside && td_budget_reserve(budget, (uint64_t[TD_BUDGET_DOMAINS]){aside}, "requests", &m->reserved,
                                      NULL) != TD_OK)
        aside /= 2;
    td_draw_init(&m->draw, m->account, m->reserved.budget ? &m->reserved : NULL);
    *out = m;
    return TD_OK;
}

void td_memory_destroy(td_memory_t *m) {
    if (!m) return;
    td_reservation_end(&m->reserved);
    td_account_close(m->account);
    td_account_close(m->aside);
    free(m);
}

const td_charge_t *td_memory_charge(td_memory_t *m) {
    return &m->charge;
}

td_status_t td_memory_refuse(const td_memory_t *m, const char *what, uint64_t bytes, td_err_t *err) {
    td_budget_totals_t t = td_budget_totals(m->budget, 0);
    return td_fail(err, TD_LIMIT, "no room for %llu bytes of %s: of the budget of %llu bytes %llu are charged and %llu "
                   "reserved; try again later, unload models or raise the host's budget", (unsigned long long)bytes,
                   what, (unsigned long long)t.limit, (unsigned long long)t.charged, (unsigned long long)t.reserved);
}
