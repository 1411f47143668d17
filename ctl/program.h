/* SPDX-License-Identifier: Apache-2.0 */
/* An artifact on a device of this process, with its inputs from files: what the verbs that run programs share.
 * Thread: one. */
#ifndef TD_CTL_PROGRAM_H
#define TD_CTL_PROGRAM_H

#include "ctl/judge.h"

/* What the command line says. Zero it first; device: "host" then. */
typedef struct ctl_source {
    const char *artifact, *device;
    const char *inputs[CTL_FILES_MAX], *weights[CTL_FILES_MAX];
    uint32_t n_inputs, n_weights;
    long threads; /* 0: as the device has it */
    ctl_judge_t judge;
    ctl_ffi_t ffi;
} ctl_source_t;

/* Options of it, and what argp's parser does with them: true when the key was one of these. ARGP_KEY_ARG and
 * ARGP_KEY_END, for the artifact, too. */
#define CTL_DEVICE_TEXT "host (default), or host:OPTIONS, with commas between them: threads=N; lanes=N: " \
    "streams of a run, at most; delay=SEED: streams with random delays, for tests of ordering. cuda, or cuda:OPTIONS: the number or UUID of a GPU, or auto; "       \
    "cc=MAJOR.MINOR: one of that compute capability; graphs=off: no CUDA graphs; lanes=N; driver=FILE: instead of libcuda.so.1"
#define CTL_SOURCE_OPTIONS                                                                                           \
    {"inputs", 'i', "FILE", 0, "Inputs as safetensors, named \"0\", \"1\"… in parameter order or by parameter name; "  \
                               "may be repeated", 0},                                                                \
    {"weights", 'w', "FILE", 0, "Like --inputs, for tensors that are the same in every run: what depends on them "    \
                                "alone is computed once, before the runs; may be repeated", 0},                      \
    {"device", 'd', "DEVICE", 0, CTL_DEVICE_TEXT, 0},                                                                \
    {"threads", 't', "N", 0, "Threads that the host device may use: host:threads=N; else one for each CPU", 0},      \
    CTL_CONTRACT_DATE,                                                                                               \
    CTL_FFI_OPTION
bool ctl_source_option(ctl_source_t *s, int key, char *arg, struct argp_state *state);
void ctl_source_close(ctl_source_t *s); /* after the program */
/* A number from 1 to most, or argp's error. */
long ctl_number(const char *arg, long most, struct argp_state *state, const char *what);

/* Freed in ctl_program_close, half-built ones too. Zero it first. */
typedef struct ctl_program {
    ctl_tensors_t tensors, weights;
    td_device_t *device;
    td_payload_table_t *payloads; /* holds the program's constants */
    td_program_t *program;
    td_binding_t *binding;
    const void **inputs;
    bool *fixed;   /* inputs that are weights */
    void **copies; /* normalised booleans, misaligned tensors */
    const void **outputs;
} ctl_program_t;
/* Loads, lowers, binds the inputs and the weights; the binding is there too. Errors name the artifact or the file. */
td_status_t ctl_program_open(ctl_program_t *p, ctl_source_t *s, td_err_t *err);
td_status_t ctl_program_run(ctl_program_t *p, const ctl_source_t *s, td_err_t *err); /* fills outputs */
void ctl_program_close(ctl_program_t *p);

#endif
