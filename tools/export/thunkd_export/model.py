# SPDX-License-Identifier: Apache-2.0
"""Write a model folder: executable, weights, names."""
import pathlib

import jax
import numpy as np

from .compile import compile_for, source_for
from .safetensors import write_safetensors


def export(fn, weights, inputs, outputs, folder, target="h100_sxm", compiler_options=None):
    """Compile fn(weights, *inputs) and write a model folder.

    weights  pytree of arrays
    inputs   name -> jax.ShapeDtypeStruct, in the order of fn's arguments
    outputs  names, in the order of fn's flattened results
    """
    leaves, tree = jax.tree_util.tree_flatten(weights)
    leaves = [np.asarray(leaf) for leaf in leaves]
    count = len(inputs)

    def flat(*args):  # inputs are parameters 0..count-1, weights follow
        return fn(jax.tree_util.tree_unflatten(tree, args[count:]), *args[:count])

    results = jax.tree_util.tree_leaves(jax.eval_shape(flat, *inputs.values(), *leaves))
    if len(results) != len(outputs):
        raise ValueError(f"fn returns {len(results)} arrays, outputs names {len(outputs)}")
    executable = compile_for(target, flat, [*inputs.values(), *leaves], compiler_options)

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    indices = range(count, count + len(leaves))
    (folder / f"{target}.aot").write_bytes(executable)
    (folder / "source.stablehlo").write_bytes(source_for(flat, [*inputs.values(), *leaves]))
    write_safetensors(folder / "weights.safetensors", {str(i): leaf for i, leaf in zip(indices, leaves)})
    (folder / "model.yaml").write_text(
        f"inputs: [{', '.join(inputs)}]\n"
        f"outputs: [{', '.join(outputs)}]\n"
        f"weights: [{', '.join(map(str, indices))}]\n"
    )
    return folder
