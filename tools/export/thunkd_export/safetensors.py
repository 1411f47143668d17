# SPDX-License-Identifier: Apache-2.0
"""Read and write safetensors: header length, JSON header, data."""
import json
import pathlib
import struct

import ml_dtypes
import numpy as np

DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8,
    "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8,
    "BOOL": np.bool_, "C64": np.complex64,
}
NAMES = {np.dtype(t): name for name, t in DTYPES.items()}


def write_safetensors(path, tensors):
    header, chunks, at = {}, [], 0
    for name, value in tensors.items():
        value = np.asarray(value)
        data = value.tobytes()
        header[name] = {"dtype": NAMES[value.dtype], "shape": list(value.shape), "data_offsets": [at, at + len(data)]}
        chunks.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + n])
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(data[8 + n :][slice(*t["data_offsets"])], DTYPES[t["dtype"]]).reshape(t["shape"])
        for name, t in header.items()
    }
