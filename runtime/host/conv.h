/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions on the host: one plan for the library operation and the HLO opcode.
 *
 * Every kind is first written in *forward form* (td_conv_form_t): groups x batch x out features x positions,
 * each a sum over taps x in features. Backward data is the forward form over a dilated dY with the filter turned
 * round; backward filter is the one with features as batch, batch as features and dY as filter; batch groups and
 * reversal are strides. The direct path (conv_direct.c) computes any form: gather, matrix product, store. Where
 * oneDNN has a fast kernel (conv_dnnl.c) the plan uses that, with arrays brought to its layout in scratch.
 *
 * Numerics: small floats are computed in f32 and rounded once; f64, complex as they are; integers exactly,
 * modulo 2^32 or 2^64. Fused convolutions: act(scale * conv + side_scale * side + bias) in f32 or f64.
 * A plan is immutable once made and may run on several threads at once; running allocates nothing here. */
#ifndef TD_RUNTIME_HOST_CONV_H
#define TD_RUNTIME_HOST_CONV_H

#include "runtime/conv_desc.h"
#include "runtime/host/macro_ops.h"

/* Strides in elements; feature f lies at (f / vector) * feature + (f % vector) * lane. */
typedef struct td_conv_view {
    td_type_t type;
    int64_t base, group, outer, feature, vector, lane, spatial[TD_CONV_SPATIAL];
} td_conv_view_t;

/* Position p and tap k of dimension s meet input (p * step + k * dilate - pad) / hole, if that is whole and inside.
 * x: outer = batch, feature = in; w: outer = out, feature = in; y: outer = batch, feature = out. */
typedef struct td_conv_form {
    uint32_t n;
    int64_t groups, batch, in, out; /* in, out: of one group */
    int64_t taps[TD_CONV_SPATIAL], positions[TD_CONV_SPATIAL], input[TD_CONV_SPATIAL];
    int64_t step[TD_CONV_SPATIAL], dilate[TD_CONV_SPATIAL], hole[TD_CONV_SPATIAL], pad[TD_CONV_SPATIAL];
    td_conv_view_t x, w, y;
} td_conv_form_t;

/* What happens to rows of results (one row = the out features of one position and group). */
typedef struct td_conv_store {
    uint32_t n;
    int64_t batch, out, positions[TD_CONV_SPATIAL];
    td_conv_view_t y;
    td_type_t work, math, side, bias; /* work: results come in it; math: of the fused arithmetic */
    bool fused, has_side, has_bias, permuted_bias, saturate;
    td_activation_t activation;
    double scale, side_scale, leaky_alpha;
    int64_t rows_max; /* rows of one call */
    uint64_t at_at, math_at, extra_at, out_at; /* scratch */
} td_conv_store_t;

/* Addresses of one run, by role; the written one is the result. packed_w: from td_conv_pack, or NULL. */
typedef struct td_conv_bufs {
    void *x, *w, *y;
    const void *bias, *side, *packed_w;
} td_conv_bufs_t;

typedef struct td_conv_direct {
    int64_t taps, rows, tap_block, in_block; /* a block of the sum: tap_block taps x in_block features */
    bool by_row;    /* gathered as rows x sum, else sum x rows */
    bool convert_x, convert_w;
    td_strided_t pack; /* filter to [group][tap][in][out] */
    uint64_t pos_at, off_at, raw_at, a_at, r_at, w_raw_at, w_at;
    uint64_t packed_bytes;
} td_conv_direct_t;

struct td_conv_dnnl; /* conv_dnnl.c */
typedef struct td_conv_plan {
    td_conv_desc_t d;
    td_conv_form_t form;
    td_conv_store_t store;
    td_type_t work;
    td_conv_direct_t direct;
    struct td_conv_dnnl *dnnl; /* NULL: the direct path */
} td_conv_plan_t;

/* d is verified (td_conv_check) and not REORDER. library: oneDNN may be used; such a plan must be released. */
td_status_t td_conv_plan_make(const td_conv_desc_t *d, bool library, td_arena_t *arena, td_conv_plan_t **out,
                              uint64_t *out_scratch, td_err_t *err);
void td_conv_plan_release(td_conv_plan_t *p); /* NULL is fine */
td_status_t td_conv_run(const td_conv_plan_t *p, const td_conv_bufs_t *b, void *scratch, td_err_t *err);

/* The filter as the plan's kernel wants it, for filters that stay the same over many runs: pack once into
 * td_conv_packed_bytes (0: the filter is not an operand, or is read as it lies) bytes, 64-byte aligned, and pass it
 * as packed_w. scratch: as large as for a run. */
uint64_t td_conv_packed_bytes(const td_conv_plan_t *p);
td_status_t td_conv_pack(const td_conv_plan_t *p, const void *w, void *packed, void *scratch, td_err_t *err);

/* ---- between the files ---- */
void td_conv_form_make(const td_conv_desc_t *d, td_conv_form_t *f);
void td_conv_permutation(const td_conv_array_t *w, int64_t dims[8], int64_t permuted[8], int64_t plain[8]);
/* Fills the store's types and reserves its scratch for `rows` rows at a time. */
bool td_conv_store_make(td_conv_store_t *s, const td_conv_desc_t *d, const td_conv_form_t *f, td_type_t work,
                        int64_t rows, uint64_t *scratch);
/* r: n rows of s->out results from row `first` of group g on; n at most rows_max. r may be changed. */
void td_conv_store_rows(const td_conv_store_t *s, int64_t g, int64_t first, int64_t n, void *r, const td_conv_bufs_t *b,
                        void *y, char *scratch);
td_status_t td_conv_direct_make(td_conv_plan_t *p, uint64_t *scratch, td_err_t *err);
void td_conv_direct_run(const td_conv_plan_t *p, const td_conv_bufs_t *b, char *scratch);
void td_conv_direct_pack(const td_conv_plan_t *p, const void *w, void *packed, char *scratch);
/* Leaves p->dnnl NULL where oneDNN does not fit; an error only when memory ended. */
td_status_t td_conv_dnnl_make(td_conv_plan_t *p, td_arena_t *arena, uint64_t *scratch, td_err_t *err);
void td_conv_dnnl_release(struct td_conv_dnnl *k);
td_status_t td_conv_dnnl_run(const td_conv_plan_t *p, const td_conv_bufs_t *b, char *scratch, td_err_t *err);
uint64_t td_conv_dnnl_packed_bytes(const struct td_conv_dnnl *k);
td_status_t td_conv_dnnl_pack(const td_conv_plan_t *p, const void *w, void *packed, char *scratch, td_err_t *err);

#endif
