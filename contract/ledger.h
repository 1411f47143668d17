/* SPDX-License-Identifier: Apache-2.0 */
/* The contract's ledger: every message, field, thunk kind, enum and enum value that an artifact can hold, with
 * the releases whose schema has it. Generated (tools/gen_ledger.py); constant data, nothing is owned.
 *
 * A release's index counts from the oldest. Days are yyyymmdd as a number, 0: never. Thread: any. */
#ifndef TD_CONTRACT_LEDGER_H
#define TD_CONTRACT_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A runtime reads what compilers of the past six months wrote. */
enum { TD_CONTRACT_WINDOW_MONTHS = 6 };

typedef struct td_ledger_release {
    const char *name; /* "0.12.0.1" */
    int32_t built;    /* the day its compiler was built */
} td_ledger_release_t;

typedef struct td_ledger_type { /* a message or an enum */
    const char *name;           /* full: "xla.gpu.ThunkProto" */
    bool is_enum;
    int8_t first, last; /* releases that have it; -1: none had */
    int32_t seen, removed;
    uint32_t item, n_items;
} td_ledger_type_t;

enum { TD_LEDGER_THUNK_KIND = 1, TD_LEDGER_DEPRECATED = 2 };

typedef struct td_ledger_item { /* a field or an enum value */
    const char *name;           /* short: "kernel_thunk" */
    int32_t number;
    int16_t type; /* index of a field's message or enum; -1: a scalar */
    int8_t first, last;
    int32_t seen, removed;
    uint8_t flags;
} td_ledger_item_t;

extern const td_ledger_release_t td_ledger_releases[];
extern const uint32_t td_ledger_release_count;
extern const td_ledger_type_t td_ledger_types[]; /* sorted by name */
extern const uint32_t td_ledger_type_count;
extern const td_ledger_item_t td_ledger_items[]; /* of one type: together, sorted by number */
extern const uint32_t td_ledger_item_count;

const td_ledger_type_t *td_ledger_type(const char *full_name);
/* The field or value with this number; of several meanings, the newest release's. NULL: never seen. */
const td_ledger_item_t *td_ledger_find(const td_ledger_type_t *t, int64_t number);
const td_ledger_item_t *td_ledger_named(const td_ledger_type_t *t, const char *name);
/* "xla.gpu.ThunkProto.kernel_thunk"; both must be the ledger's, else NULL. */
const td_ledger_item_t *td_ledger_path(const char *full_name);
/* Whose item it is. */
const td_ledger_type_t *td_ledger_owner(const td_ledger_item_t *item);
/* A value that its enum had from the start: not the value tells when it came, but the field it stands in, which may
 * have had another enum before. */
bool td_ledger_is_founding(const td_ledger_item_t *item);
static inline uint32_t td_ledger_index(const td_ledger_item_t *item) {
    return (uint32_t)(item - td_ledger_items);
}
/* Index of a release, -1: none of that name. */
int td_ledger_release(const char *name);

/* Does the runtime of that day know what first came with release `first`, or was first seen on day `seen`? */
static inline bool td_ledger_known(int8_t first, int32_t seen, int32_t day) {
    return (first >= 0 ? td_ledger_releases[first].built : seen) <= day;
}

#endif
