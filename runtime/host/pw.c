/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/pw.h"

#include <string.h>

#include "base/checked.h"
#include "runtime/host/types.h"
#include "runtime/host/pw_run.h"
#include "runtime/host/pw_subbyte.h"
#include "runtime/host/vec.h"

void td_pw_begin(td_pw_builder_t *b, td_arena_t *arena) {
    *b = (td_pw_builder_t){.arena = arena};
}

static bool grow(td_pw_builder_t *b, void **list, uint32_t n, uint32_t *cap, size_t size) {
    if (n < *cap) return true;
    uint32_t want = *cap ? *cap * 2 : 16;
    void *p = b->failed ? NULL : td_arena_array(b->arena, want, size);
    if (!p) {
        b->failed = true;
        return false;
    }
    if (n) memcpy(p, *list, n * size);
    *list = p, *cap = want;
    return true;
}

static int32_t new_value(td_pw_builder_t *b, td_type_t type, bool raw) {
    if (!grow(b, (void **)&b->values, b->n_values, &b->cap_values, sizeof *b->values)) return -1;
    b->values[b->n_values] = (td_pw_value_t){.type = (uint8_t)type, .raw = raw && td_type_register(type) == TD_F32 && type != TD_F32,
                                             .loaded = -1, .input = -1, .last = -1, .place = -1};
    return (int32_t)b->n_values++;
}

static void emit(td_pw_builder_t *b, td_pw_op_t op) {
    if (!grow(b, (void **)&b->ops, b->n_ops, &b->cap_ops, sizeof *b->ops)) return;
    b->ops[b->n_ops++] = op;
}

int32_t td_pw_input(td_pw_builder_t *b, td_type_t type) {
    int32_t v = new_value(b, type, true);
    if (v >= 0) b->values[v].input = (int32_t)b->n_inputs++;
    return v;
}

int32_t td_pw_const(td_pw_builder_t *b, td_type_t type, const void *element) {
    td_type_t reg = td_type_register(type);
    size_t size = td_type_bytes(reg);
    char one[16];
    if (td_type_is_small_float(type)) td_small_load(type, element, (float *)(void *)one, 1);
    else memcpy(one, element, size);
    for (uint32_t i = 0; i < b->n_values; i++)
        if (b->values[i].tile && b->values[i].type == type && !memcmp(b->values[i].tile, one, size)) return (int32_t)i;
    int32_t v = new_value(b, type, false);
    char *tile = v < 0 ? NULL : td_arena_align(b->arena, TD_PW_TILE * size, 64);
    if (!tile) {
        b->failed = true;
        return -1;
    }
    for (size_t i = 0; i < TD_PW_TILE; i++) memcpy(tile + i * size, one, size);
    b->values[v].tile = tile;
    return v;
}

/* The value in register form. */
static int32_t load(td_pw_builder_t *b, int32_t v) {
    if (v < 0 || !b->values[v].raw) return v;
    if (b->values[v].loaded >= 0) return b->values[v].loaded;
    td_type_t t = b->values[v].type;
    int32_t d = new_value(b, t, false);
    if (d < 0) return -1;
    emit(b, (td_pw_op_t){.kind = TD_PW_LOAD, .from = (uint8_t)t, .d = d, .a = v, .b = -1, .c = -1});
    b->values[v].loaded = d;
    return d;
}

static int32_t store(td_pw_builder_t *b, int32_t v) {
    if (v < 0 || !td_type_is_small_float(b->values[v].type) || b->values[v].raw) return v;
    td_type_t t = b->values[v].type;
    int32_t d = new_value(b, t, true);
    emit(b, (td_pw_op_t){.kind = TD_PW_STORE, .to = (uint8_t)t, .d = d, .a = v, .b = -1, .c = -1});
    return d;
}

int32_t td_pw_bitcast(td_pw_builder_t *b, td_type_t to, int32_t v) {
    if (v < 0 || b->values[v].type == to) return v;
    int32_t raw = store(b, v), d = new_value(b, to, true);
    emit(b, (td_pw_op_t){.kind = TD_PW_BITCAST, .to = (uint8_t)to, .d = d, .a = raw, .b = -1, .c = -1});
    return d;
}

int32_t td_pw_copied(td_pw_builder_t *b, int32_t v, uint32_t n_outputs) {
    if (v < 0 || b->values[v].input < 0 || n_outputs < 2) return v;
    td_type_t t = (td_type_t)b->values[v].type;
    int32_t d = new_value(b, t, true);
    emit(b, (td_pw_op_t){.kind = TD_PW_BITCAST, .to = (uint8_t)t, .d = d, .a = v, .b = -1, .c = -1});
    return d;
}

static td_pw_fn_t find(const td_hlo_instr_t *in) {
    if (!in->n_operands || in->n_operands > 3 || !td_type_is_array(in->shape->type)) return NULL;
    for (uint32_t i = 0; i < in->n_operands; i++)
        if (!td_type_is_array(in->operands[i]->shape->type)) return NULL;
    td_type_t arg = td_type_register(in->operands[0]->shape->type);
    const td_pw_table_t *t = td_pw_table(arg);
    if (in->opcode == TD_HLO_SELECT) {
        if (arg != TD_PRED || in->n_operands != 3) return NULL;
        switch (td_type_bytes(td_type_register(in->shape->type))) {
        case 1: return td_vec()->select[0];
        case 2: return td_vec()->select[1];
        case 4: return td_vec()->select[2];
        case 8: return td_vec()->select[3];
        default: return td_vec()->select[4];
        }
    }
    if (!t) return NULL;
    td_pw_fn_t narrow = td_pw_narrow(in->operands[0]->shape->type, in->opcode);
    if (narrow) return narrow;
    if (in->opcode == TD_HLO_COMPARE) return in->n_operands != 2 || (unsigned)in->direction > TD_CMP_LT ? NULL
                                             : in->total_order ? t->total[in->direction] : t->compare[in->direction];
    td_pw_fn_t sub = td_pw_subbyte(in->operands[0]->shape->type, in->opcode);
    return sub ? sub : t->fn[in->opcode];
}

static uint32_t arity(td_opcode_t op) {
    switch (op) {
    case TD_HLO_ADD: case TD_HLO_AND: case TD_HLO_ATAN2: case TD_HLO_COMPARE: case TD_HLO_COMPLEX: case TD_HLO_DIVIDE:
    case TD_HLO_MAXIMUM: case TD_HLO_MINIMUM: case TD_HLO_MULHI: case TD_HLO_MULTIPLY: case TD_HLO_OR: case TD_HLO_POWER:
    case TD_HLO_REMAINDER: case TD_HLO_SHIFT_LEFT: case TD_HLO_SHIFT_RIGHT_ARITHMETIC:
    case TD_HLO_SHIFT_RIGHT_LOGICAL: case TD_HLO_SUBTRACT: case TD_HLO_XOR: return 2;
    case TD_HLO_SELECT: case TD_HLO_CLAMP: return 3;
    default: return 1;
    }
}

/* Are the operands' and the result's types what the function was made for? */
static bool types_agree(const td_hlo_instr_t *in) {
    td_type_t a = td_type_register(in->operands[0]->shape->type), r = td_type_register(in->shape->type);
    switch (in->opcode) {
    case TD_HLO_SELECT:
        return in->operands[1]->shape->type == in->shape->type && in->operands[2]->shape->type == in->shape->type;
    case TD_HLO_COMPARE: return r == TD_PRED && in->operands[1]->shape->type == in->operands[0]->shape->type;
    case TD_HLO_IS_FINITE: return r == TD_PRED;
    case TD_HLO_COMPLEX:
        return in->operands[1]->shape->type == in->operands[0]->shape->type &&
               ((a == TD_F32 && r == TD_C64) || (a == TD_F64 && r == TD_C128));
    case TD_HLO_ABS: case TD_HLO_REAL: case TD_HLO_IMAG:
        return a == TD_C64 ? r == TD_F32 : a == TD_C128 ? r == TD_F64 : r == a;
    default:
        for (uint32_t i = 0; i < in->n_operands; i++)
            if (td_type_register(in->operands[i]->shape->type) != r) return false;
        return true;
    }
}

bool td_pw_supported(const td_hlo_instr_t *in) {
    if (!td_type_is_array(in->shape->type)) return false;
    if (in->n_operands != arity(in->opcode)) return false;
    td_type_t t = in->shape->type, f;
    if (!td_type_is_array(f = in->operands[0]->shape->type)) return false;
    switch (in->opcode) {
    case TD_HLO_CONVERT: return true;
    case TD_HLO_BITCAST_CONVERT: return in->operands[0]->shape->bits == in->shape->bits;
    case TD_HLO_REDUCE_PRECISION: return td_type_is_float(t) && f == t && in->exponent_bits > 0 && in->mantissa_bits >= 0;
    default: return find(in) != NULL && types_agree(in);
    }
}

/* Is the result of such operands always a value of type t? */
static bool exact(td_opcode_t op, td_type_t t) {
    switch (op) {
    case TD_HLO_SELECT: case TD_HLO_COMPARE: return true;
    case TD_HLO_MAXIMUM: case TD_HLO_MINIMUM: case TD_HLO_CLAMP: case TD_HLO_ABS: case TD_HLO_NEGATE: case TD_HLO_SIGN:
    case TD_HLO_CEIL: case TD_HLO_FLOOR: return t == TD_BF16 || t == TD_F16;
    default: return false;
    }
}

td_status_t td_pw_add(td_pw_builder_t *b, const td_hlo_instr_t *in, const int32_t *operands, int32_t *out, td_err_t *err) {
    if (!td_pw_supported(in))
        return td_fail(err, TD_UNSUPPORTED, "%s: %s of %s is not supported", in->name, in->opcode_name ? in->opcode_name : td_opcode_name(in->opcode),
                       td_type_name(in->shape->type));
    td_type_t t = in->shape->type;
    int32_t v[3] = {-1, -1, -1};
    if (in->opcode == TD_HLO_BITCAST_CONVERT) {
        *out = td_pw_bitcast(b, t, operands[0]);
        return TD_OK;
    }
    for (uint32_t i = 0; i < in->n_operands; i++)
        if ((v[i] = load(b, operands[i])) < 0) return td_arena_fail(b->arena, err);
    td_pw_op_t op = {.kind = TD_PW_FN, .a = v[0], .b = v[1], .c = v[2], .to = (uint8_t)t};
    bool round = false;
    if (in->opcode == TD_HLO_CONVERT) {
        td_type_t f = in->operands[0]->shape->type;
        if (f == t) {
            *out = v[0];
            return TD_OK;
        }
        op.kind = TD_PW_CONVERT, op.from = (uint8_t)td_type_register(f);
    } else if (in->opcode == TD_HLO_REDUCE_PRECISION) {
        op.kind = TD_PW_REDUCE_PRECISION;
        op.from = (uint8_t)td_type_register(t);
        op.exponent = (int8_t)(in->exponent_bits > 11 ? 11 : in->exponent_bits);
        op.mantissa = (int8_t)(in->mantissa_bits > 52 ? 52 : in->mantissa_bits);
        round = true;
    } else {
        op.fn = find(in);
        round = !exact(in->opcode, t);
    }
    if ((op.d = new_value(b, t, false)) < 0) return td_arena_fail(b->arena, err);
    emit(b, op);
    if (round && td_type_register(t) != t) {
        int32_t d = new_value(b, t, false);
        emit(b, (td_pw_op_t){.kind = td_type_is_small_float(t) ? TD_PW_ROUND : TD_PW_WRAP, .to = (uint8_t)t, .d = d, .a = op.d, .b = -1, .c = -1});
        op.d = d;
    }
    *out = op.d;
    return TD_OK;
}

void td_pw_output(td_pw_builder_t *b, int32_t value) {
    int32_t v = store(b, value);
    if (grow(b, (void **)&b->outs, b->n_outs, &b->cap_outs, sizeof *b->outs)) b->outs[b->n_outs++] = v;
}

uint32_t td_pw_tap(td_pw_builder_t *b, int32_t value) {
    int32_t v = load(b, value);
    if (v < 0) b->failed = true;
    if (grow(b, (void **)&b->taps, b->n_taps, &b->cap_taps, sizeof *b->taps)) b->taps[b->n_taps] = v;
    return b->n_taps++;
}

/* Assigns places: inputs, constants, then tiles of scratch reused after a value's last use. */
td_status_t td_pw_finish(td_pw_builder_t *b, td_pw_t **out, td_err_t *err) {
    td_pw_t *p = TD_NEW(b->arena, td_pw_t);
    int32_t *free_list = TD_NEW_N(b->arena, int32_t, b->n_values + 1);
    if (!p || !free_list || b->failed) return td_arena_fail(b->arena, err);
    td_pw_fuse(b);
    uint32_t n_free = 0, n_tiles = 0, n_consts = 0;
    size_t width = 1;
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const td_pw_op_t *o = &b->ops[i];
        const int32_t r[3] = {o->a, o->b, o->c};
        for (int k = 0; k < 3; k++)
            if (r[k] >= 0) b->values[r[k]].last = (int32_t)i;
    }
    for (uint32_t i = 0; i < b->n_outs; i++)
        if (b->outs[i] < 0) return td_arena_fail(b->arena, err);
    for (uint32_t i = 0; i < b->n_outs; i++) b->values[b->outs[i]].last = INT32_MAX;
    for (uint32_t i = 0; i < b->n_taps; i++) {
        if (b->taps[i] < 0) return td_arena_fail(b->arena, err);
        b->values[b->taps[i]].last = INT32_MAX;
    }
    for (uint32_t i = 0; i < b->n_values; i++) {
        td_pw_value_t *v = &b->values[i];
        if (v->input >= 0) v->place = v->input;
        else if (v->tile) v->place = (int32_t)(b->n_inputs + n_consts++);
        size_t w = td_type_bytes(v->raw ? (td_type_t)v->type : td_type_register(v->type));
        if (w > width) width = w;
    }
    p->consts = (const void **)td_arena_array(b->arena, n_consts + 1, sizeof(void *));
    if (!p->consts) return td_arena_fail(b->arena, err);
    n_consts = 0;
    for (uint32_t i = 0; i < b->n_values; i++)
        if (b->values[i].tile) p->consts[n_consts++] = b->values[i].tile;
    int32_t base = (int32_t)(b->n_inputs + n_consts);
    for (uint32_t i = 0; i < b->n_ops; i++) {
        td_pw_op_t *o = &b->ops[i];
        int32_t *r[3] = {&o->a, &o->b, &o->c};
        const int32_t src[3] = {o->a, o->b, o->c};
        bool widens = o->fn == NULL || td_type_bytes(td_type_register(b->values[o->d].type)) !=
                                       td_type_bytes(td_type_register(b->values[o->a].type));
        for (int pass = 0; pass < 2; pass++) {
            /* an operand's tile may be the result's only if elements are equally wide */
            if (pass == (widens ? 0 : 1)) {
                td_pw_value_t *d = &b->values[o->d];
                d->place = n_free ? free_list[--n_free] : base + (int32_t)n_tiles++;
            }
            if (pass == (widens ? 1 : 0))
                for (int k = 0; k < 3; k++) {
                    if (src[k] < 0) continue;
                    td_pw_value_t *v = &b->values[src[k]];
                    *r[k] = v->place;
                    if (v->last == (int32_t)i && v->place >= base) free_list[n_free++] = v->place, v->last = -2;
                }
        }
        td_pw_value_t *d = &b->values[o->d];
        if (d->last == -1) free_list[n_free++] = d->place, d->last = -2;
        o->d = d->place;
    }
    p->outs = TD_NEW_N(b->arena, td_pw_out_t, b->n_outs + 1);
    if (!p->outs) return td_arena_fail(b->arena, err);
    for (uint32_t i = 0; i < b->n_outs; i++) {
        const td_pw_value_t *v = &b->values[b->outs[i]];
        p->outs[i] = (td_pw_out_t){v->place, (uint32_t)td_type_bytes(v->type)};
    }
    p->ops = b->ops, p->n_ops = b->n_ops, p->n_inputs = b->n_inputs, p->n_consts = n_consts, p->n_tiles = n_tiles;
    p->n_outs = b->n_outs;
    p->tile_bytes = width * TD_PW_TILE;
    /* a single result of the last operation is written in place, with no copy */
    p->taps = TD_NEW_N(b->arena, int32_t, b->n_taps + 1);
    if (!p->taps) return td_arena_fail(b->arena, err);
    for (uint32_t i = 0; i < b->n_taps; i++) p->taps[i] = b->values[b->taps[i]].place;
    p->direct = b->n_outs == 1 && b->n_ops && b->ops[b->n_ops - 1].d == p->outs[0].place && p->outs[0].place >= base;
    if (p->direct) {
        for (uint32_t i = 0; i < b->n_taps; i++)
            if (p->taps[i] == p->outs[0].place) p->taps[i] = base + (int32_t)n_tiles;
        b->ops[b->n_ops - 1].d = base + (int32_t)n_tiles;
    }
    p->table_bytes = td_align_up((size_t)(base + (int32_t)n_tiles + 1) * sizeof(void *), 64);
    *out = p;
    return TD_OK;
}
