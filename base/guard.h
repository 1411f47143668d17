/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded file mappings: a regular file, mapped read-only, whose loss is an error instead of a signal.
 *
 * Reading a mapped page that the file no longer has (it was cut short, or the disk fails) raises SIGBUS. One handler
 * for the whole process puts zero pages there, marks the mapping, and lets the reader go on; what it computed is
 * worthless, so ask td_guard_check (or compare td_guard_faults before and after) before its result is used. SIGBUS
 * at any other address, or sent by a process, goes to the handler that was there before. Code that sets a SIGBUS
 * handler of its own later must pass on what is not its own.
 *
 * One file is mapped once: the same device, inode, size and time of change give the same mapping, counted.
 * Where the handler may not be replaced (ASan with handle_sigbus=2) a lost page still kills.
 *
 * Thread: any for all. A mapping stays until its last reference is gone; nobody may read it after that. */
#ifndef TD_BASE_GUARD_H
#define TD_BASE_GUARD_H

#include "base/span.h"
#include "base/status.h"

typedef struct td_guard td_guard_t;

/* Maps the whole file and returns one reference. Symbolic links are followed; what is no regular file in the end,
 * or is empty, is an error, and opening never blocks (a FIFO without a writer). Texts do not name the path: the
 * caller's prefix does. Errors: TD_IO, TD_MALFORMED (empty), TD_LIMIT (TD_LIMIT_GUARDS). */
td_status_t td_guard_map(const char *path, td_guard_t **out, td_err_t *err);
td_guard_t *td_guard_retain(td_guard_t *g);
void td_guard_release(td_guard_t *g); /* unmaps with the last reference; NULL is fine */

td_span_t td_guard_bytes(const td_guard_t *g); /* page-aligned */
const char *td_guard_path(const td_guard_t *g); /* as first mapped; the end of it when it is very long */
/* The mapping that holds this address, or NULL. No lock. The caller knows that it will stay. */
td_guard_t *td_guard_find(const void *p);

/* Has a page been lost? One atomic read; a loss that nobody has run into yet is not seen. */
bool td_guard_faulted(const td_guard_t *g);
/* Pages lost so far in all mappings, ever: equal before and after some work means that it read no lost page. */
uint64_t td_guard_faults(void);
/* Is the file still as it was mapped? TD_IO and a text with the path if pages were lost, or the file now is shorter
 * or longer or was written to: then the bytes are no longer those that were read first. One system call. */
td_status_t td_guard_check(const td_guard_t *g, td_err_t *err);

/* Advice on a part of the mapping: will be read soon; will not be (whole pages inside it leave the process's
 * resident memory, and come back when read). */
void td_guard_want(const td_guard_t *g, const void *p, size_t size);
void td_guard_drop(const td_guard_t *g, const void *p, size_t size);

#endif
