/* SPDX-License-Identifier: Apache-2.0 */
/* Thunks that talk to the client's process while a program runs. Parsing refuses them with the reason; they have
 * rows so that the refusal names them.
 * Source: xla/backends/gpu/runtime/{infeed,outfeed,host_send_recv,host_execute}_thunk.cc. */
#include "executable.pb-c.h"
#include "runtime/thunk/thunk.h"

td_status_t td_host_io_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const char *why;
    switch (msg->impl_case) {
    case XLA__GPU__THUNK_PROTO__IMPL_INFEED_THUNK:
        why = "waits for data from the client's infeed queue; make it a parameter";
        break;
    case XLA__GPU__THUNK_PROTO__IMPL_OUTFEED_THUNK:
        why = "hands data to the client's outfeed queue; make it a result";
        break;
    case XLA__GPU__THUNK_PROTO__IMPL_HOST_EXECUTE_START_THUNK: case XLA__GPU__THUNK_PROTO__IMPL_HOST_EXECUTE_DONE_THUNK:
        why = "runs a program compiled for the CPU, which this runtime does not load";
        break;
    default: why = "calls back into the process that compiled the program (a host callback)"; break;
    }
    return td_fail(c->err, TD_UNSUPPORTED, "'%s' %s", t->annotation, why);
}
td_status_t td_host_io_enqueue(td_run_t *r, const td_thunk_t *t) {
    (void)t;
    return td_fail(r->err, TD_INTERNAL, "thunk that was refused");
}
