/* SPDX-License-Identifier: Apache-2.0 */
/* What the host device does with every HLO opcode and every thunk kind, and why not where it does not.
 * The source of docs/coverage.md; tests/unit/host_coverage_test.c compares it with the tables that run. */
#ifndef TD_RUNTIME_HOST_COVERAGE_H
#define TD_RUNTIME_HOST_COVERAGE_H

#include "runtime/hlo/hlo.h"

typedef enum td_cover_how {
    TD_COVER_POINTWISE,  /* in the tables of the pointwise engine, or one of its own kinds of operation */
    TD_COVER_MACRO,      /* a macro op */
    TD_COVER_STRUCTURAL, /* says which value is meant; nothing is computed, or another computation is */
    TD_COVER_NOT         /* cannot stand in a kernel */
} td_cover_how_t;

typedef struct td_cover {
    td_cover_how_t how;
    const char *note; /* TD_COVER_NOT: the reason; else what to know, or "" */
} td_cover_t;

/* Unknown opcodes have none. */
const td_cover_t *td_host_cover(td_opcode_t op);
/* Why a thunk of this name ("infeed_thunk", as in the schema) is refused; NULL if there is no reason. */
const char *td_thunk_reason(const char *field);

#endif
