/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of a scan: where the walk stands, and what it notes. Private to this folder. */
#ifndef TD_CONTRACT_SCAN_IN_H
#define TD_CONTRACT_SCAN_IN_H

#include "contract/ignorable.h"
#include "contract/scan.h"

/* Messages in messages: what the artifact's own limit allows, and as many again in what we keep as bytes. */
#define TD_SCAN_DEPTH 192

typedef struct td_scan_info td_scan_info_t;

typedef struct td_scan_step {
    const char *name; /* NULL: a field without a name, by its number */
    uint32_t number;
    int64_t index; /* of a repeated field, else -1 */
} td_scan_step_t;

typedef struct td_scan_walk {
    td_scan_t *scan;
    const td_artifact_t *artifact;
    const td_ignorable_t **rules;   /* by ledger index; NULL: the construct matters */
    td_scan_watch_t *watch;
    uint8_t *watched;               /* by ledger index: which watch, counted from 1 */
    td_scan_info_t *infos;          /* of message types met so far */
    td_scan_step_t steps[TD_SCAN_DEPTH];
    uint32_t n_steps;
    const ProtobufCMessage *computation; /* the HLO computation that the walk is in */
    uint64_t look_ups;              /* steps left for td_ignorable_here */
    uint32_t cap_unknown, cap_handlers;
    td_err_t *err;
} td_scan_walk_t;

/* One step down. False: too deep, and *err says so. */
static inline bool td_scan_down(td_scan_walk_t *w, const char *name, uint32_t number, int64_t index) {
    if (w->n_steps == TD_SCAN_DEPTH) {
        td_fail(w->err, TD_LIMIT, "messages nest deeper than %d", TD_SCAN_DEPTH);
        return false;
    }
    w->steps[w->n_steps++] = (td_scan_step_t){name, number, index};
    return true;
}

/* The construct occurs at the walk's place, or `name` below it when that is not NULL. */
td_status_t td_scan_mark(td_scan_walk_t *w, const td_ledger_item_t *it, const char *name, int64_t index, bool needed);
/* So does something that the ledger lacks. */
td_status_t td_scan_mark_unknown(td_scan_walk_t *w, const td_ledger_type_t *type, const char *type_name, int64_t number,
                                 bool is_value, bool needed);
void td_scan_watch_bytes(td_scan_walk_t *w, const td_ledger_item_t *it, const void *data, size_t size);
void td_scan_watch_number(td_scan_walk_t *w, const td_ledger_item_t *it, uint64_t v);

/* The value of an enum field. */
td_status_t td_scan_value(td_scan_walk_t *w, const td_ledger_type_t *type, int64_t v, bool needed);
/* A message's wire bytes, of a type that the ledger knows. Bytes that are no message are left alone. */
td_status_t td_scan_wire(td_scan_walk_t *w, const td_ledger_type_t *type, td_span_t bytes, bool needed);
/* Fields that the schema has no place for: their numbers and bytes from tag to end. */
td_status_t td_scan_wire_field(td_scan_walk_t *w, const td_ledger_type_t *type, const char *type_name, uint32_t number,
                               uint8_t wire_type, td_span_t value, uint64_t v, bool needed);

#endif
