/* SPDX-License-Identifier: Apache-2.0 */
/* Bound parameters: tensors of safetensors files that stand in for a program's inputs.
 *
 * Files are mapped, and every tensor that is used enters the payload table by its content: equal tensors, of one
 * file under several programs or of several files, are there and charged once. A mapped file that is cut short
 * or cannot be read under us is found by td_weights_damaged, instead of a fault.
 * Thread: open and close one; the rest any. */
#ifndef TD_STORE_WEIGHTS_H
#define TD_STORE_WEIGHTS_H

#include "proto/payload.h"
#include "runtime/program.h"
#include "store/model_yaml.h"

typedef struct td_weights td_weights_t;

typedef struct td_weights_opts {
    const char *dir;             /* of the version */
    const td_model_yaml_t *config; /* files and bindings; NULL: the defaults */
    const char *files_override;  /* NULL, or a file used instead of those of the folder */
    td_payload_table_t *payloads;
    const td_alloc_t *alloc;
    const td_charge_t *charge;   /* for tensors that are new to the table */
} td_weights_opts_t;

/* Opens the headers of all files: weights.safetensors, model.safetensors.index.json with its shards, or the files
 * that the configuration names. No tensor is read. No file at all is fine: nothing will be bound. */
td_status_t td_weights_open(const td_weights_opts_t *o, td_weights_t **out, td_err_t *err);
void td_weights_close(td_weights_t *w); /* gives its payloads back; NULL is fine */

/* Which tensor each of the n parameters gets, by the configuration's binding, else by index ("3"), name, or tree
 * path; checked for type and shape. Nothing is read yet. out_bound[i] tells which are bound. May be called for
 * several programs (shape buckets). */
td_status_t td_weights_match(td_weights_t *w, const td_io_t *params, uint32_t n, bool *out_bound, td_err_t *err);
/* Bytes of the matched tensors, of all programs, each once; out_resident: of these, what the payload table seems
 * to have already. */
void td_weights_need(td_weights_t *w, uint64_t *out_bytes, uint64_t *out_resident);
/* Brings them in, each once, and gives their addresses (NULL where nothing is bound). */
td_status_t td_weights_bind(td_weights_t *w, const td_io_t *params, uint32_t n, const void **out, td_err_t *err);
/* Bytes of all tensors bound, each once, whoever was charged for them. */
uint64_t td_weights_bytes(const td_weights_t *w);
/* Has a mapped file lost bytes? Then err tells which. */
bool td_weights_damaged(const td_weights_t *w, td_err_t *err);

#endif
