/* SPDX-License-Identifier: Apache-2.0 */
/* The residents: every model of a directory, loaded once and kept ready to run.
 *
 *   <dir>/<model>/<version>/<target>.aot (or model.aot)   the artifact
 *   <dir>/<model>/<version>/weights.safetensors            optional: parameters by index ("0") or by name
 *   <dir>/<model>/<version>/model.yaml                     optional: names of inputs and outputs, weights
 *
 * A model that fails to load is kept as UNAVAILABLE with its reason and does not
 * stop the others. Models are immutable after td_store_open. Thread: open and
 * close one; everything else any (the slot pools have locks of their own). */
#ifndef TD_STORE_STORE_H
#define TD_STORE_STORE_H

#include "contract/verdict.h"

typedef struct td_store td_store_t;
typedef struct td_model td_model_t;
typedef struct td_slot td_slot_t; /* one execution's buffers, with the outputs of its last run */

typedef enum td_model_state { TD_MODEL_UNAVAILABLE = 0, TD_MODEL_READY } td_model_state_t;

typedef struct td_store_opts {
    const char *dir;
    td_device_t *device;     /* must outlive the store */
    const td_alloc_t *alloc; /* NULL = the heap */
    uint32_t concurrency;    /* binding slots per model; 0 = 1 */
    const char *target;      /* artifact's file name without ".aot"; NULL = model.aot, else the only *.aot */
    td_contract_policy_t contract; /* day 0: no verdicts. Its device is not used */
} td_store_opts_t;

/* One tensor of a request or a response. Strings and dims live as long as the store. */
typedef struct td_tensor_info {
    const char *name;
    const char *datatype; /* Open Inference Protocol: "FP32", "BF16", "INT64", "BOOL"…; 4-bit integers are INT8 and
                             UINT8; types the protocol lacks keep the safetensors name: "F8_E4M3", "C64" */
    td_type_t type;
    uint32_t rank;
    const int64_t *dims;
    uint64_t bytes; /* host-side: row-major, dense, one element per byte at least */
} td_tensor_info_t;

/* Fails only when the directory cannot be read or memory is gone. */
td_status_t td_store_open(const td_store_opts_t *opts, td_store_t **out, td_err_t *err);
/* All slots must have been released. NULL is fine. */
void td_store_close(td_store_t *s);

/* Sorted by name, then by version from low to high. */
uint32_t td_store_count(const td_store_t *s);
td_model_t *td_store_model(td_store_t *s, uint32_t i);
/* version NULL or "": the highest that is READY, else the highest. NULL if there is none of that name. */
td_model_t *td_store_find(td_store_t *s, const char *name, const char *version);

const char *td_model_name(const td_model_t *m);
const char *td_model_version(const td_model_t *m);
td_model_state_t td_model_state(const td_model_t *m);
const char *td_model_reason(const td_model_t *m); /* "" when READY */
/* The contract's verdict on its artifact, in a line, unless that is a plain "compatible" or there is none: "". */
const char *td_model_verdict(const td_model_t *m);
/* What a request sees: parameters bound to weights are not among the inputs. 0 when UNAVAILABLE. */
uint32_t td_model_input_count(const td_model_t *m);
uint32_t td_model_output_count(const td_model_t *m);
const td_tensor_info_t *td_model_input(const td_model_t *m, uint32_t i);
const td_tensor_info_t *td_model_output(const td_model_t *m, uint32_t i);
/* Bytes resident for this model: program, all slots, mapped weights. */
uint64_t td_model_bytes(const td_model_t *m);

/* Takes a free slot and runs on it, synchronously. inputs[i] belongs to td_model_input(m, i) and is only read.
 * TD_BUSY: no slot free. TD_NOTFOUND: model UNAVAILABLE. On success the caller owns *out_slot until
 * td_slot_release; on failure nothing is held. cancel as td_program_run. Allocates nothing. */
td_status_t td_model_run(td_model_t *m, const void *const *inputs, td_slot_t **out_slot, const _Atomic(int) *cancel,
                         td_err_t *err);
/* Output i as a host-side tensor of td_model_output(m, i)->bytes bytes. */
const void *td_slot_output(const td_slot_t *s, uint32_t i);
void td_slot_release(td_slot_t *s); /* NULL is fine */

/* The protocol's name of an element type; "" for what no tensor can have. */
const char *td_datatype_name(td_type_t t);

#endif
