/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from the environment; a word that is not understood ends the process, for a test would mislead. */
#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/fake.h"

fk_config_t fk_config;

static void bad(const char *name, const char *value) {
    fprintf(stderr, "fakecuda: %s=%s is not understood (tests/fakecuda/fakecuda.h lists the settings)\n", name, value);
    exit(2);
}

/* A number with K, M, G or T behind it. */
static uint64_t number(const char *name, uint64_t otherwise) {
    const char *s = getenv(name);
    if (!s || !*s) return otherwise;
    char *end = NULL;
    uint64_t v = strtoull(s, &end, 0);
    static const char units[] = "KMGT";
    const char *u = *end ? strchr(units, *end) : NULL;
    if (u) v <<= 10 * (u - units + 1), end++;
    if (end == s || *end) bad(name, s);
    return v;
}
static int integer(const char *name, int otherwise) {
    const char *s = getenv(name);
    if (!s || !*s) return otherwise;
    char *end = NULL;
    long v = strtol(s, &end, 0);
    if (end == s || *end) bad(name, s);
    return (int)v;
}

void fk_config_read(void) {
    fk_config_t *c = &fk_config;
    const char *cc = getenv("FAKECUDA_CC");
    c->devices = integer("FAKECUDA_DEVICES", 1);
    c->cc_major = 9;
    if (cc && *cc && (sscanf(cc, "%d.%d", &c->cc_major, &c->cc_minor) != 2)) bad("FAKECUDA_CC", cc);
    if (c->devices < 0 || c->devices > 64) bad("FAKECUDA_DEVICES", getenv("FAKECUDA_DEVICES"));
    c->driver = integer("FAKECUDA_DRIVER", 13000);
    c->memory = number("FAKECUDA_MEM", 16ull << 30);
    c->seed = number("FAKECUDA_SEED", 0);
    c->slow_us = number("FAKECUDA_SLOW", 0);
    c->run_inline = integer("FAKECUDA_INLINE", 0);
    c->empty = integer("FAKECUDA_EMPTY", 0);
    c->races = integer("FAKECUDA_RACES", 1);
    c->leaks = integer("FAKECUDA_LEAKS", 1);
    c->count = integer("FAKECUDA_COUNT", 0);
    c->fill = integer("FAKECUDA_FILL", 255);
    c->exit_code = integer("FAKECUDA_EXIT", 99);
    c->mig = getenv("FAKECUDA_MIG");
    c->report = getenv("FAKECUDA_REPORT");
    c->artifacts = getenv("FAKECUDA_ARTIFACT");
    c->fail = getenv("FAKECUDA_FAIL");
    c->corrupt = getenv("FAKECUDA_CORRUPT");
    if (c->corrupt && !strchr(c->corrupt, ':')) bad("FAKECUDA_CORRUPT", c->corrupt);
}
