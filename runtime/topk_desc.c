/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/topk_desc.h"

#include <string.h>

bool td_is_topk_call(const td_hlo_instr_t *i) {
    return i->opcode == TD_HLO_CUSTOM_CALL && i->custom_call_target && !strcmp(i->custom_call_target, "__gpu$TopK");
}

td_status_t td_topk_order(const td_hlo_instr_t *instr, td_topk_desc_t *out, td_err_t *err) {
    if (instr->opcode == TD_HLO_TOPK) {
        out->smallest = !instr->largest;
        return TD_OK;
    }
    const char *order = instr->backend_config ? strstr(instr->backend_config, "order = \"") : NULL;
    if (!order) return TD_OK;
    order += strlen("order = \"");
    out->zeros_equal = !strncmp(order, "PARTIAL\"", 8);
    if (out->zeros_equal || !strncmp(order, "TOTAL\"", 6)) return TD_OK;
    return td_fail(err, TD_UNSUPPORTED, "%s: order %.16s", instr->name, order);
}
