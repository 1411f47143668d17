/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix libraries saturate where HLO's convert to an 8-bit float overflows to NaN or infinity. */
#ifndef TD_RUNTIME_HOST_SATURATE_H
#define TD_RUNTIME_HOST_SATURATE_H

#include "runtime/shape.h"

/* The largest finite value of a float of 8 bits or fewer, 0 for other types. */
static inline float td_type_saturation(td_type_t t) {
    switch (t) {
    case TD_F8E5M2: case TD_F8E5M2FNUZ: return 57344;
    case TD_F8E4M3FN: return 448;
    case TD_F8E4M3: case TD_F8E4M3FNUZ: return 240;
    case TD_F8E4M3B11FNUZ: return 30;
    case TD_F8E3M4: return 15.5f;
    case TD_F4E2M1FN: return 6;
    case TD_F6E3M2FN: return 28;
    case TD_F6E2M3FN: return 7.5f;
    default: return 0;
    }
}
/* NaN stays. */
static inline float td_saturate(float x, float limit) { return x > limit ? limit : x < -limit ? -limit : x; }

#endif
