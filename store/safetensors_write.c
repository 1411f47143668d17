/* SPDX-License-Identifier: Apache-2.0 */
/* The writer: header padded with spaces to 8 bytes, tensors in the order given. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "store/safetensors.h"

static json_t *tensor_json(const td_st_tensor_t *t, uint64_t at) {
    json_t *shape = json_array();
    for (uint32_t i = 0; i < t->rank; i++) json_array_append_new(shape, json_integer(t->dims[i]));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", t->dtype, "shape", shape, "data_offsets", (json_int_t)at,
                     (json_int_t)(at + t->bytes));
}

/* The header's text, malloc'ed; NULL when memory is gone. */
static char *make_header(const td_st_tensor_t *tensors, uint32_t n) {
    json_t *root = json_object();
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (json_object_set_new(root, tensors[i].name, tensor_json(&tensors[i], at)) < 0) {
            json_decref(root);
            return NULL;
        }
        at += tensors[i].bytes;
    }
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

static bool write_all(FILE *f, const char *header, const td_st_tensor_t *tensors, uint32_t n) {
    size_t len = strlen(header), padded = td_align_up(len, 8);
    uint8_t prefix[8];
    for (int i = 0; i < 8; i++) prefix[i] = (uint8_t)((uint64_t)padded >> (8 * i));
    bool ok = fwrite(prefix, 1, 8, f) == 8 && fwrite(header, 1, len, f) == len &&
              fwrite("        ", 1, padded - len, f) == padded - len;
    for (uint32_t i = 0; ok && i < n; i++)
        ok = !tensors[i].bytes || fwrite(tensors[i].data, 1, tensors[i].bytes, f) == tensors[i].bytes;
    return ok;
}

/* Into a special file (/dev/stdout) directly, else by rename. */
td_status_t td_st_write(const char *path, const td_st_tensor_t *tensors, uint32_t n, td_err_t *err) {
    char tmp[4096];
    bool direct = !strncmp(path, "/dev/", 5);
    int len = snprintf(tmp, sizeof tmp, direct ? "%s" : "%s.partial", path);
    if (len < 0 || (size_t)len >= sizeof tmp) return td_fail(err, TD_USAGE, "%.100s…: path too long", path);
    char *header = make_header(tensors, n);
    if (!header) return td_fail(err, TD_NOMEM, "%s: out of memory", path);
    FILE *f = fopen(tmp, "wb");
    bool ok = f && write_all(f, header, tensors, n);
    int e = errno;
    if (f && fclose(f) != 0 && ok) ok = false, e = errno;
    free(header);
    if (ok && !direct && rename(tmp, path) < 0) ok = false, e = errno;
    if (ok) return TD_OK;
    if (f && !direct) unlink(tmp);
    return td_fail(err, TD_IO, "%s: %s", path, strerror(e));
}
