/* SPDX-License-Identifier: Apache-2.0 */
/* The coverage table against the tables that run. */
#include "hlo_build.h"
#include "runtime/host/coverage.h"
#include "runtime/host/vec.h"

static bool pointwise(td_opcode_t op) {
    switch (op) { /* kinds of operation of their own */
    case TD_HLO_CONVERT: case TD_HLO_SELECT: case TD_HLO_COMPARE: case TD_HLO_REDUCE_PRECISION: return true;
    default: break;
    }
    for (int t = 0; t < TD_TYPE_COUNT; t++)
        if (td_vec()->tables[t] && td_vec()->tables[t]->fn[op]) return true;
    return false;
}

START_TEST(table_is_true) {
    for (int op = 1; op < TD_HLO_OPCODE_COUNT; op++) {
        const td_cover_t *c = td_host_cover((td_opcode_t)op);
        const char *name = td_opcode_name((td_opcode_t)op);
        ck_assert_ptr_nonnull(c);
        ck_assert_msg((c->how == TD_COVER_POINTWISE) == pointwise((td_opcode_t)op), "%s", name);
        ck_assert_msg((c->how == TD_COVER_MACRO) == (td_host_op_find((td_opcode_t)op) != NULL), "%s", name);
        ck_assert_msg(c->how != TD_COVER_NOT || c->note[0], "%s", name);
    }
    ck_assert_ptr_null(td_host_cover(TD_HLO_UNKNOWN));
    ck_assert_ptr_null(td_host_cover(TD_HLO_OPCODE_COUNT));
}
END_TEST

/* An opcode that cannot stand in a kernel is refused by name. */
START_TEST(refusals_name_the_opcode) {
    for (int op = 1; op < TD_HLO_OPCODE_COUNT; op++) {
        if (td_host_cover((td_opcode_t)op)->how != TD_COVER_NOT) continue;
        float x = 0, y = 0;
        td_err_t err = {0};
        comp_begin();
        td_hlo_instr_t *i = NODE((td_opcode_t)op, SHAPE(TD_F32), param(0, SHAPE(TD_F32)));
        i->name = "x";
        ck_assert_int_eq(run_comp(comp_of(i), (const void *[]){&x}, (void *[]){&y}, &err), TD_UNSUPPORTED);
        const char *what = op == TD_HLO_CUSTOM_CALL ? "custom call" : td_opcode_name((td_opcode_t)op);
        ck_assert_msg(strstr(err.text, what) != NULL, "%s", err.text);
    }
}
END_TEST

SUITE("host_coverage", table_is_true, refusals_name_the_opcode)
