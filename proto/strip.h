/* SPDX-License-Identifier: Apache-2.0 */
/* What an artifact holds and no runtime needs, taken out. Classes are rows of a table. Thread: one. */
#ifndef TD_PROTO_STRIP_H
#define TD_PROTO_STRIP_H

#include "proto/artifact.h"

typedef struct td_strip_class {
    const char *name; /* "hlo-metadata" */
    const char *what;
} td_strip_class_t;

uint32_t td_strip_class_count(void);
const td_strip_class_t *td_strip_class(uint32_t i);
/* "hlo-metadata,debug" or "all": one bit per class. */
td_status_t td_strip_parse(const char *list, uint32_t *out_mask, td_err_t *err);

typedef struct td_strip_report {
    uint64_t fields, bytes; /* taken out; bytes of their messages, large payloads not counted */
} td_strip_report_t;
/* Takes class i out of the artifact's messages. */
td_status_t td_strip(td_artifact_t *a, uint32_t i, td_strip_report_t *out, td_err_t *err);

#endif
