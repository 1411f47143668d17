/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the daemon's messages field by field. */
#ifndef TD_CTL_PB_H
#define TD_CTL_PB_H

#include "proto/pb.h"
#include "proto/wire.h"

/* Cuts the next field off *in. False at the end, and, with *bad set, on malformed bytes. */
static inline bool pb_next(td_span_t *in, td_wire_field_t *out, bool *bad) {
    if (!in->size) return false;
    if (td_wire_next(in, out)) return true;
    *bad = true;
    return false;
}

#endif
