/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel thunk says to a device that loads code: image, function, launch dimensions, how arguments become
 * parameters. Devices that compile instructions do not look at it.
 *
 * Made by the thunk's parse function in the module's arena, spans borrowed from the artifact; read while the thunk is
 * lowered. Checked there: ranges, indices of arguments, the rules of tensor maps. Not checked: the image, and values
 * against a device's limits.
 * Source: xla/stream_executor/kernel_spec.proto, kernel_args_packing_spec.cc, gpu/tma_metadata.cc. */
#ifndef TD_RUNTIME_LAUNCH_H
#define TD_RUNTIME_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

typedef enum td_image_kind {
    TD_IMAGE_NONE,
    TD_IMAGE_MODULE, /* the artifact's one binary, for all its kernels */
    TD_IMAGE_CUBIN,  /* an ELF file or a fat binary of this kernel */
    TD_IMAGE_PTX,    /* text, no NUL behind it */
    TD_IMAGE_SYMBOL  /* a kernel linked into the compiler's own process; `symbol` is its name */
} td_image_kind_t;

/* One parameter of the device function: an argument as it is, or constant bytes. */
typedef struct td_launch_param {
    int32_t arg; /* -1: constant */
    td_span_t bytes;
} td_launch_param_t;

/* A tensor map that stands for an argument: the driver encodes it for the address at the launch. */
enum { TD_TMA_RANK = 5 };
typedef struct td_tma {
    uint32_t arg, rank;
    uint32_t element_bytes; /* 1, 2, 4, 8 */
    uint64_t dims[TD_TMA_RANK], strides[TD_TMA_RANK]; /* innermost first; strides in bytes, rank - 1 of them */
    uint32_t box[TD_TMA_RANK], element_strides[TD_TMA_RANK];
    int interleave, swizzle, l2_promotion, oob_fill; /* numbers of TmaDescriptorProto, which are the driver's */
} td_tma_t;

/* A variable of the image that the artifact's constants fill. */
typedef struct td_global {
    const char *symbol;
    td_span_t bytes;
} td_global_t;

typedef struct td_launch {
    td_image_kind_t kind;
    td_span_t image;
    const char *symbol; /* function name in the image */
    uint32_t grid[3], block[3]; /* zeros: the artifact does not say */
    uint32_t cluster[3];        /* zeros: none */
    uint32_t shared_bytes;      /* dynamic, per block */
    bool pdl; /* may start before the kernel before it has ended (it waits itself) */
    const td_launch_param_t *params;
    uint32_t n_params;
    const td_tma_t *tma;
    uint32_t n_tma;
    const uint32_t *zeroed; /* arguments that are zeros when the kernel starts */
    uint32_t n_zeroed;
    const td_global_t *globals; /* with TD_IMAGE_MODULE */
    uint32_t n_globals;
} td_launch_t;

#endif
