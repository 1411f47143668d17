/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels and variables of PTX text: `.visible .entry NAME(.param .u64 a, .param .align 1 .b8 b[24])`, then directives
 * (.maxntid, .reqntid) up to the body; `.visible .global .align 4 .b8 NAME[28]`. Not a compiler: what stands in
 * bodies is not looked at. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/image.h"

static const char *blanks(const char *s) {
    for (;;) {
        while (isspace((unsigned char)*s)) s++;
        if (s[0] == '/' && s[1] == '/') s += strcspn(s, "\n");
        else return s;
    }
}
static size_t word(const char *s) {
    size_t n = 0;
    while (isalnum((unsigned char)s[n]) || strchr("_$%.", s[n] ? s[n] : ' ')) n++;
    return n;
}
static bool is(const char *s, size_t n, const char *what) { return strlen(what) == n && !memcmp(s, what, n); }

/* Bytes of a type like .u64; 0: it is none. */
static uint32_t type_bytes(const char *s, size_t n) {
    if (n < 3 || s[0] != '.' || !strchr("busf", s[1])) return 0;
    unsigned bits = (unsigned)strtoul(s + 2, NULL, 10);
    return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128 ? bits / 8 : 0;
}

/* [.align N] .TYPE [.ptr ...] NAME[COUNT]: what is declared; s is behind it then. */
typedef struct declared {
    const char *name;
    size_t n_name;
    uint64_t bytes;
    uint32_t align;
} declared_t;
static const char *declaration(const char *s, declared_t *d) {
    uint32_t each = 0;
    *d = (declared_t){0};
    for (s = blanks(s); *s && !strchr(",);={", *s); s = blanks(s)) {
        size_t n = word(s);
        if (!n && *s == '[') { /* a count; [] alone is sized elsewhere */
            each *= (uint32_t)strtoul(s + 1, NULL, 10);
            s += strcspn(s, "]");
            s += *s == ']';
            continue;
        }
        if (!n) return s + 1;
        if (is(s, n, ".align")) {
            s = blanks(s + n);
            uint32_t a = (uint32_t)strtoul(s, NULL, 10);
            if (!d->align) d->align = a;
            s += word(s);
            continue;
        }
        if (type_bytes(s, n)) each = type_bytes(s, n);
        else if (*s != '.') d->name = s, d->n_name = n;
        s += n;
    }
    d->bytes = each;
    if (!d->align) d->align = each ? each : 1;
    return s;
}

static const char *parameters(fk_kernel_info_t *k, const char *s) {
    uint32_t at = 0, index = 0;
    for (s = blanks(s); *s && *s != ')'; s = blanks(s)) {
        declared_t d;
        s = declaration(s, &d);
        if (d.name) {
            fk_param_t *p = fk_image_param(k, index++);
            at = (at + d.align - 1) / d.align * d.align;
            if (p) *p = (fk_param_t){at, (uint32_t)d.bytes};
            at += (uint32_t)d.bytes;
        }
        s = blanks(s);
        s += *s == ',';
    }
    k->param_bytes = at;
    return s + (*s == ')');
}
static const char *numbers(const char *s, uint32_t out[3]) {
    out[0] = out[1] = out[2] = 1;
    for (int i = 0; i < 3; i++) {
        s = blanks(s);
        out[i] = (uint32_t)strtoul(s, NULL, 10);
        s = blanks(s + word(s));
        if (*s != ',') break;
        s++;
    }
    return s;
}
static const char *entry(fk_image_t *im, const char *s) {
    s = blanks(s);
    size_t n = word(s);
    fk_kernel_info_t *k = fk_image_kernel(im, s, n);
    s = blanks(s + n);
    if (*s == '(') s = parameters(k, s + 1);
    for (s = blanks(s); *s && *s != '{' && *s != ';'; s = blanks(s)) {
        uint32_t v[3];
        n = word(s);
        if (is(s, n, ".maxntid")) {
            s = numbers(s + n, v);
            k->max_threads = v[0] * v[1] * v[2];
        } else if (is(s, n, ".reqntid")) {
            s = numbers(s + n, k->required);
            k->max_threads = k->required[0] * k->required[1] * k->required[2];
        } else {
            s += n ? n : 1;
        }
    }
    return s;
}
static const char *body(const char *s) {
    int depth = 0;
    for (; *s; s++) {
        if (*s == '{') depth++;
        else if (*s == '}' && --depth <= 0) return s + 1;
    }
    return s;
}
static const char *global(fk_image_t *im, const char *s) {
    declared_t d;
    s = declaration(s, &d);
    if (!d.name || !d.bytes) return s;
    fk_variable_t *v = realloc(im->variables, (im->n_variables + 1) * sizeof *v);
    if (!v) abort();
    im->variables = v;
    v[im->n_variables++] = (fk_variable_t){.name = strndup(d.name, d.n_name), .bytes = d.bytes};
    return s + strcspn(s, ";");
}

CUresult fk_ptx_read(fk_image_t *im, const char **why) {
    const char *s = (const char *)im->bytes;
    for (s = blanks(s); *s; s = blanks(s)) {
        size_t n = word(s);
        if (is(s, n, ".target")) {
            s = blanks(s + n);
            if (strncmp(s, "sm_", 3) == 0) im->architecture = (int)strtol(s + 3, NULL, 10);
        } else if (is(s, n, ".entry")) {
            s = entry(im, s + n);
        } else if (is(s, n, ".global") || is(s, n, ".const")) {
            s = global(im, s + n);
        } else if (*s == '{') {
            s = body(s);
        } else {
            s += n ? n : 1;
        }
    }
    if (im->architecture) return CUDA_SUCCESS;
    *why = "PTX without a .target";
    return CUDA_ERROR_INVALID_PTX;
}
