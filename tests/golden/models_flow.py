# SPDX-License-Identifier: Apache-2.0
"""Goldens with control flow, streams and several devices, and those that sort, transform and solve."""

import jax
import jax.numpy as jnp
import numpy as np
from case import case, integers, normal
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import PartitionSpec
from models_net import EXACT, wide

# ---- control

STEP = normal(8, 8, seed=1, scale=0.3)


def control_reference(rows, count, choice, number):
    rows, step = wide(rows, STEP)
    carry, sums = np.zeros(8), []
    for row in rows:
        carry = np.tanh(carry @ step + row)
        sums.append(carry.sum())
    state = carry
    for i in range(int(count)):
        state = state[::-1] if i % 3 == 0 else state * 0.5 + i
    chosen = [lambda v: v * 2, np.sin, np.cumsum, lambda v: v[::-1]][int(np.clip(choice, 0, 3))](carry)
    root, steps = wide(number)[0], 0
    while abs(root * root - number) > 1e-5 and steps < 50:
        root, steps = 0.5 * (root + number / root), steps + 1
    floats = [np.asarray(a, np.float32) for a in (sums, state, chosen, root)]
    return [*floats, np.int32(steps)]


@case(
    inputs=[normal(6, 8), np.int32(7), np.int32(2), np.float32(2)],
    reference=control_reference,
    tolerance=2e-5,
    covers="loops with known, given and found trip counts, slices at the loop's index, branches by flag and index",
)
def control(rows, count, choice, number):
    def step(carry, row):
        carry = jnp.tanh(jnp.dot(carry, STEP, precision=EXACT) + row)
        return carry, carry.sum()

    def turn(i, state):
        return lax.cond(i % 3 == 0, lambda s: s[::-1], lambda s: s * 0.5 + i.astype(s.dtype), state)

    def improve(s):
        return 0.5 * (s[0] + number / s[0]), s[1] + 1

    carry, sums = lax.scan(step, jnp.zeros(8), rows)
    state = lax.fori_loop(0, count, turn, carry)
    chosen = lax.switch(choice, [lambda v: v * 2, jnp.sin, jnp.cumsum, lambda v: v[::-1]], carry)
    root, steps = lax.while_loop(
        lambda s: (jnp.abs(s[0] * s[0] - number) > 1e-5) & (s[1] < 50), improve, (number, jnp.int32(0))
    )
    return sums, state, chosen, root, steps


# ---- sorting: total order of floats, stable pairs, the top-k kernel, scatter and gather

SPECIAL = np.array([np.nan, -np.inf, np.inf, -0.0, 0.0, 1e-30, -1.5, 2.5], np.float32)


def sorting_reference(keys, values, rows, special):
    order = np.argsort(keys, kind="stable")
    top = np.argsort(-rows, axis=1, kind="stable")[:, :8]
    sums = np.zeros(16)
    np.add.at(sums, keys % 16, wide(values)[0])
    picked = rows[0][np.clip(keys[:10] * 20 - 9, 0, rows.shape[1] - 1)]
    return [
        keys[order],
        values[order],
        np.take_along_axis(rows, top, 1),
        top.astype(np.int32),
        np.sort(special),  # NaN last
        sums.astype(np.float32),
        picked,
    ]


@case(
    inputs=[integers(0, 100, 600), normal(600, seed=1), normal(3, 1024, seed=2), SPECIAL],
    reference=sorting_reference,
    tolerance=5e-5,
    covers="sorts of pairs and of special values, the top-k kernel, scatter with addition, clamped gather",
)
def sorting(keys, values, rows, special):
    by_key = lax.sort((keys, values), num_keys=1, is_stable=True)
    picked = jnp.take(rows[0], keys[:10] * 20 - 9, mode="clip")
    return *by_key, *lax.top_k(rows, 8), jnp.sort(special), jax.ops.segment_sum(values, keys % 16, 16), picked


# ---- spectral: transforms and solves


def spectral_reference(signal, response, grid, matrix, sides, positive):
    filtered = np.fft.irfft(np.fft.rfft(wide(signal)[0]) * response, n=signal.shape[-1])
    solved = np.linalg.solve(np.tril(matrix), sides)
    return [
        filtered.astype(np.float32),
        np.fft.fft2(grid.astype(np.complex128)).astype(np.complex64),
        solved,
        np.linalg.cholesky(positive),
    ]


def complex_normal(*shape, seed):
    return (normal(*shape, seed=seed) + 1j * normal(*shape, seed=seed + 1)).astype(np.complex64)


ROOT = normal(6, 6, seed=8, dtype=np.float64)


@case(
    inputs=[
        normal(3, 32),
        complex_normal(17, seed=1),
        complex_normal(2, 8, 8, seed=3),
        normal(2, 5, 5, seed=5, dtype=np.float64) + 5 * np.eye(5),
        normal(2, 5, 3, seed=6, dtype=np.float64),
        ROOT @ ROOT.T + 6 * np.eye(6),
    ],
    reference=spectral_reference,
    tolerance=2e-5,
    x64=True,
    covers="transforms real, inverse and of rank 2, triangular solve, Cholesky, f64 and complex numbers",
)
def spectral(signal, response, grid, matrix, sides, positive):
    filtered = jnp.fft.irfft(jnp.fft.rfft(signal) * response, n=signal.shape[-1])
    solved = lax.linalg.triangular_solve(matrix, sides, left_side=True, lower=True)
    factor = lax.linalg.cholesky(positive, symmetrize_input=False)
    return filtered, jnp.fft.fft2(grid), solved, factor


# ---- streams: one half of the work is put on a stream of its own


def streams_reference(a, b):
    a, b = wide(a, b)
    return [(np.sin(a @ b) + np.cos(b @ a)).astype(np.float32)]


@case(
    inputs=[normal(24, 24, scale=0.3), normal(24, 24, seed=1, scale=0.3)],
    reference=streams_reference,
    options={"xla_gpu_enable_triton_gemm": False},
    covers="asynchronous start and done, a stream given by annotation",
)
def streams(a, b):
    @jax.jit
    def apart(x, y):
        with set_xla_metadata(_xla_stream_annotation="1", inlineable="false"):
            return jax.jit(lambda u, v: jnp.sin(jnp.dot(u, v, precision=EXACT)))(x, y)

    return apart(a, b) + jnp.cos(jnp.dot(b, a, precision=EXACT))


# ---- collectives on two devices

SPLIT, WHOLE = PartitionSpec("d"), PartitionSpec(None)


def collectives_reference(x):
    parts = np.split(x, 2)
    total = parts[0] + parts[1]
    return [
        [total, total],
        [x * 2, x * 2],
        [parts[1], parts[0]],
        np.split(3 * x, 2),
        [np.array([k], np.int32) for k in range(2)],
    ]


@case(
    inputs=[integers(-50, 50, 8, 4).astype(np.float32)],
    reference=collectives_reference,
    devices=2,
    specs=(SPLIT,),
    out=(WHOLE, WHOLE, SPLIT, SPLIT, SPLIT),
    covers="all-reduce, all-gather, permute, reduce-scatter and the partition's number, in each release's forms",
)
def collectives(x):
    whole = lax.all_gather(x, "d", tiled=True)
    share = (lax.axis_index("d") + 1).astype(x.dtype)
    return (
        lax.psum(x, "d"),
        whole * 2,
        lax.ppermute(x, "d", [(0, 1), (1, 0)]),
        lax.psum_scatter(whole * share, "d", tiled=True),
        lax.axis_index("d")[None].astype(jnp.int32),
    )
