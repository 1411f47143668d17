/* SPDX-License-Identifier: Apache-2.0 */
/* For the files compiled once per instruction set: their names, and its vectors of SLEEF's functions. */
#ifndef TD_RUNTIME_HOST_VEC_ISA_H
#define TD_RUNTIME_HOST_VEC_ISA_H

#include "runtime/host/vec.h"

#define td_pw_pred TD_V(td_pw_pred)
#define td_pw_s8 TD_V(td_pw_s8)
#define td_pw_s16 TD_V(td_pw_s16)
#define td_pw_s32 TD_V(td_pw_s32)
#define td_pw_s64 TD_V(td_pw_s64)
#define td_pw_u8 TD_V(td_pw_u8)
#define td_pw_u16 TD_V(td_pw_u16)
#define td_pw_u32 TD_V(td_pw_u32)
#define td_pw_u64 TD_V(td_pw_u64)
#define td_pw_f32 TD_V(td_pw_f32)
#define td_pw_f64 TD_V(td_pw_f64)
#define td_pw_c64 TD_V(td_pw_c64)
#define td_pw_c128 TD_V(td_pw_c128)
#define td_pairs_isa TD_V(td_pairs)
#define td_scalars_isa TD_V(td_scalars)
#define td_bf16_isa TD_V(td_bf16)
#define td_transpose8_isa TD_V(td_transpose8)
#define td_convert_isa TD_V(td_convert)
#define td_small_load_isa TD_V(td_small_load)
#define td_small_store_isa TD_V(td_small_store)
#define td_small_round_isa TD_V(td_small_round)

extern const td_pw_table_t td_pw_f32, td_pw_f64, td_pw_c64, td_pw_c128, td_pw_pred;
extern const td_pw_table_t td_pw_s8, td_pw_s16, td_pw_s32, td_pw_s64, td_pw_u8, td_pw_u16, td_pw_u32, td_pw_u64;
extern const td_pw_fn_t td_pairs_isa[3][TD_PAIRS][4], td_scalars_isa[TD_ONES], td_bf16_isa[3];
void td_transpose8_isa(uint32_t size, const char *src, int64_t src_stride, char *dst, int64_t dst_stride);
void td_convert_isa(td_type_t from, const void *src, td_type_t to, void *dst, size_t n);
void td_small_load_isa(td_type_t t, const void *src, float *dst, size_t n);
void td_small_store_isa(td_type_t t, const float *src, void *dst, size_t n);
void td_small_round_isa(td_type_t t, const float *src, float *dst, size_t n);

#endif
