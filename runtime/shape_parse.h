/* SPDX-License-Identifier: Apache-2.0 */
/* Wire shapes to td_shape_t, with every number checked. Thread: the arena's. */
#ifndef TD_RUNTIME_SHAPE_PARSE_H
#define TD_RUNTIME_SHAPE_PARSE_H

#include "runtime/shape.h"

struct Xla__ShapeProto;
/* NULL msg is malformed. *out_shape lives in the arena. */
td_status_t td_shape_parse(td_arena_t *arena, const struct Xla__ShapeProto *msg, const td_shape_t **out_shape,
                           td_err_t *err);

#endif
