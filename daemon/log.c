/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/log.h"

#include <stdio.h>
#include <unistd.h>

void td_log(const char *fmt, ...) {
    char line[2048] = "thunkd: ";
    const int head = 8, room = (int)sizeof line - 1; /* for the newline */
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line + head, (size_t)(room - head), fmt, ap);
    va_end(ap);
    n = n < 0 ? head : n + head;
    if (n > room - 1) n = room - 1;
    line[n++] = '\n';
    for (const char *p = line; n > 0;) {
        ssize_t k = write(STDERR_FILENO, p, (size_t)n);
        if (k <= 0) return; /* nobody reads it */
        p += k;
        n -= (int)k;
    }
}
