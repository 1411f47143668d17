#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile the goldens' models with the JAX that is installed here. No GPU is needed.

usage: compile_cases.py FOLDER [--target TARGET] [--like FOLDER] [--only CASE,...]

Writes FOLDER/<case>/ with executable.aot, inputs.safetensors, outputs.safetensors, case.json. With --like, a
folder of an earlier version, cases found there keep their inputs and expected outputs, which must still be what
the reference says. Prints "release X.Y.Z". Needs the packages of tools/export/requirements.txt, of any release.
"""

import argparse
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools" / "export")]

from thunkd_export import compile_for, read_safetensors, write_safetensors  # noqa: E402  (before jax)

import jax  # noqa: E402
import models_flow  # noqa: E402, F401
import models_net  # noqa: E402, F401
import numpy as np  # noqa: E402
from case import CASES  # noqa: E402


def same(a, b, tolerance):
    """Whether two sets of named arrays agree; NaN is NaN."""
    if set(a) != set(b) or any((a[k].dtype, a[k].shape) != (b[k].dtype, b[k].shape) for k in a):
        return False
    return all(
        np.allclose(a[k], b[k], rtol=tolerance, atol=tolerance, equal_nan=True)
        if a[k].dtype.kind in "fc"
        else np.array_equal(a[k], b[k])
        for k in a
    )


def tensors(c, like):
    """Inputs and expected outputs: those of the earlier version where there is one."""
    given, expected = c.given(), c.expected()
    old = like / c.name if like else None
    if old is None or not old.exists():
        return given, expected
    old_given, old_expected = (read_safetensors(old / f"{n}.safetensors") for n in ("inputs", "outputs"))
    if not same(given, old_given, 0) or not same(expected, old_expected, c.tolerance / 8):
        raise SystemExit(f"case {c.name} is no longer what it was when {old} was made: give the new model a new name")
    return old_given, old_expected


def described(arrays):
    return [{"dtype": str(a.dtype), "shape": list(a.shape)} for a in arrays]


def write(c, target, folder, like):
    jax.config.update("jax_enable_x64", c.x64)
    args = [np.asarray(a) for a in c.inputs]
    kw = {"devices": c.devices, "specs": c.specs, "out": c.out} if c.devices > 1 else {}
    executable = compile_for(target, c.function, args, c.options or None, c.donate, **kw)
    given, expected = tensors(c, like)
    folder = folder / c.name
    folder.mkdir(parents=True)
    (folder / "executable.aot").write_bytes(executable)
    write_safetensors(folder / "inputs.safetensors", given)
    write_safetensors(folder / "outputs.safetensors", expected)
    about = {
        "release": jax.__version__,
        "covers": c.covers,
        "devices": c.devices,
        "tolerance": c.tolerance,
        "options": c.options,
        "donated": list(c.donate),
        "inputs": described(given.values()),
        "outputs": described(expected.values()),
    }
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in about.items()]
    (folder / "case.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("folder", type=pathlib.Path)
    a.add_argument("--target", default="h100_sxm")
    a.add_argument("--like", type=pathlib.Path)
    a.add_argument("--only", type=lambda s: s.split(","))
    o = a.parse_args()
    for name, c in CASES.items():
        if not o.only or name in o.only:
            write(c, o.target, o.folder, o.like)
    print(f"release {jax.__version__}")


if __name__ == "__main__":
    main()
