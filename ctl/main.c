/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl: looks at artifacts and runs them offline, and talks to a daemon. */
#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

static const ctl_verb_t verbs[] = {
    {"run", "run an artifact on inputs from a file", ctl_run},
    {"verify", "run an artifact on two devices and compare thunk by thunk", ctl_verify},
    {"trace", "run an artifact and write a trace of its thunks", ctl_trace},
    {"check", "tell whether artifacts will load", ctl_check},
    {"contract", "print the contract: releases, former forms, their months", ctl_contract},
    {"inspect", "show what is in an artifact", ctl_inspect},
    {"convert", "write an artifact in another form", ctl_convert},
    {"infer", "send one request to a daemon", ctl_infer},
    {"ls", "list a daemon's models and their states", ctl_ls},
    {"load", "have a daemon load a model", ctl_load_model},
    {"unload", "have a daemon unload a model", ctl_unload},
    {"reload", "have a daemon read a model's files again", ctl_reload},
    {"pin", "keep a model in a daemon's memory", ctl_pin},
    {"unpin", "let a model go when others need room", ctl_unpin},
    {"rescan", "have a daemon look at its store now", ctl_rescan},
    {"budget", "show who holds a daemon's memory", ctl_budget},
    {"metrics", "print a daemon's metrics", ctl_metrics},
    {"health", "ask a daemon whether it serves", ctl_health},
};

static void usage(FILE *f) {
    fputs("Usage: thunkctl VERB [OPTION...]\n\nVerbs:\n", f);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) fprintf(f, "  %-9s %s\n", verbs[i].name,
                                                                      verbs[i].summary);
    fputs("\n`thunkctl VERB --help' tells a verb's options.\n"
          "Exit codes: 0 done, 1 failed or refused, 2 usage, unreadable input or no daemon.\n",
          f);
}

static int call(const ctl_verb_t *v, int argc, char **argv) {
    char name[32];
    snprintf(name, sizeof name, "thunkctl %s", v->name);
    argv[0] = name;
    argp_err_exit_status = 2;
    return v->run(argc, argv);
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "-?") || !strcmp(argv[1], "help")) {
        usage(stdout);
        return 0;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(argv[1], verbs[i].name)) return call(&verbs[i], argc - 1, argv + 1);
    fprintf(stderr, "thunkctl: no verb %s; `thunkctl --help' lists them\n", argv[1]);
    return 2;
}
