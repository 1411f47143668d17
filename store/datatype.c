/* SPDX-License-Identifier: Apache-2.0 */
/* What the Open Inference Protocol calls our types. */
#include <string.h>

#include "store/safetensors.h"
#include "store/store.h"

const char *td_datatype_name(td_type_t t) {
    static const char *const names[][2] = {
        {"BOOL", "BOOL"}, {"I8", "INT8"}, {"U8", "UINT8"}, {"I16", "INT16"}, {"U16", "UINT16"}, {"I32", "INT32"},
        {"U32", "UINT32"}, {"I64", "INT64"}, {"U64", "UINT64"}, {"F16", "FP16"}, {"F32", "FP32"}, {"F64", "FP64"},
    };
    const char *dtype = td_st_dtype(t);
    if (!dtype) return "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i][0], dtype)) return names[i][1];
    return dtype; /* BF16 is the same in both; the protocol lacks the others */
}
