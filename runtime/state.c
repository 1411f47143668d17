/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that stay on the device between runs.
 *
 * A state's memory stands in for its parameter's allocation. An output that the artifact puts into that allocation is
 * where it belongs when the run ends; any other is copied. Outputs begin their allocations, and allocations do not
 * overlap, so a copy's source is either all of another state's memory or none of any. The copies are done in an order
 * in which each memory is overwritten after it was read; where they go round in a circle, one array is set aside in
 * the block memory of its parameter, which is idle while the state stands in. */
#include <inttypes.h>

#include "runtime/program_in.h"

enum { ALIGN = 256 };

td_status_t td_program_state_check(const td_program_t *p, uint32_t input, uint32_t output, td_err_t *err) {
    const td_io_t *in = td_program_input(p, input), *out = td_program_output(p, output);
    char x[160], y[160];
    if (!in) return td_fail(err, TD_NOTFOUND, "state: there is no input %u, the program has %u", input, p->n_inputs);
    if (!out)
        return td_fail(err, TD_NOTFOUND, "state: there is no output %u, the program has %u", output, p->n_outputs);
    if (p->bound && p->bound[input])
        return td_fail(err, TD_USAGE, "state: input %u ('%s') is a weight, which never changes", input, in->name);
    if (td_type_is_array(in->shape->type) && td_shape_equal(in->shape, out->shape)) return TD_OK;
    return td_fail(err, TD_MISMATCH, "state: input %u ('%s') is %s, output %u ('%s') %s: they must be the same", input,
                   in->name, td_shape_print(in->shape, true, x, sizeof x), output, out->name,
                   td_shape_print(out->shape, true, y, sizeof y));
}

bool td_program_aliased(const td_program_t *p, uint32_t input, uint32_t output) {
    return input < p->n_inputs && output < p->n_outputs && p->input_slot[input] != UINT32_MAX &&
           p->input_slot[input] == p->output_slot[output];
}

uint64_t td_program_state_bytes(const td_program_t *p, uint32_t input) {
    if (input >= p->n_inputs) return 0;
    uint64_t n = p->inputs[input].shape->bytes;
    return n ? (n + ALIGN - 1) & ~(uint64_t)(ALIGN - 1) : ALIGN;
}

static td_status_t check_memory(const td_program_t *p, uint32_t input, const void *memory, td_err_t *err) {
    if (memory && (uintptr_t)memory % ALIGN == 0) return TD_OK;
    return td_fail(err, TD_USAGE, "state of input %u ('%s'): its memory (%p) is missing or not aligned to %d bytes",
                   input, p->inputs[input].name, memory, ALIGN);
}

td_status_t td_state_reset(td_binding_t *b, uint32_t input, void *memory, const void *tensor, td_err_t *err) {
    const td_program_t *p = b->p;
    const td_device_ops_t *ops = p->dev->ops;
    td_stream_t *q = b->run.stream = b->run.lanes[0].stream;
    uint8_t *stage = b->stage;
    if (input >= p->n_inputs) return td_fail(err, TD_NOTFOUND, "state: there is no input %u", input);
    td_status_t st = check_memory(p, input, memory, err);
    if (st) return st;
    const td_shape_t *s = p->inputs[input].shape;
    if (!tensor) st = ops->memset32(q, memory, 0, td_program_state_bytes(p, input), err);
    else if (s->count) st = td_binding_put(b, s, memory, tensor, &stage, err);
    td_status_t sync = ops->stream_sync(q, st ? NULL : err);
    return st ? st : sync;
}

td_status_t td_states_begin(td_binding_t *b, const td_run_args_t *a, td_err_t *err) {
    const td_program_t *p = b->p;
    for (uint32_t k = 0; k < a->n_states; k++) {
        const td_run_state_t *s = &a->states[k];
        td_status_t st = td_program_state_check(p, s->input, s->output, err);
        if (!st) st = check_memory(p, s->input, s->memory, err);
        if (st) return st;
        if (b->state_of_input[s->input] != TD_NO_STATE)
            return td_fail(err, TD_USAGE, "input %u ('%s') has two states", s->input, p->inputs[s->input].name);
        uint32_t slot = p->input_slot[s->input];
        b->state_of_input[s->input] = k;
        b->kept[s->output] = true;
        b->state_readers[k] = 0;
        if (slot == UINT32_MAX) continue; /* the program does not read it */
        b->state_of_slot[slot] = k;
        b->run.slots[slot] = s->memory;
    }
    return TD_OK;
}

void td_states_end(td_binding_t *b, const td_run_args_t *a) {
    const td_program_t *p = b->p;
    for (uint32_t k = 0; k < a->n_states; k++) {
        const td_run_state_t *s = &a->states[k];
        if (s->input >= p->n_inputs || s->output >= p->n_outputs) return; /* begin got no further */
        b->state_of_input[s->input] = TD_NO_STATE;
        b->kept[s->output] = false;
        if (p->input_slot[s->input] != UINT32_MAX) b->state_of_slot[p->input_slot[s->input]] = TD_NO_STATE;
    }
}

/* The array of a parameter whose state's memory will be overwritten, or handed out, goes to the block. An output lies
 * in it, so the parameter has memory there. */
static td_status_t set_aside(td_binding_t *b, const td_run_state_t *s, td_err_t *err) {
    const td_program_t *p = b->p;
    uint32_t slot = p->input_slot[s->input];
    void *to = (char *)b->block + p->slots[slot].offset, *from = b->run.slots[slot];
    if (!p->slots[slot].owned)
        return td_fail(err, TD_UNSUPPORTED,
                       "input %u ('%s') has no memory beside its state, and the program puts another output than %u "
                       "over it: make that one the state's", s->input, p->inputs[s->input].name, s->output);
    b->run.slots[slot] = to;
    b->state_of_slot[slot] = TD_NO_STATE;
    return p->slots[slot].size ? p->dev->ops->copy(b->run.stream, to, from, p->slots[slot].size, err) : TD_OK;
}

/* Must something be copied for the state? From whose memory, if it is a state's? */
static bool to_copy(const td_binding_t *b, const td_run_state_t *s, uint32_t *from) {
    const td_program_t *p = b->p;
    *from = b->state_of_slot[p->output_slot[s->output]];
    return !td_program_aliased(p, s->input, s->output) && p->inputs[s->input].shape->bytes;
}

static td_status_t copy_state(td_binding_t *b, const td_run_state_t *s, td_err_t *err) {
    const td_program_t *p = b->p;
    return p->dev->ops->copy(b->run.stream, s->memory, b->run.slots[p->output_slot[s->output]],
                             p->inputs[s->input].shape->bytes, err);
}

/* state_readers: of each state, how many copies that are not made yet read its memory; TD_NO_STATE: its own is made. */
static td_status_t copy_all(td_binding_t *b, const td_run_args_t *a, td_err_t *err) {
    uint32_t *readers = b->state_readers, from = 0, left = 0;
    td_status_t st = TD_OK;
    for (uint32_t k = 0; k < a->n_states; k++) {
        if (!to_copy(b, &a->states[k], &from)) continue;
        left++;
        if (from != TD_NO_STATE) readers[from]++;
    }
    while (left && !st) {
        bool moved = false;
        uint32_t circle = TD_NO_STATE;
        for (uint32_t k = 0; k < a->n_states && !st; k++) {
            const td_run_state_t *s = &a->states[k];
            if (readers[k] == TD_NO_STATE || !to_copy(b, s, &from)) continue;
            if (readers[k]) {
                circle = k;
                continue;
            }
            st = copy_state(b, s, err);
            readers[k] = TD_NO_STATE, moved = true, left--;
            if (from != TD_NO_STATE) readers[from]--;
        }
        if (moved || st || circle == TD_NO_STATE) continue;
        st = set_aside(b, &a->states[circle], err);
        readers[circle] = 0;
    }
    return st;
}

td_status_t td_states_keep(td_binding_t *b, const td_run_args_t *a, td_err_t *err) {
    const td_program_t *p = b->p;
    td_status_t st = TD_OK;
    b->run.stream = b->run.lanes[0].stream;
    /* What the caller gets stays until the binding runs again, whatever becomes of the state. */
    for (uint32_t i = 0; i < p->n_outputs && !st; i++)
        if (!b->kept[i] && td_type_is_array(p->outputs[i].shape->type) &&
            b->state_of_slot[p->output_slot[i]] != TD_NO_STATE)
            st = set_aside(b, &a->states[b->state_of_slot[p->output_slot[i]]], err);
    return st ? st : copy_all(b, a, err);
}
