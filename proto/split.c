/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/split.h"

#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "proto/riegeli.h"
#include "proto/wire.h"

/* Field numbers of xla/util/split_proto/split_proto.proto. */
enum {
    MANIFEST_TYPE = 1, MANIFEST_RECORDS = 2,
    RECORD_MERGE = 2, RECORD_OVERRIDE = 3,
    OVERRIDE_PATH = 1, OVERRIDE_TYPE = 2, OVERRIDE_TYPE_STRING = 1,
    PART_NUMBER = 1,
};

typedef struct reading {
    td_split_t *split;
    td_buffer_t manifest; /* a copy: the record is gone when the others come */
    td_span_t todo;       /* manifest entries not yet consumed */
    uint64_t n_described;
} reading_t;

/* What one manifest entry says. field 0: merge; skip: a kind this reader does not know. */
typedef struct plan {
    uint32_t field;
    bool skip;
} plan_t;

static td_status_t override_plan(td_span_t in, plan_t *p, td_err_t *err) {
    td_wire_field_t f, g;
    uint64_t parts = 0, number = 0, type = 0;
    while (in.size) {
        if (!td_wire_next(&in, &f)) return td_fail(err, TD_MALFORMED, "broken override record");
        if (f.number == OVERRIDE_TYPE && f.type == TD_WIRE_VARINT) type = f.value;
        if (f.number != OVERRIDE_PATH || f.type != TD_WIRE_LEN) continue;
        parts++;
        for (td_span_t part = f.bytes; part.size;) {
            if (!td_wire_next(&part, &g)) return td_fail(err, TD_MALFORMED, "broken path in an override record");
            if (g.number == PART_NUMBER && g.type == TD_WIRE_VARINT) number = g.value;
            else return td_fail(err, TD_UNSUPPORTED, "override of a repeated field or map entry");
        }
    }
    if (parts == 0) return td_fail(err, TD_MALFORMED, "override record without a path");
    if (parts > 1) return td_fail(err, TD_UNSUPPORTED, "override path of %" PRIu64 " parts, 1 is supported", parts);
    if (type != OVERRIDE_TYPE_STRING) return td_fail(err, TD_UNSUPPORTED, "override of field type %" PRIu64, type);
    if (number == 0 || number > 0x1fffffff) return td_fail(err, TD_MALFORMED, "override of field number %" PRIu64, number);
    p->field = (uint32_t)number;
    return TD_OK;
}

static td_status_t next_plan(reading_t *r, bool *have, plan_t *p, td_err_t *err) {
    td_wire_field_t f, g;
    *p = (plan_t){.skip = true};
    *have = false;
    while (r->todo.size) {
        if (!td_wire_next(&r->todo, &f)) return td_fail(err, TD_MALFORMED, "broken manifest");
        if (f.number != MANIFEST_RECORDS || f.type != TD_WIRE_LEN) continue;
        *have = true;
        for (td_span_t rec = f.bytes; rec.size;) {
            if (!td_wire_next(&rec, &g)) return td_fail(err, TD_MALFORMED, "broken manifest record");
            if (g.type != TD_WIRE_LEN) continue;
            if (g.number == RECORD_MERGE) *p = (plan_t){0};
            if (g.number != RECORD_OVERRIDE) continue;
            *p = (plan_t){0};
            td_status_t s = override_plan(g.bytes, p, err);
            if (s != TD_OK) return s;
        }
        return TD_OK;
    }
    return TD_OK;
}

static td_status_t manifest(reading_t *r, td_span_t record, td_err_t *err) {
    td_span_t type;
    if (!td_wire_scan(record, MANIFEST_TYPE, &type)) return td_fail(err, TD_MALFORMED, "record 0 is no manifest");
    if (type.size == 0 || type.size >= sizeof r->split->type || memchr(type.data, 0, type.size))
        return td_fail(err, TD_MALFORMED, "manifest names no message type");
    memcpy(r->split->type, type.data, type.size);
    r->split->type[type.size] = '\0';
    td_status_t s = td_buffer_append(&r->manifest, record.data, record.size, err);
    r->todo = td_buffer_span(&r->manifest);
    return s;
}

static td_status_t apply(reading_t *r, const plan_t *p, td_span_t record, td_err_t *err) {
    td_buffer_t *out = &r->split->wire;
    if (p->skip) return TD_OK;
    if (out->size + record.size > TD_LIMIT_ARTIFACT_BYTES)
        return td_fail(err, TD_LIMIT, "message larger than %llu bytes", TD_LIMIT_ARTIFACT_BYTES);
    if (p->field) {
        uint8_t head[20];
        size_t n = td_wire_put_varint(head, (uint64_t)p->field << 3 | TD_WIRE_LEN);
        n += td_wire_put_varint(head + n, record.size);
        td_status_t s = td_buffer_append(out, head, n, err);
        if (s != TD_OK) return s;
    } else if (!td_wire_scan(record, 0, NULL)) {
        return td_fail(err, TD_MALFORMED, "merge record is no message");
    }
    return td_buffer_append(out, record.data, record.size, err);
}

static td_status_t on_record(void *ctx, uint64_t index, td_span_t record, bool *done, td_err_t *err) {
    reading_t *r = ctx;
    (void)done;
    if (index == 0) return manifest(r, record, err);
    bool have;
    plan_t p;
    td_status_t s = next_plan(r, &have, &p, err);
    if (s == TD_OK && have) s = apply(r, &p, record, err); /* records the manifest does not describe are ignored */
    return s == TD_OK ? s : td_prefix(err, s, "record %" PRIu64, index);
}

td_status_t td_split_read(td_span_t file, const td_alloc_t *alloc, td_split_t *out, td_err_t *err) {
    *out = (td_split_t){0};
    td_buffer_init(&out->wire, alloc);
    reading_t r = {.split = out};
    td_buffer_init(&r.manifest, alloc);
    td_status_t s = td_riegeli_read(file, alloc, on_record, &r, &out->compression, err);
    if (s == TD_OK && !out->type[0]) s = td_fail(err, TD_MALFORMED, "Riegeli file without a manifest record");
    bool have = false;
    plan_t p;
    if (s == TD_OK) s = next_plan(&r, &have, &p, err);
    if (s == TD_OK && have) s = td_fail(err, TD_MALFORMED, "the manifest describes more records than the file holds");
    td_buffer_deinit(&r.manifest);
    return s;
}

void td_split_deinit(td_split_t *s) {
    td_buffer_deinit(&s->wire);
}
