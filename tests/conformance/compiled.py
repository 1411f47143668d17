# SPDX-License-Identifier: Apache-2.0
"""Programs compiled by XLA:GPU for an H100: kernels with images, so these cases run on a GPU too.

The programs are in compiled_functions.py, which runs under $JAX_PYTHON, a Python with the packages of
tools/export/requirements.txt. Their expected values are made here, by numpy and scipy. Tolerances are those
that a GPU's function library and f32 sums in any order need.
"""

import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np

from case import HERE, Case

T = {"f64": (1e-12, 1e-300), "f32": (4e-6, 1e-37), "f16": (2.0**-9, 1e-6), "bf16": (2.0**-6, 1e-37)}
made = []


def program(name, opcodes, inputs, results, why="", labels=()):
    """results: (array, tolerance) pairs in the order of the program's outputs."""
    c = Case("compiled", name, opcodes, why, host_only=False)
    c.inputs = [np.asarray(x) for x in inputs]
    for i, r in enumerate(results):
        want, tolerance = r if isinstance(r, tuple) else (r, 0)
        c.expect(want, tolerance, labels[i] if i < len(labels) else "")
    made.append(c)


def compile_all():
    python = os.environ.get("JAX_PYTHON")
    if not python:
        raise SystemExit("JAX_PYTHON: a Python with the packages of tools/export/requirements.txt")
    requests = [{"name": c.name, "args": [[list(a.shape), a.dtype.name] for a in c.inputs]} for c in made]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [python, str(HERE / "compiled_functions.py"), folder], input=json.dumps(requests), text=True, check=True
        )
        for c in made:
            c.aot = (pathlib.Path(folder) / f"{c.name}.aot").read_bytes()
