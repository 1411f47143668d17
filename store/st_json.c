/* SPDX-License-Identifier: Apache-2.0 */
#include "store/st_json.h"

#include "base/limits.h"

/* What jansson takes for each mark outside strings, rounded up: an object with its first buckets, an array with its
 * first slots, a pair, a value. Strings and their reading: twice the text. */
enum { OBJECT_BYTES = 256, ARRAY_BYTES = 128, PAIR_BYTES = 96, VALUE_BYTES = 32 };

static uint64_t parsed_bytes(td_span_t text) {
    uint64_t n = 2 * (uint64_t)text.size;
    bool string = false;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        if (string) {
            if (c == '\\') i++;
            else if (c == '"') string = false;
            continue;
        }
        switch (c) {
        case '"': string = true; break;
        case '{': n += OBJECT_BYTES; break;
        case '[': n += ARRAY_BYTES; break;
        case ':': n += PAIR_BYTES; break;
        case ',': n += VALUE_BYTES; break;
        default: break;
        }
    }
    return n;
}

td_status_t td_st_json(td_span_t text, json_t **out, td_err_t *err) {
    if (text.size > TD_LIMIT_ST_HEADER_BYTES)
        return td_fail(err, TD_LIMIT, "%zu bytes of JSON are over %u MiB", text.size, TD_LIMIT_ST_HEADER_BYTES >> 20);
    uint64_t n = parsed_bytes(text);
    if (n > TD_LIMIT_ST_JSON_BYTES)
        return td_fail(err, TD_LIMIT, "%zu bytes of JSON would take %llu MiB of memory, over the limit of %llu MiB; "
                       "use several files", text.size, (unsigned long long)(n >> 20), TD_LIMIT_ST_JSON_BYTES >> 20);
    json_error_t je;
    *out = json_loadb((const char *)text.data, text.size, JSON_REJECT_DUPLICATES, &je);
    return *out ? TD_OK : td_fail_at(err, TD_MALFORMED, (uint64_t)je.position, "%s", je.text);
}
