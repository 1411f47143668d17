/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two arrays as stored, of one type and layout: which element is furthest off, and by how much.
 *
 * Integers, booleans and bit patterns without a value must be equal. A float's error is |got - want| divided by the
 * larger of |want| and the array's lower quartile of |want| (of those that are finite and not 0; 1 if there are none):
 * sums that cancel are not held to the precision of what is left. A complex number's is taken by its modulus. NaN
 * equals NaN, zeros of either sign are equal, an infinity equals itself only. Thread: any. */
#ifndef TD_RUNTIME_COMPARE_H
#define TD_RUNTIME_COMPARE_H

#include "base/limits.h"
#include "runtime/shape.h"

typedef struct td_difference {
    uint64_t elements, wrong;    /* compared; with an error over the tolerance */
    double error, tolerance;     /* of the worst one, INFINITY where there is no number; 0: all are equal */
    int64_t index[TD_LIMIT_RANK]; /* of the worst one, by dimension */
    char want[64], got[64];      /* its values; "" while all are equal */
} td_difference_t;

/* What two correct devices may differ by: four times the type's rounding error for floats of 16 bits and fewer; as
 * sums are taken in other orders and functions approximated, 1e-4 for f32, 1e-9 for f64; complex numbers as their
 * parts; 0 for all others. */
double td_compare_tolerance(td_type_t type);
/* want, got: s->bytes each. s: an array. */
void td_compare(const td_shape_t *s, const void *want, const void *got, double tolerance, td_difference_t *out);
/* "[3,4]" into buf, "[]" for scalars. Returns buf. */
char *td_difference_index(const td_difference_t *d, const td_shape_t *s, char *buf, size_t size);

#endif
