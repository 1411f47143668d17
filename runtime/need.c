/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/need.h"

#include "base/checked.h"
#include "runtime/graph.h"

/* ---- sizes that are known ---- */
static td_status_t reserve(uint64_t *sum, uint64_t bytes, td_err_t *err) {
    if (bytes <= UINT64_MAX / 2 && td_add_u64(*sum, td_io_room(bytes), sum) && *sum <= SIZE_MAX / 4) return TD_OK;
    return td_fail(err, TD_LIMIT, "the tensors are too large");
}

/* Memory of bindings besides the allocations: only for tensors that are not used in place. */
static td_status_t tensors(const td_module_t *m, bool host, bool *direct, td_layout_t *out, td_err_t *err) {
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < m->n_inputs && !st; i++) {
        const td_shape_t *s = m->inputs[i].shape;
        if (direct) direct[i] = td_input_direct(m, i, host);
        if (!host && !td_shape_plain(s)) st = reserve(&out->stage_bytes, s->bytes, err);
    }
    for (uint32_t i = 0; i < m->n_outputs && !st; i++) {
        const td_shape_t *s = m->outputs[i].shape;
        if (!td_type_is_array(s->type) || (host && td_shape_plain(s))) continue;
        st = reserve(&out->convert_bytes, td_io_host_bytes(s), err);
        if (!st && !host && !td_shape_plain(s)) st = reserve(&out->stage_bytes, s->bytes, err);
    }
    return st;
}

bool td_input_read_only(const td_module_t *m, uint32_t input) {
    uint32_t slot = m->inputs[input].slot;
    return slot != UINT32_MAX && !m->buffers[slot].written && !m->buffers[slot].output;
}

bool td_input_direct(const td_module_t *m, uint32_t input, bool host) {
    return host && td_shape_plain(m->inputs[input].shape) && td_input_read_only(m, input);
}

td_bind_need_t td_module_bind_need(const td_module_t *m, const td_device_t *dev, uint32_t input) {
    const td_module_io_t *in = &m->inputs[input];
    const td_shape_t *s = in->shape;
    td_bind_need_t n = {0};
    if (dev->host_memory || in->slot == UINT32_MAX || !td_type_is_array(s->type) || !s->count) return n;
    n.constant_bytes = s->bytes;
    if (!td_shape_plain(s)) n.convert_bytes = s->bytes, n.spared_bytes = td_io_room(s->bytes);
    if (td_input_read_only(m, input) && m->buffers[in->slot].size <= s->bytes)
        n.spared_device_bytes = td_block_room(m->buffers[in->slot].size);
    return n;
}

uint64_t td_module_held_bytes(const td_module_t *m, td_constants_t *c) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < m->n_slots; i++) {
        const td_buffer_t *b = &m->buffers[i];
        const td_literal_t *l = b->literal;
        if (!l || (!l->payload && b->size <= TD_LIMIT_INLINE_BYTES)) continue;
        uint64_t head = l->payload && m->artifact->headers_only ? l->payload->hash.lo : td_payload_head_hash(l->bytes);
        if (td_constants_seem_held(c, l->bytes.size, head)) sum += b->size;
    }
    return sum;
}

td_status_t td_module_layout(const td_module_t *m, bool host, const bool *states, td_slot_t *slots, bool *direct,
                             td_layout_t *out, td_err_t *err) {
    *out = (td_layout_t){0};
    for (uint32_t i = 0; i < m->n_slots; i++) {
        const td_buffer_t *b = &m->buffers[i];
        bool owned = i < m->n_allocations && !b->is_thread_local && !b->is_constant &&
                     !(b->is_param && ((states && states[b->input]) || td_input_direct(m, b->input, host)));
        if (slots) slots[i] = (td_slot_t){.size = b->size, .owned = owned, .offset = owned ? out->block_bytes : 0};
        if (owned) out->block_bytes += td_block_room(b->size);
        if (!b->literal) continue;
        if (b->literal->payload || b->size > TD_LIMIT_INLINE_BYTES) out->constant_bytes += b->size;
        else out->inline_bytes += td_constant_room(b->size);
    }
    return tensors(m, host, direct, out, err);
}

/* ---- sizes that the device decides ---- */
/* The rules below are for the host device, whose kernels are compiled into the program's arena and use scratch; fitted
 * to 446 programs of seven releases, on a processor with AVX-512. Of other devices little is known: an image takes its
 * size, and a library's workspace is taken to be what the host's is. */
enum {
    THUNK_BYTES = 2 << 10,       /* in the arena: a thunk and its arguments */
    KERNEL_BYTES = 16 << 10,     /* a kernel: plans, loops, and */
    INSTRUCTION_BYTES = 3 << 10, /* each of its instructions */
    LIBRARY_BYTES = 4 << 10,
    CONVOLUTION_BYTES = 20 << 10,
    ARENA_BLOCK_MAX = 1 << 20, /* arena.c: blocks double up to it, */
    ARENA_BLOCK_MIN = 8 << 10, /* so a program's arena is up to twice what is used */
    KERNEL_SCRATCH = 256 << 10,      /* tiles; */
    INSTRUCTION_SCRATCH = 3 << 9,    /* more of them with more instructions; and arrays that cannot stay in tiles */
    CONVOLUTION_SCRATCH = 1152 << 10,
    LIBRARY_SCRATCH = 64 << 10,
};

typedef struct sums {
    const td_device_t *dev;
    uint64_t thunks, args, max_args, arena, image, pairs;
    td_lane_plan_t lanes[TD_LIMIT_LANES]; /* 0: main */
    uint32_t n_lanes;
} sums_t;

static void use_scratch(sums_t *s, uint32_t at, uint64_t bytes) {
    if (bytes > s->lanes[at].scratch) s->lanes[at].scratch = bytes;
}

/* Is the instruction computed element by element, within the loop around it? */
static bool in_tiles(td_opcode_t op) {
    switch (op) {
    case TD_HLO_CONCATENATE: case TD_HLO_CONVOLUTION: case TD_HLO_DOT: case TD_HLO_DYNAMIC_SLICE:
    case TD_HLO_DYNAMIC_UPDATE_SLICE: case TD_HLO_FFT: case TD_HLO_GATHER: case TD_HLO_PAD: case TD_HLO_RAGGED_DOT:
    case TD_HLO_REDUCE_WINDOW: case TD_HLO_RNG_BIT_GENERATOR: case TD_HLO_SCALED_DOT: case TD_HLO_SCAN:
    case TD_HLO_SCATTER: case TD_HLO_SELECT_AND_SCATTER: case TD_HLO_SORT: case TD_HLO_TOPK:
    case TD_HLO_TRIANGULAR_SOLVE: case TD_HLO_CHOLESKY: case TD_HLO_WHILE: return false;
    default: return true;
    }
}

static uint64_t array_bytes(const td_shape_t *s) {
    uint64_t sum = 0;
    if (s->type != TD_TUPLE) return s->bytes;
    for (uint32_t i = 0; i < s->rank; i++) sum += array_bytes(s->elements[i]);
    return sum;
}

/* Instructions of a computation with all that it calls, and bytes of arrays that its loops cannot keep in tiles. */
static void count(const td_hlo_comp_t *c, unsigned depth, uint64_t *n, uint64_t *arrays) {
    for (uint32_t i = 0; i < c->n_instrs; i++) {
        const td_hlo_instr_t *in = c->instrs[i];
        ++*n;
        for (uint32_t k = 0; k < in->n_operands && !in_tiles(in->opcode); k++)
            if (in->operands[k]->opcode != TD_HLO_PARAMETER) *arrays += array_bytes(in->operands[k]->shape);
        if (!in_tiles(in->opcode)) *arrays += array_bytes(in->shape);
        for (uint32_t k = 0; k < in->n_called && depth; k++) count(in->called[k], depth - 1, n, arrays);
    }
}

static bool narrow(const td_thunk_t *t) { /* a product whose operands are widened first */
    for (uint32_t i = 0; i < t->n_args; i++)
        if (!t->args[i].shape || t->args[i].shape->bits < 32) return true;
    return false;
}

static void kernel(sums_t *s, const td_thunk_t *t, uint64_t args, uint32_t at) {
    uint64_t n = 1, arrays = 0;
    if (t->launch) s->image += t->launch->image.size;
    if (!s->dev->ops->compiles || t->skip || !t->instr) return;
    for (uint32_t i = 0; i < t->instr->n_called; i++) count(t->instr->called[i], TD_LIMIT_COMP_DEPTH, &n, &arrays);
    if (!in_tiles(t->instr->opcode)) arrays += array_bytes(t->instr->shape);
    s->arena += KERNEL_BYTES + INSTRUCTION_BYTES * n;
    use_scratch(s, at, KERNEL_SCRATCH + INSTRUCTION_SCRATCH * n + (arrays < 2 * args ? arrays : 2 * args));
}

static void library(sums_t *s, const td_thunk_t *t, uint64_t args, uint32_t at) {
    bool conv = t->kind->lower == td_convolution_lower, gemm = t->kind->lower == td_gemm_lower;
    uint64_t times = conv ? 2 : !gemm ? 4 : narrow(t) ? 3 : 0;
    use_scratch(s, at, (conv ? CONVOLUTION_SCRATCH : LIBRARY_SCRATCH) + times * args);
    s->arena += conv ? CONVOLUTION_BYTES : LIBRARY_BYTES;
}

/* The lane of a thunk's sequences, `at` being its own. */
static uint32_t lane(sums_t *s, const td_thunk_t *t, uint32_t at) {
    if (t->kind->enqueue != td_async_start_enqueue) return at;
    if (t->pair >= s->pairs) s->pairs = t->pair + 1ull;
    if (t->stream_use == TD_STREAM_MAIN || td_thunk_light(s->dev, t)) return at;
    return td_lane_of(s->dev, s->lanes, &s->n_lanes, t);
}

static void walk(sums_t *s, const td_seq_t *q, uint32_t at) {
    for (uint32_t i = 0; i < q->n; i++) {
        const td_thunk_t *t = &q->v[i];
        uint64_t args = 0;
        for (uint32_t k = 0; k < t->n_args; k++) args += t->args[k].size;
        s->thunks++, s->args += t->n_args, s->arena += t->extra_bytes;
        if (t->n_args > s->max_args) s->max_args = t->n_args;
        if (t->kind->lower == td_kernel_thunk_lower || (t->kind->lower == td_cudnn_lower && !t->extra_bytes))
            kernel(s, t, args, at);
        else if (t->kind->lower)
            library(s, t, args, at);
        for (uint32_t k = 0; k < t->n_seqs; k++) walk(s, &t->seqs[k], lane(s, t, at));
    }
}

static uint64_t arena_bytes(uint64_t used) {
    uint64_t n = ARENA_BLOCK_MIN;
    while (n < used) n += n < ARENA_BLOCK_MAX ? n : ARENA_BLOCK_MAX;
    return n;
}

td_status_t td_module_need(const td_module_t *m, const td_device_t *dev, td_need_t *out, td_err_t *err) {
    return td_module_need_states(m, dev, NULL, out, err);
}

td_status_t td_module_need_states(const td_module_t *m, const td_device_t *dev, const bool *states, td_need_t *out,
                                  td_err_t *err) {
    sums_t s = {.dev = dev, .n_lanes = 1, .lanes = {{TD_STREAM_MAIN, -1, 0}}};
    td_layout_t l;
    td_status_t st = td_module_layout(m, dev->host_memory, states, NULL, NULL, &l, err);
    if (st) return st;
    *out = (td_need_t){.constant_bytes = l.constant_bytes};
    walk(&s, m->thunks, 0);
    for (uint32_t i = 0; i < m->n_inputs; i++) out->input_bytes += td_io_host_bytes(m->inputs[i].shape);
    for (uint32_t i = 0; i < m->n_outputs; i++) out->output_bytes += td_io_host_bytes(m->outputs[i].shape);
    uint64_t used = s.arena + s.thunks * THUNK_BYTES + s.args * sizeof(td_kernel_arg_t) +
                    m->n_slots * sizeof(td_slot_t) + (m->n_inputs + m->n_outputs) * 512ull +
                    ((uint64_t)m->n_allocations + m->n_inputs) * sizeof(td_constant_t);
    out->program_device_bytes = l.inline_bytes + (dev->ops->compiles ? 0 : s.image);
    out->program_bytes = out->program_device_bytes + sizeof(td_program_t) + arena_bytes(used + used / 8);
    out->binding_device_bytes = l.block_bytes + 256;
    for (uint32_t i = 0; i < s.n_lanes; i++) out->binding_device_bytes += s.lanes[i].scratch + 256;
    uint64_t host = l.convert_bytes + l.stage_bytes + (m->n_slots + s.max_args) * (sizeof(void *) + 4) +
                    (m->n_inputs + m->n_outputs) * 16ull + s.pairs * 128;
    host += (s.n_lanes - dev->host_memory) * (dev->stream_bytes + 1024);
    if (dev->graphs) host += td_graphs_bytes(s.thunks);
    out->binding_bytes = out->binding_device_bytes + sizeof(td_binding_t) + 2 * ARENA_BLOCK_MIN + host;
    return TD_OK;
}
