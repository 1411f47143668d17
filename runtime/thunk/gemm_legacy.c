/* SPDX-License-Identifier: Apache-2.0 */
/* gemm: the older cuBLAS product without epilogue, D += in place when beta is not 0.
 * Source: xla/backends/gpu/runtime/gemm_thunk.cc, service/gpu/matmul_utils.cc. */
#include "executable.pb-c.h"
#include "runtime/thunk/gemm.h"

td_status_t td_gemm_legacy_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__GemmThunkProto *p = msg->gemm_thunk;
    td_status_t st;
    if (!p->gemm_config) return td_fail(c->err, TD_MALFORMED, "gemm config is missing");
    td_gemm_desc_t *d = TD_NEW(c->arena, td_gemm_desc_t);
    if (!d) return td_arena_fail(c->arena, c->err);
    if ((st = td_gemm_config(c, p->gemm_config, d)) || (st = td_thunk_args(c, t, 4))) return st;
    d->c = d->d; /* whatever c_layout says: there is one buffer */
    if (!td_type_is_complex(d->d.type)) d->alpha_imag = 0;
    td_kernel_arg_t *a = t->args;
    if ((st = td_thunk_slice(c, "lhs", p->lhs_buffer, NULL, false, a)) ||
        (st = td_thunk_slice(c, "rhs", p->rhs_buffer, NULL, false, a + 1)) ||
        (st = td_thunk_slice(c, "output", p->output_buffer, NULL, true, a + 3)))
        return st;
    a[2] = a[3];
    if ((st = td_gemm_fits(c, "lhs", &d->a, a)) || (st = td_gemm_fits(c, "rhs", &d->b, a + 1)) ||
        (st = td_gemm_fits(c, "output", &d->d, a + 3)))
        return st;
    t->extra = d;
    t->extra_bytes = sizeof *d;
    return TD_OK;
}
td_status_t td_gemm_legacy_enqueue(td_run_t *r, const td_thunk_t *t) { return td_thunk_launch(r, t); }
