/* SPDX-License-Identifier: Apache-2.0 */
/* From the artifact's messages to td_hlo_module_t; see hlo.h for what holds afterwards. Thread: the arena's. */
#ifndef TD_RUNTIME_HLO_PARSE_H
#define TD_RUNTIME_HLO_PARSE_H

#include "proto/artifact.h"
#include "runtime/hlo/hlo.h"

struct Xla__HloInstructionProto;
struct Xla__LiteralProto;

td_status_t td_hlo_parse(td_arena_t *arena, const td_artifact_t *a, const td_hlo_module_t **out, td_err_t *err);

/* Private to this folder. */
bool td_hlo_name_table(td_arena_t *arena, td_hlo_module_t *m, size_t n_instrs);
uint64_t td_hlo_name_hash(const char *s, size_t n);
td_status_t td_hlo_parse_attrs(td_arena_t *arena, const struct Xla__HloInstructionProto *p, td_hlo_instr_t *in,
                               td_err_t *err);
/* After operands, computations and attributes are known: every number consumers index with. */
td_status_t td_hlo_check_instr(const td_hlo_instr_t *in, td_err_t *err);
td_status_t td_hlo_parse_literal(td_arena_t *arena, const td_artifact_t *a, const struct Xla__LiteralProto *p,
                                 const td_shape_t *want, const td_literal_t **out, td_err_t *err);

#endif
