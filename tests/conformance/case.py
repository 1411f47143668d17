# SPDX-License-Identifier: Apache-2.0
"""One conformance case while it is being made, and the folder of finished ones.

A case is an executable, its inputs and the outputs to expect. Expected values come from numpy and scipy
in a wider type than the one under test, never from a compiler. Cases of a family share one zip file:
<case>.aot, <case>.in.safetensors, <case>.out.safetensors. index.json says the rest;
there `tolerance` is that of every output, or an object by output.
"""

import json
import pathlib
import zipfile

import numpy as np

import build
import hlo_types as ty
from build import Shape

HERE = pathlib.Path(__file__).resolve().parent
EPS = {
    "f32": 2.0**-23,
    "f64": 2.0**-52,
    "c64": 2.0**-23,
    "c128": 2.0**-52,
    "f16": 2.0**-10,
    "bf16": 2.0**-7,
    "f8e4m3fn": 2.0**-3,
    "f8e5m2": 2.0**-2,
    "f8e4m3fnuz": 2.0**-3,
    "f8e5m2fnuz": 2.0**-2,
    "f8e4m3b11fnuz": 2.0**-3,
    "f8e4m3": 2.0**-3,
    "f8e3m4": 2.0**-4,
    "f4e2m1fn": 2.0**-1,
}
cases = []


class Case:
    """tolerance of an output: 0 = same bits (all NaN are one), else [relative, absolute]."""

    def __init__(self, family, name, opcodes, why="", host_only=True):
        self.family, self.name, self.host_only, self.why = family, name, host_only, why
        self.opcodes = opcodes.split() if isinstance(opcodes, str) else list(opcodes)
        self.m = build.Module(name)
        self.inputs, self.outputs, self.tolerance, self.labels, self.types, self.aot = [], [], [], [], set(), None
        cases.append(self)

    def input(self, array, layout=None):
        array = np.asarray(array)
        self.inputs.append(array)
        return self.m.param(Shape(ty.name_of(array), array.shape, layout))

    def expect(self, array, tolerance=0, label=""):
        array = np.asarray(array)
        self.outputs.append(array)
        self.tolerance.append([float(t) for t in tolerance] if tolerance else 0)
        self.labels.append(label or ty.name_of(array))

    def output(self, value, array, tolerance=0, label="", leaf=0):
        array = np.asarray(array)
        s = value.shape.leaves()[leaf]
        if (s.type, s.dims) != (ty.name_of(array), array.shape):
            raise ValueError(
                f"{self.name}: {value.name} is {s.type}{s.dims}, expected value {array.dtype}{array.shape}"
            )
        self.m.result(value, leaf)
        self.expect(array, tolerance, label)

    def op(
        self, opcode, operands, want, tolerance=0, label="", shape=None, layout=None, called=(), into=None, **fields
    ):
        """An instruction whose result is an output."""
        want = np.asarray(want)
        shape = shape or Shape(ty.name_of(want), want.shape, layout)
        v = self.m.op(opcode, shape, operands, called, into, **fields)
        self.output(v, want, tolerance, label)
        return v

    def files(self):
        aot = self.aot if self.aot is not None else self.m.executable()
        return {
            f"{self.name}.aot": aot,
            f"{self.name}.in.safetensors": ty.write_safetensors(self.inputs),
            f"{self.name}.out.safetensors": ty.write_safetensors(self.outputs),
        }

    def entry(self):
        one = all(t == self.tolerance[0] for t in self.tolerance)
        types = sorted({ty.name_of(a) for a in self.inputs + self.outputs} | self.types)
        e = {
            "name": self.name,
            "family": self.family,
            "opcodes": self.opcodes,
            "types": types,
            "tolerance": self.tolerance[0] if one else {str(i): t for i, t in enumerate(self.tolerance)},
            "labels": self.labels,
            "results": [ty.name_of(a) for a in self.outputs],
            "host_only": self.host_only,
        }
        return e | ({"why": self.why} if self.why else {})


def write_family(folder, family, members):
    with zipfile.ZipFile(folder / f"{family}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for c in members:
            for name, data in c.files().items():
                info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                z.writestr(info, data)


def write_all(folder, families):
    """Writes the given families and replaces their entries in the index."""
    folder.mkdir(exist_ok=True)
    path = HERE / "index.json"
    old = json.loads(path.read_text()) if path.exists() else []
    index = [e for e in old if e["family"] not in families]
    for family in families:
        members = [c for c in cases if c.family == family]
        names = [c.name for c in members]
        if len(set(names)) != len(names):
            raise ValueError(f"{family}: a name occurs twice")
        write_family(folder, family, members)
        index += [c.entry() for c in members]
    index.sort(key=lambda e: (e["family"], e["name"]))
    path.write_text("[\n" + ",\n".join(json.dumps(e) for e in index) + "\n]\n")
    return index
