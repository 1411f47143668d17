/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "runtime/host/vec_isa.h"

#define T float
#define T_MAX FLT_MAX
#define I int32_t
#define I_MAX INT32_MAX
#define F(name) name##f
#define NAME td_pw_f32
#include "runtime/host/vec_sleef.h"

#include "runtime/host/pw_float.h"
