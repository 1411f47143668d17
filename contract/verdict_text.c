/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "contract/day.h"
#include "contract/verdict.h"

static void put(char *out, size_t size, const char *fmt, ...) TD_PRINTF(3, 4);
static void put(char *out, size_t size, const char *fmt, ...) {
    size_t n = strlen(out);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out + n, size - n, fmt, ap);
    va_end(ap);
}

char *td_verdict_line(const td_verdict_t *v, char *out, size_t size) {
    char a[12];
    out[0] = 0;
    put(out, size, "%s", td_verdict_name(v->kind));
    if (*v->reason) put(out, size, ": %s", v->reason);
    else if (v->built) {
        put(out, size, ": release %s, built %s", td_ledger_releases[v->release.at_least].name,
            td_day_text(v->built, a));
        if (v->day) put(out, size, "; inside the window until %s", td_day_text(v->leaves, a));
    }
    for (uint32_t i = 0; v->loads && i < v->n_fallbacks; i++)
        put(out, size, "%s%s", i ? ", " : "; fallbacks ", v->fallbacks[i].row->name);
    return out;
}
