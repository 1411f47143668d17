/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/judge.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "contract/day.h"
#include "contract/schema.h"

void ctl_judge_date(ctl_judge_t *j, const char *arg, struct argp_state *state) {
    j->policy.day = td_day_parse(arg);
    j->policy.play = true;
    if (!j->policy.day) argp_error(state, "--contract-date %s is no day as YYYY-MM-DD", arg);
}

static bool capability(td_contract_env_t *e, const char *text) {
    char *end;
    unsigned long major = strtoul(text, &end, 10), minor = 0;
    if (end == text || *end != '.' || major < 1 || major > 99) return false;
    text = end + 1;
    minor = strtoul(text, &end, 10);
    if (end == text || minor > 99 || (*end && ((*end != 'a' && *end != 'f') || end[1]))) return false;
    e->major = (int)major;
    e->minor = (int)minor;
    e->feature = *end;
    return true;
}

static bool is_version(const char *text) {
    unsigned v[3];
    int end = 0;
    return sscanf(text, "%9u.%9u.%9u%n", &v[0], &v[1], &v[2], &end) == 3 && !text[end];
}

static bool version(const char **out, const char *text) {
    *out = text;
    return is_version(text);
}

static bool device_count(td_contract_env_t *e, const char *text) {
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    e->devices = (uint32_t)n;
    return end != text && !*end && n >= 1 && n <= TD_LIMIT_DEVICES;
}

static bool environment_word(td_contract_env_t *e, const char *key, const char *value) {
    if (!strcmp(key, "cc")) return capability(e, value);
    if (!strcmp(key, "toolkit")) return version(&e->toolkit, value);
    if (!strcmp(key, "cudnn")) return version(&e->cudnn, value);
    if (!strcmp(key, "cub")) return version(&e->cub, value);
    return !strcmp(key, "devices") && device_count(e, value);
}

void ctl_judge_environment(ctl_judge_t *j, const char *arg, struct argp_state *state) {
    char *save = NULL;
    if (j->env_text) argp_error(state, "--environment is given twice");
    if (!(j->env_text = strdup(arg))) argp_failure(state, 2, ENOMEM, "--environment");
    for (char *word = strtok_r(j->env_text, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        char *eq = strchr(word, '=');
        if (eq) *eq = 0;
        if (!eq || !environment_word(&j->env, word, eq + 1))
            argp_error(state, "--environment: expected cc=X.Y[a], toolkit=, cudnn= or cub=X.Y.Z, devices=N; got %s%s%s",
                       word, eq ? "=" : "", eq ? eq + 1 : "");
    }
    j->policy.env = &j->env;
}

static td_status_t read_schema(ctl_judge_t *j, int fd, const char *path, td_err_t *err) {
    enum { SCHEMA_BYTES = 64 << 20 }; /* all of XLA's is below a megabyte */
    struct stat st;
    td_buffer_init(&j->schema, td_alloc_default());
    if (fstat(fd, &st) != 0) return td_fail(err, TD_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return td_fail(err, TD_IO, "%s: not a regular file", path);
    if (st.st_size > SCHEMA_BYTES)
        return td_fail(err, TD_LIMIT, "%s: %lld bytes, a schema has at most %d", path, (long long)st.st_size,
                       SCHEMA_BYTES);
    td_status_t s = td_buffer_reserve(&j->schema, (size_t)st.st_size, err);
    while (s == TD_OK && j->schema.size < (size_t)st.st_size) {
        ssize_t n = read(fd, j->schema.data + j->schema.size, (size_t)st.st_size - j->schema.size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return td_fail(err, TD_IO, "%s: %s", path, n ? strerror(errno) : "shrank while being read");
        j->schema.size += (size_t)n;
    }
    if (s == TD_OK) s = td_schema_check(td_buffer_span(&j->schema), err);
    return s == TD_OK ? s : td_prefix(err, s, "%s", path);
}

td_status_t ctl_judge_schema(ctl_judge_t *j, const char *path, td_err_t *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return td_fail(err, TD_IO, "%s: %s", path, strerror(errno));
    td_status_t s = read_schema(j, fd, path, err);
    close(fd);
    return s;
}

void ctl_judge_today(ctl_judge_t *j) {
    if (!j->policy.day) j->policy.day = td_day_of(time(NULL));
}

void ctl_judge_close(ctl_judge_t *j) {
    td_device_destroy(j->policy.device);
    free(j->env_text);
    td_buffer_deinit(&j->schema);
    *j = (ctl_judge_t){0};
}

static td_status_t open_device(ctl_judge_t *j, const td_module_t *m, td_err_t *err) {
    if (!j->ask_device || j->policy.device || !m || !td_module_has_calls(m)) return TD_OK;
    td_status_t s = td_device_open("host", td_alloc_default(), &j->policy.device, err);
    if (s == TD_OK) j->policy.device->ffi = j->ffi;
    return s;
}

/* Whoever prints the verdict says which file it is. */
static void strip_path(td_err_t *err, const char *path) {
    size_t n = strlen(path);
    if (!strncmp(err->text, path, n) && !strncmp(err->text + n, ": ", 2))
        memmove(err->text, err->text + n + 2, strlen(err->text + n + 2) + 1);
}

void ctl_judge_file(ctl_judge_t *j, const char *path, ctl_load_t *l, td_verdict_t *v) {
    const td_alloc_t *alloc = td_alloc_default();
    td_err_t err = {0}, module_err = {0};
    td_status_t s = td_payload_table_create(alloc, &l->table, &err);
    if (s == TD_OK) s = td_artifact_open_file(path, l->table, alloc, &l->artifact, &err);
    if (s == TD_OK) {
        (void)td_module_open(l->artifact, alloc, &l->module, &module_err);
        s = open_device(j, l->module, &err);
    }
    if (s == TD_OK) {
        s = td_verdict_make(l->artifact, l->module, &module_err, &j->policy, alloc, v, &err);
    }
    if (s == TD_NOTFOUND) s = err.code = TD_IO; /* a file that we cannot read, as any other */
    if (s == TD_OK) return;
    strip_path(&err, path);
    td_verdict_unopened(&err, v);
}
