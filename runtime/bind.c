/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that are the same in every run.
 *
 * On a device whose memory is the host's the caller's memory is used as it is, and fixed.c computes ahead. On any other
 * the arrays go to the device now, into the table of constants. What a kernel reads there is the table's copy itself,
 * where the program leaves the input as it is; an input that it writes over is copied on the device before each run.
 * Nothing is computed ahead there: the results would take as much again of what is short, the device's memory. */
#include <string.h>

#include "runtime/program_in.h"

/* The input's array is on the device. */
static void settle(td_program_t *p, uint32_t i, const td_constant_t *c) {
    td_slot_t *slot = &p->slots[p->input_slot[i]];
    p->n_shared++;
    p->bound_bytes += c->bytes;
    if (!p->input_read_only[i] || slot->size > c->bytes) {
        p->input_copy[i] = c->memory;
        return;
    }
    slot->constant = c->memory;
    slot->owned = false;
}

static bool goes_up(const td_program_t *p, const bool *fixed, uint32_t i) {
    const td_shape_t *s = p->inputs[i].shape;
    return fixed[i] && p->input_slot[i] != UINT32_MAX && td_type_is_array(s->type) && s->count;
}

/* Those whose host-side tensor is the array as stored: all at once. */
static td_status_t upload_plain(td_program_t *p, const void *const *inputs, const bool *fixed, td_err_t *err) {
    td_span_t *spans = p->alloc->get(p->alloc->ctx, (p->n_inputs + 1u) * sizeof *spans, 16);
    td_constant_t *got = p->shared + p->n_shared;
    uint32_t n = 0, k = 0;
    if (!spans) return td_fail(err, TD_NOMEM, "no memory for %u bound inputs", p->n_inputs);
    for (uint32_t i = 0; i < p->n_inputs; i++)
        if (goes_up(p, fixed, i) && td_shape_plain(p->inputs[i].shape))
            spans[n++] = (td_span_t){inputs[i], (size_t)p->inputs[i].shape->bytes};
    td_status_t st = td_constants_get_bytes(p->constants, spans, n, p->constant_charge, got, err);
    for (uint32_t i = 0; i < p->n_inputs && !st; i++)
        if (goes_up(p, fixed, i) && td_shape_plain(p->inputs[i].shape)) settle(p, i, &got[k++]);
    p->alloc->put(p->alloc->ctx, spans, (p->n_inputs + 1u) * sizeof *spans);
    return st;
}

/* One that is stored otherwise (its layout, packed elements): brought into that form, which names it. */
static td_status_t upload_converted(td_program_t *p, uint32_t i, const void *tensor, td_err_t *err) {
    const td_shape_t *s = p->inputs[i].shape;
    td_constant_t *got = p->shared + p->n_shared;
    uint8_t *stored = p->alloc->get(p->alloc->ctx, (size_t)s->bytes, 64);
    if (!stored)
        return td_fail(err, TD_NOMEM, "no %llu bytes of memory to bring input %u into its stored form",
                       (unsigned long long)s->bytes, i);
    td_tensor_convert(s, stored, (uint8_t *)(uintptr_t)tensor, false);
    td_span_t bytes = {stored, (size_t)s->bytes};
    td_status_t st = td_constants_get_bytes(p->constants, &bytes, 1, p->constant_charge, got, err);
    if (!st) settle(p, i, got);
    p->alloc->put(p->alloc->ctx, stored, (size_t)s->bytes);
    if (!st) p->layout.stage_bytes -= td_io_room(s->bytes);
    return st;
}

/* Bindings have no memory for what now lies elsewhere. */
static void close_ranks(td_program_t *p) {
    p->layout.block_bytes = 0;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        if (!p->slots[i].owned) continue;
        p->slots[i].offset = p->layout.block_bytes;
        p->layout.block_bytes += td_block_room(p->slots[i].size);
    }
}

static td_status_t upload(td_program_t *p, const void *const *inputs, const bool *fixed, td_err_t *err) {
    td_status_t st = upload_plain(p, inputs, fixed, err);
    for (uint32_t i = 0; i < p->n_inputs && !st; i++)
        if (goes_up(p, fixed, i) && !td_shape_plain(p->inputs[i].shape)) st = upload_converted(p, i, inputs[i], err);
    if (st) return td_prefix(err, st, "weights");
    close_ranks(p);
    return TD_OK;
}

td_status_t td_program_bind(td_program_t *p, const void *const *inputs, const bool *fixed, td_err_t *err) {
    if (p->bound) return td_fail(err, TD_USAGE, "inputs are bound already");
    for (uint32_t i = 0; i < p->n_inputs; i++) {
        if (!fixed[i]) continue;
        if (p->state_only[i])
            return td_fail(err, TD_USAGE, "input %u ('%s') is a state, so it cannot be bound for good", i,
                           p->inputs[i].name);
        if (goes_up(p, fixed, i) && !inputs[i])
            return td_fail(err, TD_USAGE, "input %u ('%s') is missing", i, p->inputs[i].name);
    }
    if (!(p->bound = TD_NEW_N(&p->arena, bool, p->n_inputs))) return td_arena_fail(&p->arena, err);
    memcpy(p->bound, fixed, p->n_inputs * sizeof *fixed);
    return p->host ? td_fixed_compute(p, inputs, fixed, err) : upload(p, inputs, fixed, err);
}
