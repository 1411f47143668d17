/* SPDX-License-Identifier: Apache-2.0 */
/* What the service manager gives and gets: listening sockets, state messages. Thread: one. */
#ifndef TD_DAEMON_LISTEN_H
#define TD_DAEMON_LISTEN_H

#include "base/status.h"

/* The sockets passed by LISTEN_FDS, else -1: the one that LISTEN_FDNAMES calls "admin", and the first of the others.
 * Clears the variables. */
void td_listen_inherited(int *out_infer, int *out_admin);
/* Binds path; replaces a socket file that nobody listens on. Not yet listening. */
td_status_t td_listen_bind(const char *path, uint32_t mode, int *out_fd, td_err_t *err);
/* Tells $NOTIFY_SOCKET, if there is one. */
void td_notify(const char *state);

#endif
