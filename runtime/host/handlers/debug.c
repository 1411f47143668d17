/* SPDX-License-Identifier: Apache-2.0 */
/* dce_sink: one operand, no result; keeps a value alive, does nothing.
 * __xla_gpu_assert: pred[] -> token; attribute error_msg. False ends the run with that message.
 * Facts: jaxlib/gpu/py_client_gpu.cc, xla/service/gpu (debug handlers). */
#include "runtime/host/handlers/common.h"
#include "runtime/host/handlers/families.h"

td_status_t td_dce_sink_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                                td_err_t *err) {
    (void)arena;
    *state = NULL;
    *scratch = 0;
    return td_hc_arity(d, 1, 0, err);
}
td_status_t td_dce_sink_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    (void)state, (void)bufs, (void)scratch, (void)err;
    return TD_OK;
}

enum { MESSAGE_MAX = 256 };

td_status_t td_assert_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                              td_err_t *err) {
    td_span_t text = {0};
    if (d->n_operands != 1 || d->n_results > 1 || (d->n_results == 1 && d->results[0]->type != TD_TOKEN))
        return td_fail(err, TD_MISMATCH, "%u operands and %u results, expected one and a token", d->n_operands,
                       d->n_results);
    td_status_t s = td_hc_array("the condition", d->operands[0], TD_PRED, 1, err);
    if (s) return s;
    if (!td_attr_string(d->attrs, "error_msg", &text)) return td_fail(err, TD_MISMATCH,
                                                                      "attribute 'error_msg' is missing or no string");
    char *copy = td_arena_strndup(arena, (const char *)text.data, text.size < MESSAGE_MAX ? text.size : MESSAGE_MAX);
    if (!copy) return td_arena_fail(arena, err);
    *state = copy;
    *scratch = 0;
    return TD_OK;
}
td_status_t td_assert_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    (void)scratch;
    return *(const uint8_t *)bufs[0] ? TD_OK : td_fail(err, TD_MISMATCH, "assertion failed: %s", (const char *)state);
}
