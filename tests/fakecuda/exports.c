/* SPDX-License-Identifier: Apache-2.0 */
/* Every function that the runtime may look for is here: one that is missing ends the link. */
#include "tests/fakecuda/fake.h"

#define ADDRESS(needed, function, args) (void (*)(void))function,
__attribute__((used)) static void (*const all[])(void) = {TD_CUDA_SYMBOLS(ADDRESS)};
