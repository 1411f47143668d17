# SPDX-License-Identifier: Apache-2.0
"""The golden executables of one target: finding, running, describing and comparing them. Standard library, numpy."""

import json
import pathlib
import re
import struct
import subprocess
import tempfile

import ml_dtypes
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "executables"
KERNELS = {"kernel", "custom_kernel"}
DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
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
}


class Unsupported(Exception):
    """The runtime names something in the executable that it does not run."""


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


def versions(target, folder=FOLDER):
    """[(number, folder, release)], oldest first."""
    found = []
    for path in (folder / target).glob("v*"):
        m = re.fullmatch(r"v(\d+)", path.name)
        about = sorted(path.glob("*/case.json"))
        if m and about:
            found.append((int(m.group(1)), path, json.loads(about[0].read_text())["release"]))
    return sorted(found)


def release_key(release):
    return tuple(int(n) for n in re.findall(r"\d+", release)[:4])


def call(command, limit=120):
    """(exit code, standard output, last line of standard error)."""
    try:
        p = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace", timeout=limit)
    except subprocess.TimeoutExpired:
        return 1, "", f"no answer in {limit} s"
    return p.returncode, p.stdout, (p.stderr.strip().splitlines() or [""])[-1]


def reason(error, artifact):
    return error.removeprefix("thunkctl: ").replace(f"{artifact}: ", "")


def structure(ctl, artifact):
    """What two compilations of one model with one release share: kinds of the thunks in order, number of kernels,
    allocations, constants."""
    code, said, error = call([ctl, "inspect", "--json", artifact])
    if code:
        if "is not supported" in error:
            raise Unsupported(reason(error, artifact))
        raise ValueError(error)
    d = json.loads(said)
    kinds = [(t["depth"], t["kind"]) for t in d["thunks"]]
    return {
        "thunks": kinds,
        "kernels": sum(kind in KERNELS for _, kind in kinds),
        "allocations": [(a["kind"], a["bytes"]) for a in d["allocations"]],
        "constants": d["constants"],
    }


def misjudged(ctl, artifact, release):
    """None, or how `thunkctl check` estimates the release wrongly."""
    code, said, error = call([ctl, "check", "--json", artifact])
    if code > 1:
        return f"check: {error}"
    estimate = json.loads(said)[0]["release"]
    least, most = estimate.get("at_least"), estimate.get("at_most")
    key = release_key(release)
    if (least and release_key(least) > key) or (most and release_key(most) < key):
        return f"check takes it for release {least} to {most}"
    return None


def unlike(want, got):
    """None, or where two structures differ."""
    for key, w in want.items():
        g = got[key]
        if w == g:
            continue
        if isinstance(w, list) and len(w) == len(g):
            i = next(i for i, (a, b) in enumerate(zip(w, g)) if a != b)
            return f"{key}[{i}] is {g[i]}, in the golden {w[i]}"
        if isinstance(w, list):
            return f"{len(g)} {key}, in the golden {len(w)}"
        return f"{g} {key}, in the golden {w}"
    return None


def difference(want, got, tolerance):
    """None when |got - want| <= tolerance * (1 + |want|) everywhere, else what is wrong."""
    for name, w in sorted(want.items()):
        g = got.get(name)
        if g is None:
            return f"no output {name}"
        if (w.dtype, w.shape) != (g.dtype, g.shape):
            return f"output {name} is {g.dtype}{list(g.shape)}, want {w.dtype}{list(w.shape)}"
        if w.dtype.kind in "iub":
            if not np.array_equal(w, g):
                return f"output {name}: {int((w != g).sum())} of {w.size} differ"
            continue
        kind = np.complex128 if w.dtype.kind == "c" else np.float64
        w, g = w.astype(kind), g.astype(kind)
        with np.errstate(all="ignore"):
            near = np.abs(w - g) <= tolerance * (1 + np.abs(w))
            near = np.isfinite(w) & np.isfinite(g) & near | (w == g) | np.isnan(w) & np.isnan(g)
        if not near.all():
            return f"output {name}: {int((~near).sum())} of {w.size} are off by more than {tolerance}"
    return None


def answers(ctl, device, artifact, case):
    """None when the executable gives the outputs in the case's folder, else what is wrong."""
    about = json.loads((case / "case.json").read_text())
    with tempfile.TemporaryDirectory() as tmp:
        out = pathlib.Path(tmp) / "outputs.safetensors"
        inputs = case / "inputs.safetensors"
        code, _, error = call([ctl, "run", artifact, "--inputs", inputs, "--outputs", out, "--device", device])
        if code:
            if "is not supported" in error and about["devices"] > 1:
                raise Unsupported(reason(error, artifact))
            return f"exit {code}: {error}"
        try:
            return difference(read_safetensors(case / "outputs.safetensors"), read_safetensors(out), about["tolerance"])
        except (OSError, ValueError, KeyError, struct.error) as e:
            return f"outputs unreadable: {e!r}"
