/* SPDX-License-Identifier: Apache-2.0 */
/* An older artifact brought to the forms of a newer release, where they mean the same.
 *
 * Each change is a row of one table. What a row cannot express is no upgrade: after the rows, fields that the
 * target's schema no longer has are dropped if a reader may ignore them, and everything else that the target lacks
 * is a refusal naming construct and place. Thread: one. */
#ifndef TD_CONTRACT_UPGRADE_H
#define TD_CONTRACT_UPGRADE_H

#include "contract/ledger.h"
#include "proto/artifact.h"

enum { TD_UPGRADES_MAX = 16 };

typedef struct td_upgrade_report {
    uint32_t applied[TD_UPGRADES_MAX]; /* by row: how many places changed */
    uint32_t n_dropped;                /* fields that the target no longer has */
} td_upgrade_report_t;

typedef struct td_upgrade {
    const char *name;
    const char *what;  /* "comparison_type becomes comparison_order" */
    const char *since; /* the release that writes the new form */
} td_upgrade_t;

uint32_t td_upgrade_count(void);
const td_upgrade_t *td_upgrade_row(uint32_t i);

/* Changes the artifact's messages in place; after a failure they may be half changed and are good for closing only.
 * TD_USAGE: no such release. TD_UNSUPPORTED: something has no form in it. */
td_status_t td_upgrade_artifact(td_artifact_t *a, const char *release, td_upgrade_report_t *out, td_err_t *err);

#endif
