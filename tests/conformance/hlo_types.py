# SPDX-License-Identifier: Apache-2.0
"""Element types of the conformance cases: XLA's numbers, numpy's dtypes, how a literal holds them.

XLA's names and numbers are those of PrimitiveType in proto/schema/xla_data.proto.
"""

import json
import struct

import ml_dtypes as ml
import numpy as np

# name: (numpy dtype, name in safetensors, field of LiteralProto, bits if packed)
TYPES = {
    "pred": (np.bool_, "BOOL", "preds"),
    "s2": (ml.int2, "I8", "s2s", 2),
    "u2": (ml.uint2, "U8", "u2s", 2),
    "s4": (ml.int4, "I8", "s4s", 4),
    "u4": (ml.uint4, "U8", "u4s", 4),
    "s8": (np.int8, "I8", "s8s"),
    "u8": (np.uint8, "U8", "u8s"),
    "s16": (np.int16, "I16", "s16s"),
    "u16": (np.uint16, "U16", "u16s"),
    "s32": (np.int32, "I32", "s32s"),
    "u32": (np.uint32, "U32", "u32s"),
    "s64": (np.int64, "I64", "s64s"),
    "u64": (np.uint64, "U64", "u64s"),
    "f8e4m3fn": (ml.float8_e4m3fn, "F8_E4M3", "f8e4m3fns"),
    "f8e5m2": (ml.float8_e5m2, "F8_E5M2", "f8e5m2s"),
    "f8e4m3fnuz": (ml.float8_e4m3fnuz, "F8_E4M3FNUZ", "f8e4m3fnuzs"),
    "f8e5m2fnuz": (ml.float8_e5m2fnuz, "F8_E5M2FNUZ", "f8e5m2fnuzs"),
    "f8e4m3b11fnuz": (ml.float8_e4m3b11fnuz, "U8", "f8e4m3b11fnuzs"),
    "f8e4m3": (ml.float8_e4m3, "U8", "f8e4m3s"),
    "f8e3m4": (ml.float8_e3m4, "U8", "f8e3m4s"),
    "f8e8m0fnu": (ml.float8_e8m0fnu, "F8_E8M0", "f8e8m0fnus"),
    "f4e2m1fn": (ml.float4_e2m1fn, "U8", "f4e2m1fns", 4),
    "f16": (np.float16, "F16", "f16s"),
    "bf16": (ml.bfloat16, "BF16", "bf16s"),
    "f32": (np.float32, "F32", "f32s"),
    "f64": (np.float64, "F64", "f64s"),
    "c64": (np.complex64, "C64", "c64s"),
    "c128": (np.complex128, "C128", "c128s"),
}
F8 = ["f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3b11fnuz", "f8e4m3", "f8e3m4"]
SMALL_FLOATS = F8 + ["f16", "bf16"]
FLOATS = SMALL_FLOATS + ["f32", "f64"]
SIGNED = ["s2", "s4", "s8", "s16", "s32", "s64"]
UNSIGNED = ["u2", "u4", "u8", "u16", "u32", "u64"]
INTEGERS = SIGNED + UNSIGNED
COMPLEX = ["c64", "c128"]
_NAME = {np.dtype(v[0]): k for k, v in TYPES.items()}


def name_of(array):
    return _NAME[array.dtype]


def dtype_of(name):
    return np.dtype(TYPES[name][0])


def bits_of(name):
    t = TYPES[name]
    return t[3] if len(t) > 3 else 8 * dtype_of(name).itemsize


def plain(array):
    """The array as safetensors holds it: packed types and nameless floats one per byte."""
    t = TYPES[name_of(array)]
    if t[1] == "I8":
        return array.astype(np.int8)
    if t[1] == "U8" and array.dtype.name in ("uint2", "uint4"):
        return array.astype(np.uint8)
    return np.ascontiguousarray(array).view(np.uint8) if t[1] == "U8" else array


def packed(array):
    """Flat bytes as a device stores them: 4-bit elements two to a byte, the first in the low half."""
    bits = bits_of(name_of(array))
    if bits >= 8:
        return array.tobytes()
    per = 8 // bits
    v = plain(array).view(np.uint8).ravel() & ((1 << bits) - 1)
    v = np.concatenate([v, np.zeros(-v.size % per, np.uint8)]).reshape(-1, per)
    out = np.zeros(v.shape[0], np.uint8)
    for i in range(per):
        out |= v[:, i] << (bits * i)
    return out.tobytes()


def in_layout(array, layout):
    """Elements in memory order; layout is minor_to_major (first = fastest varying)."""
    return np.ascontiguousarray(np.transpose(array, list(reversed(layout)))).ravel() if array.ndim else array.ravel()


def write_safetensors(arrays):
    """bytes of a file with tensors "0", "1", …"""
    header, data = {}, b""
    for i, a in enumerate(arrays):
        raw = np.ascontiguousarray(plain(a)).tobytes()
        header[str(i)] = {
            "dtype": TYPES[name_of(a)][1],
            "shape": list(a.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data
