/* SPDX-License-Identifier: Apache-2.0 */
/* Running a compiled kernel: no allocation, no locks. */
#include <string.h>

#include "base/limits.h"
#include "runtime/host/loop.h"
#include "runtime/host/types.h"

static void run_macro(const td_step_t *s, void *const *bufs, void *scratch) {
    char *own = (char *)scratch + s->scratch_at;
    const void **in = (const void **)(void *)(own + (s->macro->scratch + 63) / 64 * 64);
    void **out = (void **)(uintptr_t)(in + s->n_in);
    for (uint32_t i = 0; i < s->n_in; i++) in[i] = td_buf_address(s->in[i], bufs, scratch);
    for (uint32_t i = 0; i < s->n_out; i++) out[i] = td_buf_address(s->out[i], bufs, scratch);
    if (s->copy_first) {
        if (s->bytes) memmove(out[0], in[0], s->bytes);
        in[0] = out[0];
    }
    s->macro->kind->run(s->macro->state, in, out, own);
}

td_status_t td_host_kernel_run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    (void)err;
    for (uint32_t i = 0; i < k->n_steps; i++) {
        const td_step_t *s = &k->steps[i];
        if (s->kind == TD_STEP_LOOP) {
            td_loop_run(s->loop, bufs, scratch);
            continue;
        }
        if (s->kind == TD_STEP_GEMV) {
            td_gemv_run(s->gemv, bufs, scratch);
            continue;
        }
        if (s->kind == TD_STEP_MACRO) {
            run_macro(s, bufs, scratch);
            continue;
        }
        void *d = td_buf_address(*s->out, bufs, scratch);
        const void *a = td_buf_address(*s->in, bufs, scratch);
        if (s->kind == TD_STEP_UNPACK) td_subbyte_unpack(s->type, a, d, (size_t)s->count);
        else if (s->kind == TD_STEP_PACK) td_subbyte_pack(s->type, a, d, (size_t)s->count);
        else if (s->bytes) memmove(d, a, s->bytes);
    }
    return TD_OK;
}
