# SPDX-License-Identifier: Apache-2.0
"""Reductions: reduce, of one array and of several at once."""

import functools

import numpy as np

import hlo_types as ty
from build import S, Shape
from case import EPS, Case
from cases_integer import array, bounds
from cases_move import fill, layouts

LT = dict(comparison_direction="LT", comparison_order="PARTIAL", comparison_type="FLOAT")
COMBINE = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def identity(op, t):
    if t == "pred":
        return np.array(op in ("and", "minimum", "multiply"))
    if t in ty.INTEGERS:
        lo, hi = bounds(t)
        v = {
            "add": 0,
            "multiply": 1,
            "minimum": hi,
            "maximum": lo,
            "and": -1 if t[0] == "s" else hi,
            "or": 0,
            "xor": 0,
        }[op]
        return array([v], t).reshape(())
    v = {"add": 0, "multiply": 1, "minimum": np.inf, "maximum": -np.inf}[op]
    return np.array(v).astype(ty.dtype_of(t))


def combine(op, a, b, t):
    """One step in the type's own arithmetic, wide for floats."""
    if t in ty.INTEGERS:
        f = {"minimum": min, "maximum": max}.get(op) or COMBINE[op]
        return array([f(int(u), int(v)) for u, v in zip(a.ravel(), b.ravel())], t).reshape(a.shape)
    return COMBINE[op](a, b)


def reduce_rule(x, init, axes, op, t):
    axes = sorted(axes)
    kept = [d for d in range(x.ndim) if d not in axes]
    y = np.transpose(x, axes + kept).reshape(
        (int(np.prod([x.shape[d] for d in axes])),) + tuple(x.shape[d] for d in kept)
    )
    out = np.full(y.shape[1:], init, x.dtype)
    for row in y:
        out = combine(op, out, row, t)
    return out


def wide(x):
    t = ty.name_of(x)
    return x.astype(np.clongdouble) if t in ty.COMPLEX else x.astype(np.longdouble) if t in ty.FLOATS else x


def room(t, n, size):
    """n roundings at the size of the largest partial sum."""
    if t not in ty.FLOATS + ty.COMPLEX:
        return 0
    return (max(n, 2) * EPS[t], max(n, 2) * EPS[t] * size)


def make_reduce():
    shapes = [
        ((7,), [0]),
        ((5, 6), [0]),
        ((5, 6), [1]),
        ((5, 6), [0, 1]),
        ((3, 4, 5), [1]),
        ((3, 4, 5), [0, 2]),
        ((2, 3, 2, 2, 3, 2), [1, 4, 5]),
        ((4, 0), [1]),
        ((0, 4), [1]),
        ((3, 5), []),
        ((130, 9), [0]),
        ((9, 300), [1]),
    ]
    for op in ["add", "multiply", "minimum", "maximum"]:
        c = Case(
            "reduce",
            f"reduce_{op}",
            "reduce",
            "all types, dimensions and layouts; an initial value that is no identity; rows of no elements",
        )
        k = 0
        for t in [
            "pred",
            "s4",
            "u4",
            "s8",
            "u16",
            "s32",
            "u32",
            "s64",
            "u64",
            "f16",
            "bf16",
            "f32",
            "f64",
            "c64",
            "c128",
        ]:
            if t in ty.COMPLEX and op in ("minimum", "maximum"):
                continue
            for dims, axes in [shapes[(k + i) % len(shapes)] for i in range(0, 9, 2)]:
                x = fill(t, dims, k)
                if t in ty.FLOATS and op == "multiply":
                    x = (1 + (fill(t, dims, k).astype(np.float64)) / 64).astype(x.dtype)
                if t in ty.COMPLEX:
                    rng = np.random.default_rng(k)
                    x = (np.exp(2j * np.pi * rng.random(dims))).astype(x.dtype)
                init = fill(t, (3,), 1)[2]
                comp = c.m.scalar(op, t)
                want = reduce_rule(wide(x), wide(np.array(init)), axes, op, t)
                n = int(np.prod([dims[d] for d in axes]))
                # small floats round at every step: the bound is a walk of n roundings
                exact = op in ("minimum", "maximum")
                c.op(
                    "reduce",
                    [c.input(x, layouts(len(dims))[k % len(layouts(len(dims)))]), c.input(np.array(init))],
                    want.astype(x.dtype),
                    0 if exact or t not in ty.FLOATS + ty.COMPLEX else room(t, n, 4 * max(n, 1) ** 0.5),
                    label=f"{t}{list(dims)} over {axes}",
                    called=[comp],
                    dimensions=axes,
                )
                k += 1
    c = Case("reduce", "reduce_bits", "reduce", "and, or, xor")
    for op in ("and", "or", "xor"):
        for t in ["pred", "s8", "u32", "s64", "u4"]:
            x = fill(t, (4, 9), 3)
            want = reduce_rule(x, identity(op, t) if op != "xor" or t != "pred" else np.array(False), [1], op, t)
            init = identity(op, t) if t != "pred" else np.array(op == "and")
            c.op(
                "reduce",
                [c.input(x), c.input(init)],
                want,
                label=f"{t} {op}",
                called=[c.m.scalar(op, t)],
                dimensions=[1],
            )
    c = Case("reduce", "reduce_special", "reduce", "NaN wins in maximum and minimum; infinities; -0")
    for t in ("f16", "bf16", "f32", "f64"):
        x = np.array(
            [
                [1, np.nan, 3],
                [np.inf, 1, -np.inf],
                [-np.inf, -np.inf, -np.inf],
                [-0.0, -0.0, -0.0],
                [np.inf, 2, np.inf],
            ],
            ty.dtype_of(t),
        )
        p = c.input(x)
        for op in ("maximum", "minimum", "add"):
            init = np.array(-0.0 if op == "add" else identity(op, t)).astype(x.dtype)
            with np.errstate(all="ignore"):
                want = reduce_rule(x, init, [1], op, t)
            c.op("reduce", [p, c.input(init)], want, label=f"{t} {op}", called=[c.m.scalar(op, t)], dimensions=[1])


def argmax_comp(m, t):
    """(value, index) pairs: the larger value, of equal ones the lower index."""
    f = m.computation("argmax")
    a, i, b, j = f.param(S(t)), f.param(S("s32")), f.param(S(t)), f.param(S("s32"))
    kind = "FLOAT" if t in ty.FLOATS else "SIGNED"
    gt = f.op("compare", S("pred"), [a, b], comparison_direction="GT", comparison_order="PARTIAL", comparison_type=kind)
    eq = f.op("compare", S("pred"), [a, b], comparison_direction="EQ", comparison_order="PARTIAL", comparison_type=kind)
    lt = f.op(
        "compare", S("pred"), [i, j], comparison_direction="LT", comparison_order="TOTAL", comparison_type="SIGNED"
    )
    first = f.op("or", S("pred"), [gt, f.op("and", S("pred"), [eq, lt])])
    f.tuple([f.op("select", S(t), [first, a, b]), f.op("select", S("s32"), [first, i, j])])
    return f


def make_variadic():
    c = Case("reduce", "reduce_pairs", "reduce", "arg max: two arrays at once, equal values keep the lower index")
    for t in ("f32", "s32", "bf16"):
        x = np.random.default_rng(2).integers(0, 5, (6, 20)).astype(ty.dtype_of(t))
        i = np.broadcast_to(np.arange(20, dtype=np.int32), (6, 20))
        low = identity("maximum", t)
        for axis in (1, 0):
            index = i if axis else np.broadcast_to(np.arange(6, dtype=np.int32)[:, None], (6, 20))
            n = x.shape[1 - axis]
            r = c.m.op(
                "reduce",
                Shape(elements=[S(t, n), S("s32", n)]),
                [c.input(x), c.input(index), c.input(low), c.input(np.int32(2**31 - 1))],
                [argmax_comp(c.m, t)],
                dimensions=[axis],
            )
            c.output(r, x.max(axis), label=f"{t} value {axis}")
            c.output(r, x.astype(np.float64).argmax(axis).astype(np.int32), leaf=1, label=f"{t} index {axis}")
    c = Case("reduce", "reduce_general", "reduce", "a reducer that is no single instruction: x + y + x y (associative)")
    for t in ("f32", "f64", "s32"):
        f = c.m.computation("sum_and_product")
        a, b = f.param(S(t)), f.param(S(t))
        f.op("add", S(t), [f.op("add", S(t), [a, b]), f.op("multiply", S(t), [a, b])])
        x = (
            np.random.default_rng(3).uniform(-0.2, 0.2, (5, 12)).astype(ty.dtype_of(t))
            if t != "s32"
            else fill("s32", (5, 12), 1)
        )
        init = np.array(0, x.dtype)
        with np.errstate(all="ignore"):
            want = functools.reduce(
                lambda p, q: p + q + p * q, list(x.astype(np.longdouble if t != "s32" else np.int32).T)
            ).astype(x.dtype)
        c.op("reduce", [c.input(x), c.input(init)], want, room(t, 40, 1), called=[f], dimensions=[1])


def make():
    make_reduce()
    make_variadic()
