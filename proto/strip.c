/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/strip.h"

#include <string.h>

#include "executable.pb-c.h"
#include "proto/edit.h"

static const td_strip_class_t classes[] = {
    {"hlo-metadata", "source lines and stack frames of the module's instructions"},
    {"debug", "allocation summary, simulator traces, profiles, original values"},
    {"asm", "assembly text of the whole module"},
};
enum { HLO_METADATA, DEBUG, ASM, CLASSES = sizeof classes / sizeof *classes };

static const struct {
    uint32_t class;
    const ProtobufCMessageDescriptor *message;
    const char *field;
} rows[] = {
    {HLO_METADATA, &xla__hlo_instruction_proto__descriptor, "metadata"},
    {HLO_METADATA, &xla__hlo_module_proto__descriptor, "stack_frame_index"},
    {DEBUG, &xla__gpu__gpu_executable_proto__descriptor, "buffer_allocations_debug_summary"},
    {DEBUG, &xla__buffer_assignment_proto__descriptor, "heap_simulator_traces"},
    {DEBUG, &xla__buffer_assignment_proto__descriptor, "peak_buffers"},
    {DEBUG, &xla__hlo_instruction_proto__descriptor, "statistics_viz"},
    {DEBUG, &xla__hlo_instruction_proto__descriptor, "original_value"},
    {DEBUG, &xla__hlo_module_proto__descriptor, "original_value_recovery_table"},
    {DEBUG, &xla__hlo_module_proto__descriptor, "profile_info"},
    {DEBUG, &xla__hlo_module_proto__descriptor, "debug_attributes"},
    {ASM, &xla__gpu__gpu_executable_proto__descriptor, "asm_text"},
};

/* The compiler's own reader demands a summary; one line is enough for it. */
static char stripped[] = "(stripped)\n";

uint32_t td_strip_class_count(void) {
    return CLASSES;
}
const td_strip_class_t *td_strip_class(uint32_t i) {
    return &classes[i];
}

td_status_t td_strip_parse(const char *list, uint32_t *out_mask, td_err_t *err) {
    uint32_t mask = 0;
    for (;;) {
        size_t n = strcspn(list, ",");
        uint32_t i = 0;
        while (i < CLASSES && !(strlen(classes[i].name) == n && !strncmp(classes[i].name, list, n))) i++;
        if (i < CLASSES) mask |= 1u << i;
        else if (n == 3 && !strncmp(list, "all", 3)) mask |= (1u << CLASSES) - 1;
        else return td_fail(err, TD_USAGE, "nothing to strip is called \"%.*s\"", n < 40 ? (int)n : 40, list);
        if (!list[n]) break;
        list += n + 1;
    }
    *out_mask = mask;
    return TD_OK;
}

typedef struct stripping {
    uint32_t class;
    uint64_t fields;
} stripping_t;

static td_status_t strip_message(void *ctx, ProtobufCMessage *m, td_err_t *err) {
    stripping_t *k = ctx;
    (void)err;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].class != k->class || rows[i].message != m->descriptor) continue;
        k->fields += td_edit_clear(m, protobuf_c_message_descriptor_get_field_by_name(m->descriptor, rows[i].field));
    }
    return TD_OK;
}

td_status_t td_strip(td_artifact_t *a, uint32_t i, td_strip_report_t *out, td_err_t *err) {
    stripping_t k = {.class = i};
    td_gpu_executable_msg_t *exe = (td_gpu_executable_msg_t *)(uintptr_t)a->exe; /* the artifact is the caller's */
    bool summary = exe->buffer_allocations_debug_summary && *exe->buffer_allocations_debug_summary;
    size_t before = protobuf_c_message_get_packed_size(&exe->base);
    td_status_t s = td_edit_each(&exe->base, strip_message, &k, err);
    if (i == DEBUG && summary) exe->buffer_allocations_debug_summary = stripped;
    size_t after = protobuf_c_message_get_packed_size(&exe->base);
    *out = (td_strip_report_t){.fields = k.fields, .bytes = before > after ? before - after : 0};
    return s;
}
