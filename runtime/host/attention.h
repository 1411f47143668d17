/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, what its two directions share: one sequence and one key head at a time, all query heads of that key
 * head stacked as rows (row r = query head r / q_len of the group, token r % q_len), in blocks of rows and of keys.
 * Everything is f32 in scratch. Thread: that of the launch. */
#ifndef TD_RUNTIME_HOST_ATTENTION_H
#define TD_RUNTIME_HOST_ATTENTION_H

#include "runtime/host/library.h"
#include "runtime/host/types.h"
#include "runtime/host/vec.h"

enum { TD_ATT_ROWS = 64, TD_ATT_KEYS = 256 };

/* Scratch offsets in bytes. K, V, dK, dV: kv_tokens rows; the others TD_ATT_ROWS rows. */
typedef struct td_attention_plan {
    td_attention_desc_t d;
    int64_t group; /* query heads of a key head */
    uint64_t k, v, dk, dv, q, dout, out, score, dscore, acc, row, dbias, bytes;
} td_attention_plan_t;

typedef struct td_attention_run {
    const td_attention_plan_t *p;
    void *const *bufs;
    float f[TD_ATT_SCALARS]; /* scalar operands (1 if absent) and the amax results so far */
    float *k, *v, *dk, *dv, *q, *dout, *out, *score, *dscore, *acc, *row, *dbias;
    int64_t seq, kv_head, q_len, kv_len;
} td_attention_run_t;

typedef struct td_attention_range {
    int64_t from, to;
} td_attention_range_t;

/* The keys that row r sees. */
td_attention_range_t td_attention_sees(const td_attention_run_t *a, int64_t r);
/* The keys that some row of [r, r + n) sees. */
td_attention_range_t td_attention_block_sees(const td_attention_run_t *a, int64_t r, int64_t n);
/* Rows [r, r + n) of a query-like array (Q, O, dO, dQ), dense in f32. */
void td_attention_load(const td_attention_run_t *a, int which, int64_t r, int64_t n, float *dst);
void td_attention_store(const td_attention_run_t *a, int which, int64_t r, int64_t n, const float *src);
/* Tokens [0, kv_len) of a key-like array (K, V, dK, dV). */
void td_attention_load_keys(const td_attention_run_t *a, int which, float *dst);
void td_attention_store_keys(const td_attention_run_t *a, int which, const float *src);
/* scale * Q K^T + bias for rows [r, r + n) and keys [j, j + m) into a->score, TD_ATT_KEYS apart,
 * whether seen or not. */
void td_attention_scores(const td_attention_run_t *a, int64_t r, int64_t n, int64_t j, int64_t m);
float *td_attention_stat(const td_attention_run_t *a, int64_t r);
/* x = the nearest values of the 8-bit type to factor * x, saturated; returns the largest |x| before that. */
float td_attention_quantize(td_type_t type, float factor, float *x, int64_t n);
void td_attention_zero(const td_attention_run_t *a, int which);
/* x = e^x, x at most TD_PW_TILE long. */
void td_attention_exp(float *x, int64_t n);

/* device_attention_grad.c: one sequence and key head. */
void td_attention_backward(td_attention_run_t *a);
void td_attention_store_dbias(const td_attention_run_t *a);

#endif
