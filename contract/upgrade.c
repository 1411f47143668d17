/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/upgrade.h"

#include <inttypes.h>
#include <string.h>

#include "contract/ignorable.h"
#include "contract/scan.h"
#include "executable.pb-c.h"
#include "proto/edit.h"
#include "proto/wire.h"

typedef struct upgrading {
    td_artifact_t *a;
    int target; /* index of the release */
    uint32_t changed, dropped;
} upgrading_t;

/* Facts about the releases: reference of the contract's window and of what each compiler writes. */
enum {
    OPTION_UPDATE_MODE = 469,  /* DebugOptions.xla_gpu_command_buffer_update_mode */
    OPTION_SINCE_0_11_1 = 532, /* stands in the options of 0.11.1 and later, and of none before */
};
static const char summary[] = "(not written by the compiler)\n";

static bool at_least(const upgrading_t *u, const char *release) {
    return u->target >= td_ledger_release(release);
}

/* ---- rows on one message at a time ---- */

static td_status_t comparison_order(void *ctx, ProtobufCMessage *m, td_err_t *err) {
    static const struct {
        const char *type, *order;
    } words[] = {{"SIGNED", "TOTAL"},
                 {"UNSIGNED", "TOTAL"},
                 {"FLOAT", "PARTIAL"},
                 {"TOTALORDER", "TOTAL"},
                 {"WEAKORDER", "WEAK"}};
    upgrading_t *u = ctx;
    Xla__HloInstructionProto *in = (Xla__HloInstructionProto *)m;
    if (m->descriptor != &xla__hlo_instruction_proto__descriptor || !in->comparison_type || !*in->comparison_type)
        return TD_OK;
    for (size_t i = 0; i < sizeof words / sizeof *words && !(in->comparison_order && *in->comparison_order); i++)
        if (!strcmp(in->comparison_type, words[i].type)) {
            in->comparison_order = td_arena_strndup(&u->a->arena, words[i].order, strlen(words[i].order));
            if (!in->comparison_order) return td_arena_fail(&u->a->arena, err);
        }
    if (!in->comparison_order || !*in->comparison_order)
        return td_fail(err, TD_UNSUPPORTED, "%s: comparison_type \"%s\" has no order", in->name ? in->name : "?",
                       in->comparison_type);
    if (at_least(u, "0.12.0.1")) in->comparison_type = NULL; /* 0.11.2 writes both */
    u->changed++;
    return TD_OK;
}

static td_status_t linear_offsets(void *ctx, ProtobufCMessage *m, td_err_t *err) {
    upgrading_t *u = ctx;
    Xla__Gpu__DynamicSliceConfig *c = (Xla__Gpu__DynamicSliceConfig *)m;
    if (m->descriptor != &xla__gpu__dynamic_slice_config__descriptor || c->offsets_case) return TD_OK;
    Xla__Gpu__DynamicSliceConfig__Linear *l = TD_NEW(&u->a->arena, Xla__Gpu__DynamicSliceConfig__Linear);
    if (!l) return td_arena_fail(&u->a->arena, err);
    xla__gpu__dynamic_slice_config__linear__init(l);
    l->has_byte_offset = c->has_byte_offset, l->byte_offset = c->byte_offset;
    l->has_byte_stride = c->has_byte_stride, l->byte_stride = c->byte_stride;
    c->offsets_case = XLA__GPU__DYNAMIC_SLICE_CONFIG__OFFSETS_LINEAR; /* the former fields stay beside it */
    c->linear = l;
    u->changed++;
    return TD_OK;
}

static td_status_t all_reduce_kernel(void *ctx, ProtobufCMessage *m, td_err_t *err) {
    upgrading_t *u = ctx;
    (void)err;
    if (m->descriptor != &xla__gpu__all_reduce_thunk_proto__descriptor) return TD_OK;
    size_t n = 0;
    for (unsigned i = 0; i < m->descriptor->n_fields; i++)
        if (m->descriptor->fields[i].id >= 5 && m->descriptor->fields[i].id <= 12)
            n += td_edit_clear(m, &m->descriptor->fields[i]);
    u->changed += n > 0;
    return TD_OK;
}

/* Kernels with a spec of their arguments need neither kind nor multimem flag. */
static td_status_t collective_kernel(void *ctx, ProtobufCMessage *m, td_err_t *err) {
    upgrading_t *u = ctx;
    Xla__Gpu__CollectiveKernelThunkProto *k = (Xla__Gpu__CollectiveKernelThunkProto *)m;
    if (m->descriptor != &xla__gpu__collective_kernel_thunk_proto__descriptor) return TD_OK;
    if (!k->kernel_spec)
        return td_fail(err, TD_UNSUPPORTED,
                       "collective_kernel_thunk \"%s\" has no kernel_spec: its arguments depend on the release",
                       k->kernel_name ? k->kernel_name : "");
    u->changed += k->has_reduction_kind || k->has_is_multimem_enabled;
    k->has_reduction_kind = k->has_is_multimem_enabled = 0;
    return TD_OK;
}

static bool has_field(ProtobufCBinaryData d, uint32_t number) {
    td_span_t in = {d.data, d.len};
    td_wire_field_t f;
    while (in.size && td_wire_next(&in, &f))
        if (f.number == number) return true;
    return false;
}

static Xla__HloModuleConfigProto *module_config(const td_artifact_t *a) {
    return a->exe->hlo_module_with_config ? a->exe->hlo_module_with_config->config : NULL;
}

/* Up to 0.11.0 the fallback was always allowed and no field said so. */
static td_status_t ragged_fallback(void *ctx, ProtobufCMessage *m, td_err_t *err) {
    upgrading_t *u = ctx;
    Xla__Gpu__RaggedAllToAllThunkProto *r = (Xla__Gpu__RaggedAllToAllThunkProto *)m;
    const Xla__HloModuleConfigProto *c = module_config(u->a);
    (void)err;
    if (m->descriptor != &xla__gpu__ragged_all_to_all_thunk_proto__descriptor || r->has_allow_fallback_to_nccl)
        return TD_OK;
    if (c && c->has_debug_options && has_field(c->debug_options, OPTION_SINCE_0_11_1)) return TD_OK;
    r->has_allow_fallback_to_nccl = r->allow_fallback_to_nccl = 1;
    u->changed++;
    return TD_OK;
}

/* ---- rows on the whole ---- */

/* Values 1 and 2 meant other things up to 0.10.2, which wrote no summary; updating always is right for both. */
static td_status_t update_mode(upgrading_t *u, protobuf_c_boolean has, ProtobufCBinaryData *d, td_err_t *err) {
    if (!has || u->a->exe->buffer_allocations_debug_summary || !has_field(*d, OPTION_UPDATE_MODE)) return TD_OK;
    uint8_t *p = td_arena_zalloc(&u->a->arena, d->len);
    if (!p) return td_arena_fail(&u->a->arena, err);
    td_span_t in = {d->data, d->len};
    td_wire_field_t f;
    size_t n = 0;
    while (in.size) {
        if (!td_wire_next(&in, &f)) return td_fail(err, TD_MALFORMED, "broken field in debug_options");
        if (f.number == OPTION_UPDATE_MODE) continue;
        memcpy(p + n, f.whole.data, f.whole.size);
        n += f.whole.size;
    }
    *d = (ProtobufCBinaryData){.len = n, .data = p};
    u->changed++;
    return TD_OK;
}
static td_status_t update_modes(upgrading_t *u, td_err_t *err) {
    Xla__HloModuleConfigProto *c = module_config(u->a);
    Xla__ExecutableBuildOptionsProto *b = u->a->options ? u->a->options->executable_build_options : NULL;
    td_status_t s = c ? update_mode(u, c->has_debug_options, &c->debug_options, err) : TD_OK;
    return s == TD_OK && b ? update_mode(u, b->has_debug_options, &b->debug_options, err) : s;
}

static td_status_t debug_summary(upgrading_t *u, td_err_t *err) {
    td_gpu_executable_msg_t *exe = (td_gpu_executable_msg_t *)(uintptr_t)u->a->exe;
    if (exe->buffer_allocations_debug_summary && *exe->buffer_allocations_debug_summary) return TD_OK;
    exe->buffer_allocations_debug_summary = td_arena_strndup(&u->a->arena, summary, sizeof summary - 1);
    u->changed++;
    return exe->buffer_allocations_debug_summary ? TD_OK : td_arena_fail(&u->a->arena, err);
}

static const struct {
    td_upgrade_t row;
    td_edit_fn each;
    td_status_t (*whole)(upgrading_t *u, td_err_t *err);
} rows[] = {
    {{"update-mode", "command_buffer_update_mode of the former numbering is left out: always update", "0.11.0"},
     NULL,
     update_modes},
    {{"debug-summary", "buffer_allocations_debug_summary, which readers demand, is put in", "0.11.0"},
     NULL,
     debug_summary},
    {{"all-reduce-kernel", "the kernel that may replace an all-reduce is left out", "0.11.0"}, all_reduce_kernel, NULL},
    {{"collective-kernel", "kind and multimem flag of kernels with a spec are left out", "0.11.0"},
     collective_kernel,
     NULL},
    {{"ragged-fallback", "allow_fallback_to_nccl is set where it was understood", "0.11.1"}, ragged_fallback, NULL},
    {{"comparison-order", "comparison_type becomes comparison_order", "0.11.2"}, comparison_order, NULL},
    {{"linear-offsets", "a slice's offset and stride stand in linear, too", "0.12.0.1"}, linear_offsets, NULL},
};
enum { ROWS = sizeof rows / sizeof *rows };
_Static_assert((int)ROWS <= (int)TD_UPGRADES_MAX, "a report has a counter per row");

uint32_t td_upgrade_count(void) {
    return ROWS;
}
const td_upgrade_t *td_upgrade_row(uint32_t i) {
    return &rows[i].row;
}

/* ---- what is left ---- */

static bool always_ignorable(const char *message, const char *field) {
    size_t n = strlen(message);
    for (uint32_t i = 0; i < td_ignorable_count; i++) {
        const char *name = td_ignorables[i].field;
        if (td_ignorables[i].when == TD_IGNORE_ALWAYS && !strncmp(name, message, n) && name[n] == '.' &&
            !strcmp(name + n + 1, field))
            return true;
    }
    return false;
}

/* Drops fields that the target's schema lacks and whose reader loses nothing. */
static td_status_t drop_removed(void *ctx, ProtobufCMessage *m, td_err_t *err) {
    upgrading_t *u = ctx;
    (void)err;
    const td_ledger_type_t *type = td_ledger_type(m->descriptor->name);
    for (unsigned i = 0; type && i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        if (!td_edit_count(m, f)) continue;
        const td_ledger_item_t *item = td_ledger_find(type, f->id);
        if (item && item->last >= 0 && item->last < u->target && always_ignorable(type->name, f->name))
            u->dropped += (uint32_t)td_edit_clear(m, f);
    }
    return TD_OK;
}

/* Everything that is still needed has to be in the target's schema. */
static td_status_t check_left(const upgrading_t *u, const char *release, td_err_t *err) {
    td_scan_t scan;
    td_status_t s = td_scan_artifact(u->a, NULL, 0, u->a->arena.alloc, &scan, err);
    if (s != TD_OK) return s;
    for (uint32_t i = 0; s == TD_OK && i < td_ledger_item_count; i++) {
        const td_ledger_item_t *item = &td_ledger_items[i];
        if (!scan.found[i].count || !scan.found[i].needed || item->first < 0) continue;
        const char *owner = td_ledger_owner(item)->name;
        if (item->last < u->target)
            s = td_fail(err, TD_UNSUPPORTED,
                        "%s: %s.%s ended with release %s, and no form of release %s means the same", scan.found[i].path,
                        owner, item->name, td_ledger_releases[item->last].name, release);
        else if (item->first > u->target)
            s = td_fail(err, TD_UNSUPPORTED, "%s: %s.%s came with release %s only", scan.found[i].path, owner,
                        item->name, td_ledger_releases[item->first].name);
    }
    for (uint32_t i = 0; s == TD_OK && i < scan.n_unknown; i++)
        if (scan.unknown[i].needed)
            s = td_fail(err, TD_UNSUPPORTED, "%s: unknown number %" PRId64 " in %s", scan.unknown[i].path,
                        scan.unknown[i].number, scan.unknown[i].type_name);
    td_scan_deinit(&scan);
    return s;
}

td_status_t td_upgrade_artifact(td_artifact_t *a, const char *release, td_upgrade_report_t *out, td_err_t *err) {
    upgrading_t u = {.a = a, .target = td_ledger_release(release)};
    *out = (td_upgrade_report_t){0};
    if (!strcmp(release, "0.12.0")) u.target = td_ledger_release("0.12.0.1"); /* the same schema */
    if (u.target < 0)
        return td_fail(err, TD_USAGE, "no release \"%.32s\"; the newest known is %s", release,
                       td_ledger_releases[td_ledger_release_count - 1].name);
    if (!at_least(&u, "0.10.1"))
        return td_fail(err, TD_UNSUPPORTED, "release %s loads no artifacts with thunks", release);
    if (!a->exe->n_thunks)
        return td_fail(err, TD_UNSUPPORTED,
                       "the artifact holds no thunks; only a compiler can make them from its module");
    a->arena.budget_bytes = SIZE_MAX;
    ProtobufCMessage *exe = (ProtobufCMessage *)(uintptr_t)&a->exe->base;
    td_status_t s = TD_OK;
    for (uint32_t i = 0; s == TD_OK && i < ROWS; i++) {
        if (!at_least(&u, rows[i].row.since)) continue;
        u.changed = 0;
        s = rows[i].each ? td_edit_each(exe, rows[i].each, &u, err) : rows[i].whole(&u, err);
        out->applied[i] = u.changed;
    }
    if (s == TD_OK) s = td_edit_each(exe, drop_removed, &u, err);
    out->n_dropped = u.dropped;
    return s == TD_OK ? check_left(&u, release, err) : s;
}
