/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler's state between ordering steps (compile.c) and placing values (compile_buffers.c). */
#ifndef TD_RUNTIME_HOST_COMPILE_H
#define TD_RUNTIME_HOST_COMPILE_H

#include "runtime/host/plan.h"

typedef struct td_compiler {
    const td_kernel_desc_t *desc;
    td_plan_t plan;
    td_step_t *steps;
    uint32_t n_steps, cap_steps;
    bool *done;
    struct { uint32_t stage; int64_t count, reduced, inner; } *shapes; /* of loops with sinks */
    uint32_t n_shapes;
} td_compiler_t;

/* The value whose memory holds this one. */
uint32_t td_val_owner(const td_plan_t *p, uint32_t id);
td_step_t *td_compile_step(td_compiler_t *c, int kind); /* NULL when memory ended */
/* Does the value come out of a loop (a later stage's loops and macro ops may read its memory)? */
bool td_val_late(const td_plan_t *p, const td_val_t *v);
/* Is it computed inside loops, and of what element width is an alias's source? */
bool td_val_computed(const td_val_t *v);
bool td_val_same_width(const td_plan_t *p, const td_val_t *v);
/* A copy, unpack or pack step; NULL when memory ended. */
td_step_t *td_compile_move(td_compiler_t *c, int kind, td_type_t type, int64_t count, td_buf_t from, td_buf_t to);
td_status_t td_compile_buffers(td_compiler_t *c, uint64_t *out_scratch, td_err_t *err);

#endif
