/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/ledger.h"

#include <string.h>

#define COUNT(a) ((uint32_t)(sizeof(a) / sizeof *(a)))

#define RELEASE(name, built) {name, built},
const td_ledger_release_t td_ledger_releases[] = {
#include "contract/ledger_table.inc"
};
#undef RELEASE
const uint32_t td_ledger_release_count = COUNT(td_ledger_releases);

#define TYPE(name, is_enum, first, last, seen, removed, item, n_items)                                                 \
    {name, is_enum, first, last, seen, removed, item, n_items},
const td_ledger_type_t td_ledger_types[] = {
#include "contract/ledger_table.inc"
};
#undef TYPE
const uint32_t td_ledger_type_count = COUNT(td_ledger_types);

#define ITEM(name, number, type, first, last, seen, removed, flags)                                                    \
    {name, number, type, first, last, seen, removed, flags},
const td_ledger_item_t td_ledger_items[] = {
#include "contract/ledger_table.inc"
};
#undef ITEM
const uint32_t td_ledger_item_count = COUNT(td_ledger_items);

static const td_ledger_type_t *find_type(const char *name, size_t n) {
    uint32_t lo = 0, hi = td_ledger_type_count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int c = strncmp(td_ledger_types[mid].name, name, n);
        if (!c && td_ledger_types[mid].name[n]) c = 1;
        if (!c) return &td_ledger_types[mid];
        if (c < 0) lo = mid + 1;
        else hi = mid;
    }
    return NULL;
}

const td_ledger_type_t *td_ledger_type(const char *full_name) { return find_type(full_name, strlen(full_name)); }

const td_ledger_item_t *td_ledger_find(const td_ledger_type_t *t, int64_t number) {
    uint32_t lo = t->item, hi = t->item + t->n_items;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (td_ledger_items[mid].number < number) lo = mid + 1;
        else hi = mid;
    }
    bool found = lo < t->item + t->n_items && td_ledger_items[lo].number == number;
    return found ? &td_ledger_items[lo] : NULL;
}

const td_ledger_item_t *td_ledger_named(const td_ledger_type_t *t, const char *name) {
    const td_ledger_item_t *best = NULL;
    for (uint32_t i = t->item; i < t->item + t->n_items; i++) {
        const td_ledger_item_t *it = &td_ledger_items[i];
        if (!strcmp(it->name, name) && (!best || it->last > best->last)) best = it;
    }
    return best;
}

const td_ledger_item_t *td_ledger_path(const char *full_name) {
    const char *dot = strrchr(full_name, '.');
    const td_ledger_type_t *t = dot ? find_type(full_name, (size_t)(dot - full_name)) : NULL;
    return t ? td_ledger_named(t, dot + 1) : NULL;
}

const td_ledger_type_t *td_ledger_owner(const td_ledger_item_t *item) {
    uint32_t at = td_ledger_index(item), lo = 0, hi = td_ledger_type_count;
    while (lo + 1 < hi) { /* the last type that starts at or before the item; an empty one before it starts there too */
        uint32_t mid = lo + (hi - lo) / 2;
        if (td_ledger_types[mid].item <= at) lo = mid;
        else hi = mid;
    }
    return &td_ledger_types[lo];
}

bool td_ledger_is_founding(const td_ledger_item_t *item) {
    const td_ledger_type_t *t = td_ledger_owner(item);
    return t->is_enum && item->first == t->first && item->last == t->last;
}

int td_ledger_release(const char *name) {
    for (uint32_t i = 0; i < td_ledger_release_count; i++)
        if (!strcmp(td_ledger_releases[i].name, name)) return (int)i;
    return -1;
}
