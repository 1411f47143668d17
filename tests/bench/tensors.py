# SPDX-License-Identifier: Apache-2.0
"""Safetensors files, as far as comparing needs them. numpy alone."""
import json
import pathlib
import struct

import numpy as np

DTYPES = {
    "F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1",
    "U64": "u8", "U32": "u4", "U16": "u2", "U8": "u1", "BOOL": "?", "C64": "c8", "C128": "c16",
}


def read(path):
    """Tensors by name; bf16 as f32."""
    data = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + n])
    header.pop("__metadata__", None)
    tensors = {}
    for name, t in header.items():
        start, end = (8 + n + at for at in t["data_offsets"])
        if t["dtype"] == "BF16":
            value = (np.frombuffer(data[start:end], "<u2").astype("<u4") << 16).view("<f4")
        else:
            value = np.frombuffer(data[start:end], DTYPES[t["dtype"]])
        tensors[name] = value.reshape(t["shape"])
    return tensors


def largest_error(want, got):
    """max |got - want| / (1 + |want|) over all floating outputs, and how many integers and booleans differ."""
    worst, differ = 0.0, 0
    for name, w in want.items():
        g = got.get(name)
        if g is None or g.shape != w.shape or g.dtype != w.dtype:
            raise ValueError(f"output {name} is missing or of another type or shape")
        if w.dtype.kind in "iub":
            differ += int((w != g).sum())
        elif w.size:
            wide = np.complex128 if w.dtype.kind == "c" else np.float64
            w, g = w.astype(wide), g.astype(wide)
            with np.errstate(invalid="ignore"):
                error = np.where((w == g) | (np.isnan(w) & np.isnan(g)), 0, np.abs(g - w) / (1 + np.abs(w)))
            worst = max(worst, float(np.where(np.isnan(error), np.inf, error).max()))
    return worst, differ
