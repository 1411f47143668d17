/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakecuda/tensor_map.h"

#include <string.h>

#define MAGIC 0x70616d5f656b6166ull /* "fake_map" */

static bool shape_ok(uint32_t rank, const uint64_t *dim, const uint64_t *strides, const uint32_t *box,
                     const uint32_t *element) {
    if (rank < 1 || rank > CU_TENSOR_MAP_MAX_RANK) return false;
    for (uint32_t i = 0; i < rank; i++) {
        if (!dim[i] || dim[i] > 1ull << 32 || !box[i] || box[i] > 256 || !element[i] || element[i] > 8) return false;
        if (i + 1 < rank && (strides[i] % 16 || strides[i] >= 1ull << 40)) return false;
    }
    return true;
}

FK_EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int data_type, uint32_t rank, void *global_address,
                                          const uint64_t *global_dim, const uint64_t *global_strides,
                                          const uint32_t *box_dim, const uint32_t *element_strides, int interleave,
                                          int swizzle, int l2_promotion, int oob_fill) {
    FK_ENTER(cuTensorMapEncodeTiled, FK_NO_CONTEXT);
    if (!map || (uintptr_t)map % 64 || (uintptr_t)global_address % 16 ||
        !shape_ok(rank, global_dim, global_strides, box_dim, element_strides) || interleave < 0 || interleave > 2 ||
        swizzle < 0 || l2_promotion < 0 || l2_promotion > 3 || oob_fill < 0 || oob_fill > 1)
        return fk_leave(CUDA_ERROR_INVALID_VALUE);
    memset(map, 0, sizeof *map);
    map->opaque[0] = MAGIC;
    map->opaque[1] = (uintptr_t)global_address;
    map->opaque[2] = (uint64_t)data_type << 32 | rank;
    return fk_leave(CUDA_SUCCESS);
}

CUresult fk_tensor_map_address(const uint8_t *map, uint32_t argument, const char *kernel, uint64_t *addr) {
    uint64_t magic = 0;
    memcpy(&magic, map, 8);
    memcpy(addr, map + 8, 8);
    if (magic == MAGIC) return CUDA_SUCCESS;
    return fk_fault(FK_ARGUMENTS, CUDA_ERROR_LAUNCH_FAILED, "argument %u of '%s' is no tensor map", argument, kernel);
}
