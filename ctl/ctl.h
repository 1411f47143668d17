/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl's verbs and what they share. Exit codes: 0 done, 1 failed, 2 usage or
 * unreadable input or no daemon. Errors go to stderr as "thunkctl: <cause>". Thread: one. */
#ifndef TD_CTL_CTL_H
#define TD_CTL_CTL_H

#include "proto/artifact.h"
#include "runtime/ffi/registry.h"
#include "runtime/program.h"
#include "store/safetensors.h"

typedef struct ctl_verb {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv); /* argv[0] is "thunkctl NAME"; returns the exit code */
} ctl_verb_t;

int ctl_run(int argc, char **argv);
int ctl_verify(int argc, char **argv);
int ctl_trace(int argc, char **argv);
int ctl_check(int argc, char **argv);
int ctl_contract(int argc, char **argv);
int ctl_inspect(int argc, char **argv);
int ctl_convert(int argc, char **argv);
int ctl_infer(int argc, char **argv);
int ctl_ls(int argc, char **argv);
int ctl_load_model(int argc, char **argv);
int ctl_unload(int argc, char **argv);
int ctl_reload(int argc, char **argv);
int ctl_pin(int argc, char **argv);
int ctl_unpin(int argc, char **argv);
int ctl_rescan(int argc, char **argv);
int ctl_budget(int argc, char **argv);
int ctl_metrics(int argc, char **argv);
int ctl_health(int argc, char **argv);

/* Prints the cause and returns the exit code for it. */
int ctl_report(const td_err_t *err);
/* The exit code for a status: 0, 1 or 2. */
int ctl_exit_code(td_status_t s);

/* An artifact opened and verified. Zero it before ctl_load_open; ctl_load_close
 * is fine after a failure and after a close. */
typedef struct ctl_load {
    td_payload_table_t *table;
    td_artifact_t *artifact;
    td_module_t *module;
} ctl_load_t;
/* Errors name the path. On failure what was opened so far stays in *l. */
td_status_t ctl_load_open(ctl_load_t *l, const char *path, td_err_t *err);
void ctl_load_close(ctl_load_t *l);

/* Tensors of some files. Names looked up in the files' order. */
#define CTL_FILES_MAX 64
typedef struct ctl_tensors {
    td_st_t *files[CTL_FILES_MAX];
    uint32_t n;
} ctl_tensors_t;
td_status_t ctl_tensors_add(ctl_tensors_t *t, const char *path, td_err_t *err);
const td_st_tensor_t *ctl_tensors_find(const ctl_tensors_t *t, const char *name);
void ctl_tensors_close(ctl_tensors_t *t);

/* --ffi LIBRARY[:TARGET=SYMBOL,...], repeated. Zero it first. */
#define CTL_FFI_OPTION                                                                                               \
    {"ffi", 'f', "LIB[:TARGET=SYMBOL,...]", 0, "A library of custom-call handlers, with the symbols of its targets " \
     "unless it tells them itself; may be repeated", 0}
typedef struct ctl_ffi {
    const char *libraries[CTL_FILES_MAX];
    uint32_t n;
    td_ffi_registry_t *registry; /* NULL without libraries */
} ctl_ffi_t;
struct argp_state;
void ctl_ffi_option(ctl_ffi_t *f, const char *arg, struct argp_state *state);
td_status_t ctl_ffi_open(ctl_ffi_t *f, td_err_t *err);
void ctl_ffi_close(ctl_ffi_t *f); /* after the device and its programs */

#endif
