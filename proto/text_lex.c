/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/text_lex.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/checked.h"

void td_lex_init(td_lex_t *s, td_span_t text) {
    const char *p = text.size ? (const char *)text.data : "";
    *s = (td_lex_t){.p = p, .end = p + text.size, .line_start = p, .line = 1};
}

char td_lex_peek(td_lex_t *s) {
    for (; s->p < s->end; s->p++) {
        if (*s->p == '#') {
            const char *nl = memchr(s->p, '\n', (size_t)(s->end - s->p));
            s->p = nl ? nl : s->end;
            if (!nl) return 0;
        }
        if (*s->p == '\n') {
            s->line++;
            s->line_start = s->p + 1;
        } else if (!strchr(" \t\r\v\f", *s->p) || !*s->p) {
            return *s->p;
        }
    }
    return 0;
}

bool td_lex_take(td_lex_t *s, char c) {
    if (td_lex_peek(s) != c || s->p == s->end) return false;
    s->p++;
    return true;
}

td_span_t td_lex_word(td_lex_t *s, bool number) {
    td_lex_peek(s);
    const char *begin = s->p;
    for (; s->p < s->end; s->p++) {
        char c = *s->p;
        bool exponent = number && (c == '+' || c == '-') && s->p > begin && (s->p[-1] == 'e' || s->p[-1] == 'E');
        if (!isalnum((unsigned char)c) && c != '_' && !(number && c == '.') && !exponent) break;
    }
    return (td_span_t){(const uint8_t *)begin, (size_t)(s->p - begin)};
}

td_status_t td_lex_fail(const td_lex_t *s, td_err_t *err, const char *fmt, ...) {
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return td_fail(err, TD_MALFORMED, "line %u, column %zu: %s", s->line, (size_t)(s->p - s->line_start) + 1, text);
}

static int digit(char c, int base) {
    int v = c >= '0' && c <= '9' ? c - '0' : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : 99;
    return v < base ? v : -1;
}

/* Up to max digits. Returns how many there were. */
static int digits(td_lex_t *s, int base, int max, uint32_t *out) {
    int n = 0;
    *out = 0;
    for (; n < max && s->p < s->end && digit(*s->p, base) >= 0; n++)
        *out = *out * (uint32_t)base + (uint32_t)digit(*s->p++, base);
    return n;
}

static size_t utf8(uint32_t c, uint8_t *out) {
    if (c < 0x80) return out[0] = (uint8_t)c, 1;
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i; i--, c >>= 6) out[i] = (uint8_t)(0x80 | (c & 63));
    out[0] = (uint8_t)(lead[n] | c);
    return n;
}

/* \uXXXX and \UXXXXXXXX; two surrogates make one character. */
static td_status_t unicode(td_lex_t *s, int width, uint8_t *out, size_t *n, td_err_t *err) {
    uint32_t c, low;
    if (digits(s, 16, width, &c) != width)
        return td_lex_fail(s, err, "\\%c needs %d digits", width == 4 ? 'u' : 'U', width);
    if (c >= 0xd800 && c < 0xdc00 && s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u') {
        s->p += 2;
        if (digits(s, 16, 4, &low) != 4 || low < 0xdc00 || low > 0xdfff)
            return td_lex_fail(s, err, "half a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return td_lex_fail(s, err, "U+%X is no character", c);
    *n = utf8(c, out);
    return TD_OK;
}

/* What follows a backslash. */
static td_status_t escape(td_lex_t *s, uint8_t out[4], size_t *n, td_err_t *err) {
    static const char names[] = "abfnrtv\\'\"?", values[] = "\a\b\f\n\r\t\v\\'\"?";
    uint32_t v;
    *n = 1;
    if (s->p == s->end) return td_lex_fail(s, err, "text ends inside a string");
    const char *known = *s->p ? strchr(names, *s->p) : NULL;
    if (known) {
        out[0] = (uint8_t)values[known - names];
        s->p++;
        return TD_OK;
    }
    if (digit(*s->p, 8) >= 0) {
        digits(s, 8, 3, &v);
        if (v > 255) return td_lex_fail(s, err, "octal escape over \\377");
        out[0] = (uint8_t)v;
        return TD_OK;
    }
    char c = *s->p++;
    if (c == 'u' || c == 'U') return unicode(s, c == 'u' ? 4 : 8, out, n, err);
    if ((c != 'x' && c != 'X') || !digits(s, 16, 2, &v)) {
        s->p--;
        return td_lex_fail(s, err, "unknown escape in a string");
    }
    out[0] = (uint8_t)v;
    return TD_OK;
}

static td_status_t literal(td_lex_t *s, char quote, td_buffer_t *out, td_err_t *err) {
    for (;;) {
        const char *run = s->p;
        while (s->p < s->end && *s->p != quote && *s->p != '\\' && *s->p != '\n') s->p++;
        td_status_t st = td_buffer_append(out, run, (size_t)(s->p - run), err);
        if (st != TD_OK) return st;
        if (s->p == s->end) return td_lex_fail(s, err, "text ends inside a string");
        if (*s->p == '\n') return td_lex_fail(s, err, "string runs over the end of its line");
        if (*s->p++ == quote) return TD_OK;
        uint8_t b[4];
        size_t n;
        st = escape(s, b, &n, err);
        if (st == TD_OK) st = td_buffer_append(out, b, n, err);
        if (st != TD_OK) return st;
    }
}

td_status_t td_lex_string(td_lex_t *s, td_buffer_t *out, td_err_t *err) {
    char quote = td_lex_peek(s);
    if (quote != '"' && quote != '\'') return td_lex_fail(s, err, "expected a string");
    td_status_t st = TD_OK;
    for (; st == TD_OK && (quote == '"' || quote == '\''); quote = td_lex_peek(s)) {
        s->p++;
        st = literal(s, quote, out, err);
    }
    return st;
}

bool td_lex_integer(td_span_t w, uint64_t *out) {
    const char *p = (const char *)w.data, *end = p + w.size;
    int base = 10;
    if (w.size > 1 && p[0] == '0') {
        base = p[1] == 'x' || p[1] == 'X' ? 16 : 8;
        p += base == 16 ? 2 : 1;
    }
    uint64_t v = 0;
    if (p == end) return false;
    for (; p < end; p++) {
        int d = digit(*p, base);
        if (d < 0 || !td_mul_u64(v, (uint64_t)base, &v) || !td_add_u64(v, (uint64_t)d, &v)) return false;
    }
    *out = v;
    return true;
}

bool td_lex_float(td_span_t w, double *out, float *out_single) {
    char text[512], *end;
    if (!w.size || w.size >= sizeof text) return false;
    memcpy(text, w.data, w.size);
    size_t n = w.size;
    text[n] = '\0';
    bool word = isalpha((unsigned char)text[0]) != 0;
    if (word && strcasecmp(text, "inf") && strcasecmp(text, "infinity") && strcasecmp(text, "nan")) return false;
    bool hex = n > 1 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    if (!word && !hex && (text[n - 1] == 'f' || text[n - 1] == 'F')) text[--n] = '\0';
    if (hex) return false;
    *out = strtod(text, &end);
    if (!n || *end) return false;
    *out_single = strtof(text, NULL);
    return true;
}
