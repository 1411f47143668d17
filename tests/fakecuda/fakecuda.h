/* SPDX-License-Identifier: Apache-2.0 */
/* What tests may ask of the stand-in driver, beside the driver's own functions (found by dlsym, as they are).
 *
 * $(B)/fakecuda/libcuda.so.1 has the entry points of runtime/cuda/driver.h and needs no GPU. Device addresses lie
 * in a range that nothing can be read from; kernels run by name through the host kernel compiler; streams are
 * threads and events the only order between them. Every misuse is a *fault*: a line on standard error, a count,
 * and an exit status of its own. Environment, read at the first call:
 *   FAKECUDA_DEVICES=1  FAKECUDA_CC=9.0  FAKECUDA_MEM=16G (each device)  FAKECUDA_DRIVER=13000
 *   FAKECUDA_MIG=1g.18gb  each device is a MIG instance of that profile
 *   FAKECUDA_ARTIFACT=FILE[:FILE...]  where kernels' meaning comes from: (image, kernel name) -> HLO instruction
 *   FAKECUDA_SEED=N    random delays in the streams (0, the default: none)
 *   FAKECUDA_SLOW=N    each copy and each kernel takes N microseconds more; streams do not share that time
 *   FAKECUDA_INLINE=1  no threads: work is done while it is enqueued
 *   FAKECUDA_EMPTY=1   launches are checked but compute nothing; loops that wait for what a kernel writes then need
 *                      FAKECUDA_FILL=0 to end
 *   FAKECUDA_FAIL=[cuFoo:]N[:CODE][~],...  the N-th call (of cuFoo) returns CODE (default 2, out of memory) and does
 *                      nothing (had it to release something, leaks are no faults any more); with ~ it returns success
 *                      and the context fails later, as kernels' errors do. After errors like 700 every call in the
 *                      context fails until it is destroyed. A line on standard error tells of it
 *   FAKECUDA_CORRUPT=kernel:N  the N-th launch of an artifact's kernel, named as it or its instruction is, flips a bit
 *                      in the middle element of its last array: of floats the exponent's highest, else the lowest
 *   FAKECUDA_COUNT=1   prints how often each function was called, at exit; 2: also each call as it is made
 *   FAKECUDA_REPORT=FILE  appends one line of JSON at exit: faults, leaks, calls, launches, peak of memory, how many
 *                      streams have been at work at one time
 *   FAKECUDA_RACES=0   does not look for accesses that no stream, event or sync orders
 *   FAKECUDA_LEAKS=0   what is left when a context ends is no fault
 *   FAKECUDA_FILL=255  byte that new memory holds; -1: zeros (large memory is then not touched)
 *   FAKECUDA_EXIT=99   exit status of a process with faults; 0: leave the status alone
 * Thread: any. */
#ifndef FAKECUDA_FAKECUDA_H
#define FAKECUDA_FAKECUDA_H

#include <stdint.h>

/* Faults so far of one kind ("out-of-bounds", "use-after-free", "double-free", "bad-pointer", "freed-in-use",
 * "wrong-context", "bad-handle", "bad-arguments", "bad-launch", "race", "kernel", "leak"), NULL: of all. */
uint64_t fakecuda_faults(const char *kind);
/* Text of the latest one, "" if there was none. Valid until the next. */
const char *fakecuda_last_fault(void);
/* Forgets them all: a test that planted them is content. */
void fakecuda_forgive(void);
uint64_t fakecuda_calls(const char *function); /* NULL: of all */

#endif
