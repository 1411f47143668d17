/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl budget: where a daemon's memory is, and what the kernel says about it. */
#include <stdio.h>
#include <string.h>

#include "ctl/admin.h"
#include "ctl/ctl.h"
#include "schema/admin.pb-c.h"

typedef Thunkd__V1__BudgetResponse budget_t;

static const struct argp_option options[] = {ADMIN_OPTIONS, ADMIN_JSON, {0}};
static const struct argp argp = {options, admin_parse_opt, "",
                                 "Show who holds how much of a daemon's memory.", NULL, NULL, NULL};

static const Thunkd__V1__Domain *domain(const budget_t *b, const char *name) {
    for (size_t i = 0; i < b->n_domains; i++)
        if (!strcmp(b->domains[i]->name, name)) return b->domains[i];
    return NULL;
}

static td_status_t print_accounts(const budget_t *b, td_err_t *err) {
    static const char *const heads[] = {"DOMAIN", "OWNER", "KIND", ">BYTES", ">SIZE", ">SHARE"};
    admin_table_t t = {.heads = heads, .n_columns = sizeof heads / sizeof *heads};
    for (size_t i = 0; i < b->n_accounts; i++) {
        const Thunkd__V1__Account *a = b->accounts[i];
        const Thunkd__V1__Domain *d = domain(b, a->domain);
        if (!a->bytes) continue;
        char bytes[24], size[24], share[24] = "-";
        snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)a->bytes);
        if (d && d->charged) snprintf(share, sizeof share, "%.1f %%", 100 * (double)a->bytes / (double)d->charged);
        const char *const cells[] = {a->domain, a->owner, a->kind, bytes, admin_size(a->bytes, size), share};
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) admin_cell(&t, cells[k]);
    }
    td_status_t s = t.n ? admin_table_print(&t, err) : TD_OK;
    admin_table_free(&t);
    return s;
}

static td_status_t print_domains(const budget_t *b, td_err_t *err) {
    static const char *const heads[] = {"DOMAIN", ">LIMIT", ">CHARGED", ">RESERVED", ">FREE", ">PEAK"};
    admin_table_t t = {.heads = heads, .n_columns = sizeof heads / sizeof *heads};
    for (size_t i = 0; i < b->n_domains; i++) {
        const Thunkd__V1__Domain *d = b->domains[i];
        char limit[24], charged[24], reserved[24], left[24], peak[24];
        bool none = d->limit == UINT64_MAX;
        uint64_t used = d->charged + d->reserved;
        const char *const cells[] = {d->name, none ? "none" : admin_size(d->limit, limit),
                                     admin_size(d->charged, charged), admin_size(d->reserved, reserved),
                                     none ? "-" : admin_size(d->limit > used ? d->limit - used : 0, left),
                                     admin_size(d->peak, peak)};
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) admin_cell(&t, cells[k]);
    }
    td_status_t s = admin_table_print(&t, err);
    admin_table_free(&t);
    return s;
}

static void print_process(const budget_t *b) {
    const Thunkd__V1__Process *p = b->process;
    const Thunkd__V1__Domain *host = domain(b, "host");
    char resident[24], shared[24], heap[24], apart[24];
    if (!p) return;
    printf("The kernel counts %s in memory (of it files: %s)", admin_size(p->resident, resident),
           admin_size(p->shared, shared));
    if (p->heap_resident) printf(", the allocator has up to %s", admin_size(p->heap_resident, heap));
    if (host) {
        bool more = p->resident >= host->charged;
        uint64_t d = more ? p->resident - host->charged : host->charged - p->resident;
        printf(";\n%s %s than what is charged to host", admin_size(d, apart), more ? "more" : "less");
    }
    puts(".");
}

int ctl_budget(int argc, char **argv) {
    admin_args_t a = {.timeout_ms = 10000};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    Thunkd__V1__BudgetRequest q = THUNKD__V1__BUDGET_REQUEST__INIT;
    ProtobufCMessage *m = NULL;
    td_err_t err = {0};
    td_status_t s = admin_call(&a, "Budget", &q.base, &thunkd__v1__budget_response__descriptor, &m, &err);
    const budget_t *b = (const budget_t *)(void *)m;
    if (s == TD_OK && a.json) {
        s = admin_print_json(admin_json(m), &err);
    } else if (s == TD_OK) {
        s = print_accounts(b, &err);
        if (b->n_accounts) putchar('\n');
        if (s == TD_OK) s = print_domains(b, &err);
        if (s == TD_OK) putchar('\n');
        if (s == TD_OK) print_process(b);
    }
    if (m) protobuf_c_message_free_unpacked(m, NULL);
    return s == TD_OK ? 0 : ctl_report(&err);
}
