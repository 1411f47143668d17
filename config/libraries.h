/* SPDX-License-Identifier: Apache-2.0 */
/* The setting that is no scalar: ffi_libraries. Thread: one. */
#ifndef TD_CONFIG_LIBRARIES_H
#define TD_CONFIG_LIBRARIES_H

#include <yaml.h>

#include "config/config.h"

/* A sequence of paths and of mappings {path, handlers: {TARGET: SYMBOL}}. Errors read "FILE:LINE: …".
 * What was read so far stays in *c, for td_config_free. */
td_status_t td_config_libraries(td_config_t *c, const char *file, yaml_document_t *doc, const yaml_node_t *v, td_err_t *err);
void td_config_libraries_free(td_config_t *c);

#endif
