/* SPDX-License-Identifier: Apache-2.0 */
/* xla.HumanReadableAotExecutable: the outer message with its executable beside it instead of inside. */
#include <string.h>

#include "full.pb-c.h"
#include "proto/canonical.h"
#include "proto/text.h"
#include "proto/wire.h"

enum { OUTER = 1, EXECUTABLE = 2 }; /* fields of HumanReadableAotExecutable */
enum { SERIALIZED_EXECUTABLE = 1 }; /* of ExecutableAndOptionsProto */

static const char head[] = "# proto-file: xla/util/split_proto/human_readable_aot_executable.proto\n"
                           "# proto-message: xla.HumanReadableAotExecutable\n\n";

/* The first byte behind blanks and comments. */
static td_span_t past_comments(td_span_t b) {
    while (b.size) {
        size_t n = 1;
        if (*b.data == '#') {
            const uint8_t *nl = memchr(b.data, '\n', b.size);
            n = nl ? (size_t)(nl - b.data) : b.size;
        } else if (!strchr(" \t\r\n", *b.data) || !*b.data) {
            break;
        }
        b.data += n;
        b.size -= n;
    }
    return b;
}

bool td_text_is_artifact(td_span_t b) {
    static const char *const names[] = {"executable_and_options", "gpu_executable", "cpu_executable"};
    b = past_comments(b);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (b.size > n && memcmp(b.data, names[i], n) == 0 && b.data[n] && strchr(" \t\r\n#:{<", b.data[n]))
            return true;
    }
    return false;
}

static td_status_t put_len(td_buffer_t *out, uint32_t number, td_span_t bytes, td_err_t *err) {
    uint8_t b[20];
    size_t n = td_wire_put_varint(b, (uint64_t)number << 3 | TD_WIRE_LEN);
    n += td_wire_put_varint(b + n, bytes.size);
    td_status_t s = td_buffer_append(out, b, n, err);
    return s == TD_OK ? td_buffer_append(out, bytes.data, bytes.size, err) : s;
}

/* From the canonical HumanReadableAotExecutable to the plain outer message. */
static td_status_t assemble(td_span_t wire, td_buffer_t *out, td_err_t *err) {
    td_span_t outer = {0}, executable = {0};
    td_wire_field_t f;
    if (!td_wire_scan(wire, OUTER, &outer) || !td_wire_scan(wire, EXECUTABLE, &executable))
        return td_fail(err, TD_INTERNAL, "broken message from text");
    if (!executable.size) return td_fail(err, TD_MALFORMED, "the text holds no gpu_executable");
    td_status_t s = put_len(out, SERIALIZED_EXECUTABLE, executable, err);
    while (s == TD_OK && outer.size) {
        if (!td_wire_next(&outer, &f)) return td_fail(err, TD_INTERNAL, "broken message from text");
        if (f.number == SERIALIZED_EXECUTABLE)
            return td_fail(err, TD_UNSUPPORTED, "the text holds serialized_executable");
        s = td_buffer_append(out, f.whole.data, f.whole.size, err);
    }
    return s;
}

td_status_t td_text_read_artifact(td_span_t text, td_buffer_t *out, td_text_notes_t *notes, td_err_t *err) {
    const ProtobufCMessageDescriptor *desc = &full__human_readable_aot_executable__descriptor;
    td_buffer_t wire, canonical;
    td_buffer_init(&wire, out->alloc);
    td_buffer_init(&canonical, out->alloc);
    td_status_t s = td_text_read(desc, text, &wire, notes, err);
    /* One field may have come in several places; the readers of messages want it in one piece. */
    if (s == TD_OK) s = td_canonical(desc, td_buffer_span(&wire), &canonical, err);
    td_buffer_deinit(&wire);
    if (s == TD_OK) s = assemble(td_buffer_span(&canonical), out, err);
    td_buffer_deinit(&canonical);
    return s;
}

td_status_t td_text_print_artifact(td_span_t outer, td_span_t inner, td_rope_t *out, td_err_t *err) {
    td_rope_t wire;
    td_rope_init(&wire, out->own.alloc);
    td_rope_tag_len(&wire, OUTER, outer.size);
    td_rope_ref(&wire, outer);
    td_rope_tag_len(&wire, EXECUTABLE, inner.size);
    td_rope_ref(&wire, inner);
    td_buffer_t flat;
    td_buffer_init(&flat, out->own.alloc);
    td_status_t s = td_rope_status(&wire, err);
    if (s == TD_OK) s = td_buffer_reserve(&flat, (size_t)wire.size, err);
    if (s == TD_OK) {
        td_rope_gather(&wire, flat.data);
        flat.size = (size_t)wire.size;
        td_rope_copy(out, head, sizeof head - 1);
        s = td_text_print(&full__human_readable_aot_executable__descriptor, td_buffer_span(&flat), out, err);
    }
    td_buffer_deinit(&flat);
    td_rope_deinit(&wire);
    return s;
}
