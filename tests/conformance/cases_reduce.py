# SPDX-License-Identifier: Apache-2.0
"""Reductions: reduce, reduce-window, select-and-scatter, map, batch norms, cumulative forms."""
import functools

import numpy as np

import hlo_types as ty
from build import S, Shape
from case import EPS, Case
from cases_integer import array, bounds
from cases_move import fill, layouts

LT = dict(comparison_direction="LT", comparison_order="PARTIAL", comparison_type="FLOAT")
COMBINE = {"add": lambda a, b: a + b, "multiply": lambda a, b: a * b, "minimum": np.minimum, "maximum": np.maximum,
           "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}


def identity(op, t):
    if t == "pred":
        return np.array(op in ("and", "minimum", "multiply"))
    if t in ty.INTEGERS:
        lo, hi = bounds(t)
        v = {"add": 0, "multiply": 1, "minimum": hi, "maximum": lo, "and": -1 if t[0] == "s" else hi, "or": 0, "xor": 0}[op]
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
    y = np.transpose(x, axes + kept).reshape((int(np.prod([x.shape[d] for d in axes])),) + tuple(x.shape[d] for d in kept))
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
    shapes = [((7,), [0]), ((5, 6), [0]), ((5, 6), [1]), ((5, 6), [0, 1]), ((3, 4, 5), [1]), ((3, 4, 5), [0, 2]), ((2, 3, 2, 2, 3, 2), [1, 4, 5]),
              ((4, 0), [1]), ((0, 4), [1]), ((3, 5), []), ((130, 9), [0]), ((9, 300), [1])]
    for op in ["add", "multiply", "minimum", "maximum"]:
        c = Case("reduce", f"reduce_{op}", "reduce", "all types, dimensions and layouts; an initial value that is no identity; rows of no elements")
        k = 0
        for t in ["pred", "s4", "u4", "s8", "u16", "s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f64", "c64", "c128"]:
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
                c.op("reduce", [c.input(x, layouts(len(dims))[k % len(layouts(len(dims)))]), c.input(np.array(init))],
                     want.astype(x.dtype), 0 if exact or t not in ty.FLOATS + ty.COMPLEX else room(t, n, 4 * max(n, 1) ** 0.5),
                     label=f"{t}{list(dims)} over {axes}", called=[comp], dimensions=axes)
                k += 1
    c = Case("reduce", "reduce_bits", "reduce", "and, or, xor")
    for op in ("and", "or", "xor"):
        for t in ["pred", "s8", "u32", "s64", "u4"]:
            x = fill(t, (4, 9), 3)
            want = reduce_rule(x, identity(op, t) if op != "xor" or t != "pred" else np.array(False), [1], op, t)
            init = identity(op, t) if t != "pred" else np.array(op == "and")
            c.op("reduce", [c.input(x), c.input(init)], want, label=f"{t} {op}", called=[c.m.scalar(op, t)], dimensions=[1])
    c = Case("reduce", "reduce_special", "reduce", "NaN wins in maximum and minimum; infinities; -0")
    for t in ("f16", "bf16", "f32", "f64"):
        x = np.array([[1, np.nan, 3], [np.inf, 1, -np.inf], [-np.inf, -np.inf, -np.inf], [-0.0, -0.0, -0.0], [np.inf, 2, np.inf]], ty.dtype_of(t))
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
    lt = f.op("compare", S("pred"), [i, j], comparison_direction="LT", comparison_order="TOTAL", comparison_type="SIGNED")
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
            r = c.m.op("reduce", Shape(elements=[S(t, n), S("s32", n)]), [c.input(x), c.input(index), c.input(low), c.input(np.int32(2**31 - 1))],
                       [argmax_comp(c.m, t)], dimensions=[axis])
            c.output(r, x.max(axis), label=f"{t} value {axis}")
            c.output(r, x.astype(np.float64).argmax(axis).astype(np.int32), leaf=1, label=f"{t} index {axis}")
    c = Case("reduce", "reduce_general", "reduce", "a reducer that is no single instruction: x + y + x y (associative)")
    for t in ("f32", "f64", "s32"):
        f = c.m.computation("sum_and_product")
        a, b = f.param(S(t)), f.param(S(t))
        f.op("add", S(t), [f.op("add", S(t), [a, b]), f.op("multiply", S(t), [a, b])])
        x = np.random.default_rng(3).uniform(-0.2, 0.2, (5, 12)).astype(ty.dtype_of(t)) if t != "s32" else fill("s32", (5, 12), 1)
        init = np.array(0, x.dtype)
        with np.errstate(all="ignore"):
            want = functools.reduce(lambda p, q: p + q + p * q, list(x.astype(np.longdouble if t != "s32" else np.int32).T)).astype(x.dtype)
        c.op("reduce", [c.input(x), c.input(init)], want, room(t, 40, 1), called=[f], dimensions=[1])


def windowed(x, init, dims, f):
    """f folds the initial value with a window's elements in row-major order; padded positions are none."""
    out_shape, taps = [], []
    for n, w in zip(x.shape, dims):
        spread = (n - 1) * w.get("base_dilation", 1) + 1 if n else 0
        reach = (w["size"] - 1) * w.get("window_dilation", 1) + 1
        out_shape.append(max((spread + w.get("padding_low", 0) + w.get("padding_high", 0) - reach) // w.get("stride", 1) + 1, 0))
    out = np.empty(out_shape, x.dtype)
    for at in np.ndindex(*out_shape):
        acc = init
        for k in np.ndindex(*[w["size"] for w in dims]):
            src = []
            for a, o, w, n in zip(at, k, dims, x.shape):
                p = a * w.get("stride", 1) + o * w.get("window_dilation", 1) - w.get("padding_low", 0)
                bd = w.get("base_dilation", 1)
                src.append(p // bd if p >= 0 and p % bd == 0 and p // bd < n else None)
            if None not in src:
                acc = f(acc, x[tuple(src)])
        out[at] = acc
    return out


WINDOWS = [
    ((10,), [dict(size=3)]), ((10,), [dict(size=3, stride=2, padding_low=1, padding_high=1)]),
    ((6, 7), [dict(size=2, stride=2), dict(size=3, stride=2, padding_high=1)]),
    ((8,), [dict(size=3, window_dilation=2, padding_low=2, padding_high=2)]), ((5,), [dict(size=2, base_dilation=3, padding_low=1)]),
    ((6,), [dict(size=2, padding_low=-1, padding_high=-2)]), ((9,), [dict(size=9, padding_low=8)]),
    ((2, 5, 3), [dict(size=1), dict(size=5, padding_low=4), dict(size=2, stride=3, padding_low=2)]),
    ((3, 4), [dict(size=1), dict(size=6, padding_low=1, padding_high=1)]),
    ((2, 3, 2, 3, 2, 2), [dict(size=1), dict(size=2), dict(size=1), dict(size=3, padding_low=1), dict(size=2, stride=2), dict(size=1)]),
    ((4, 5), [dict(size=2, stride=3, base_dilation=2, window_dilation=2, padding_low=1, padding_high=3), dict(size=3, padding_low=-1, padding_high=1)]),
]


def full(w):
    return {"size": w["size"], "stride": w.get("stride", 1), "padding_low": w.get("padding_low", 0), "padding_high": w.get("padding_high", 0),
            "window_dilation": w.get("window_dilation", 1), "base_dilation": w.get("base_dilation", 1)}


def make_window():
    c = Case("reduce", "reduce-window", "reduce-window", "padded positions and holes of the base do not count; negative padding cuts")
    k = 0
    for dims, window in WINDOWS:
        for op in ("add", "maximum", "minimum"):
            t = ["f32", "s32", "bf16", "f64", "u8", "f16", "s64"][k % 7]
            x = fill(t, dims, k)
            init = identity(op, t)
            f = {"add": lambda a, b: a + b, "maximum": max, "minimum": min}[op]
            want = windowed(wide(x), wide(np.array(init))[()], window, f)
            want = array([int(v) for v in want.ravel()], t).reshape(want.shape) if t in ty.INTEGERS else want.astype(x.dtype)
            c.op("reduce-window", [c.input(x, layouts(len(dims))[k % len(layouts(len(dims)))]), c.input(np.array(init))], want,
                 room(t, 9, 4) if op == "add" else 0, label=f"{t}{list(dims)} {op}", called=[c.m.scalar(op, t)],
                 window={"dimensions": [full(w) for w in window]})
            k += 1
    c = Case("reduce", "reduce-window_init", "reduce-window", "an initial value that is no identity counts once a window, not at padded positions")
    for t in ("f32", "s32"):
        x, init = fill(t, (6,), 1), np.array(3).astype(ty.dtype_of(t))
        w = [dict(size=3, stride=1, padding_low=2, padding_high=1)]
        want = windowed(x, init[()], w, lambda a, b: a + b)
        c.op("reduce-window", [c.input(x), c.input(init)], want, called=[c.m.scalar("add", t)], window={"dimensions": [full(w[0])]})
    c = Case("reduce", "reduce-window_pairs", "reduce-window", "arg max over windows")
    x, i = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.float32), np.arange(8, dtype=np.int32)
    r = c.m.op("reduce-window", Shape(elements=[S("f32", 6), S("s32", 6)]), [c.input(x), c.input(i), c.input(np.float32(-np.inf)), c.input(np.int32(99))],
               [argmax_comp(c.m, "f32")], window={"dimensions": [full(dict(size=3))]})
    v = np.lib.stride_tricks.sliding_window_view(x, 3)
    c.output(r, v.max(1))
    c.output(r, (v.argmax(1) + np.arange(6)).astype(np.int32), leaf=1)
    c = Case("reduce", "select-and-scatter", "select-and-scatter", "each source element goes to the element its window selects, the first of equal ones")
    for t, dims, window in [("f32", (6,), [dict(size=2, stride=2)]), ("f32", (7,), [dict(size=3, stride=2, padding_low=1, padding_high=1)]),
                            ("s32", (4, 6), [dict(size=2, stride=2), dict(size=3, stride=3)]), ("bf16", (5, 5), [dict(size=3), dict(size=2, stride=2)]),
                            ("f64", (1, 4, 4, 2), [dict(size=1), dict(size=2, stride=2), dict(size=2, stride=2), dict(size=1)])]:
        x = np.random.default_rng(9).integers(0, 4, dims).astype(ty.dtype_of(t))
        out = windowed(x.astype(np.float64), -np.inf, window, max)
        src = fill(t, out.shape, 5)
        want = select_and_scatter(x, src, window, 1).astype(x.dtype)
        ge = c.m.scalar("compare", t, comparison_direction="GE", comparison_order="PARTIAL", comparison_type="FLOAT" if t in ty.FLOATS else "SIGNED")
        c.op("select-and-scatter", [c.input(x), c.input(src), c.input(np.array(1).astype(x.dtype))], want, room(t, 4, 4), label=f"{t}{list(dims)}",
             called=[ge, c.m.scalar("add", t)], window={"dimensions": [full(w) for w in window]})


def select_and_scatter(x, src, window, init):
    out = np.full(x.shape, init, np.float64)
    for at in np.ndindex(*src.shape):
        best = None
        for k in np.ndindex(*[w["size"] for w in window]):
            p = tuple(a * w.get("stride", 1) + o - w.get("padding_low", 0) for a, o, w in zip(at, k, window))
            if all(0 <= v < n for v, n in zip(p, x.shape)) and (best is None or not x[best] >= x[p]):
                best = p
        if best is not None:
            out[best] += float(src[at])
    return out


def make_map():
    c = Case("reduce", "map", "map", "a scalar computation of two arrays")
    for t in ("f32", "s32", "c64"):
        f = c.m.computation("body")
        a, b = f.param(S(t)), f.param(S(t))
        f.op("subtract", S(t), [f.op("multiply", S(t), [a, a]), b])
        x, y = fill(t, (3, 4), 1), fill(t, (3, 4), 7)
        want = (x.astype(np.complex128) ** 2 - y).astype(x.dtype) if t == "c64" else x * x - y
        c.op("map", [c.input(x), c.input(y)], want, (EPS["f32"] * 4, 0) if t == "c64" else 0, called=[f], dimensions=[0, 1])
    eps = float(np.float32(1e-3))
    for opcode in ("inference", "training", "grad"):
        c = Case("reduce", f"batch-norm-{opcode}", f"batch-norm-{opcode}")
        for t, dims, d in [("f32", (4, 3, 5), 1), ("f64", (6, 4), 1), ("f32", (2, 3, 3, 4), 3)]:
            rng = np.random.default_rng(12)
            x, n = rng.standard_normal(dims), dims[d]
            axes = tuple(k for k in range(len(dims)) if k != d)
            scale, offset = rng.uniform(0.5, 2, n), rng.standard_normal(n)
            lead = [-1 if k == d else 1 for k in range(len(dims))]
            v = lambda a: a.astype(ty.dtype_of(t))
            x, scale, offset = [v(a).astype(np.float64) for a in (x, scale, offset)]
            mean, var = x.mean(axes), x.var(axes)
            norm = (x - mean.reshape(lead)) / np.sqrt(var.reshape(lead) + eps)
            tol = (64 * EPS[t], 64 * EPS[t])
            common = dict(epsilon=eps, feature_index=d)
            if opcode == "inference":
                mean, var = v(mean + 0.1).astype(np.float64), v(var + 0.2).astype(np.float64)
                want = (x - mean.reshape(lead)) / np.sqrt(var.reshape(lead) + eps) * scale.reshape(lead) + offset.reshape(lead)
                c.op("batch-norm-inference", [c.input(v(a)) for a in (x, scale, offset, mean, var)], v(want), tol, **common)
                continue
            elements = [S(t, *dims), S(t, n), S(t, n)]
            if opcode == "training":
                r = c.m.op("batch-norm-training", Shape(elements=elements), [c.input(v(a)) for a in (x, scale, offset)], **common)
                results = [norm * scale.reshape(lead) + offset.reshape(lead), mean, var]
            else:
                dy = v(rng.standard_normal(dims)).astype(np.float64)
                mean, var = v(mean).astype(np.float64), v(var).astype(np.float64)
                norm = (x - mean.reshape(lead)) / np.sqrt(var.reshape(lead) + eps)
                dscale, doffset = (dy * norm).sum(axes), dy.sum(axes)
                m = x.size // n
                dx = (scale / np.sqrt(var + eps)).reshape(lead) / m * (m * dy - doffset.reshape(lead) - norm * dscale.reshape(lead))
                r = c.m.op("batch-norm-grad", Shape(elements=elements), [c.input(v(a)) for a in (x, scale, mean, var, dy)], **common)
                results = [dx, dscale, doffset]
            for i, w in enumerate(results):
                c.output(r, v(w), tol, leaf=i, label=f"{t}{list(dims)} result {i}")


def make():
    make_reduce()
    make_variadic()
    make_window()
    make_map()
