/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads whose bytes lie elsewhere. Before they are hashed they are compared with what the table has of equal size
 * and first bytes: a payload that is there already costs one pass, and no budget. */
#include <inttypes.h>
#include <string.h>

#include "proto/payload_in.h"

enum { CANDIDATES = 16 };

const td_payload_t *td_payload_find(td_payload_table_t *t, td_span_t bytes, uint64_t align) {
    if (align == 0) align = 1;
    td_span_t head = {bytes.data, bytes.size < TD_PAYLOAD_HEAD_BYTES ? bytes.size : TD_PAYLOAD_HEAD_BYTES};
    const td_payload_t *p = NULL;
    for (unsigned i = 0; i < CANDIDATES; i++) {
        p = td_payload_candidate(t, p, bytes.size, head, align);
        if (!p || p->bytes.data == bytes.data || bytes.size == 0) return p;
        if (memcmp(p->bytes.data, bytes.data, bytes.size) == 0) return p;
    }
    td_payload_release(t, p);
    return NULL;
}

static td_status_t make_entry(td_payload_table_t *t, td_span_t bytes, uint64_t align, const td_charge_t *charge,
                              td_payload_entry_t **out, td_err_t *err) {
    uint64_t cost = td_payload_cost(bytes.size);
    if (!td_charge_take(charge, cost))
        return td_fail(err, TD_LIMIT, "the budget has no %" PRIu64 " bytes more for a payload", cost);
    td_payload_entry_t *e = t->alloc->get(t->alloc->ctx, sizeof *e, 16);
    if (!e) {
        td_charge_give(charge, cost);
        return td_fail(err, TD_NOMEM, "out of memory for a payload of %zu bytes", bytes.size);
    }
    td_span_t head = {bytes.data, bytes.size < TD_PAYLOAD_HEAD_BYTES ? bytes.size : TD_PAYLOAD_HEAD_BYTES};
    *e = (td_payload_entry_t){.pub = {bytes, td_hash_bytes(bytes.data, bytes.size)}, .head = td_payload_head_hash(head),
                              .refs = 1, .charged = cost, .charge = t->charge ? t->charge : charge, .align = align};
    *out = e;
    return TD_OK;
}

td_status_t td_payload_adopt(td_payload_table_t *t, td_span_t bytes, uint64_t align, const td_charge_t *charge,
                             void (*release)(void *ctx), void *ctx, const td_payload_t **out_payload, td_err_t *err) {
    if (align == 0) align = 1;
    if (!charge) charge = t->charge;
    const td_payload_t *p = td_payload_find(t, bytes, align);
    td_payload_entry_t *e = NULL;
    if (!p) {
        td_status_t s = make_entry(t, bytes, align, charge, &e, err);
        if (s != TD_OK) return s;
        e->release = release;
        e->ctx = ctx;
        td_payload_entry_t *found = td_payload_find_or_add(t, e); /* equal bytes may have come meanwhile */
        p = found ? &found->pub : &e->pub;
        if (found) {
            td_charge_give(charge, e->charged);
            t->alloc->put(t->alloc->ctx, e, sizeof *e);
        }
        if (!found) release = NULL;
    }
    if (release) release(ctx);
    *out_payload = p;
    return TD_OK;
}
