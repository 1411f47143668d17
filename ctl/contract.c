/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl contract: what this build knows of the contract. Releases with their windows, the former forms that are
 * read and until when, the fields that may be ignored. */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <time.h>

#include "contract/day.h"
#include "contract/fallbacks.h"
#include "contract/ignorable.h"
#include "ctl/ctl.h"

typedef struct contract_args {
    bool json;
} contract_args_t;

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "Print one JSON object, with the fields that may be ignored", 0},
    {0},
};

static error_t parse_opt(int key, char *arg, struct argp_state *state) {
    contract_args_t *a = state->input;
    (void)arg;
    switch (key) {
    case 'j': a->json = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options, parse_opt,
    NULL,    "Print the contract: releases and their windows, the former forms that are read, and their months.",
    NULL,    NULL,
    NULL};

static int32_t leaves(uint32_t release) {
    return td_day_add_months(td_ledger_releases[release].built, TD_CONTRACT_WINDOW_MONTHS);
}

static void print_text(int32_t today) {
    char built[12], end[12], month[16];
    printf("release    built       inside the window until\n");
    for (uint32_t i = 0; i < td_ledger_release_count; i++)
        printf("%-10s %s  %s%s\n", td_ledger_releases[i].name, td_day_text(td_ledger_releases[i].built, built),
               td_day_text(leaves(i), end), today <= leaves(i) ? "" : "  outside");
    printf("\nFormer forms that are read:\n");
    for (uint32_t i = 0; i < td_fallback_count; i++) {
        const td_fallback_t *f = &td_fallbacks[i];
        printf("  %-18s %s\n  %-18s last written by %s; can be removed in %s\n", f->name, f->form, "", f->last,
               td_month_text(f->month, month));
    }
}

static int print_json(int32_t today) {
    char built[12], end[12], month[16];
    json_t *releases = json_array(), *fallbacks = json_array(), *ignorable = json_array();
    for (uint32_t i = 0; i < td_ledger_release_count; i++)
        json_array_append_new(releases, json_pack("{s:s, s:s, s:s, s:b}", "release", td_ledger_releases[i].name,
                                                  "built", td_day_text(td_ledger_releases[i].built, built), "leaves",
                                                  td_day_text(leaves(i), end), "inside", today <= leaves(i)));
    for (uint32_t i = 0; i < td_fallback_count; i++) {
        const td_fallback_t *f = &td_fallbacks[i];
        json_array_append_new(fallbacks, json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:b}", "name", f->name, "form",
                                                   f->form, "construct", f->construct, "last_release", f->last,
                                                   "can_be_removed_in", td_month_text(f->month, month), "month",
                                                   (int)f->month, "in_ledger", td_ledger_path(f->construct) != NULL));
    }
    for (uint32_t i = 0; i < td_ignorable_count; i++)
        json_array_append_new(ignorable,
                              json_pack("{s:s, s:b, s:s}", "field", td_ignorables[i].field, "always",
                                        td_ignorables[i].when == TD_IGNORE_ALWAYS, "why", td_ignorables[i].why));
    json_t *root = json_pack("{s:o, s:o, s:o}", "releases", releases, "fallbacks", fallbacks, "ignorable", ignorable);
    int rc = root ? json_dumpf(root, stdout, JSON_INDENT(2)) : -1;
    putchar('\n');
    json_decref(root);
    return rc ? 1 : 0;
}

int ctl_contract(int argc, char **argv) {
    contract_args_t a = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    int32_t today = td_day_of(time(NULL));
    if (a.json) return print_json(today);
    print_text(today);
    return 0;
}
