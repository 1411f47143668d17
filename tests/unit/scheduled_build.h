/* SPDX-License-Identifier: Apache-2.0 */
/* Artifacts without thunks, built by hand: instructions, a schedule in the order of their making, and a buffer
 * assignment in which each value has an allocation of its own unless a test says otherwise. */
#ifndef TD_TESTS_SCHEDULED_BUILD_H
#define TD_TESTS_SCHEDULED_BUILD_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executable.pb-c.h"
#include "proto/pb.h"
#include "runtime/program.h"
#include "runtime/shape.h"

typedef Xla__HloInstructionProto instr_t;
typedef Xla__ShapeProto shape_t;
static td_arena_t arena;

#define NEW_MSG(type, init) ((type *)memcpy(td_arena_zalloc(&arena, sizeof(type)), &(type)init, sizeof(type)))
#define SET(obj, field, value) ((obj)->has_##field = 1, (obj)->field = (value))
#define LIST(...) (sizeof((int64_t[]){0 __VA_OPT__(,) __VA_ARGS__}) / 8 - 1), \
                  (const int64_t[]){0 __VA_OPT__(,) __VA_ARGS__} + 1
/* F32(2, 3); with a layout, minor dimension first: LAYOUT(F32(2, 3), 0, 1). OP: an instruction and its operands. */
#define ARRAY(type, ...) array_shape(type, LIST(__VA_ARGS__))
#define F32(...) ARRAY(TD_F32 __VA_OPT__(,) __VA_ARGS__)
#define S32(...) ARRAY(TD_S32 __VA_OPT__(,) __VA_ARGS__)
#define LAYOUT(shape, ...) with_layout(shape, LIST(__VA_ARGS__))
#define TUPLE(...) tuple_shape(sizeof((shape_t *[]){__VA_ARGS__}) / 8, (shape_t *[]){__VA_ARGS__})
#define OP(opcode, shape, ...) add(opcode, shape, sizeof((instr_t *[]){NULL __VA_OPT__(,) __VA_ARGS__}) / 8 - 1, \
                                   (instr_t *[]){NULL __VA_OPT__(,) __VA_ARGS__} + 1)

static int64_t *ints(size_t n, const int64_t *v) {
    int64_t *c = td_arena_zalloc(&arena, n * 8 + 8);
    memcpy(c, v, n * 8);
    return c;
}
static inline shape_t *with_layout(shape_t *s, size_t n, const int64_t *minor_to_major) {
    s->layout = NEW_MSG(Xla__LayoutProto, XLA__LAYOUT_PROTO__INIT);
    s->layout->n_minor_to_major = n;
    s->layout->minor_to_major = ints(n, minor_to_major);
    return s;
}
static inline shape_t *array_shape(td_type_t t, size_t n, const int64_t *dims) {
    int64_t order[8];
    shape_t *s = NEW_MSG(shape_t, XLA__SHAPE_PROTO__INIT);
    SET(s, element_type, (Xla__PrimitiveType)t);
    s->n_dimensions = n;
    s->dimensions = ints(n, dims);
    for (size_t k = 0; k < n; k++) order[k] = (int64_t)(n - 1 - k);
    return with_layout(s, n, order);
}
static inline shape_t *tuple_shape(size_t n, shape_t *const *e) {
    shape_t *s = NEW_MSG(shape_t, XLA__SHAPE_PROTO__INIT);
    SET(s, element_type, XLA__PRIMITIVE_TYPE__TUPLE);
    s->n_tuple_shapes = n;
    s->tuple_shapes = td_arena_zalloc(&arena, n * sizeof *e + 8);
    memcpy(s->tuple_shapes, e, n * sizeof *e);
    return s;
}

/* ---- the module ---- */
enum { COMPS = 8, INSTRS = 32, MERGED = 16 };
static struct comp {
    Xla__HloComputationProto *msg;
    bool embedded; /* a fusion's or a reducer's: neither scheduled nor assigned */
} comps[COMPS];
static int64_t n_comps;
static struct merged {
    const instr_t *a, *b;
    int64_t leaf_a, leaf_b;
} merged[MERGED]; /* a's leaf lies where b's does; made before */
static size_t n_merged;
static int64_t n_params;

static inline void begin(const char *name, bool embedded) {
    Xla__HloComputationProto *c = NEW_MSG(Xla__HloComputationProto, XLA__HLO_COMPUTATION_PROTO__INIT);
    ck_assert_int_lt(n_comps, COMPS);
    SET(c, id, n_comps + 1);
    c->name = (char *)(uintptr_t)name;
    c->instructions = td_arena_zalloc(&arena, INSTRS * sizeof(instr_t *));
    comps[n_comps++] = (struct comp){c, embedded};
    n_params = 0;
}
static inline instr_t *add(const char *opcode, shape_t *shape, size_t n, instr_t *const *operands) {
    Xla__HloComputationProto *c = comps[n_comps - 1].msg;
    instr_t *i = NEW_MSG(instr_t, XLA__HLO_INSTRUCTION_PROTO__INIT);
    ck_assert_uint_lt(c->n_instructions, INSTRS);
    SET(i, id, c->id << 32 | (int64_t)c->n_instructions);
    i->name = td_arena_printf(&arena, "%s.%lld.%zu", opcode, (long long)c->id, c->n_instructions);
    i->opcode = (char *)(uintptr_t)opcode;
    i->shape = shape;
    i->n_operand_ids = n;
    i->operand_ids = td_arena_zalloc(&arena, n * 8 + 8);
    for (size_t k = 0; k < n; k++) i->operand_ids[k] = operands[k]->id;
    c->instructions[c->n_instructions++] = i;
    SET(c, root_id, i->id); /* the last one, unless set */
    return i;
}
static inline instr_t *parameter(shape_t *shape) {
    instr_t *i = OP("parameter", shape);
    SET(i, parameter_number, n_params++);
    return i;
}
static inline instr_t *element(instr_t *tuple, int64_t k) {
    instr_t *i = OP("get-tuple-element", tuple->shape->tuple_shapes[k], tuple);
    SET(i, tuple_index, k);
    return i;
}
static inline instr_t *calls(instr_t *i, size_t n, const int64_t *ids) {
    i->n_called_computation_ids = n;
    i->called_computation_ids = ints(n, ids);
    return i;
}
#define CALLS(i, ...) calls(i, LIST(__VA_ARGS__))
static inline instr_t *config(instr_t *i, const char *text) {
    SET(i, backend_config, ((ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text}));
    return i;
}
static inline instr_t *custom(instr_t *i, const char *target, const char *text) {
    i->custom_call_target = (char *)(uintptr_t)target;
    SET(i, custom_call_api_version, XLA__CUSTOM_CALL_API_VERSION__API_VERSION_ORIGINAL);
    return config(i, text);
}
static inline instr_t *constant(int32_t v) {
    instr_t *i = OP("constant", S32());
    i->literal = NEW_MSG(Xla__LiteralProto, XLA__LITERAL_PROTO__INIT);
    i->literal->shape = i->shape;
    i->literal->n_s32s = 1;
    i->literal->s32s = td_arena_zalloc(&arena, 4);
    i->literal->s32s[0] = v;
    return i;
}
static inline void same_place(const instr_t *a, int64_t leaf_a, const instr_t *b, int64_t leaf_b) {
    merged[n_merged++] = (struct merged){a, b, leaf_a, leaf_b};
}

/* ---- buffer assignment ---- */
static Xla__BufferAssignmentProto *assignment;
static struct place {
    const instr_t *i;
    int64_t leaf, allocation;
} places[256];
static size_t n_places;

static inline bool makes(const instr_t *i, bool entry) {
    static const char *const passing[] = {"tuple", "get-tuple-element", "bitcast", "while", "conditional", "call",
        "async-start", "async-update", "async-done", "copy-done", "opt-barrier", NULL};
    if (!strcmp(i->opcode, "parameter")) return entry;
    for (int k = 0; passing[k]; k++)
        if (!strcmp(i->opcode, passing[k])) return false;
    return true;
}
static inline int64_t bytes_of(const shape_t *s) {
    int64_t n = (int64_t)td_type_bytes((td_type_t)s->element_type);
    for (size_t k = 0; k < s->n_dimensions; k++) n *= s->dimensions[k];
    if (s->element_type == (Xla__PrimitiveType)TD_S4) n = (n + 1) / 2; /* two in a byte */
    return n;
}
static inline void assign(const instr_t *i, int64_t leaf, const shape_t *s) {
    Xla__LogicalBufferProto *b = NEW_MSG(Xla__LogicalBufferProto, XLA__LOGICAL_BUFFER_PROTO__INIT);
    Xla__BufferAllocationProto__Assigned *g = NEW_MSG(Xla__BufferAllocationProto__Assigned,
                                                      XLA__BUFFER_ALLOCATION_PROTO__ASSIGNED__INIT);
    Xla__BufferAllocationProto *p = NULL;
    int64_t id = (int64_t)assignment->n_logical_buffers;
    SET(b, id, id);
    SET(b, size, bytes_of(s));
    b->defined_at = NEW_MSG(Xla__LogicalBufferProto__Location, XLA__LOGICAL_BUFFER_PROTO__LOCATION__INIT);
    SET(b->defined_at, instruction_id, i->id);
    if (i->shape->n_tuple_shapes) b->defined_at->n_shape_index = 1, b->defined_at->shape_index = ints(1, &leaf);
    assignment->logical_buffers[assignment->n_logical_buffers++] = b;
    SET(g, logical_buffer_id, id);
    SET(g, size, b->size);
    for (size_t m = 0; m < n_merged; m++)
        for (size_t k = 0; merged[m].a == i && merged[m].leaf_a == leaf && k < n_places; k++)
            if (places[k].i == merged[m].b && places[k].leaf == merged[m].leaf_b)
                p = assignment->buffer_allocations[places[k].allocation];
    if (!p) {
        p = NEW_MSG(Xla__BufferAllocationProto, XLA__BUFFER_ALLOCATION_PROTO__INIT);
        SET(p, index, (int64_t)assignment->n_buffer_allocations);
        SET(p, size, b->size);
        SET(p, is_constant, i->literal != NULL);
        if (!strcmp(i->opcode, "parameter")) {
            SET(p, is_entry_computation_parameter, 1);
            SET(p, parameter_number, i->parameter_number);
        }
        p->assigned = td_arena_zalloc(&arena, INSTRS * sizeof *p->assigned);
        assignment->buffer_allocations[assignment->n_buffer_allocations++] = p;
    }
    places[n_places++] = (struct place){i, leaf, p->index};
    p->assigned[p->n_assigned++] = g;
}

static inline void assign_all(void) {
    assignment = NEW_MSG(Xla__BufferAssignmentProto, XLA__BUFFER_ASSIGNMENT_PROTO__INIT);
    assignment->logical_buffers = td_arena_zalloc(&arena, 256 * sizeof(void *));
    assignment->buffer_allocations = td_arena_zalloc(&arena, 256 * sizeof(void *));
    n_places = 0;
    for (int64_t c = n_comps; c-- > 0;) /* the entry, which is the last one made, first */
        for (size_t k = 0; !comps[c].embedded && k < comps[c].msg->n_instructions; k++) {
            const instr_t *i = comps[c].msg->instructions[k];
            if (!makes(i, c == n_comps - 1)) continue;
            for (size_t leaf = 0; leaf < i->shape->n_tuple_shapes; leaf++)
                if (leaf != 1 || strcmp(i->opcode, "copy-start")) /* its second result is the operand */
                    assign(i, (int64_t)leaf, i->shape->tuple_shapes[leaf]);
            if (i->shape->element_type != XLA__PRIMITIVE_TYPE__TUPLE) assign(i, 0, i->shape);
        }
}

/* ids: those of the entry; NULL: as made. */
static inline ProtobufCBinaryData schedule_of(uint32_t n_ids, const int64_t *entry_ids) {
    td_pb_t all = {0};
    for (int64_t c = 0; c < n_comps; c++) {
        td_pb_t entry = {0}, list = {0};
        int64_t ids[INSTRS];
        uint32_t n = (uint32_t)comps[c].msg->n_instructions;
        if (comps[c].embedded) continue;
        for (uint32_t k = 0; k < n; k++) ids[k] = comps[c].msg->instructions[k]->id;
        if (entry_ids && c == n_comps - 1) memcpy(ids, entry_ids, (n = n_ids) * 8);
        td_pb_packed_i64(&list, 1, ids, n);
        td_pb_varint(&entry, 1, (uint64_t)comps[c].msg->id);
        td_pb_message(&entry, 2, &list);
        td_pb_message(&all, 1, &entry);
    }
    ProtobufCBinaryData d = {all.size, (uint8_t *)td_arena_strndup(&arena, (const char *)all.data, all.size)};
    td_pb_free(&all);
    return d;
}

/* The artifact; the entry is the computation made last. */
static Xla__Gpu__GpuExecutableProto *exe;
static Xla__HloModuleProto *module;
static td_artifact_t artifact;
static inline void finish(void) {
    Xla__HloComputationProto *entry = comps[n_comps - 1].msg;
    Xla__ProgramShapeProto *layout = NEW_MSG(Xla__ProgramShapeProto, XLA__PROGRAM_SHAPE_PROTO__INIT);
    exe = NEW_MSG(Xla__Gpu__GpuExecutableProto, XLA__GPU__GPU_EXECUTABLE_PROTO__INIT);
    exe->hlo_module_with_config = NEW_MSG(Xla__HloModuleProtoWithConfig, XLA__HLO_MODULE_PROTO_WITH_CONFIG__INIT);
    module = exe->hlo_module_with_config->hlo_module = NEW_MSG(Xla__HloModuleProto, XLA__HLO_MODULE_PROTO__INIT);
    module->name = (char *)(uintptr_t)"built";
    module->n_computations = (size_t)n_comps;
    module->computations = td_arena_zalloc(&arena, COMPS * sizeof(void *));
    for (int64_t c = 0; c < n_comps; c++) module->computations[c] = comps[c].msg;
    SET(module, entry_computation_id, n_comps);
    module->host_program_shape = layout;
    layout->parameters = td_arena_zalloc(&arena, INSTRS * sizeof(void *));
    for (size_t k = 0; k < entry->n_instructions; k++) {
        if (!strcmp(entry->instructions[k]->opcode, "parameter"))
            layout->parameters[layout->n_parameters++] = entry->instructions[k]->shape;
        if (entry->instructions[k]->id == entry->root_id) layout->result = entry->instructions[k]->shape;
    }
    assign_all();
    SET(module, schedule, schedule_of(0, NULL));
    exe->buffer_assignment = assignment;
    artifact = (td_artifact_t){.exe = exe};
}

static inline void build_setup(void) {
    td_arena_init(&arena, td_alloc_default(), 0);
    n_comps = 0, n_merged = 0;
}
static inline void build_teardown(void) { td_arena_deinit(&arena); }

/* Opens, lowers and runs on the host device; inputs and outputs in order. */
static inline void run_built(const void *const *inputs, void *const *outputs, const size_t *bytes, uint32_t n_outputs) {
    td_err_t err = {0};
    td_device_t *dev = NULL;
    td_module_t *m = NULL;
    td_program_t *p = NULL;
    td_binding_t *b = NULL;
    const void *out[8];
    ck_assert_msg(td_host_device_create(td_alloc_default(), &dev, &err) == TD_OK, "%s", err.text);
    ck_assert_msg(td_module_open(&artifact, td_alloc_default(), &m, &err) == TD_OK, "%s", err.text);
    ck_assert_msg(td_program_create(m, &(td_program_opts_t){.dev = dev}, &p, &err) == TD_OK, "%s", err.text);
    ck_assert_uint_ge(td_program_output_count(p), n_outputs);
    ck_assert_uint_le(td_program_output_count(p), 8);
    ck_assert_msg(td_binding_create(p, td_alloc_default(), &b, &err) == TD_OK, "%s", err.text);
    ck_assert_msg(td_program_run(b, inputs, out, NULL, &err) == TD_OK, "%s", err.text);
    for (uint32_t k = 0; k < n_outputs; k++) memcpy(outputs[k], out[k], bytes[k]);
    td_binding_destroy(b);
    td_program_destroy(p);
    td_module_close(m);
    td_device_destroy(dev);
}

#endif
