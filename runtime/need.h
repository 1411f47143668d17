/* SPDX-License-Identifier: Apache-2.0 */
/* What a program will take, told before any of it is taken.
 *
 * Sizes of arrays are those of the artifact, so they are exact. What only the device knows (the size of compiled
 * kernels and their scratch) is estimated by rules that were fitted to the programs of the corpus: they lean upwards,
 * and the sum was too low for fewer than one program in twenty. A budget that asks a charge too (td_program_opts_t)
 * holds in those cases as well: the load fails. */
#ifndef TD_RUNTIME_NEED_H
#define TD_RUNTIME_NEED_H

#include "runtime/program.h"

/* Bytes. `device` parts: what the device's mem_get is asked for; the rest comes from the allocators given. */
typedef struct td_need {
    uint64_t constant_bytes; /* held by content, so some may be there already; equal ones are counted each. On devices
                              * with host memory these are the artifact's payloads, else copies on the device */
    uint64_t program_bytes;  /* td_program_create, without those constants (estimate) */
    uint64_t program_device_bytes; /* of program_bytes */
    uint64_t binding_bytes;        /* each td_binding_create (scratch: estimate) */
    uint64_t binding_device_bytes; /* of binding_bytes */
    uint64_t input_bytes, output_bytes; /* host-side tensors, all of them */
} td_need_t;

/* For modules of whole artifacts and of those opened for their headers. Takes no memory. */
td_status_t td_module_need(const td_module_t *m, const td_device_t *dev, td_need_t *out, td_err_t *err);
/* The same for a program with td_program_opts_t.states; their own memory (td_program_state_bytes each) is not in it. */
td_status_t td_module_need_states(const td_module_t *m, const td_device_t *dev, const bool *states, td_need_t *out,
                                  td_err_t *err);

/* What binding an input for good (td_program_bind) takes and spares; zeros where the device's memory is the host's. */
typedef struct td_bind_need {
    uint64_t constant_bytes;      /* on the device, held by content */
    uint64_t convert_bytes;       /* of the host, while it is uploaded: its stored form is another one */
    uint64_t spared_bytes;        /* of the host, that each binding does without, */
    uint64_t spared_device_bytes; /* and of the device */
} td_bind_need_t;
td_bind_need_t td_module_bind_need(const td_module_t *m, const td_device_t *dev, uint32_t input);
/* Of td_need_t.constant_bytes, what the device seems to have already (a guess): for modules of artifacts that were
 * opened for their headers. */
uint64_t td_module_held_bytes(const td_module_t *m, td_constants_t *c);

#endif
