/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/conv.h"
td_status_t td_conv_dnnl_make(td_conv_plan_t *p, td_arena_t *arena, uint64_t *scratch, td_err_t *err) { (void)p, (void)arena, (void)scratch, (void)err; return TD_OK; }
void td_conv_dnnl_release(struct td_conv_dnnl *k) { (void)k; }
td_status_t td_conv_dnnl_run(const td_conv_plan_t *p, const td_conv_bufs_t *b, char *scratch, td_err_t *err) { (void)p, (void)b, (void)scratch, (void)err; return TD_OK; }
uint64_t td_conv_dnnl_packed_bytes(const struct td_conv_dnnl *k) { (void)k; return 0; }
td_status_t td_conv_dnnl_pack(const td_conv_plan_t *p, const void *w, void *packed, char *scratch, td_err_t *err) { (void)p, (void)w, (void)packed, (void)scratch, (void)err; return TD_OK; }
