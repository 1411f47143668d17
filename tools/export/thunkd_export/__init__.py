# SPDX-License-Identifier: Apache-2.0
"""Export a JAX function as a model that thunkd serves. No GPU is needed.

    from thunkd_export import export
    export(fn, weights, {"image": jax.ShapeDtypeStruct((1, 8, 8), "float32")},
           outputs=["probabilities"], folder="store/digits/1")

`fn(weights, *inputs)` is compiled ahead of time by XLA:GPU for a described target.
The weights, any pytree of arrays, become parameters of the executable, so they are
stored beside it and can be changed without compiling again. The folder receives

    <target>.aot            the executable
    weights.safetensors     the weights by parameter index: "1", "2", ...
    source.stablehlo        the function as StableHLO: with it, and no other source, it can be compiled anew
    model.yaml              names of inputs and outputs, indices of the weights
"""
from .compile import compile_for
from .model import export
from .safetensors import read_safetensors, write_safetensors
from .target import release_key, targets

__all__ = ["compile_for", "export", "read_safetensors", "release_key", "targets", "write_safetensors"]
