# SPDX-License-Identifier: Apache-2.0
"""Compiled programs: element-wise operations and conversions."""

import numpy as np
import scipy.special

import cases_compiled_arrays
import hlo_types as ty
from cases_convert import converted, floats, reduced
from cases_float import FUNCTIONS as WIDE
from cases_float import away_from_zero, narrow, pairs, sample
from cases_integer import BINARY, UNARY, array, ints
from cases_integer import pairs as int_pairs
from cases_integer import sample as int_sample
from cases_linear import random
from compiled import T, compile_all, program


def typed(t):
    return ty.dtype_of(t)


ROUND = [
    ("abs", np.abs),
    ("negate", np.negative),
    ("ceil", np.ceil),
    ("floor", np.floor),
    ("sign", lambda x: np.where(np.isnan(x) | (x == 0), x, np.sign(x))),
    ("sqrt", np.sqrt),
    ("round-nearest-even", np.rint),
    ("round-nearest-afz", away_from_zero),
]
SMOOTH = (
    [("rsqrt", lambda x: 1 / np.sqrt(x)), ("cbrt", np.cbrt)]
    + [
        (k, WIDE[k])
        for k in (
            "exponential",
            "exponential-minus-one",
            "log",
            "log-plus-one",
            "sine",
            "cosine",
            "tan",
            "tanh",
            "sinh",
            "cosh",
            "asin",
            "acos",
            "atan",
            "asinh",
            "acosh",
            "atanh",
        )
    ]
    + [("erf", lambda x: scipy.special.erf(x.astype(np.float64))), ("logistic", lambda x: 1 / (1 + np.exp(-x)))]
)


def pointwise():
    for t in ("f32", "f64"):
        x, unit = sample(t, 1, n=20), np.random.default_rng(2).uniform(-0.9, 0.9, 45).astype(typed(t))
        wide = lambda v: v.astype(np.longdouble if t == "f64" else np.float64)
        x = x[
            ~(np.abs(x) < np.finfo(typed(t)).tiny) | (x == 0)
        ]  # numbers below the normal ones have cases of their own
        x, unit = x[:40], unit[:40]
        results = [(narrow(f(wide(x)), t), T[t] if k == "sqrt" else 0) for k, f in ROUND]
        results += [(narrow(f(wide(unit if k in ("asin", "acos", "atanh") else x)), t), T[t]) for k, f in SMOOTH] + [
            np.isfinite(x)
        ]
        program(
            f"unary_{t}",
            [k for k, _ in ROUND + SMOOTH] + ["is-finite"],
            [x, unit],
            results,
            labels=[k for k, _ in ROUND + SMOOTH],
        )
    xs, results = [], []
    for t in ("f16", "bf16"):
        x = sample(t, 3, n=20)[:19]
        xs.append(x)
        w = x.astype(np.float64)
        fs = [
            np.exp,
            np.log,
            np.tanh,
            np.sqrt,
            np.negative,
            np.floor,
            lambda v: 1 / np.sqrt(v),
            lambda v: 1 / (1 + np.exp(-v)),
            np.sin,
        ]
        results += [(narrow(f(w), t), 0 if f in (np.negative, np.floor) else T[t]) for f in fs]
    program("unary_small", "exponential log tanh sqrt negate floor rsqrt logistic sine", xs, results)
    names = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "power", "atan2", "compare"]
    for t in ("f32", "f64"):
        x, y = pairs(t, 5, n=20)
        keep = (
            ~((x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y)))
            & ~((np.abs(x) < 1e-37) & (x != 0))
            & ~((np.abs(y) < 1e-37) & (y != 0))
        )
        x, y = x[keep], y[keep]
        w = lambda v: v.astype(np.longdouble if t == "f64" else np.float64)
        results = [
            x + y,
            x - y,
            x * y,
            (x / y, T[t]),
            np.maximum(x, y),
            np.minimum(x, y),
            np.fmod(x, y),
            (narrow(np.power(w(x), w(y)), t), (1e-5 if t == "f32" else 1e-12, 1e-300)),
            (narrow(np.arctan2(w(x), w(y)), t), T[t]),
        ] + [f(x, y) for f in (np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less)]
        program(f"binary_{t}", names, [x, y], results, "every special value against every other", labels=names)
    xs, results = [], []
    for t in ("f16", "bf16"):
        x, y = pairs(t, 6, n=20)
        keep = ~((x == 0) & (y == 0)) & (np.abs(x.astype(np.float32)) < 1e4) & (
            np.abs(y.astype(np.float32)) < 1e4
        ) | np.isnan(x.astype(np.float32))
        x, y = x[keep], y[keep]
        xs += [x, y]
        a, b = x.astype(np.float32), y.astype(np.float32)
        results += [f(a, b).astype(x.dtype) for f in (np.add, np.subtract, np.multiply)] + [
            ((a / b).astype(x.dtype), T[t])
        ]
        results += [np.maximum(a, b).astype(x.dtype), np.minimum(a, b).astype(x.dtype), a == b, a < b]
    program("binary_small", names, xs, results)


def integer():
    xs, results, ops = (
        [],
        [],
        [
            "add",
            "subtract",
            "multiply",
            "divide",
            "remainder",
            "maximum",
            "minimum",
            "and",
            "or",
            "xor",
            "shift-left",
            "shift-right-logical",
            "shift-right-arithmetic",
        ],
    )
    for k, t in enumerate(("s8", "s16", "s32", "s64", "u8", "u32", "u64")):
        x, y = int_pairs(t, 20 + k)
        xs += [x, y]
        u, v = ints(x), ints(y)
        results += [array([BINARY[o](a, b, t) for a, b in zip(u, v)], t) for o in ops]
        results += [
            np.array([f(a, b) for a, b in zip(u, v)])
            for f in (
                lambda a, b: a == b,
                lambda a, b: a != b,
                lambda a, b: a >= b,
                lambda a, b: a > b,
                lambda a, b: a <= b,
                lambda a, b: a < b,
            )
        ]
    program(
        "integers", ops + ["compare"], xs, results, "division by zero, shifts by the width and more, numbers that wrap"
    )
    xs, results, ops = [], [], ["not", "popcnt", "count-leading-zeros", "sign"]
    for k, t in enumerate(("s8", "u16", "s32", "u32", "s64", "u64")):
        x = int_sample(t, 30 + k)
        xs.append(x)
        results += [array([UNARY[o](a, t) for a in ints(x)], t) for o in ops]
    program("integers_unary", ops, xs, results)
    x, w = np.arange(-20, 21).astype(np.int8), np.arange(0, 41).astype(np.uint8)
    s, u = array(ints(x), "s4"), array(ints(w), "u4")
    program(
        "four_bits",
        "convert add",
        [x, w],
        [s.astype(np.int32) + 1, u.astype(np.float32) * 2, s, u, s.astype(np.int8) * np.int8(2)],
        "4-bit results are packed, the first element in the low half; an odd number of them",
    )


def conversions():
    xs, results, labels = [], [], []
    targets = [
        "s8",
        "s16",
        "s32",
        "s64",
        "u8",
        "u16",
        "u32",
        "u64",
        "pred",
        "f16",
        "bf16",
        "f8e4m3fn",
        "f8e5m2",
        "f32",
        "f64",
        "c64",
        "c128",
    ]
    for t in ("f32", "f64", "f16", "bf16"):
        x = floats(t, 40)
        keep = np.ones(x.shape, bool)
        for to in targets:
            keep &= converted(x, to)[1]
        x = x[keep & (np.abs(x.astype(np.float64)) > 1e-4) | (x == 0) | np.isnan(x)]
        xs.append(x)
        results += [converted(x, to)[0] for to in targets]
        labels += [f"{t} to {to}" for to in targets]
    program("convert_float", "convert", xs, results, "floats saturate in integers, NaN becomes 0", labels)
    xs, results, labels = [], [], []
    targets = ["s8", "s32", "s64", "u8", "u16", "u64", "pred", "f16", "bf16", "f32", "f64"]
    for t in ("s8", "u16", "s32", "u64", "pred"):
        x = np.array([0, 1, 1, 0], bool) if t == "pred" else int_sample(t, 50)
        for to in targets:
            x = x[converted(x, to)[1]]
        xs.append(x)
        results += [converted(x, to)[0] for to in targets]
        labels += [f"{t} to {to}" for to in targets]
    program("convert_integer", "convert", xs, results, labels=labels)
    x, y = sample("f32", 60, n=20), sample("f64", 61, n=20)
    z = np.random.default_rng(62).integers(0, 120, (9, 2, 2)).astype(np.uint8).view(np.int16).reshape(9, 2)
    raw = x.view(np.uint8).reshape(-1, 4)
    program(
        "bits",
        "bitcast-convert reduce-precision",
        [x, y, z],
        [
            x.view(np.int32),
            y.view(np.uint64),
            raw,
            z.view(np.float16),
            reduced(x, 5, 2),
            reduced(x, 4, 3),
            reduced(x, 8, 7),
            reduced(y, 8, 23),
        ],
        "a narrower exponent range overflows to infinity and flushes what lies below its normal numbers",
    )
    x, lo, hi = (
        np.array([1, np.nan, -5, 3, 7, 0.5], np.float32),
        np.array([0, 0, -1, np.nan, 9, -2], np.float32),
        np.array([2, 2, 1, 4, 8, np.nan], np.float32),
    )
    p, y = np.array([1, 0, 1, 1, 0, 0], bool), np.arange(6, dtype=np.float32)
    program(
        "choose",
        "select clamp",
        [p, x, y, lo, hi],
        [
            np.where(p, x, y),
            np.minimum(np.maximum(lo, x), hi),
            np.minimum(np.maximum(np.float32(-1), x), np.float32(2)),
            np.where(p, y, x),
        ],
    )


def complexes():
    xs, results = [], []
    for t in ("c64", "c128"):
        a, b = random(t, (33,), 70), random(t, (33,), 71)
        b[:3] = a[:3]
        b = np.where(np.abs(b) < 0.1, b + 1, b).astype(a.dtype)
        xs += [a, b]
        u, v, e = a.astype(np.complex128), b.astype(np.complex128), (1e-5 if t == "c64" else 1e-12)
        v32 = lambda z: z.astype(a.dtype)
        results += (
            [v32(a + b), v32(a - b)]
            + [(v32(z), (e, e)) for z in (u * v, u / v, np.exp(u), np.log(u), np.sqrt(u))]
            + [(np.abs(u).astype(a.real.dtype), (e, 0))]
        )
        results += [(v32(z), (e, e)) for z in (np.sin(u), np.tanh(u))] + [np.conj(a), a.real, b.imag, a == b]
    program(
        "complex_numbers",
        "add subtract multiply divide exponential log sqrt abs sine tanh negate real imag complex compare",
        xs,
        results,
    )


def make():
    with np.errstate(all="ignore"):
        for f in (pointwise, integer, conversions, complexes):
            f()
        cases_compiled_arrays.make()
    compile_all()
