/* SPDX-License-Identifier: Apache-2.0 */
/* Bound parameters: tensors of safetensors files that stand in for a program's inputs.
 *
 * Files are mapped (base/guard.h), and every tensor that is used enters the payload table by its content, where it
 * lies: equal tensors, of one file under several programs or of several files, are there and charged once. Where the
 * table has an equal tensor already, the pages of ours leave the process again. One that is not aligned for its
 * type is copied once. A mapped file that is cut short, cannot be read, or is written to under us is found by
 * td_weights_damaged, instead of a fault or of wrong answers: ask after a run whose result matters when
 * td_guard_faults has grown, and from time to time.
 * For a device with memory of its own (opts.constants) tensors do not enter the payload table, and nothing is charged
 * for them: they are read where they lie, td_program_bind copies them to the device, and then the files may be closed.
 * Thread: open and close one; the rest any. bind holds a lock while it reads; bytes and damaged never wait for it. */
#ifndef TD_STORE_WEIGHTS_H
#define TD_STORE_WEIGHTS_H

#include "proto/payload.h"
#include "runtime/program.h"
#include "store/model_yaml.h"

typedef struct td_weights td_weights_t;

typedef struct td_weights_opts {
    const char *dir;               /* of the version */
    const td_model_yaml_t *config; /* files and bindings; NULL: the defaults. Outlives the weights */
    const char *files_override;    /* NULL, or a file (or a *.index.json) used instead of those of the folder;
                                    * "": none at all */
    td_payload_table_t *payloads;
    td_constants_t *constants;     /* of a device with memory of its own, else NULL */
    const td_alloc_t *alloc;       /* NULL: the heap */
    const td_charge_t *charge;     /* for tensors that are new to the table, which gives them back through its own
                                    * charge: both on one account. NULL: the table's. Needed until the last bind */
} td_weights_opts_t;

/* Opens the headers of all files: weights.safetensors or model.safetensors.index.json with its shards (both: an
 * error), or the files that the configuration names, plain names in the folder. No tensor is read. No file at all is
 * fine: nothing will be bound. Errors name the file (TD_IO, TD_MALFORMED, TD_LIMIT, TD_MISMATCH), and words of
 * model.yaml with their line (TD_USAGE). */
td_status_t td_weights_open(const td_weights_opts_t *o, td_weights_t **out, td_err_t *err);
void td_weights_close(td_weights_t *w); /* gives its payloads back; NULL is fine */

/* Which tensor each of the n parameters gets, by the configuration's binding, else by index ("3"), name, or tree
 * path; checked for type and shape. Nothing is read yet. out_bound[i] tells which are bound. May be called for
 * several programs (shape buckets). Errors name file, tensor and parameter, and both shapes: TD_MISMATCH,
 * TD_NOTFOUND, TD_USAGE. */
td_status_t td_weights_match(td_weights_t *w, const td_io_t *params, uint32_t n, bool *out_bound, td_err_t *err);
/* What the matched tensors, of all programs, each once, are charged with (td_payload_cost; on the device with
 * constants: their bytes); out_resident: of these, what the table seems to have already, by size and first bytes (which
 * are read). Either may be NULL. */
void td_weights_need(td_weights_t *w, uint64_t *out_bytes, uint64_t *out_resident);
/* Brings them in, each once, and gives their addresses (NULL where nothing is bound), which stay until close, and are
 * aligned unless there are constants. After
 * an error it may be called again; what came in stays until close. TD_LIMIT: the budget has no more; TD_IO: a file
 * was cut short or written to since it was opened; TD_MALFORMED: a boolean that is neither 0 nor 1. */
td_status_t td_weights_bind(td_weights_t *w, const td_io_t *params, uint32_t n, const void **out, td_err_t *err);
/* Bytes of all tensors brought in, equal ones once, whoever was charged for them. */
uint64_t td_weights_bytes(const td_weights_t *w);
/* The payloads that it has brought in, into out, room for n; returns how many there are. */
uint32_t td_weights_payloads(td_weights_t *w, const td_payload_t **out, uint32_t n);
/* NULL (closed, as everything is on the device) has no damage. Has a file that our tensors lie in (it may be another model's, with equal ones) lost bytes, or was it written to?
 * Then err tells which. A system call for each file. */
bool td_weights_damaged(const td_weights_t *w, td_err_t *err);

#endif
