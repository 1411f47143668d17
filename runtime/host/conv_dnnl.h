/* SPDX-License-Identifier: Apache-2.0 */
/* A convolution as oneDNN runs it: the primitive, how arrays get into its layout and back, and sets of arguments.
 * A memory object of oneDNN holds an address, so concurrent runs of one plan each take a set of their own; there are
 * as many as processors (at most TD_CONV_SETS), and a run waits when all are taken. For conv_dnnl*.c only. */
#ifndef TD_RUNTIME_HOST_CONV_DNNL_H
#define TD_RUNTIME_HOST_CONV_DNNL_H

#include <dnnl.h>
#include <stdatomic.h>

#include "runtime/host/conv.h"

enum { TD_CONV_SETS = 16 };
enum {
    TD_CONV_MEM_X, TD_CONV_MEM_W, TD_CONV_MEM_Y, TD_CONV_MEM_BIAS, TD_CONV_MEM_PAD, TD_CONV_MEM_PLAIN,
    TD_CONV_MEM_REORDER_PAD, TD_CONV_MEMS
};

typedef struct td_conv_set {
    atomic_bool busy;
    dnnl_stream_t stream;
    dnnl_memory_t mem[TD_CONV_MEMS]; /* NULL: not an argument */
} td_conv_set_t;

/* An array on its way into the kernel's type and layout, in scratch: converted as it lies, then moved. */
typedef struct td_conv_stage {
    bool used, convert, move;
    td_type_t from, to;
    int64_t count;
    int64_t base; /* elements before the first one that is read */
    td_strided_t plan, back; /* of `to` elements into scratch; of `from` elements out of it */
    uint64_t raw_at, at;
} td_conv_stage_t;

typedef struct td_conv_dnnl {
    dnnl_primitive_t conv, reorder; /* reorder: filter to the kernel's layout, or back; NULL: as it lies */
    td_conv_set_t *sets;
    uint32_t n_sets;
    int threads;
    td_conv_role_t result;
    td_conv_stage_t x, w, y;
    bool side_sum;  /* the side input is there before the kernel adds to it */
    bool bias;      /* the kernel adds it */
    bool bias_convert;
    uint64_t bias_at, pad_at, reorder_pad_at, packed_at, packed_bytes;
} td_conv_dnnl_t;

dnnl_engine_t td_conv_dnnl_engine(void); /* the process's; NULL if oneDNN has none */
/* Calls between these use `threads` threads in this thread's parallel regions. Returns what to give back. */
int td_conv_dnnl_enter(int threads);
void td_conv_dnnl_leave(int before);

#endif
