/* SPDX-License-Identifier: Apache-2.0 */
#include "store/st_set.h"

#include <string.h>

#include "base/limits.h"
#include "store/st_json.h"

typedef struct file {
    const char *path;
    td_st_t *st;
} file_t;

struct td_st_set {
    const td_alloc_t *alloc;
    td_arena_t arena; /* paths */
    file_t files[TD_LIMIT_WEIGHT_FILES];
    uint32_t n;
};

td_status_t td_st_set_create(const td_alloc_t *alloc, td_st_set_t **out, td_err_t *err) {
    td_st_set_t *set = alloc->get(alloc->ctx, sizeof *set, 16);
    if (!set) return td_fail(err, TD_NOMEM, "out of memory");
    set->alloc = alloc;
    set->n = 0;
    td_arena_init(&set->arena, alloc, 0);
    *out = set;
    return TD_OK;
}

void td_st_set_destroy(td_st_set_t *set) {
    if (!set) return;
    for (uint32_t i = 0; i < set->n; i++) td_st_close(set->files[i].st);
    td_arena_deinit(&set->arena);
    set->alloc->put(set->alloc->ctx, set, sizeof *set);
}

bool td_st_plain_name(const char *name) {
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static td_status_t add_file(td_st_set_t *set, const char *path, td_err_t *err) {
    if (set->n == TD_LIMIT_WEIGHT_FILES)
        return td_fail(err, TD_LIMIT, "%s: more than %d files of weights", path, TD_LIMIT_WEIGHT_FILES);
    file_t f = {.path = td_arena_strndup(&set->arena, path, strlen(path))};
    if (!f.path) return td_arena_fail(&set->arena, err);
    td_status_t s = td_st_open_file(f.path, set->alloc, &f.st, err);
    if (s == TD_OK) set->files[set->n++] = f;
    return s;
}

/* ---- index ---- */

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The shard of this name among those from `first` on; n if it is not open. */
static uint32_t find_shard(const td_st_set_t *set, uint32_t first, const char *name) {
    uint32_t i = first;
    while (i < set->n && strcmp(file_name(set->files[i].path), name) != 0) i++;
    return i;
}

static td_status_t open_shard(td_st_set_t *set, const char *index, const char *name, td_err_t *err) {
    char *path = td_arena_printf(&set->arena, "%.*s%s", (int)(file_name(index) - index), index, name);
    return path ? add_file(set, path, err) : td_arena_fail(&set->arena, err);
}

/* Every tensor of the map is in its file. */
static td_status_t check_entry(td_st_set_t *set, uint32_t first, const char *index, const char *tensor,
                               const json_t *value, td_err_t *err) {
    const char *name = json_string_value(value);
    if (!name) return td_fail(err, TD_MALFORMED, "weight_map: the file of tensor %.100s is not a text", tensor);
    if (!td_st_plain_name(name))
        return td_fail(err, TD_MALFORMED, "weight_map: tensor %.100s is in \"%.100s\", which is no file name in this "
                       "folder", tensor, name);
    uint32_t i = find_shard(set, first, name);
    td_status_t s = i == set->n ? open_shard(set, index, name, err) : TD_OK;
    if (s != TD_OK) return td_prefix(err, s, "weight_map: tensor %.100s", tensor);
    if (td_st_find(set->files[i].st, tensor)) return TD_OK;
    return td_fail(err, TD_MISMATCH, "weight_map gives tensor %.100s to %.100s, which does not have it", tensor, name);
}

/* A shard has no other tensors than the map's. */
static td_status_t check_shard(const file_t *f, const json_t *map, td_err_t *err) {
    for (uint32_t i = 0; i < td_st_count(f->st); i++) {
        const char *tensor = td_st_tensor(f->st, i)->name, *own = file_name(f->path);
        const char *name = json_string_value(json_object_get(map, tensor));
        if (name && !strcmp(name, own)) continue;
        if (name)
            return td_fail(err, TD_MISMATCH, "weight_map gives tensor %.100s to %.100s, but %.100s has it too", tensor,
                           name, own);
        return td_fail(err, TD_MISMATCH, "%.100s has tensor %.100s, which is not in weight_map", own, tensor);
    }
    return TD_OK;
}

static td_status_t add_shards(td_st_set_t *set, const char *index, const json_t *root, td_err_t *err) {
    const json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map)) return td_fail(err, TD_MALFORMED, "no weight_map: {tensor: file}");
    uint32_t first = set->n;
    const char *tensor;
    json_t *value;
    json_object_foreach((json_t *)map, tensor, value) {
        td_status_t s = check_entry(set, first, index, tensor, value, err);
        if (s != TD_OK) return s;
    }
    td_status_t s = TD_OK;
    for (uint32_t i = first; s == TD_OK && i < set->n; i++) s = check_shard(&set->files[i], map, err);
    return s;
}

static td_status_t add_index(td_st_set_t *set, const char *path, td_err_t *err) {
    td_guard_t *g = NULL;
    json_t *root = NULL;
    td_status_t s = td_guard_map(path, &g, err);
    if (s == TD_OK) s = td_st_json(td_guard_bytes(g), &root, err);
    if (s == TD_OK) s = add_shards(set, path, root, err);
    if (s != TD_OK) td_prefix(err, s, "%s", path);
    if (g && td_guard_faulted(g)) s = td_guard_check(g, err);
    json_decref(root);
    td_guard_release(g);
    return s;
}

td_status_t td_st_set_add(td_st_set_t *set, const char *path, td_err_t *err) {
    static const char end[] = ".index.json";
    size_t n = strlen(path), m = sizeof end - 1;
    return n > m && !strcmp(path + n - m, end) ? add_index(set, path, err) : add_file(set, path, err);
}

/* ---- look-up ---- */

uint32_t td_st_set_count(const td_st_set_t *set) {
    return set->n;
}
const td_st_t *td_st_set_file(const td_st_set_t *set, uint32_t i) {
    return set->files[i].st;
}
const char *td_st_set_path(const td_st_set_t *set, uint32_t i) {
    return set->files[i].path;
}

td_status_t td_st_set_find(const td_st_set_t *set, const char *name, const td_st_tensor_t **out, uint32_t *out_file,
                           td_err_t *err) {
    *out = NULL;
    for (uint32_t i = 0; i < set->n; i++) {
        const td_st_tensor_t *t = td_st_find(set->files[i].st, name);
        if (t && *out)
            return td_fail(err, TD_MISMATCH, "tensor %.100s is in both %s and %s", name, set->files[*out_file].path,
                           set->files[i].path);
        if (t) *out = t, *out_file = i;
    }
    return TD_OK;
}
