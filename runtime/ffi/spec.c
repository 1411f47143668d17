/* SPDX-License-Identifier: Apache-2.0 */
/* A library and its map as one word of a command line. */
#include <stdlib.h>
#include <string.h>

#include "runtime/ffi/registry.h"

/* "target=symbol": cut at the last '='. */
static bool cut(char *pair, td_ffi_symbol_t *out) {
    char *eq = strrchr(pair, '=');
    if (!eq || eq == pair || !eq[1]) return false;
    *eq = 0;
    *out = (td_ffi_symbol_t){pair, eq + 1};
    return true;
}

td_status_t td_ffi_registry_load_text(td_ffi_registry_t *r, const char *text, td_err_t *err) {
    char *copy = strdup(text), *map = copy ? strchr(copy, ':') : NULL;
    size_t n = 1;
    for (const char *p = map; p && (p = strchr(p, ',')); p++) n++;
    td_ffi_symbol_t *v = calloc(n, sizeof *v);
    td_ffi_library_t lib = {.path = copy, .symbols = v};
    td_status_t s = copy && v ? TD_OK : td_fail(err, TD_NOMEM, "out of memory");
    if (!s && map) *map++ = 0;
    for (char *at = map; !s && at;) {
        char *comma = strchr(at, ','), *pair = at;
        if (comma) *comma = 0;
        at = comma ? comma + 1 : NULL;
        if (!cut(pair, &v[lib.n_symbols++]))
            s = td_fail(err, TD_USAGE, "'%.200s': expected LIBRARY[:TARGET=SYMBOL,...]", text);
    }
    if (!s) s = td_ffi_registry_load(r, &lib, err);
    free(v);
    free(copy);
    return s;
}
