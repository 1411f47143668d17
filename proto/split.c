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
    const td_split_sink_t *sink;
    td_buffer_t manifest;
    td_span_t todo; /* manifest entries not yet consumed */
    uint64_t bytes; /* of all parts so far */
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
    if (number == 0 || number > 0x1fffffff)
        return td_fail(err, TD_MALFORMED, "override of field number %" PRIu64, number);
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

static td_status_t manifest(reading_t *r, td_feed_t *record, td_err_t *err) {
    td_span_t type;
    char name[TD_SPLIT_TYPE_MAX];
    if (record->end > TD_LIMIT_MANIFEST_BYTES)
        return td_fail(err, TD_LIMIT, "manifest of %" PRIu64 " bytes, at most %u", record->end,
                       TD_LIMIT_MANIFEST_BYTES);
    td_status_t s = td_buffer_append_feed(&r->manifest, record, record->end, err);
    if (s != TD_OK) return s;
    r->todo = td_buffer_span(&r->manifest);
    if (!td_wire_scan(r->todo, MANIFEST_TYPE, &type)) return td_fail(err, TD_MALFORMED, "record 0 is no manifest");
    if (type.size == 0 || type.size >= sizeof name || memchr(type.data, 0, type.size))
        return td_fail(err, TD_MALFORMED, "manifest names no message type");
    memcpy(name, type.data, type.size);
    name[type.size] = '\0';
    return r->sink->type(r->sink->ctx, name, err);
}

static td_status_t part(reading_t *r, td_feed_t *record, td_err_t *err) {
    bool have = false;
    plan_t p;
    td_status_t s = next_plan(r, &have, &p, err);
    if (s != TD_OK || !have || p.skip) return s; /* records the manifest does not describe are ignored */
    r->bytes += record->end;
    if (r->bytes > TD_LIMIT_ARTIFACT_BYTES)
        return td_fail(err, TD_LIMIT, "message larger than %llu bytes", TD_LIMIT_ARTIFACT_BYTES);
    return r->sink->part(r->sink->ctx, p.field, record, err);
}

static td_status_t read_records(reading_t *r, td_records_t *records, td_err_t *err) {
    td_feed_t *record = NULL;
    for (;;) {
        td_status_t s = td_records_next(records, &record, err);
        if (s != TD_OK || !record) return s;
        uint64_t i = records->index - 1;
        s = i ? part(r, record, err) : manifest(r, record, err);
        if (s != TD_OK) return td_records_blame(records, i ? td_prefix(err, s, "record %" PRIu64, i) : s, err);
    }
}

td_status_t td_split_read(td_feed_t *file, td_feed_env_t *env, const td_split_sink_t *sink, char *out_compression,
                          td_err_t *err) {
    td_records_t records;
    reading_t r = {.sink = sink};
    td_records_open(&records, file, env);
    td_buffer_init(&r.manifest, env->alloc);
    td_status_t s = read_records(&r, &records, err);
    if (s == TD_OK && !records.index) s = td_fail(err, TD_MALFORMED, "Riegeli file without a manifest record");
    bool have = false;
    plan_t p;
    if (s == TD_OK) s = next_plan(&r, &have, &p, err);
    if (s == TD_OK && have) s = td_fail(err, TD_MALFORMED, "the manifest describes more records than the file holds");
    *out_compression = records.compression;
    td_buffer_deinit(&r.manifest);
    td_records_close(&records);
    return s;
}
