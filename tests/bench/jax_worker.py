#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times one network on JAX's CPU backend, for host.py.

usage: jax_worker.py GENERATOR.py NET

The weights stay on the device; what comes with a request is handed over as numpy arrays each time; a run ends when
all outputs are there. Reads lines from standard input: "run N" answers with a JSON list of N pairs of ms, elapsed
and of the CPUs; "save FILE" writes the outputs as safetensors and answers true. The first line that it prints is
true once it is ready.
"""
import importlib.util
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np

SAFETENSORS = pathlib.Path(__file__).resolve().parents[2] / "tools/export/thunkd_export/safetensors.py"
WARM_UP = 3


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    generator, name = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr  # nothing else may write among the answers
    net = load("generator", generator).MODELS[name](False)
    write_safetensors = load("thunkd_safetensors", SAFETENSORS).write_safetensors
    request, weights = net["args"][: net["req"]], jax.device_put(net["args"][net["req"] :])
    fn = jax.jit(net["fn"], donate_argnums=net.get("donate", ()))

    def run():
        cpu, start = time.process_time(), time.perf_counter()
        out = jax.block_until_ready(fn(*request, *weights))
        return (time.perf_counter() - start) * 1e3, (time.process_time() - cpu) * 1e3, out

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    for _ in range(WARM_UP):
        run()
    answer(True)
    for line in sys.stdin:
        verb, argument = line.split(maxsplit=1)
        if verb == "run":
            answer([run()[:2] for _ in range(int(argument))])
        else:
            leaves = jax.tree_util.tree_leaves(run()[2])
            write_safetensors(argument.strip(), {str(i): np.asarray(v) for i, v in enumerate(leaves)})
            answer(True)


if __name__ == "__main__":
    main()
