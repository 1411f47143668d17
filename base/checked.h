/* SPDX-License-Identifier: Apache-2.0 */
/* Checked arithmetic on sizes, and ranges compared by subtraction. */
#ifndef TD_BASE_CHECKED_H
#define TD_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each returns false on overflow and leaves *out untouched. */
static inline bool td_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
static inline bool td_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
static inline bool td_add_size(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
static inline bool td_mul_size(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
/* Is [offset, offset+size) inside [0, total)? */
static inline bool td_range_ok(uint64_t offset, uint64_t size, uint64_t total) {
    return size <= total && offset <= total - size;
}
/* x rounded up to a power of two `a`; x must be below SIZE_MAX - a. */
static inline size_t td_align_up(size_t x, size_t a) {
    return (x + a - 1) & ~(a - 1);
}

#endif
