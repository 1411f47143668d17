#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance cases on a device and compares the answers.

usage: run.py THUNKCTL [DEVICE] [--only WORD,...] [--jobs N] [--verbose]

DEVICE is what `thunkctl run --device` takes, else $THUNKD_DEVICE, else host. Cases whose kernels have no
GPU image (host_only in index.json) run on the host device only. Each case is one test. Prints a line per
wrong one, a line about skipped ones, what the CUDA device refuses by reason, and last "conformance: N right, N wrong".
Needs numpy and ml_dtypes.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

import ml_dtypes
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))
import refused  # noqa: E402

DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
    "C64": np.complex64,
    "C128": np.complex128,
}
# floats that safetensors has no name for are held as U8, one element per byte
NAMELESS = {
    "f8e4m3": ml_dtypes.float8_e4m3,
    "f8e3m4": ml_dtypes.float8_e3m4,
    "f8e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
}


def read_safetensors(data):
    (n,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + n])
    header.pop("__metadata__", None)
    out = {}
    for name, t in header.items():
        lo, hi = t["data_offsets"]
        out[name] = np.frombuffer(data[8 + n + lo : 8 + n + hi], DTYPES[t["dtype"]]).reshape(t["shape"])
    return out


def parts(a):
    """Flat, complex numbers as two reals."""
    a = np.ascontiguousarray(a).ravel()
    return a.view({8: np.float32, 16: np.float64}[a.itemsize]) if a.dtype.kind == "c" else a


def differ(want, got, tolerance):
    """Mask of the elements that are wrong. Zeros of different sign differ only when the tolerance is 0."""
    w, g = parts(want), parts(got)
    if w.dtype.kind in "iub":
        return w != g
    bits = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[w.itemsize]
    same = w.view(bits) == g.view(bits)
    with np.errstate(all="ignore"):
        w, g = w.astype(np.float64), g.astype(np.float64)
        same |= np.isnan(w) & np.isnan(g)
        if tolerance:
            relative, absolute = tolerance
            same |= w == g
            size = np.abs(w)
            if want.dtype.kind == "c":  # a complex number's error is measured against its modulus
                size = np.repeat(np.hypot(w[0::2], w[1::2]), 2)
            same |= np.isfinite(w) & np.isfinite(g) & (np.abs(w - g) <= absolute + relative * size)
    return ~same


def compare(want, got, entry):
    problems = []
    tolerance, labels = entry["tolerance"], entry["labels"]
    for i in range(len(want)):
        label, w, g = f"{i} ({labels[i]})", want[str(i)], got.get(str(i))
        if g is None:
            problems.append(f"no output {label}")
        elif (w.dtype, w.shape) != (g.dtype, g.shape):
            problems.append(f"output {label} is {g.dtype}{list(g.shape)}, want {w.dtype}{list(w.shape)}")
        else:
            kind = NAMELESS.get(entry["results"][i])
            w, g = (w.view(kind), g.view(kind)) if kind else (w, g)
            bad = differ(w, g, tolerance[str(i)] if isinstance(tolerance, dict) else tolerance)
            if bad.any():
                k = int(np.argmax(bad))
                problems.append(
                    f"output {label}: {int(bad.sum())} of {bad.size} differ, [{k}] {parts(g)[k]} want {parts(w)[k]}"
                )
    return problems


def run(ctl, device, entry):
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        with zipfile.ZipFile(HERE / "cases" / f"{entry['family']}.zip") as z:
            for suffix in ("aot", "in.safetensors", "out.safetensors"):
                (tmp / suffix).write_bytes(z.read(f"{entry['name']}.{suffix}"))
        command = [
            ctl,
            "run",
            tmp / "aot",
            "--inputs",
            tmp / "in.safetensors",
            "--outputs",
            tmp / "got",
            "--device",
            device,
        ]
        try:
            env = dict(os.environ, FAKECUDA_ARTIFACT=str(tmp / "aot"))  # for the stand-in CUDA driver, if it is used
            p = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, env=env)
        except subprocess.TimeoutExpired:
            return ["no answer in 120 s"]
        if p.returncode:
            return [f"exit {p.returncode}: " + (p.stderr.strip().splitlines() or [""])[-1][:300].replace(str(tmp), "")]
        try:
            return compare(
                read_safetensors((tmp / "out.safetensors").read_bytes()),
                read_safetensors((tmp / "got").read_bytes()),
                entry,
            )
        except (OSError, ValueError, KeyError, struct.error) as e:
            return [f"outputs unreadable: {e!r}"]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("thunkctl")
    a.add_argument("device", nargs="?", default=os.environ.get("THUNKD_DEVICE") or "host")
    a.add_argument("--only", type=lambda s: s.split(","), help="families, names or opcodes")
    a.add_argument("--jobs", type=int, default=2)
    a.add_argument("--verbose", action="store_true", help="every wrong output, not just the first")
    o = a.parse_args()
    index = json.loads((HERE / "index.json").read_text())
    if o.only:
        index = [e for e in index if {e["family"], e["name"], *e["opcodes"]} & set(o.only)]
    work = [e for e in index if o.device == "host" or not e["host_only"]]
    wrong = 0
    reasons = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for e, problems in zip(work, pool.map(lambda e: run(o.thunkctl, o.device, e), work)):
            why = refused.reason(problems[0]) if problems and o.device.startswith("cuda") else None
            reasons.update([why] if why else [])
            if problems and not why:
                wrong += 1
                more = f" (and {len(problems) - 1} more outputs)" if len(problems) > 1 and not o.verbose else ""
                for line in problems if o.verbose else problems[:1]:
                    print(f"FAIL {e['family']}/{e['name']}: {line}{more}", flush=True)
    if not work:
        print(f"FAIL no cases for device {o.device}")
        wrong = 1
    for why, n in reasons.most_common():
        print(f"refused {n}: {why}")
    if len(work) < len(index):
        print(f"skip {len(index) - len(work)} cases: kernels without an image run on the host device only")
    print(f"conformance: {len(work) - wrong - reasons.total() if work else 0} right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
