#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run artifacts of released compilers on the host device and compare the answers.

usage: check_corpus.py THUNKCTL CORPUS [--only MODEL,...] [--jobs N]

Every program for one device is one test, run twice where that gives something new: with inputs that
change from run to run, and with inputs bound for good. Prints a line per wrong one and last "corpus: N right, N wrong".
"""
import argparse
import concurrent.futures
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np

# Programs that this build refuses to run on the host device, and what the refusal must say.
REFUSED = {"pallas_add": "CUDA device", "ffi_user_handler": "handler"}
RELEASES = ["0.8.0", "0.9.2", "0.10.1", "0.10.2", "0.11.0", "0.11.2", "0.12.0.1"]
WRAPPED = {"saxpy": [".ifrt", ".jax-pickle"]}

DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8,
    "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8,
    "BOOL": np.bool_, "C64": np.complex64, "C128": np.complex128,
}


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + n])
    header.pop("__metadata__", None)
    out = {}
    for name, t in header.items():
        lo, hi = t["data_offsets"]
        out[name] = np.frombuffer(data[8 + n + lo : 8 + n + hi], DTYPES[t["dtype"]]).reshape(t["shape"])
    return out


def difference(want, got, tolerance):
    """None when |got - want| <= tolerance * (1 + |want|) everywhere, else what is wrong."""
    missing = sorted(set(want) - set(got))
    if missing:
        return "no output " + ", ".join(missing)
    for name in sorted(want):
        w, g = want[name], got[name]
        if (w.dtype, w.shape) != (g.dtype, g.shape):
            return f"output {name} is {g.dtype}{list(g.shape)}, want {w.dtype}{list(w.shape)}"
        if w.dtype.kind in "iub":
            if not np.array_equal(w, g):
                return f"output {name}: {int((w != g).sum())} of {w.size} differ"
            continue
        wide = np.complex128 if w.dtype.kind == "c" else np.float64
        w, g = w.astype(wide), g.astype(wide)
        finite = np.isfinite(w) & np.isfinite(g)
        odd = ~finite & ~(np.isnan(w) & np.isnan(g)) & (w != g)
        if odd.any():
            return f"output {name}: {int(odd.sum())} NaN or infinity apart"
        error = np.abs(w[finite] - g[finite]) / (1 + np.abs(w[finite]))
        if error.size and error.max() > tolerance:
            return f"output {name}: error {error.max():.3g} > {tolerance}"
    return None


def execute(ctl, artifact, case_dir, option, out):
    command = [ctl, "run", artifact, option, case_dir / "inputs.safetensors", "--outputs", out, "--device", "host"]
    try:
        p = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120)
    except subprocess.TimeoutExpired:
        return 1, "no answer in 120 s"
    return p.returncode, f"exit {p.returncode}: " + (p.stderr.strip().splitlines() or [""])[-1]


def run(ctl, artifact, case_dir):
    tolerance = json.loads((case_dir / "case.json").read_text())["tolerance"]
    refusal = REFUSED.get(case_dir.name)
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "outputs.safetensors"
        for option in ["--inputs", "--weights"]:
            code, said = execute(ctl, artifact, case_dir, option, out)
            if refusal:
                return None if code == 1 and refusal in said else f"not refused with '{refusal}': {said}"
            if code:
                return said
            try:
                error = difference(read_safetensors(case_dir / "outputs.safetensors"), read_safetensors(out), tolerance)
            except (OSError, ValueError, KeyError, struct.error) as e:
                error = f"outputs unreadable: {e!r}"
            if error:
                return f"{option[2:]}: {error}"
    return None


def artifacts(corpus, only):
    for case in sorted(corpus.glob("*/case.json")):
        model = case.parent.name
        if (only and model not in only) or json.loads(case.read_text())["devices"] != 1:
            continue
        for release in RELEASES:
            folder = corpus / model / release
            found = sorted(folder.glob("*.aot"))
            for suffix in WRAPPED.get(model, []):
                found += sorted(folder.glob("*" + suffix))
            for path in found:
                yield path, case.parent


def main():
    a = argparse.ArgumentParser()
    a.add_argument("thunkctl")
    a.add_argument("corpus", type=pathlib.Path)
    a.add_argument("--only", type=lambda s: s.split(","))
    a.add_argument("--jobs", type=int, default=2)
    o = a.parse_args()
    work = list(artifacts(o.corpus, o.only))
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        results = pool.map(lambda w: run(o.thunkctl, *w), work)
        for (path, _), error in zip(work, results):
            if error:
                wrong += 1
                print(f"FAIL {path.relative_to(o.corpus)}: {error}", flush=True)
    if not work:
        print(f"FAIL no artifacts under {o.corpus}")
        wrong = 1
    print(f"corpus: {len(work) - wrong if work else 0} right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
