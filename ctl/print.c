/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SHOWN 8

char *ctl_print_dims(const char *type, const int64_t *dims, uint32_t rank, char *buf, size_t size) {
    size_t n = (size_t)snprintf(buf, size, "%s[", type);
    for (uint32_t i = 0; i < rank && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%" PRId64, i ? "," : "", dims[i]);
    if (n < size) snprintf(buf + n, size - n, "]");
    return buf;
}

static double half(uint16_t h) {
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? (double)NAN : (double)INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

static double real(const char *type, const uint8_t *p) {
    double d;
    float f;
    uint16_t h;
    if (!strcmp(type, "FP64")) return memcpy(&d, p, 8), d;
    if (!strcmp(type, "FP32")) return memcpy(&f, p, 4), (double)f;
    memcpy(&h, p, 2);
    if (!strcmp(type, "FP16")) return half(h);
    uint32_t w = (uint32_t)h << 16;
    return memcpy(&f, &w, 4), (double)f;
}

static void print_value(const char *type, const uint8_t *p, size_t size) {
    uint64_t v = 0;
    memcpy(&v, p, size < 8 ? size : 8);
    if (!strncmp(type, "FP", 2) || !strcmp(type, "BF16"))
        printf(" %.6g", real(type, p));
    else if (!strncmp(type, "INT", 3)) {
        unsigned shift = 64 - 8 * (unsigned)size;
        printf(" %" PRId64, (int64_t)(v << shift) >> shift);
    } else if (!strncmp(type, "UINT", 4) || !strcmp(type, "BOOL"))
        printf(" %" PRIu64, v);
    else
        for (size_t i = 0; i < size; i++) printf("%s%02x", i ? "" : " ", p[i]);
}

void ctl_print_tensor(const oip_tensor_t *t) {
    char shape[200];
    uint64_t bytes, count = 1;
    printf("%s %s:", t->name, ctl_print_dims(t->datatype, t->dims, t->rank, shape, sizeof shape));
    for (uint32_t i = 0; i < t->rank; i++) count *= (uint64_t)t->dims[i];
    if (!oip_bytes(t, &bytes) || bytes != t->bytes) {
        printf(" %" PRIu64 " bytes\n", t->bytes);
        return;
    }
    for (uint64_t i = 0; i < count && i < SHOWN; i++)
        print_value(t->datatype, (const uint8_t *)t->data + i * (bytes / count), (size_t)(bytes / count));
    puts(count > SHOWN ? " ..." : "");
}

json_t *ctl_json_text(const char *text) {
    json_t *j = json_string(text);
    char *copy = j ? NULL : strdup(text);
    for (char *p = copy; p && *p; p++)
        if ((unsigned char)*p >= 0x80) *p = '?';
    if (copy) j = json_string(copy);
    free(copy);
    return j;
}
