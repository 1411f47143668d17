/* SPDX-License-Identifier: Apache-2.0 */
/* A finished pointwise program. Places: inputs, constants, scratch tiles, then the result written directly. */
#ifndef TD_RUNTIME_HOST_PW_RUN_H
#define TD_RUNTIME_HOST_PW_RUN_H

#include "runtime/host/pw.h"

typedef struct td_pw_out {
    int32_t place;
    uint32_t bytes; /* of one element */
} td_pw_out_t;

struct td_pw {
    const td_pw_op_t *ops;
    const void **consts;
    td_pw_out_t *outs;
    int32_t *taps; /* places */
    uint32_t n_ops, n_inputs, n_consts, n_tiles, n_outs;
    bool direct;
    size_t tile_bytes, table_bytes;
};

#endif
