/* SPDX-License-Identifier: Apache-2.0 */
/* The same calls as handlers_more_test, on the CUDA device. */
#define HANDLERS_ON_CUDA
#include "tests/unit/handlers_more_test.c"
