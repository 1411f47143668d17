/* SPDX-License-Identifier: Apache-2.0 */
/* What never changes on a device: constants of artifacts, and bound weights. One copy of each content, whoever uses it.
 *
 * On a device whose memory is host memory a payload itself is the constant: nothing is copied, and the payload table,
 * which holds each content once, does the sharing. Any other device holds a copy of each content, uploaded once,
 * charged once, and freed with its last user; the bytes on the host may go as soon as the copy is made.
 *
 * Copies are found by their size and their content's name (proto/content.h, which says why that is as good as
 * comparing): the bytes are not there any more to be compared.
 *
 * Nobody writes to them: td_module_open refuses programs that would write to constants, and weights that a program
 * writes over are copied before each run. One table per device (the store's), or one per program for runs without a
 * store. It outlives all its users, and its device, payload table, allocator and charge outlive it. Thread: any (a lock
 * inside, held while uploading, not while hashing). */
#ifndef TD_RUNTIME_CONSTANTS_H
#define TD_RUNTIME_CONSTANTS_H

#include "proto/payload.h"
#include "runtime/device.h"

typedef struct td_constants td_constants_t;

/* One use of a constant. */
typedef struct td_constant {
    void *memory;     /* on the device; 64-byte aligned at least */
    uint64_t bytes;   /* what it is charged with, once for all its uses */
    const void *what; /* equal for equal constants of one table */
} td_constant_t;

/* charge (NULL: none) is what copies on the device are given back to, and taken from unless a user brings another. */
td_status_t td_constants_create(td_device_t *dev, td_payload_table_t *payloads, const td_alloc_t *alloc,
                                const td_charge_t *charge, td_constants_t **out, td_err_t *err);
/* NULL is fine. */
void td_constants_destroy(td_constants_t *c);

/* n payloads of the table given above (the same one may occur twice); the caller holds a reference on each, which, on
 * a device with memory of its own, is not needed afterwards. charge (NULL: the table's) is asked before each copy that
 * is new, and is on one account with the table's. On failure none. TD_LIMIT when the budget ends. */
td_status_t td_constants_get(td_constants_t *c, const td_payload_t *const *payloads, uint32_t n,
                             const td_charge_t *charge, td_constant_t *out, td_err_t *err);
/* The same for any bytes; only on devices with memory of their own. Bytes in a guarded mapping (base/guard.h) are
 * TD_IO when the file has changed by the time they are on the device. */
td_status_t td_constants_get_bytes(td_constants_t *c, const td_span_t *bytes, uint32_t n, const td_charge_t *charge,
                                   td_constant_t *out, td_err_t *err);
void td_constants_put(td_constants_t *c, const td_constant_t *v, uint32_t n);

/* Is there a copy of that size which begins with bytes of that hash (td_payload_head_hash)? A guess only, for budgets;
 * false where there are no copies. */
bool td_constants_seem_held(td_constants_t *c, uint64_t size, uint64_t head);
td_payload_table_t *td_constants_payloads(const td_constants_t *c);
/* Copies that the device holds, and their bytes: 0 where the payloads themselves are used. */
void td_constants_stats(td_constants_t *c, uint64_t *out_count, uint64_t *out_bytes);

#endif
