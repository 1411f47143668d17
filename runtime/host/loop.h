/* SPDX-License-Identifier: Apache-2.0 */
/* Tile loops: element-wise programs over arrays of one element count, and reductions of what they make.
 *
 * Positions are memory order. A loop runs in *units*, each a run of tiles; units may run on any core at the
 * same time. A reduction ("sink") sees positions as [outer][reduced][inner] and ends within a unit:
 * inner 1: a unit is some whole rows; else some columns of one outer index, with all their rows.
 * Made at load, immutable afterwards; scratch is one area per worker. */
#ifndef TD_RUNTIME_HOST_LOOP_H
#define TD_RUNTIME_HOST_LOOP_H

#include "runtime/host/compile.h"

/* How a loop reads one input. */
typedef struct td_gen {
    enum { TD_GEN_LINEAR, TD_GEN_SPLAT, TD_GEN_MAP, TD_GEN_IOTA } kind;
    uint32_t val;
    td_type_t type;
    uint32_t bytes;
    td_buf_t buf;
    const td_map_t *map;
    bool once; /* every tile of whole rows reads the same */
    int64_t iota_inner, iota_size;
    uint64_t tile; /* scratch offset of its tile within the worker's scratch */
} td_gen_t;

typedef struct td_sink {
    td_type_t type, reg; /* of the array; of the accumulator */
    td_opcode_t op;
    td_pw_fn_t fn;       /* on registers of type reg */
    bool wide;           /* f32 sums: of rows by trees, of many terms of a column in f64 */
    uint32_t tap;
    uint32_t init_val;
    td_buf_t init, out;
    uint64_t acc; /* scratch offset: TD_PW_TILE registers of 16 bytes, twice */
} td_sink_t;

typedef struct td_loop {
    const td_pw_t *pw;
    td_gen_t *gens;
    uint32_t n_gens, n_out, n_sinks;
    uint32_t *out_bytes;
    td_sink_t *sinks;
    int64_t count, row;      /* row: what tiles keep to */
    int64_t tile;            /* elements; whole rows, or a part of one */
    int64_t reduced, inner;  /* with sinks */
    int64_t units;
    uint64_t scratch, tables; /* of one worker; where its pointer tables lie */
    td_buf_t *out;
    uint64_t scratch_at;
} td_loop_t;

/* sum over r of x[o,r] * w[o,r,i], w read where it lies. */
typedef struct td_gemv {
    td_type_t w_type, x_type; /* f32 or bf16 */
    bool rounded;             /* both bf16, and each product rounded to bf16 */
    int64_t outer, reduced, inner, tile, units;
    td_map_t x_map; /* over [outer][reduced] */
    bool x_once;    /* the same x for every outer index */
    td_buf_t w, x, init, out;
    uint32_t w_val, x_val, init_val;
    uint64_t x_at, scratch, scratch_at;
} td_gemv_t;

/* Emits the loop of this stage and element count; nothing if it would be empty. */
td_status_t td_loop_emit(td_compiler_t *c, uint32_t stage, int64_t count, td_err_t *err);
/* Decides which reductions become sinks, while stages are set; false: it stays a macro op. */
bool td_loop_fuse(td_compiler_t *c, td_macro_t *m, uint32_t stage);
/* Sizes, once everything is known. */
td_status_t td_loop_size(td_loop_t *l, td_err_t *err);
void td_loop_run(const td_loop_t *l, void *const *bufs, void *scratch);

/* A GEMV step if the sink is a product summed; else *out stays NULL. */
td_status_t td_gemv_match(td_compiler_t *c, const td_macro_t *m, td_gemv_t **out, td_err_t *err);
void td_gemv_run(const td_gemv_t *g, void *const *bufs, void *scratch);

static inline void *td_buf_address(td_buf_t b, void *const *bufs, void *scratch) {
    if (b.space == TD_BUF_SCRATCH) return (char *)scratch + b.offset;
    if (b.space == TD_BUF_ARG) return bufs[b.offset];
    return (void *)(uintptr_t)b.bytes;
}
/* Elements [at, at+n) of a mapped array: where they lie if that is one run, else copied to dst. */
const void *td_map_read(const td_map_t *m, const void *src, uint32_t bytes, int64_t at, size_t n, void *dst);

#endif
