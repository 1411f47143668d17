/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/hlo/hlo.h"

#include <string.h>

#include "runtime/hlo/hlo_parse.h"

static const struct {
    const char *name;
    uint8_t size;
} opcodes[TD_HLO_OPCODE_COUNT] = {
    {"unknown", 0},
#define X(e, s) {s, sizeof(s) - 1},
    TD_HLO_OPCODES(X)
#undef X
};

td_opcode_t td_opcode_from_name(const char *name, size_t size) {
    for (unsigned i = 1; i < TD_HLO_OPCODE_COUNT; i++)
        if (opcodes[i].size == size && !memcmp(opcodes[i].name, name, size)) return (td_opcode_t)i;
    return TD_HLO_UNKNOWN;
}

const char *td_opcode_name(td_opcode_t op) {
    return (unsigned)op < TD_HLO_OPCODE_COUNT ? opcodes[op].name : "unknown";
}

/* Open addressing over instructions; twice as many slots as names, a power of two. */
typedef struct name_table {
    size_t mask;
    const td_hlo_instr_t **slots;
} name_table_t;

uint64_t td_hlo_name_hash(const char *s, size_t n) {
    uint64_t h = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)s[i]) * 0x100000001b3ull;
    return h ^ h >> 29;
}

bool td_hlo_name_table(td_arena_t *arena, td_hlo_module_t *m, size_t n_instrs) {
    name_table_t *t = TD_NEW(arena, name_table_t);
    size_t n = 16;
    while (n < 2 * n_instrs) n *= 2;
    if (!t || !(t->slots = TD_NEW_N(arena, const td_hlo_instr_t *, n))) return false;
    t->mask = n - 1;
    for (uint32_t c = 0; c < m->n_comps; c++)
        for (uint32_t i = 0; i < m->comps[c]->n_instrs; i++) {
            const td_hlo_instr_t *in = m->comps[c]->instrs[i];
            size_t at = td_hlo_name_hash(in->name, strlen(in->name)) & t->mask;
            while (t->slots[at] && strcmp(t->slots[at]->name, in->name)) at = (at + 1) & t->mask;
            if (!t->slots[at]) t->slots[at] = in;
        }
    m->name_table = t;
    return true;
}

const td_hlo_instr_t *td_hlo_find(const td_hlo_module_t *m, const char *name, size_t size) {
    const name_table_t *t = m->name_table;
    if (!t) return NULL;
    for (size_t at = td_hlo_name_hash(name, size) & t->mask; t->slots[at]; at = (at + 1) & t->mask)
        if (!strncmp(t->slots[at]->name, name, size) && !t->slots[at]->name[size]) return t->slots[at];
    return NULL;
}
