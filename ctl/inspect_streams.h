/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl inspect --streams: the plan of a program's streams (runtime/stream_plan.h). Thread: one. */
#ifndef TD_CTL_INSPECT_STREAMS_H
#define TD_CTL_INSPECT_STREAMS_H

#include "runtime/program.h"

typedef enum ctl_streams_form { CTL_STREAMS_TEXT, CTL_STREAMS_DOT, CTL_STREAMS_JSON } ctl_streams_form_t;

/* To standard output. device: whose rules count, as a device's name; NULL: every async body on the stream it names. */
td_status_t ctl_inspect_streams(const td_module_t *m, const char *name, const char *device, ctl_streams_form_t form,
                                td_err_t *err);

#endif
