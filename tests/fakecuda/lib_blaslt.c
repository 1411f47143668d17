/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for cuBLASLt. */
#include "tests/fakecuda/library.h"
