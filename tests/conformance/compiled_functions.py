#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of the family `compiled`, and their compilation for a GPU that is not there.

usage: compiled_functions.py FOLDER < requests.json

Run by cases_compiled.py with the Python of tools/export/requirements.txt. Each request {"name", "args":
[[shape, dtype]…]} becomes FOLDER/<name>.aot. Only the programs are JAX's: expected values are made elsewhere.
"""

import functools
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "export"))

from thunkd_export import compile_for  # noqa: E402  (before jax: it sets the platform)

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

TARGET = "h100_sxm"
FUNCTIONS = {}


def program(f):
    FUNCTIONS[f.__name__] = f
    return f


def lax_functions(names):
    return [getattr(lax, name) for name in names.split()]


def rounded(method):
    return lambda x: lax.round(x, method)


UNARY = lax_functions("abs neg ceil floor sign sqrt")
UNARY += [rounded(lax.RoundingMethod.TO_NEAREST_EVEN), rounded(lax.RoundingMethod.AWAY_FROM_ZERO)]
UNARY += lax_functions("rsqrt cbrt exp expm1 log log1p sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh")
UNARY += lax_functions("erf logistic is_finite")
SMALL_UNARY = lax_functions("exp log tanh sqrt neg floor rsqrt logistic sin")
BINARY = lax_functions("add sub mul div max min rem pow atan2 eq ne ge gt le lt")
SMALL_BINARY = lax_functions("add sub mul div max min eq lt")
INTEGER = lax_functions("add sub mul div rem max min bitwise_and bitwise_or bitwise_xor")
INTEGER += lax_functions("shift_left shift_right_logical shift_right_arithmetic eq ne ge gt le lt")
INTEGER_UNARY = lax_functions("bitwise_not population_count clz sign")
FROM_FLOAT = """int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool float16 bfloat16 float8_e4m3fn float8_e5m2
float32 float64 complex64 complex128""".split()
FROM_INTEGER = "int8 int32 int64 uint8 uint16 uint64 bool float16 bfloat16 float32 float64".split()


@program
def unary_f32(x, unit):
    return [f(unit if f in (lax.asin, lax.acos, lax.atanh) else x) for f in UNARY]


@program
def unary_f64(x, unit):
    return unary_f32(x, unit)


@program
def unary_small(*xs):
    return [f(x) for x in xs for f in SMALL_UNARY]


@program
def binary_f32(x, y):
    return [f(x, y) for f in BINARY]


@program
def binary_f64(x, y):
    return [f(x, y) for f in BINARY]


@program
def binary_small(*xs):
    return [f(x, y) for x, y in zip(xs[::2], xs[1::2]) for f in SMALL_BINARY]


@program
def integers(*xs):
    return [f(x, y) for x, y in zip(xs[::2], xs[1::2]) for f in INTEGER]


@program
def integers_unary(*xs):
    return [f(x) for x in xs for f in INTEGER_UNARY]


@program
def complex_numbers(*xs):
    return [
        r
        for a, b in zip(xs[::2], xs[1::2])
        for r in (
            a + b,
            a - b,
            a * b,
            a / b,
            jnp.exp(a),
            jnp.log(a),
            jnp.sqrt(a),
            jnp.abs(a),
            jnp.sin(a),
            jnp.tanh(a),
            jnp.conj(a),
            a.real,
            b.imag,
            a == b,
        )
    ]


@program
def convert_float(*xs):
    return [lax.convert_element_type(x, t) for x in xs for t in FROM_FLOAT]


@program
def convert_integer(*xs):
    return [lax.convert_element_type(x, t) for x in xs for t in FROM_INTEGER]


@program
def four_bits(x, w):
    s, u = x.astype(jnp.int4), w.astype(jnp.uint4)
    return s.astype(jnp.int32) + 1, u.astype(jnp.float32) * 2, s, u, s.astype(jnp.int8) + s.astype(jnp.int8)


@program
def bits(x, y, z):
    return (
        lax.bitcast_convert_type(x, jnp.int32),
        lax.bitcast_convert_type(y, jnp.uint64),
        lax.bitcast_convert_type(x, jnp.uint8),
        lax.bitcast_convert_type(z, jnp.float16),
        lax.reduce_precision(x, 5, 2),
        lax.reduce_precision(x, 4, 3),
        lax.reduce_precision(x, 8, 7),
        lax.reduce_precision(y, 8, 23),
    )


@program
def choose(p, x, y, lo, hi):
    return jnp.where(p, x, y), lax.clamp(lo, x, hi), lax.clamp(jnp.float32(-1), x, jnp.float32(2)), lax.select(p, y, x)


@program
def move(x, y, z):
    return (
        x.transpose(2, 0, 1),
        x[::-1, :, ::-1],
        x[1:, ::2, 1:3],
        jnp.concatenate([x, x[:, :1]], 1),
        jnp.broadcast_to(x[:, None], (2, 3, 4, 5)),
        x.reshape(5, 8),
        lax.pad(y, jnp.float32(7), [(1, 2, 0), (0, 1, 2)]),
        lax.pad(y, jnp.float32(7), [(-1, 0, 1), (2, -2, 0)]),
        lax.pad(y, jnp.float32(7), [(3, -5, 0), (0, 0, 0)]),
        lax.broadcasted_iota(jnp.int32, (3, 4), 1),
        z.transpose(5, 3, 1, 0, 2, 4),
        z.reshape(6, -1).T,
        x.T.copy(),
    )


@program
def small_shapes(s, e, o):
    return s + 1, e * 2, jnp.sum(e, 0), jnp.concatenate([e, e], 1), o.reshape(()) - 1, jnp.sum(e), -o


@program
def dynamic(x, u, i, j):
    return (
        lax.dynamic_slice(x, (i, j), (2, 3)),
        lax.dynamic_update_slice(x, u, (j, i)),
        lax.dynamic_slice(x, (j, j), (6, 2)),
        lax.dynamic_index_in_dim(x, i, 1),
    )


@program
def gather(x, i, k):
    pairs = lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1))
    return (
        x.at[i].get(mode="clip"),
        x.at[i].get(mode="fill", fill_value=-1),
        jnp.take_along_axis(x, k, 1, mode="clip"),
        lax.gather(x, jnp.stack([i, i], 1), pairs, (2, 3), mode="clip"),
    )


@program
def scatter(x, i, u, n, m):
    windows = lax.ScatterDimensionNumbers(
        update_window_dims=(1, 2), inserted_window_dims=(), scatter_dims_to_operand_dims=(0, 1)
    )
    return (
        x.at[i].add(u, mode="drop"),
        x.at[i].max(u, mode="drop"),
        x.at[i].min(u, mode="drop"),
        n.at[i].add(m, mode="drop"),
        n.at[i].mul(m, mode="drop"),
        lax.scatter_add(
            x, jnp.stack([i, i], 1), jnp.ones((6, 2, 2), x.dtype), windows, mode=lax.GatherScatterMode.FILL_OR_DROP
        ),
    )


@program
def reduce(x, n, p, d, b):
    return (
        x.sum(1),
        x.sum(0),
        x.sum(),
        x.max(1),
        x.min(0),
        x.prod(1),
        n.sum(0),
        n.max(),
        n.min(1),
        p.any(1),
        p.all(0),
        d.sum(1),
        b.sum(0),
        x.argmax(1),
        n.argmin(0),
        jnp.bitwise_xor.reduce(n, 1),
        x.sum((0, 1)),
    )


@program
def windows(x, n):
    add = functools.partial(lax.reduce_window, computation=lax.add)
    return (
        lax.reduce_window(x, -jnp.inf, lax.max, (2, 3), (2, 1), "VALID"),
        add(x, jnp.float32(0), window_dimensions=(3, 3), window_strides=(1, 2), padding=[(1, 1), (2, 0)]),
        add(
            x,
            jnp.float32(0),
            window_dimensions=(2, 2),
            window_strides=(1, 1),
            padding=[(0, 0), (0, 0)],
            window_dilation=(2, 3),
        ),
        jnp.cumsum(n, 1),
        jnp.cumsum(x, 0),
        lax.cummax(x, 1),
        add(
            x,
            jnp.float32(0),
            window_dimensions=(2, 2),
            window_strides=(1, 1),
            padding=[(1, 0), (0, 1)],
            base_dilation=(2, 1),
        ),
    )


@program
def pool_gradient(x):
    pool = lambda v: lax.reduce_window(v, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID")
    return jax.grad(lambda v: (pool(v) * jnp.arange(1, 7, dtype=v.dtype).reshape(2, 3)).sum())(x)


@program
def sort(x, n, d):
    keys, values = lax.sort((n, jnp.arange(n.size, dtype=jnp.int32)), num_keys=1, is_stable=True)
    return (
        jnp.sort(x, 1),
        jnp.sort(x, 0),
        keys,
        values,
        *lax.sort((n, d), num_keys=2),
        *lax.top_k(n, 7),
        jnp.argsort(n, stable=True),
        jnp.sort(d, descending=True),
    )


@program
def dots(a, b, c, d, e, f, g, h):
    pet = functools.partial(jnp.matmul, preferred_element_type=jnp.float32)
    batch = lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,))))
    return (
        jnp.matmul(a, b, precision="highest"),
        pet(c, d),
        jnp.matmul(c, d),
        batch(e, f),
        lax.dot(g, h, preferred_element_type=jnp.int32),
        jnp.matmul(a, b[:, 0], precision="highest"),
    )


@program
def dots_f64(a, b, z, w):
    return a @ b, z @ w, a.T @ a


@program
def conv(x, w, g, h, k):
    dn = ("NHWC", "HWIO", "NHWC")
    c = functools.partial(lax.conv_general_dilated, dimension_numbers=dn, precision="highest")
    return (
        c(x, w, (1, 1), "SAME"),
        c(x, w, (2, 2), [(1, 1), (1, 1)]),
        c(x, g, (1, 1), "SAME", feature_group_count=4),
        c(x, w, (1, 1), [(2, 1), (0, 2)], rhs_dilation=(2, 2)),
        c(x, w, (1, 1), [(2, 2), (2, 2)], lhs_dilation=(2, 2)),
        c(h, k, (1, 1), "VALID"),
    )


@program
def conv_gradients(x, w):
    f = (
        lambda u, v: (
            lax.conv_general_dilated(
                u, v, (2, 1), [(1, 1), (1, 1)], dimension_numbers=("NCHW", "OIHW", "NCHW"), precision="highest"
            )
            ** 2
        ).sum()
        / 2
    )
    return jax.grad(f, (0, 1))(x, w)


@program
def transforms(z, r, w, d):
    return (
        jnp.fft.fft(z),
        jnp.fft.ifft(z),
        jnp.fft.rfft(r),
        jnp.fft.irfft(jnp.fft.rfft(r), r.shape[-1]),
        jnp.fft.fft2(w),
        jnp.fft.ifftn(w),
        jnp.fft.rfft2(d),
    )


@program
def solve(a, b, h, z):
    l = jnp.linalg.cholesky(h)
    lu, _, perm = lax.linalg.lu(a)
    n = a.shape[-1]
    low = jnp.tril(lu, -1) + jnp.eye(n, dtype=a.dtype)
    return (
        l,
        low @ jnp.triu(lu),
        a[perm],
        lax.linalg.triangular_solve(l, b, left_side=True, lower=True),
        lax.linalg.triangular_solve(l, b.T, lower=True, transpose_a=True),
        jnp.linalg.cholesky(z),
        jnp.linalg.solve(a, b),
    )


@program
def decompose(a, h):
    q, r = jnp.linalg.qr(a)
    w, v = jnp.linalg.eigh(h)
    u, s, vt = jnp.linalg.svd(a, full_matrices=False)
    return q @ r, q.T @ q, jnp.tril(r, -1), w, (v * w) @ v.T, s, (u * s) @ vt, jnp.sort(jnp.linalg.eigvals(h).real)


@program
def tridiagonal(dl, d, du, b):
    return lax.linalg.tridiagonal_solve(dl, d, du, b)


@program
def control(n, x, p, k):
    total = lax.fori_loop(0, n, lambda i, v: v * 0.5 + i, x)
    steps, halved = lax.while_loop(lambda s: (s[1] > 1).all(), lambda s: (s[0] + 1, s[1] / 2), (jnp.int32(0), x))
    carried, seen = lax.scan(lambda c, v: (c + v, c * v), jnp.float32(1), x)
    return (
        total,
        steps,
        halved,
        carried,
        seen,
        lax.cond(p, jnp.sin, jnp.cos, x),
        lax.switch(k, [lambda v: v + 1, lambda v: v * 2, lambda v: -v], x),
        lax.map(lambda v: v * v, x),
    )


@program
def random_bits(key2, key3):
    s2, a = lax.rng_bit_generator(key2, (5, 3), jnp.uint32, lax.RandomAlgorithm.RNG_THREE_FRY)
    s3, b = lax.rng_bit_generator(key2, (7,), jnp.uint64, lax.RandomAlgorithm.RNG_PHILOX)
    return s2, a, s3, b, lax.rng_bit_generator(key2, (4, 3), jnp.uint16, lax.RandomAlgorithm.RNG_PHILOX)[1]


@program
def ragged(x, w, n):
    return lax.ragged_dot(x, w, n, precision="highest")


@program
def softmax_norm(x, g, b):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return jax.nn.softmax(x), (x - m) * lax.rsqrt(v + 1e-5) * g + b, jax.nn.gelu(x), jax.nn.logsumexp(x, -1)


def main():
    folder = pathlib.Path(sys.argv[1])
    for request in json.load(sys.stdin):
        args = [jax.ShapeDtypeStruct(tuple(shape), jnp.dtype(dtype)) for shape, dtype in request["args"]]
        f = FUNCTIONS[request["name"]]
        (folder / f"{request['name']}.aot").write_bytes(compile_for(TARGET, f, args))
        print(request["name"], flush=True)


if __name__ == "__main__":
    main()
