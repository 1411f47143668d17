/* SPDX-License-Identifier: Apache-2.0 */
/* Counter-based random bits: Threefry-2x32 and Philox-4x32 of Salmon et al., "Parallel random numbers: as easy
 * as 1, 2, 3" (SC 2011), with 20 and 10 rounds. Pure functions. Thread: any. */
#ifndef TD_RUNTIME_HOST_RANDOM_H
#define TD_RUNTIME_HOST_RANDOM_H

#include <stdint.h>

/* The block of one counter, first word in the low half. */
uint64_t td_threefry(uint64_t key, uint64_t counter);
/* out: four words of the counter (low, high). */
void td_philox(uint64_t key, uint64_t low, uint64_t high, uint32_t out[4]);

#endif
