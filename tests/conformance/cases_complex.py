# SPDX-License-Identifier: Apache-2.0
"""Element-wise operations on complex numbers, away from branch points; errors are measured against the modulus."""

import numpy as np

import hlo_types as ty
from case import EPS, Case


def sample(t, seed, n=40, scale=2.0):
    """Axes and small numbers first (where naive formulas cancel), then random ones."""
    rng = np.random.default_rng(seed)
    first = [1, -2, 1.5j, -0.5j, 1e-4 + 2e-4j, -3e-5 + 1e-4j, 1e-3, 2e-4j, 3 + 4j, -3 + 4j, -3 - 4j]
    z = rng.uniform(-scale, scale, n) + 1j * rng.uniform(-scale, scale, n)
    return np.concatenate([np.array(first), z]).astype(ty.dtype_of(t))


def wide(a):
    return a.astype(np.clongdouble if ty.name_of(a) == "c128" else np.complex128)


def part(t):
    return np.float32 if t == "c64" else np.float64


UNARY = {
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan": np.arctan,
    "logistic": lambda z: 1 / (1 + np.exp(-z)),
    "sign": lambda z: z / np.abs(z),
    "cbrt": lambda z: np.exp(np.log(z) / 3),
}


def make_unary():
    for opcode, f in UNARY.items():
        c = Case("complex", opcode, opcode)
        for k, t in enumerate(ty.COMPLEX):
            z = sample(t, 900 + k)
            if opcode in ("asin", "acos", "acosh", "atanh"):  # the cuts lie on the real axis
                z = z[np.imag(z) != 0]
            if opcode in ("asinh", "atan", "log", "sqrt", "rsqrt", "cbrt", "sign", "log-plus-one"):
                z = z[~((np.real(z) == 0) & (np.abs(np.imag(z)) >= 1)) & ~((np.imag(z) == 0) & (np.real(z) < 0))]
            c.op(opcode, [c.input(z)], f(wide(z)).astype(z.dtype), (16 * EPS[t], 0))
    c = Case("complex", "negate", "negate")
    for t in ty.COMPLEX:
        z = np.array([1 + 2j, -0.0 + 0j, complex(np.inf, -1), complex(np.nan, 3)], ty.dtype_of(t))
        c.op("negate", [c.input(z)], np.negative(z))
    c = Case("complex", "abs", "abs", "the modulus does not overflow before it must; an infinite part wins over NaN")
    for k, t in enumerate(ty.COMPLEX):
        big = float(np.finfo(part(t)).max)
        z = np.concatenate(
            [
                sample(t, 920 + k),
                np.array([big * (0.5 + 0.5j), complex(np.inf, np.nan), 0, 1e-30 * (3 + 4j)], ty.dtype_of(t)),
            ]
        )
        c.op("abs", [c.input(z)], np.abs(wide(z)).astype(part(t)), (8 * EPS[t], 0))


def make_binary():
    for opcode, f, room in [
        ("add", np.add, 0),
        ("subtract", np.subtract, 0),
        ("multiply", np.multiply, 4),
        ("divide", np.divide, 8),
        ("power", np.power, 64),
        ("atan2", None, 64),
    ]:
        c = Case("complex", opcode, opcode)
        for k, t in enumerate(ty.COMPLEX):
            x, y = sample(t, 940 + k), sample(t, 960 + k)[::-1].copy()
            if opcode == "power":
                x = x[np.real(x) > 0]
                y = y[: x.size]
            if opcode == "atan2":  # -i log((x + i y) / sqrt(x^2 + y^2)), near real arguments
                x, y = np.real(x) + 0.1 * np.imag(x) * 1j, np.abs(np.real(y)) + 0.5 + 0.1 * np.imag(y) * 1j
                x, y = x.astype(ty.dtype_of(t)), y.astype(ty.dtype_of(t))
            u, v = wide(x), wide(y)
            if opcode in ("add", "subtract"):
                want = f(x, y)
            elif opcode == "atan2":
                want = (-1j * np.log((v + 1j * u) / np.sqrt(v * v + u * u))).astype(x.dtype)
            else:
                want = f(u, v).astype(x.dtype)
            c.op(
                opcode, [c.input(x), c.input(y)], want, room and (room * EPS[t], 4 * EPS[t] if opcode == "atan2" else 0)
            )
    c = Case("complex", "power_zero", "power", "0^0 = 1, 0^y = 0 when y has a positive real part, x^0 = 1")
    for t in ty.COMPLEX:
        x, y = np.array([0, 0, 2 + 1j, 1], ty.dtype_of(t)), np.array([0, 2 + 0.5j, 0, 3 - 1j], ty.dtype_of(t))
        c.op("power", [c.input(x), c.input(y)], np.array([1, 0, 1, 1], x.dtype), (16 * EPS[t], 0))
    c = Case("complex", "compare", "compare", "both parts must be equal; NaN is not equal to itself; -0 = 0")
    for t in ty.COMPLEX:
        x = np.array(
            [1 + 2j, 1 + 2j, 1 + 2j, complex(np.nan, 0), complex(0, np.nan), complex(-0.0, 0.0)], ty.dtype_of(t)
        )
        y = np.array(
            [1 + 2j, 1 + 3j, 2 + 2j, complex(np.nan, 0), complex(0, np.nan), complex(0.0, -0.0)], ty.dtype_of(t)
        )
        a, b = c.input(x), c.input(y)
        for d, want in [("EQ", x == y), ("NE", x != y)]:
            c.op(
                "compare",
                [a, b],
                want,
                label=f"{t} {d}",
                comparison_direction=d,
                comparison_order="PARTIAL",
                comparison_type="FLOAT",
            )


def make_parts():
    c = Case(
        "complex", "parts", "complex real imag", "NaN and -0 pass through; the imaginary part of a real number is 0"
    )
    for t in ty.COMPLEX:
        re = np.array([1, -0.0, np.inf, np.nan, 2.5, 0], part(t))
        im = np.array([2, 0.0, -np.inf, 1, -0.0, np.nan], part(t))
        z = np.empty(6, ty.dtype_of(t))
        z.real, z.imag = re, im
        c.op("complex", [c.input(re), c.input(im)], z)
        p = c.input(z)
        c.op("real", [p], re, label=t + " real")
        c.op("imag", [p], im, label=t + " imag")
    for t in ("f32", "f64", "f16", "bf16"):
        x = np.array([1, -2, 0.5, np.inf], ty.dtype_of(t))
        p = c.input(x)
        c.op("real", [p], x, label=t + " real")
        c.op("imag", [p], np.zeros_like(x), label=t + " imag")


def make():
    with np.errstate(all="ignore"):
        make_unary()
        make_binary()
        make_parts()
