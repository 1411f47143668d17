/* SPDX-License-Identifier: Apache-2.0 */
/* Prints docs/coverage.md from the tables: `make coverage` writes it, the tests compare it.
 * Exit 1 if a thunk kind of the schema is neither supported nor refused for a reason. */
#include <stdio.h>
#include <string.h>

#include "executable.pb-c.h"
#include "runtime/host/coverage.h"
#include "runtime/host/host_op.h"
#include "runtime/host/vec.h"
#include "runtime/thunk/thunk.h"

static bool has(td_type_t t, td_opcode_t op) {
    const td_pw_table_t *p = td_vec()->tables[t];
    return p && (op == TD_HLO_COMPARE ? p->compare[0] != NULL : p->fn[op] != NULL);
}

/* "pred, integers, floats, complex": what the engine's tables have the opcode for. */
static void types(td_opcode_t op, char *out, size_t size) {
    const struct {
        td_type_t type;
        const char *name;
    } groups[] = {{TD_PRED, "pred"}, {TD_S32, "integers"}, {TD_F32, "floats"}, {TD_C64, "complex"}};
    out[0] = 0;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        if (!has(groups[i].type, op)) continue;
        size_t n = strlen(out);
        snprintf(out + n, size - n, "%s%s", n ? ", " : "", groups[i].name);
    }
}

static void opcode(td_opcode_t op) {
    static const char *const how[] = {"pointwise", "macro op", "structural", "not in kernels"};
    const td_cover_t *c = td_host_cover(op);
    char list[64];
    types(op, list, sizeof list);
    const char *between = c->how == TD_COVER_POINTWISE && list[0] && c->note[0] ? "; " : "";
    printf("| `%s` | %s | %s%s%s |\n", td_opcode_name(op), how[c->how], c->how == TD_COVER_POINTWISE ? list : "",
           between, c->note);
}

static int thunk(const ProtobufCFieldDescriptor *f) {
    const td_thunk_kind_t *k = td_thunk_kind_find(f->id);
    const char *reason = td_thunk_reason(f->name);
    if (k) printf("| `%s` | %u | yes | |\n", f->name, f->id);
    else printf("| `%s` | %u | no | %s |\n", f->name, f->id, reason ? reason : "?");
    if (!k && !reason) fprintf(stderr, "%s: neither supported nor refused for a reason\n", f->name);
    return !k && !reason;
}

int main(void) {
    int missing = 0;
    puts("# Coverage\n\nWritten by `make coverage` from the tables that run (runtime/host/coverage.c, "
         "runtime/thunk/kinds.c).\n");
    puts("## HLO opcodes inside kernels\n\nThe host device evaluates the instruction a kernel was made from, mostly a "
         "fusion.");
    puts("*Pointwise* operations run many at a time over tiles; integers are 1 to 64 bits, floats all formats from");
    puts("4 to 64 bits (those of 16 and fewer computed in f32 and rounded after each operation). *Macro ops* work on "
         "whole");
    puts("arrays of any type their definition allows. *Structural* ones only say which value is meant.\n");
    puts("| opcode | how | |\n|---|---|---|");
    for (int op = 1; op < TD_HLO_OPCODE_COUNT; op++) opcode((td_opcode_t)op);
    puts("\n## Thunk kinds\n\nFields of `xla.gpu.ThunkProto`. A program with a kind that is not supported is refused "
         "by its name.\n");
    puts("| field | number | supported | |\n|---|---|---|---|");
    const ProtobufCMessageDescriptor *d = &xla__gpu__thunk_proto__descriptor;
    for (unsigned i = 0; i < d->n_fields; i++)
        if (strcmp(d->fields[i].name, "thunk_info")) missing |= thunk(&d->fields[i]);
    return missing;
}
