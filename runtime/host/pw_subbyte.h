/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on the bits of integers of 1, 2 and 4 bits. Thread: any. */
#ifndef TD_RUNTIME_HOST_PW_SUBBYTE_H
#define TD_RUNTIME_HOST_PW_SUBBYTE_H

#include "runtime/host/pw.h"

/* Shifts and bit counts for a sub-byte integer type; NULL: the register type's function will do. */
td_pw_fn_t td_pw_subbyte(td_type_t t, td_opcode_t op);

#endif
