/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of random numbers, for trying a program. Thread: any. */
#ifndef TD_CTL_RANDOM_H
#define TD_CTL_RANDOM_H

#include "runtime/shape.h"

/* Fills a host-side tensor (td_io_host_bytes) with numbers that seed and type alone decide: floats, and the parts of
 * complex numbers, from -1 to 1; integers from 0 to 3, as they may be indices, in signed 4 bits and fewer what fits;
 * booleans. */
void ctl_random_fill(const td_shape_t *s, uint64_t seed, void *out);

#endif
