/* SPDX-License-Identifier: Apache-2.0 */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "runtime/host/vec_isa.h"

#define R double
#define FC(name) name
#define NAME td_pw_c128
#include "runtime/host/pw_complex.h"
