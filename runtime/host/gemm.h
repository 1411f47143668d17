/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products, what planning and running share. D's memory is read as `lines` lines of `len` elements, so a
 * column-major D is the product of the transposes: D = X Y with X lines x k and Y k x len.
 * Thread: that of the launch. */
#ifndef TD_RUNTIME_HOST_GEMM_H
#define TD_RUNTIME_HOST_GEMM_H

#include "runtime/host/library.h"
#include "runtime/host/types.h"

/* A or B. In memory it is `major` lines of `minor` elements, `ld` apart. */
typedef struct td_gemm_side {
    const td_matrix_t *m;
    uint32_t buffer;
    bool turned;  /* stored as the transpose of X or Y */
    bool direct;  /* used where it lies; else packed into scratch, dense, in the packed type */
    bool conjugate;
    int64_t major, minor, ld;
    uint64_t at; /* scratch offset of the packed array */
} td_gemm_side_t;

typedef struct td_gemm {
    td_gemm_desc_t d;
    td_type_t work; /* f32, f64, c64, c128 or s32: of results until they are stored */
    td_type_t pack; /* of packed inputs: f32 for 8-bit integers whose partial sums are exact in f32, else work */
    int64_t chunk;  /* of k, for such partial sums; 0: none */
    td_gemm_side_t x, y;
    int64_t lines, len, k;
    bool direct;   /* results are made in D itself */
    bool finishes; /* lines need an epilogue or a conversion */
    uint64_t r_at, part_at, line_at; /* results, partial sums, two lines */
    uint32_t bias, a_scale, b_scale, c_scale, d_scale, aux, amax; /* buffers; 0: absent */
} td_gemm_t;

/* gemm_lines.c */
void td_gemm_pack(const td_gemm_t *g, const td_gemm_side_t *s, void *const *bufs, int64_t batch, void *dst);
/* C's line i in the working type. */
void td_gemm_load_c(const td_gemm_t *g, void *const *bufs, int64_t batch, int64_t i, void *dst);
/* Bias, auxiliary output, activation, amax, scale and storing of line i, whose results lie in r. */
void td_gemm_finish(const td_gemm_t *g, void *const *bufs, int64_t batch, int64_t i, void *r, void *tmp, float d_scale,
                    float *amax);
/* The element of an array like D where line i of a batch entry starts. */
static inline int64_t td_gemm_line(const td_matrix_t *m, int64_t batch, int64_t i) {
    return batch * m->batch_stride + i * m->ld;
}

#endif
