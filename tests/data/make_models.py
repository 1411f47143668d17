#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile the small models that the store's tests serve. No GPU is needed.

usage: make_models.py [FOLDER]      (tests/data by default; needs tools/export's packages)

  rows_b1t4, rows_b4t4, rows_b4t16.aot   (x f32[b,t], m f32[b,t]) -> (y = 2x + m f32[b,t], s = row sums of x*m f32[b])
  counter.aot                            (count f32[4] donated, x f32[4]) -> (count + x, 10*(count + x))
  counter_plain.aot                      the same without donation
  big.aot                                (x f32[1024,1024]) -> (x * 1.5 + 1), to have models of some size
  constant_<k>.aot                       (x f32[8]) -> (x + c[k]) with c f32[20480] of its own kept as a constant
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "tools" / "export")]

from thunkd_export import compile_for  # noqa: E402

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402


def rows(x, m):
    return 2 * x + m, (x * m).sum(axis=1)


def counter(count, x):
    return count + x, 10 * (count + x)


def constant(k):
    c = np.random.default_rng(k).standard_normal(20480).astype(np.float32)
    return lambda x, i: x + jax.lax.dynamic_slice(jnp.asarray(c), (i,), (8,))


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    out.mkdir(parents=True, exist_ok=True)
    for b, t in ((1, 4), (4, 4), (4, 16)):
        (out / f"rows_b{b}t{t}.aot").write_bytes(compile_for("h100_sxm", rows, [f32(b, t), f32(b, t)]))
    (out / "counter.aot").write_bytes(compile_for("h100_sxm", counter, [f32(4), f32(4)], donate=(0,)))
    (out / "counter_plain.aot").write_bytes(compile_for("h100_sxm", counter, [f32(4), f32(4)]))
    (out / "big.aot").write_bytes(compile_for("h100_sxm", lambda x: x * 1.5 + 1, [f32(1024, 1024)]))
    for k in range(2):
        args = [f32(8), jax.ShapeDtypeStruct((), jnp.int32)]
        (out / f"constant_{k}.aot").write_bytes(compile_for("h100_sxm", constant(k), args))


if __name__ == "__main__":
    main()
