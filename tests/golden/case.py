# SPDX-License-Identifier: Apache-2.0
"""What a golden is made of, and the registry of those in models_*.py.

A case pairs a JAX function, which released compilers turn into the golden executables, with a reference in
numpy that says what must come out. Neither changes once a golden has been made from it: a changed model is a
new case.
"""

import dataclasses
from typing import Any, Callable

import numpy as np

CASES = {}


@dataclasses.dataclass
class Case:
    """
    inputs      arrays, in the order of the function's parameters
    reference   numpy function of the inputs -> list of arrays, computed in a wider type
    tolerance   |got - want| <= tolerance * (1 + |want|); integers and booleans are compared exactly
    options     compiler options
    donate      parameters whose memory the results may take
    devices     > 1: the function computes one device's share on the mesh axis "d";
                specs has the PartitionSpec of each parameter, out those of the results, and the reference
                returns for each result a list with one array per device
    covers      what this case is there for
    """

    name: str
    function: Callable
    inputs: list
    reference: Callable
    covers: str
    tolerance: float = 1e-5
    x64: bool = False
    options: dict = dataclasses.field(default_factory=dict)
    donate: tuple = ()
    devices: int = 1
    specs: tuple = ()
    out: Any = None

    def expected(self):
        """The arrays that must come out, by the name that they have in outputs.safetensors."""
        results = self.reference(*self.inputs)
        if self.devices == 1:
            return {str(i): np.asarray(r) for i, r in enumerate(results)}
        return {f"{i}.{k}": np.asarray(r) for i, shares in enumerate(results) for k, r in enumerate(shares)}

    def given(self):
        """The inputs by name: "0", or "0.1" for device 1's share of parameter 0."""
        if self.devices == 1:
            return {str(i): a for i, a in enumerate(self.inputs)}
        named = {}
        for i, (whole, spec) in enumerate(zip(self.inputs, self.specs)):
            cut = list(spec).index("d") if "d" in list(spec) else None
            for k in range(self.devices):
                part = whole if cut is None else np.split(whole, self.devices, axis=cut)[k]
                named[f"{i}.{k}"] = np.ascontiguousarray(part)
        return named


def case(**kw):
    """Registers the decorated JAX function as a case of the same name."""

    def register(function):
        CASES[function.__name__] = Case(name=function.__name__, function=function, **kw)
        return function

    return register


def normal(*shape, seed=0, scale=1.0, dtype=np.float32):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def integers(low, high, *shape, seed=0, dtype=np.int32):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)
