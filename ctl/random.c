/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/random.h"

#include <string.h>

#include "runtime/host/types.h"

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double real(uint64_t *state) { return (double)(int64_t)next(state) / 0x1p63; }

void ctl_random_fill(const td_shape_t *s, uint64_t seed, void *out) {
    uint64_t state = seed;
    size_t bytes = td_type_bytes(s->type), parts = td_type_is_complex(s->type) ? 2 : 1;
    uint8_t *p = out;
    for (uint64_t i = 0; i < (uint64_t)s->count * parts; i++, p += bytes / parts) {
        double d = td_type_is_float(s->type) || parts == 2 ? real(&state) : 0;
        float f = (float)d;
        uint64_t v = 0;
        if (s->type == TD_F64 || s->type == TD_C128) memcpy(&v, &d, 8);
        else if (s->type == TD_F32 || s->type == TD_C64) memcpy(&v, &f, 4);
        else if (td_type_is_float(s->type)) v = td_small_encode(s->type, s->type == TD_F8E8M0FNU ? d * d + 0.25 : d);
        else v = next(&state) >> 33 & (s->type == TD_PRED || td_type_bits(s->type) < 3 ? 1 : 3);
        if (s->type == TD_S1) v = 0 - v;
        memcpy(p, &v, bytes / parts);
    }
}
