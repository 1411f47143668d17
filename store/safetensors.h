/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes safetensors: 8 bytes of header length, a JSON header, data.
 *
 * Every offset, size and product of the header is checked before a tensor can be
 * seen: ranges inside the data, in agreement with dtype and shape, without
 * overlaps or holes, names unique. Thread: immutable after opening. */
#ifndef TD_STORE_SAFETENSORS_H
#define TD_STORE_SAFETENSORS_H

#include "base/guard.h"
#include "runtime/shape.h"

typedef struct td_st td_st_t;
typedef struct td_st_tensor {
    const char *name;
    const char *dtype; /* "F32", "BF16", "F8_E4M3"… */
    uint32_t rank;
    const int64_t *dims;
    const void *data; /* row-major, dense; aligned as the file has it */
    uint64_t bytes;
} td_st_tensor_t;

/* bytes must stay valid until td_st_close. */
td_status_t td_st_open(td_span_t bytes, const td_alloc_t *alloc, td_st_t **out, td_err_t *err);
/* Maps the file (base/guard.h: regular files only, links are followed). The path is in every error. */
td_status_t td_st_open_file(const char *path, const td_alloc_t *alloc, td_st_t **out, td_err_t *err);
void td_st_close(td_st_t *st); /* NULL is fine */
uint32_t td_st_count(const td_st_t *st);
const td_st_tensor_t *td_st_tensor(const td_st_t *st, uint32_t i); /* in the order of the data */
const td_st_tensor_t *td_st_find(const td_st_t *st, const char *name);
uint64_t td_st_bytes(const td_st_t *st); /* of the whole file */
td_guard_t *td_st_guard(const td_st_t *st); /* the mapping of td_st_open_file, else NULL */

/* The dtype that a host-side tensor of this type has: s4 and u4 are I8 and U8. NULL if there is none. */
const char *td_st_dtype(td_type_t t);
/* Do dtype and dims of `t` fit `s`? TD_MISMATCH names both. */
td_status_t td_st_match(const td_st_tensor_t *t, const td_shape_t *s, td_err_t *err);

/* Writes the tensors to path (a temporary file, renamed at the end). */
td_status_t td_st_write(const char *path, const td_st_tensor_t *tensors, uint32_t n, td_err_t *err);

#endif
