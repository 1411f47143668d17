/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of the admin service share: their options, the call, tables and JSON. Thread: one. */
#ifndef TD_CTL_ADMIN_H
#define TD_CTL_ADMIN_H

#include <argp.h>
#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

#include "base/status.h"

#define CTL_ADMIN_SOCKET "/run/thunkd/admin.sock"

typedef struct admin_args {
    const char *socket; /* NULL: admin_socket() */
    const char *model, *version;
    int timeout_ms;
    bool json;
    uint32_t least, most; /* of MODEL and VERSION, that the verb takes; the caller's */
} admin_args_t;

/* For the argp of a verb whose input is an admin_args_t: --socket and --timeout, and --json. */
#define ADMIN_OPTIONS                                                                                                \
    {"socket", 's', "PATH", 0, "The daemon's socket (default " CTL_ADMIN_SOCKET " where it may be used, else "       \
     "/run/thunkd/thunkd.sock)", 0},                                                                                 \
    {"timeout", 'T', "TIME", 0, "Give up after so long: seconds, or a number with ms, s or m", 0}
#define ADMIN_JSON {"json", 'j', NULL, 0, "Print JSON", 0}
error_t admin_parse_opt(int key, char *arg, struct argp_state *state);
/* The path of the socket to use. */
const char *admin_socket(const admin_args_t *a);
/* "30", "500ms", "2m"; a number alone is in units of unit_ms. False: no such time. */
bool admin_timeout(const char *text, int unit_ms, int *out_ms);

/* Calls "/thunkd.v1.Admin/<method>". The answer is freed with protobuf_c_message_free_unpacked(m, NULL). */
td_status_t admin_call(const admin_args_t *a, const char *method, const ProtobufCMessage *request,
                       const ProtobufCMessageDescriptor *answer, ProtobufCMessage **out, td_err_t *err);

/* "1.5 GiB", "12 B". Returns out. */
char *admin_size(uint64_t bytes, char out[24]);
/* A message as a JSON object, with all its fields; a number of 2^64 - 1 (no limit) is null. */
json_t *admin_json(const ProtobufCMessage *m);
/* Prints it with two spaces of indent, and frees it. */
td_status_t admin_print_json(json_t *j, td_err_t *err);

/* A table: cells are copied, row by row; every column is as wide as its widest cell. */
typedef struct admin_table {
    const char *const *heads; /* one for each column; a '>' in front aligns to the right */
    uint32_t n_columns;
    char **cells;
    size_t n, capacity;
    bool failed; /* memory is gone */
} admin_table_t;
void admin_cell(admin_table_t *t, const char *text);
td_status_t admin_table_print(admin_table_t *t, td_err_t *err);
void admin_table_free(admin_table_t *t);

#endif
