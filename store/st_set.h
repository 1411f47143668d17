/* SPDX-License-Identifier: Apache-2.0 */
/* Several safetensors files as one: given one by one, or as the shards of an index.
 *
 * An index is a JSON file, {"metadata": …, "weight_map": {tensor: file}}, as model hubs have it
 * (model.safetensors.index.json). Its files are plain names beside it, and shards and map must agree: every tensor of
 * the map is in the file that it names, and a shard has no tensor that the map does not give to it.
 * Thread: one while files are added, then any. */
#ifndef TD_STORE_ST_SET_H
#define TD_STORE_ST_SET_H

#include "store/safetensors.h"

typedef struct td_st_set td_st_set_t;

td_status_t td_st_set_create(const td_alloc_t *alloc, td_st_set_t **out, td_err_t *err);
void td_st_set_destroy(td_st_set_t *set); /* NULL is fine */
/* A safetensors file, or, when the name ends in ".index.json", an index and all its shards. Every error has the path.
 * After an error the set can only be destroyed. */
td_status_t td_st_set_add(td_st_set_t *set, const char *path, td_err_t *err);

uint32_t td_st_set_count(const td_st_set_t *set); /* files; an index is none */
const td_st_t *td_st_set_file(const td_st_set_t *set, uint32_t i);
const char *td_st_set_path(const td_st_set_t *set, uint32_t i);

/* The only tensor of this name; *out is NULL when there is none. TD_MISMATCH when several files have it. */
td_status_t td_st_set_find(const td_st_set_t *set, const char *name, const td_st_tensor_t **out, uint32_t *out_file,
                           td_err_t *err);

/* Is this a name in a folder and not a way to elsewhere: not empty, no '/', not "." or ".."? */
bool td_st_plain_name(const char *name);

#endif
