/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger: every byte is charged to an owner before it is taken.
 *
 * A domain is a memory of its own: 0 is the host's, 1 + k device k's (absent on devices whose memory is the
 * host's). Per domain: charged + reserved <= limit, at every moment. A load reserves its need first; while it
 * runs, its charges draw on the reservation, and beyond it on what is free (which may be nothing). The rest of a
 * reservation goes back at its end.
 *
 *   budget     limits, and what of them is taken
 *   account    bytes of one owner ("mlp/2"), one kind, one domain: a row of `thunkctl budget`
 *   draw       a td_charge_t on an account, through a reservation while there is one
 *
 * Thread: any, no lock on take and give. */
#ifndef TD_STORE_BUDGET_H
#define TD_STORE_BUDGET_H

#include "base/alloc.h"
#include "base/arena.h"
#include "base/size.h"
#include "base/status.h"

typedef struct td_budget td_budget_t;
typedef struct td_account td_account_t;

typedef enum td_charge_kind {
    TD_CHARGE_PAYLOADS, TD_CHARGE_WEIGHTS, TD_CHARGE_PROGRAMS, TD_CHARGE_BINDINGS, TD_CHARGE_REQUESTS,
    TD_CHARGE_STATE, TD_CHARGE_OVERHEAD, TD_CHARGE_KINDS
} td_charge_kind_t;
const char *td_charge_kind_name(td_charge_kind_t k); /* "payloads" … */

#define TD_BUDGET_DOMAINS 17

/* limits[d] of domain d < n_domains; UINT64_MAX: no limit. */
td_status_t td_budget_create(const uint64_t *limits, uint32_t n_domains, const td_alloc_t *alloc, td_budget_t **out,
                             td_err_t *err);
void td_budget_destroy(td_budget_t *b); /* accounts are closed, reservations ended; NULL is fine */

/* An account with nothing in it. owner is copied. */
td_status_t td_account_open(td_budget_t *b, uint32_t domain, td_charge_kind_t kind, const char *owner,
                            td_account_t **out, td_err_t *err);
void td_account_close(td_account_t *a); /* what is left in it is given back; NULL is fine */
/* Charges without a reservation. Lives as long as the account. */
const td_charge_t *td_account_charge(td_account_t *a);
uint64_t td_account_bytes(const td_account_t *a);

/* What a draw gives back while its reservation lasts goes to the reservation again, up to what was reserved: a load
 * that frees a temporary may take the next one. */
typedef struct td_reservation {
    td_budget_t *budget; /* NULL: ended */
    uint64_t need[TD_BUDGET_DOMAINS];
    _Atomic(uint64_t) left[TD_BUDGET_DOMAINS];
} td_reservation_t;

/* Reserves need[d] bytes of every domain, all or none. TD_LIMIT: the text names the need, what is free, the limit
 * and the largest owners of the first domain that is short. */
td_status_t td_budget_reserve(td_budget_t *b, const uint64_t need[TD_BUDGET_DOMAINS], const char *what,
                              td_reservation_t *out, td_err_t *err);
/* The error of a need that is not met, in the words of td_budget_reserve: for charges that were refused. */
td_status_t td_budget_refuse(td_budget_t *b, uint32_t domain, uint64_t need, const char *what, td_err_t *err);
/* No draw goes through it any more. May be called again, and on a zeroed one. */
void td_reservation_end(td_reservation_t *r);

typedef struct td_draw {
    td_charge_t charge; /* ctx: this draw, which must not move */
    td_account_t *account;
    td_reservation_t *reservation; /* NULL: what is free. Reset by its owner before the reservation ends, while
                                    * nobody takes or gives through the draw */
    _Atomic(uint64_t) refused;     /* bytes of the last take that was refused; 0: none. For callers that only see
                                    * that there is no memory */
} td_draw_t;
void td_draw_init(td_draw_t *d, td_account_t *a, td_reservation_t *r);

typedef struct td_budget_totals {
    uint64_t limit, charged, reserved, peak; /* peak: of charged + reserved */
} td_budget_totals_t;
uint32_t td_budget_domains(const td_budget_t *b);
td_budget_totals_t td_budget_totals(const td_budget_t *b, uint32_t domain);

typedef struct td_budget_row {
    uint32_t domain;
    td_charge_kind_t kind;
    const char *owner;
    uint64_t bytes;
} td_budget_row_t;
/* The accounts, largest first; copied into the arena. */
td_status_t td_budget_rows(td_budget_t *b, td_arena_t *arena, td_budget_row_t **out, uint32_t *out_n, td_err_t *err);

/* The limit that a text of the configuration stands for: base/size.h. */
static inline td_status_t td_budget_parse(const char *text, uint64_t total, uint64_t *out, td_err_t *err) {
    return td_size_parse(text, total, out, err);
}
/* Memory that this process may use: the machine's, or less where a control group (v2 or v1) of it or of its
 * parents says so. root: "" but for tests, a folder that /proc and /sys lie in. 0: unknown. */
uint64_t td_budget_host_memory(const char *root);

#endif
