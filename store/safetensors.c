/* SPDX-License-Identifier: Apache-2.0 */
/* The reader: header JSON to checked tensors, and what our types are called. */
#include "store/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/limits.h"
#include "store/st_json.h"

struct td_st {
    const td_alloc_t *alloc;
    td_arena_t arena;
    td_st_tensor_t *tensors; /* in the order of the data */
    const td_st_tensor_t **by_name;
    uint32_t n;
    td_span_t bytes;
    td_guard_t *map; /* of td_st_open_file, else NULL */
};

typedef struct dtype {
    const char *name;
    unsigned size;
} dtype_t;

static const dtype_t dtypes[] = {
    {"BOOL", 1}, {"I8", 1}, {"U8", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2}, {"BF16", 2}, {"I32", 4},
    {"U32", 4}, {"F32", 4}, {"I64", 8}, {"U64", 8}, {"F64", 8}, {"C64", 8}, {"C128", 16},
    {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}, {"F8_E4M3FNUZ", 1}, {"F8_E5M2FNUZ", 1},
};

static const dtype_t *dtype_find(const char *name) {
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtypes[i].name, name)) return &dtypes[i];
    return NULL;
}

const char *td_st_dtype(td_type_t t) {
    switch (t) {
    case TD_PRED: return "BOOL";
    case TD_S1: case TD_S2: case TD_S4: case TD_S8: return "I8";
    case TD_U1: case TD_U2: case TD_U4: case TD_U8: return "U8";
    case TD_S16: return "I16";
    case TD_U16: return "U16";
    case TD_S32: return "I32";
    case TD_U32: return "U32";
    case TD_S64: return "I64";
    case TD_U64: return "U64";
    case TD_F16: return "F16";
    case TD_BF16: return "BF16";
    case TD_F32: return "F32";
    case TD_F64: return "F64";
    case TD_C64: return "C64";
    case TD_C128: return "C128";
    case TD_F8E4M3FN: return "F8_E4M3";
    case TD_F8E5M2: return "F8_E5M2";
    case TD_F8E8M0FNU: return "F8_E8M0";
    case TD_F8E4M3FNUZ: return "F8_E4M3FNUZ";
    case TD_F8E5M2FNUZ: return "F8_E5M2FNUZ";
    /* no name in the format: the bits, one element per byte */
    case TD_F8E4M3: case TD_F8E3M4: case TD_F8E4M3B11FNUZ: case TD_F4E2M1FN: case TD_F6E3M2FN: case TD_F6E2M3FN:
        return "U8";
    default: return NULL;
    }
}

/* "F32[2,3]" into buf. */
static char *print_tensor(const td_st_tensor_t *t, char *buf, size_t size) {
    size_t n = (size_t)snprintf(buf, size, "%s[", t->dtype);
    for (uint32_t i = 0; i < t->rank && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%lld", i ? "," : "", (long long)t->dims[i]);
    if (n < size) snprintf(buf + n, size - n, "]");
    return buf;
}

td_status_t td_st_match(const td_st_tensor_t *t, const td_shape_t *s, td_err_t *err) {
    const char *want = td_st_dtype(s->type);
    bool same = want && !strcmp(want, t->dtype) && s->rank == t->rank;
    for (uint32_t i = 0; same && i < t->rank; i++) same = s->dims[i] == t->dims[i];
    if (same) return TD_OK;
    char have[160], need[160];
    return td_fail(err, TD_MISMATCH, "tensor is %s, the artifact wants %s (dtype %s)",
                   print_tensor(t, have, sizeof have), td_shape_print(s, false, need,
                                                                      sizeof need), want ? want : "none");
}

static bool get_u64(const json_t *v, uint64_t *out) {
    if (!json_is_integer(v) || json_integer_value(v) < 0) return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

/* dims and their product times the element size. */
static td_status_t parse_shape(td_st_t *st, const json_t *shape, unsigned elem, td_st_tensor_t *t, uint64_t *out_bytes,
                               td_err_t *err) {
    if (!json_is_array(shape)) return td_fail(err, TD_MALFORMED, "shape is not an array");
    size_t rank = json_array_size(shape);
    if (rank > TD_LIMIT_RANK) return td_fail(err, TD_LIMIT, "rank %zu is over %d", rank, TD_LIMIT_RANK);
    int64_t *dims = TD_NEW_N(&st->arena, int64_t, rank);
    if (!dims) return td_arena_fail(&st->arena, err);
    uint64_t bytes = elem;
    for (size_t i = 0; i < rank; i++) {
        uint64_t d;
        if (!get_u64(json_array_get(shape, i), &d))
            return td_fail(err, TD_MALFORMED, "shape[%zu] is not a size", i);
        if (!td_mul_u64(bytes, d, &bytes)) return td_fail(err, TD_MALFORMED, "shape overflows 64 bits");
        dims[i] = (int64_t)d;
    }
    t->dims = dims;
    t->rank = (uint32_t)rank;
    *out_bytes = bytes;
    return TD_OK;
}

static td_status_t parse_offsets(const json_t *off, uint64_t want, td_span_t data, td_st_tensor_t *t, td_err_t *err) {
    uint64_t begin, end;
    if (!json_is_array(off) || json_array_size(off) != 2 || !get_u64(json_array_get(off, 0), &begin) ||
        !get_u64(json_array_get(off, 1), &end))
        return td_fail(err, TD_MALFORMED, "data_offsets are not two offsets");
    if (begin > end || end > data.size)
        return td_fail(err, TD_MALFORMED, "data_offsets [%llu, %llu] are outside the %zu bytes of data",
                       (unsigned long long)begin, (unsigned long long)end, data.size);
    if (end - begin != want)
        return td_fail(err, TD_MALFORMED, "data_offsets span %llu bytes, dtype and shape make %llu",
                       (unsigned long long)(end - begin), (unsigned long long)want);
    t->data = data.data + begin;
    t->bytes = want;
    return TD_OK;
}

static td_status_t parse_tensor(td_st_t *st, const char *name, const json_t *v, td_span_t data, td_st_tensor_t *t,
                                td_err_t *err) {
    const char *key;
    json_t *x;
    if (!json_is_object(v)) return td_fail(err, TD_MALFORMED, "not an object");
    json_object_foreach((json_t *)v, key, x) {
        if (strcmp(key, "dtype") && strcmp(key, "shape") && strcmp(key, "data_offsets"))
            return td_fail(err, TD_MALFORMED, "unknown key %.40s", key);
    }
    const char *dt = json_string_value(json_object_get(v, "dtype"));
    if (!dt) return td_fail(err, TD_MALFORMED, "dtype is missing");
    const dtype_t *d = dtype_find(dt);
    if (!d) return td_fail(err, TD_UNSUPPORTED, "dtype %.40s", dt);
    t->dtype = d->name;
    t->name = td_arena_strndup(&st->arena, name, strlen(name));
    if (!t->name) return td_arena_fail(&st->arena, err);
    uint64_t bytes = 0;
    td_status_t s = parse_shape(st, json_object_get(v, "shape"), d->size, t, &bytes, err);
    if (s != TD_OK) return s;
    return parse_offsets(json_object_get(v, "data_offsets"), bytes, data, t, err);
}

static int by_data(const void *pa, const void *pb) {
    const td_st_tensor_t *a = pa, *b = pb;
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    if (x != y) return x < y ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1; /* empty ones first */
    return strcmp(a->name, b->name);
}

static int by_name(const void *pa, const void *pb) {
    const td_st_tensor_t *const *a = pa, *const *b = pb;
    return strcmp((*a)->name, (*b)->name);
}

/* Sorted tensors must tile the data. */
static td_status_t check_tiling(const td_st_t *st, td_span_t data, td_err_t *err) {
    const uint8_t *at = data.data;
    for (uint32_t i = 0; i < st->n; i++) {
        const td_st_tensor_t *t = &st->tensors[i];
        const uint8_t *p = t->data;
        if (p < at) return td_fail(err, TD_MALFORMED, "tensor %.100s overlaps the one before it", t->name);
        if (p > at)
            return td_fail(err, TD_MALFORMED, "hole of %zu bytes before tensor %.100s", (size_t)(p - at), t->name);
        at = p + t->bytes;
    }
    size_t left = (size_t)(data.data + data.size - at);
    if (left) return td_fail(err, TD_MALFORMED, "%zu bytes behind the last tensor", left);
    return TD_OK;
}

/* __metadata__ is a map from strings to strings; we check it and drop it. */
static td_status_t check_metadata(const json_t *m, td_err_t *err) {
    const char *key;
    json_t *v;
    if (!json_is_object(m)) return td_fail(err, TD_MALFORMED, "__metadata__ is not an object");
    json_object_foreach((json_t *)m, key, v) {
        if (!json_is_string(v)) return td_fail(err, TD_MALFORMED, "__metadata__.%.40s is not a string", key);
    }
    return TD_OK;
}

static td_status_t parse_header(td_st_t *st, const json_t *root, td_span_t data, td_err_t *err) {
    if (!json_is_object(root)) return td_fail(err, TD_MALFORMED, "header is not an object");
    st->tensors = TD_NEW_N(&st->arena, td_st_tensor_t, json_object_size(root));
    st->by_name = TD_NEW_N(&st->arena, const td_st_tensor_t *, json_object_size(root));
    if (!st->tensors || !st->by_name) return td_arena_fail(&st->arena, err);
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)root, name, v) {
        td_status_t s;
        if (!strcmp(name, "__metadata__"))
            s = check_metadata(v, err);
        else if ((s = parse_tensor(st, name, v, data, &st->tensors[st->n], err)) == TD_OK)
            st->n++;
        else
            td_prefix(err, s, "tensor %.100s", name);
        if (s != TD_OK) return s;
    }
    qsort(st->tensors, st->n, sizeof *st->tensors, by_data);
    for (uint32_t i = 0; i < st->n; i++) st->by_name[i] = &st->tensors[i];
    qsort(st->by_name, st->n, sizeof *st->by_name, by_name);
    return check_tiling(st, data, err);
}

static td_status_t parse(td_st_t *st, td_err_t *err) {
    td_span_t b = st->bytes;
    if (b.size < 8) return td_fail(err, TD_MALFORMED, "%zu bytes are too few for a safetensors file", b.size);
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--) n = n << 8 | b.data[i];
    if (n == 0) return td_fail(err, TD_MALFORMED, "header of 0 bytes; is the file not complete yet?");
    if (n > TD_LIMIT_ST_HEADER_BYTES)
        return td_fail(err, TD_LIMIT, "header of %llu bytes is over %u MiB", (unsigned long long)n,
                       TD_LIMIT_ST_HEADER_BYTES >> 20);
    if (n > b.size - 8)
        return td_fail(err, TD_MALFORMED, "header of %llu bytes in a file of %zu", (unsigned long long)n, b.size);
    json_t *root = NULL;
    td_status_t s = td_st_json((td_span_t){b.data + 8, (size_t)n}, &root, err);
    if (s != TD_OK) {
        if (err && err->offset) err->offset += 8;
        return td_prefix(err, s, "header");
    }
    s = parse_header(st, root, (td_span_t){b.data + 8 + n, b.size - 8 - (size_t)n}, err);
    json_decref(root);
    return s;
}

td_status_t td_st_open(td_span_t bytes, const td_alloc_t *alloc, td_st_t **out, td_err_t *err) {
    if (!alloc) alloc = td_alloc_default();
    td_st_t *st = alloc->get(alloc->ctx, sizeof *st, 16);
    if (!st) return td_fail(err, TD_NOMEM, "out of memory");
    *st = (td_st_t){.alloc = alloc, .bytes = bytes};
    td_arena_init(&st->arena, alloc, 0);
    td_status_t s = parse(st, err);
    if (s != TD_OK) {
        td_st_close(st);
        return s;
    }
    *out = st;
    return TD_OK;
}

td_status_t td_st_open_file(const char *path, const td_alloc_t *alloc, td_st_t **out, td_err_t *err) {
    td_guard_t *map = NULL;
    td_st_t *st = NULL;
    td_status_t s = td_guard_map(path, &map, err);
    if (s != TD_OK) return td_prefix(err, s, "%s", path);
    s = td_st_open(td_guard_bytes(map), alloc, &st, err);
    if (s != TD_OK) td_prefix(err, s, "%s", path);
    if (td_guard_faulted(map)) s = td_guard_check(map, err); /* the cause of whatever else */
    if (s != TD_OK) {
        td_st_close(st);
        td_guard_release(map);
        return s;
    }
    st->map = map;
    *out = st;
    return TD_OK;
}

void td_st_close(td_st_t *st) {
    if (!st) return;
    td_guard_release(st->map);
    td_arena_deinit(&st->arena);
    st->alloc->put(st->alloc->ctx, st, sizeof *st);
}

uint32_t td_st_count(const td_st_t *st) {
    return st->n;
}
const td_st_tensor_t *td_st_tensor(const td_st_t *st, uint32_t i) {
    return i < st->n ? &st->tensors[i] : NULL;
}
const td_st_tensor_t *td_st_find(const td_st_t *st, const char *name) {
    const td_st_tensor_t key = {.name = name}, *at = &key;
    const td_st_tensor_t **found = st->n ? bsearch(&at, st->by_name, st->n, sizeof *st->by_name, by_name) : NULL;
    return found ? *found : NULL;
}
td_guard_t *td_st_guard(const td_st_t *st) {
    return st->map;
}
uint64_t td_st_bytes(const td_st_t *st) {
    return st->bytes.size;
}
