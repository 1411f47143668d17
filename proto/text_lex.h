/* SPDX-License-Identifier: Apache-2.0 */
/* Words of protobuf's text format: blanks and comments skipped, positions kept. Used by proto/text_read.c only. */
#ifndef TD_PROTO_TEXT_LEX_H
#define TD_PROTO_TEXT_LEX_H

#include "proto/codec.h"

typedef struct td_scan {
    const char *p, *end, *line_start;
    uint32_t line; /* from 1 */
} td_lex_t;

void td_lex_init(td_lex_t *s, td_span_t text);
/* The next character that means something, without taking it; 0 at the end. */
char td_lex_peek(td_lex_t *s);
/* Takes c if it comes next. */
bool td_lex_take(td_lex_t *s, char c);
/* Takes a word of letters, digits and '_' (with '.', '-' and '+' inside when number), empty if there is none. */
td_span_t td_lex_word(td_lex_t *s, bool number);
/* Takes one or more string literals and appends their bytes to out. */
td_status_t td_lex_string(td_lex_t *s, td_buffer_t *out, td_err_t *err);
/* "line 3, column 14: " and the rest, as TD_MALFORMED. */
td_status_t td_lex_fail(const td_lex_t *s, td_err_t *err, const char *fmt, ...) TD_PRINTF(3, 4);

/* Does a word name a number of its kind? Decimal, 0x…, 0… for integers; anything strtod reads for floats. */
bool td_lex_integer(td_span_t word, uint64_t *out);
bool td_lex_float(td_span_t word, double *out, float *out_single);

#endif
