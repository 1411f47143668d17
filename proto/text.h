/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf's text format, read and printed by descriptor, between text and wire bytes.
 *
 * Reader: everything that protobuf's printers write and more (comments, <> and {}, lists, string concatenation, all
 * escapes, numbers of every base, enums by name and number, fields by number). Names that the schema does not know
 * are skipped with their values and counted, as are extension and Any names in brackets.
 * Printer: one field a line, two spaces a level, strings with octal escapes, floating point by as many
 * digits (6 to 9, 15 to 17) as read back equal. A NaN keeps its sign, not its payload: the format has no word for
 * it. Unknown fields are printed by number: varints in decimal, fixed ones in hexadecimal of 8 or 16 digits, bytes
 * as a string; the reader makes the same fields of them again.
 * Format: protobuf's text format specification. Thread: one. */
#ifndef TD_PROTO_TEXT_H
#define TD_PROTO_TEXT_H

#include <protobuf-c/protobuf-c.h>

#include "proto/codec.h"
#include "proto/rope.h"

enum { TD_TEXT_NAME_MAX = 64 };

typedef struct td_text_notes {
    uint32_t n_skipped;               /* names that no schema knows, repetitions counted */
    char first[TD_TEXT_NAME_MAX];     /* the first of them, cut if long */
    uint32_t first_line;
} td_text_notes_t;

/* Appends the wire bytes of the message in text to out. Errors say line and column. notes may be NULL. */
td_status_t td_text_read(const ProtobufCMessageDescriptor *desc, td_span_t text, td_buffer_t *out,
                         td_text_notes_t *notes, td_err_t *err);

/* Appends the message as text to out. TD_MALFORMED where the bytes do not fit the descriptor. */
td_status_t td_text_print(const ProtobufCMessageDescriptor *desc, td_span_t wire, td_rope_t *out, td_err_t *err);

/* ---- artifacts as text: xla.HumanReadableAotExecutable, field numbers as in its file ---- */

/* Could this be one? Looks past comments at the first field's name. */
bool td_text_is_artifact(td_span_t bytes);
/* Appends the wire bytes of a plain ExecutableAndOptionsProto with a plain executable inside. */
td_status_t td_text_read_artifact(td_span_t text, td_buffer_t *out, td_text_notes_t *notes, td_err_t *err);
/* From wire bytes of the outer message without its executable, and of the executable. */
td_status_t td_text_print_artifact(td_span_t outer, td_span_t inner, td_rope_t *out, td_err_t *err);

#endif
