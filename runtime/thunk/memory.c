/* SPDX-License-Identifier: Apache-2.0 */
/* Copies within the device and to and from host memory, memzero, memset32, replica_id, partition_id, rng_seed.
 * Host memory is that of allocations in memory space 5: the device reaches it by the same addresses, so the three
 * directions are one copy. The bare copy_thunk is XLA's base class: it is checked and does nothing.
 * Source: xla/backends/gpu/runtime/copy_thunk.cc, memset_thunk.cc, rng_seed_thunk.cc. */
#include <sys/random.h>

#include "executable.pb-c.h"
#include "runtime/thunk/thunk.h"

static td_status_t copy(td_parse_t *c, const Xla__Gpu__CopyThunkProto *p, td_thunk_t *t) {
    td_status_t st;
    if (!p) return td_fail(c->err, TD_MALFORMED, "copy is missing");
    if ((st = td_thunk_args(c, t, 2))) return st;
    if ((st = td_thunk_shaped(c, "source", p->source_buffer, false, &t->args[0]))) return st;
    if ((st = td_thunk_shaped(c, "destination", p->destination_buffer, true, &t->args[1]))) return st;
    if (p->mem_size < 0 || (uint64_t)p->mem_size > t->args[0].size || (uint64_t)p->mem_size > t->args[1].size)
        return td_fail(c->err, TD_MISMATCH, "mem_size %lld, source %llu bytes, destination %llu",
                       (long long)p->mem_size, (unsigned long long)t->args[0].size,
                       (unsigned long long)t->args[1].size);
    t->bytes = (uint64_t)p->mem_size;
    return TD_OK;
}
td_status_t td_copy_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    return copy(c, msg->device_to_device_copy_thunk->copy_thunk, t);
}
td_status_t td_copy_to_host_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    return copy(c, msg->device_to_host_copy_thunk->copy_thunk, t);
}
td_status_t td_copy_to_device_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    return copy(c, msg->host_to_device_copy_thunk->copy_thunk, t);
}
td_status_t td_copy_base_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    return copy(c, msg->copy_thunk, t);
}
/* A release had copies on other streams end in this thunk; here they run where they stand. */
td_status_t td_copy_done_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    (void)msg;
    return td_thunk_args(c, t, 0);
}

td_status_t td_copy_enqueue(td_run_t *r, const td_thunk_t *t) {
    if (!t->bytes) return TD_OK;
    return r->dev->ops->copy(r->stream, td_thunk_addr(r, &t->args[1]), td_thunk_addr(r, &t->args[0]), t->bytes, r->err);
}

td_status_t td_copy_to_host_enqueue(td_run_t *r, const td_thunk_t *t) { return td_copy_enqueue(r, t); }
td_status_t td_copy_to_device_enqueue(td_run_t *r, const td_thunk_t *t) { return td_copy_enqueue(r, t); }
td_status_t td_copy_base_enqueue(td_run_t *r, const td_thunk_t *t) {
    (void)r, (void)t;
    return TD_OK;
}
td_status_t td_copy_done_enqueue(td_run_t *r, const td_thunk_t *t) {
    (void)r, (void)t;
    return TD_OK;
}

static td_status_t fill(td_run_t *r, const td_thunk_t *t, uint32_t value, uint64_t bytes) {
    return bytes ? r->dev->ops->memset32(r->stream, td_thunk_addr(r, &t->args[0]), value, bytes, r->err) : TD_OK;
}

td_status_t td_memzero_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    td_status_t st = td_thunk_args(c, t, 1);
    return st ? st : td_thunk_shaped(c, "destination", msg->memzero_thunk->dest_buffer, true, &t->args[0]);
}
td_status_t td_memzero_enqueue(td_run_t *r, const td_thunk_t *t) { return fill(r, t, 0, t->args[0].size); }

td_status_t td_memset32_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__Memset32BitValueThunkProto *p = msg->memset32bit_value_thunk;
    td_status_t st = td_thunk_args(c, t, 1);
    if (st || (st = td_thunk_slice(c, "destination", p->dest_buffer, NULL, true, &t->args[0]))) return st;
    if (t->args[0].size % 4 || t->args[0].offset % 4)
        return td_fail(c->err, TD_MALFORMED, "destination at %llu of %llu bytes is not made of words",
                       (unsigned long long)t->args[0].offset, (unsigned long long)t->args[0].size);
    t->value = p->value;
    return TD_OK;
}
td_status_t td_memset32_enqueue(td_run_t *r, const td_thunk_t *t) { return fill(r, t, t->value, t->args[0].size); }

static td_status_t id(td_parse_t *c, const Xla__BufferAssignment__BufferAllocationSliceProto *s, td_thunk_t *t) {
    td_status_t st = td_thunk_args(c, t, 1);
    if (st || (st = td_thunk_slice(c, "destination", s, NULL, true, &t->args[0]))) return st;
    if (t->args[0].size < 4)
        return td_fail(c->err, TD_MISMATCH, "destination has %llu bytes instead of 4",
                       (unsigned long long)t->args[0].size);
    return TD_OK;
}
/* One device: both ids are 0. */
td_status_t td_replica_id_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    return id(c, msg->replica_id_thunk->dest_buffer, t);
}
td_status_t td_replica_id_enqueue(td_run_t *r, const td_thunk_t *t) { return fill(r, t, 0, 4); }
td_status_t td_partition_id_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    return id(c, msg->partition_id_thunk->dest_buffer, t);
}
td_status_t td_partition_id_enqueue(td_run_t *r, const td_thunk_t *t) { return fill(r, t, 0, 4); }

td_status_t td_rng_seed_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    td_status_t st = td_thunk_args(c, t, 1);
    if (st || (st = td_thunk_slice(c, "destination", msg->rng_seed_thunk->dest_buffer, NULL, true, &t->args[0])))
        return st;
    if (t->args[0].size < 8 || t->args[0].offset % 4)
        return td_fail(c->err, TD_MISMATCH, "destination at %llu has %llu bytes instead of 8",
                       (unsigned long long)t->args[0].offset, (unsigned long long)t->args[0].size);
    return TD_OK;
}
/* No seed is given with a request, which XLA answers with a random one, not 0, for each execution. */
td_status_t td_rng_seed_enqueue(td_run_t *r, const td_thunk_t *t) {
    uint32_t seed[2] = {0, 0};
    char *at = td_thunk_addr(r, &t->args[0]);
    if (getrandom(seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        return td_fail(r->err, TD_IO, "no random numbers for a seed");
    if (!seed[0] && !seed[1]) seed[0] = 1;
    td_status_t st = r->dev->ops->memset32(r->stream, at, seed[0], 4, r->err);
    return st ? st : r->dev->ops->memset32(r->stream, at + 4, seed[1], 4, r->err);
}
