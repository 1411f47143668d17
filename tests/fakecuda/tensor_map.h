/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor maps: 128 bytes that stand for an array in device memory. */
#ifndef FAKECUDA_TENSOR_MAP_H
#define FAKECUDA_TENSOR_MAP_H

#include "tests/fakecuda/fake.h"

/* The address in a map that cuTensorMapEncodeTiled made; a fault if it did not. */
CUresult fk_tensor_map_address(const uint8_t *map, uint32_t argument, const char *kernel, uint64_t *addr);

#endif
