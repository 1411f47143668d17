/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "runtime/host/vec_isa.h"

#define T double
#define T_MAX DBL_MAX
#define I int64_t
#define I_MAX INT64_MAX
#define F(name) name
#define NAME td_pw_f64
#define TD_F64_VECTORS
#include "runtime/host/vec_sleef.h"

#include "runtime/host/pw_float.h"
