/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts for the verbs: the options that set the policy, and a verdict as text and JSON. Thread: one. */
#ifndef TD_CTL_JUDGE_H
#define TD_CTL_JUDGE_H

#include <jansson.h>

#include "contract/verdict.h"
#include "ctl/ctl.h"
#include "proto/codec.h"

struct argp_state;

/* --contract-date, --environment, --strict. Zero it first. */
typedef struct ctl_judge {
    td_contract_policy_t policy;
    td_contract_env_t env;
    char *env_text; /* the option's words, cut up */
    td_buffer_t schema; /* --schema's file */
    bool ask_device;    /* who handles the custom calls? The device is opened for the first one */
    td_ffi_registry_t *ffi;
} ctl_judge_t;

#define CTL_CONTRACT_DATE                                                                                         \
    {"contract-date", 'D', "YYYY-MM-DD", 0, "Be the runtime of that day: what came later is unknown, former forms " \
     "past their month are not read", 0}
void ctl_judge_date(ctl_judge_t *j, const char *arg, struct argp_state *state);
/* cc=9.0a,toolkit=X.Y.Z,cudnn=X.Y.Z,cub=X.Y.Z,devices=N */
void ctl_judge_environment(ctl_judge_t *j, const char *arg, struct argp_state *state);
td_status_t ctl_judge_schema(ctl_judge_t *j, const char *path, td_err_t *err);
/* Today, unless a date was given. */
void ctl_judge_today(ctl_judge_t *j);
void ctl_judge_close(ctl_judge_t *j);

/* Opens the artifact and judges it. *v is filled in whatever happens; l stays open while v lives, and l->module is
 * NULL when the artifact does not verify. */
void ctl_judge_file(ctl_judge_t *j, const char *path, ctl_load_t *l, td_verdict_t *v);

/* source: where what it was compiled from is kept, or NULL. */
void ctl_verdict_print(const ctl_judge_t *j, const char *path, const char *source, const td_verdict_t *v);
json_t *ctl_verdict_json(const ctl_judge_t *j, const char *path, const char *source, const td_verdict_t *v);

#endif
