/* SPDX-License-Identifier: Apache-2.0 */
/* The constants of a device, one copy of each content whoever uses it.
 *
 * A constant is a payload; a payload table holds each content once, so its pointer names the content. On a device
 * whose memory is host memory the payload itself is the constant: nothing is copied. On any other each payload is
 * uploaded once, charged once, and freed with its last user; the payload is kept as long, for it is the key.
 * Constants are never written: td_module_open refuses programs that would.
 * One table per device (the store's), or one per program for runs without a store. It outlives all its users, and
 * its device, payload table, allocator and charge outlive it. Thread: any (a lock inside, held while uploading). */
#ifndef TD_RUNTIME_CONSTANTS_H
#define TD_RUNTIME_CONSTANTS_H

#include "proto/payload.h"
#include "runtime/device.h"

typedef struct td_constants td_constants_t;

/* charge (NULL: none) is asked before each copy on the device. */
td_status_t td_constants_create(td_device_t *dev, td_payload_table_t *payloads, const td_alloc_t *alloc,
                                const td_charge_t *charge, td_constants_t **out, td_err_t *err);
/* NULL is fine. */
void td_constants_destroy(td_constants_t *c);
/* The addresses of n payloads of the table given above (the same one may occur twice), 64-byte aligned at least;
 * the caller holds a reference on each. On failure none. TD_LIMIT when the budget ends. */
td_status_t td_constants_get(td_constants_t *c, const td_payload_t *const *payloads, uint32_t n, void **out_memory,
                             td_err_t *err);
void td_constants_put(td_constants_t *c, const td_payload_t *const *payloads, uint32_t n);
td_payload_table_t *td_constants_payloads(const td_constants_t *c);
/* Copies that the device holds, and their bytes: 0 where the payloads themselves are used. */
void td_constants_stats(td_constants_t *c, uint64_t *out_count, uint64_t *out_bytes);

#endif
