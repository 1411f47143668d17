# SPDX-License-Identifier: Apache-2.0
"""reduce-window, select-and-scatter, map, batch norms."""

import numpy as np

import hlo_types as ty
from build import S, Shape
from case import EPS, Case
from cases_integer import array
from cases_move import fill, layouts
from cases_reduce import argmax_comp, identity, room, wide


def windowed(x, init, dims, f):
    """f folds the initial value with a window's elements in row-major order; padded positions are none."""
    out_shape = []
    for n, w in zip(x.shape, dims):
        spread = (n - 1) * w.get("base_dilation", 1) + 1 if n else 0
        reach = (w["size"] - 1) * w.get("window_dilation", 1) + 1
        out_shape.append(
            max((spread + w.get("padding_low", 0) + w.get("padding_high", 0) - reach) // w.get("stride", 1) + 1, 0)
        )
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
    ((10,), [dict(size=3)]),
    ((10,), [dict(size=3, stride=2, padding_low=1, padding_high=1)]),
    ((6, 7), [dict(size=2, stride=2), dict(size=3, stride=2, padding_high=1)]),
    ((8,), [dict(size=3, window_dilation=2, padding_low=2, padding_high=2)]),
    ((5,), [dict(size=2, base_dilation=3, padding_low=1)]),
    ((6,), [dict(size=2, padding_low=-1, padding_high=-2)]),
    ((9,), [dict(size=9, padding_low=8)]),
    ((2, 5, 3), [dict(size=1), dict(size=5, padding_low=4), dict(size=2, stride=3, padding_low=2)]),
    ((3, 4), [dict(size=1), dict(size=6, padding_low=1, padding_high=1)]),
    (
        (2, 3, 2, 3, 2, 2),
        [dict(size=1), dict(size=2), dict(size=1), dict(size=3, padding_low=1), dict(size=2, stride=2), dict(size=1)],
    ),
    (
        (4, 5),
        [
            dict(size=2, stride=3, base_dilation=2, window_dilation=2, padding_low=1, padding_high=3),
            dict(size=3, padding_low=-1, padding_high=1),
        ],
    ),
]


def full(w):
    return {
        "size": w["size"],
        "stride": w.get("stride", 1),
        "padding_low": w.get("padding_low", 0),
        "padding_high": w.get("padding_high", 0),
        "window_dilation": w.get("window_dilation", 1),
        "base_dilation": w.get("base_dilation", 1),
    }


def make_window():
    c = Case(
        "reduce",
        "reduce-window",
        "reduce-window",
        "padded positions and holes of the base do not count; negative padding cuts",
    )
    k = 0
    for dims, window in WINDOWS:
        for op in ("add", "maximum", "minimum"):
            t = ["f32", "s32", "bf16", "f64", "u8", "f16", "s64"][k % 7]
            x = fill(t, dims, k)
            init = identity(op, t)
            f = {"add": lambda a, b: a + b, "maximum": max, "minimum": min}[op]
            want = windowed(wide(x), wide(np.array(init))[()], window, f)
            want = (
                array([int(v) for v in want.ravel()], t).reshape(want.shape)
                if t in ty.INTEGERS
                else want.astype(x.dtype)
            )
            c.op(
                "reduce-window",
                [c.input(x, layouts(len(dims))[k % len(layouts(len(dims)))]), c.input(np.array(init))],
                want,
                room(t, 9, 4) if op == "add" else 0,
                label=f"{t}{list(dims)} {op}",
                called=[c.m.scalar(op, t)],
                window={"dimensions": [full(w) for w in window]},
            )
            k += 1
    c = Case(
        "reduce",
        "reduce-window_init",
        "reduce-window",
        "an initial value that is no identity counts once a window, not at padded positions",
    )
    for t in ("f32", "s32"):
        x, init = fill(t, (6,), 1), np.array(3).astype(ty.dtype_of(t))
        w = [dict(size=3, stride=1, padding_low=2, padding_high=1)]
        want = windowed(x, init[()], w, lambda a, b: a + b)
        c.op(
            "reduce-window",
            [c.input(x), c.input(init)],
            want,
            called=[c.m.scalar("add", t)],
            window={"dimensions": [full(w[0])]},
        )
    c = Case("reduce", "reduce-window_pairs", "reduce-window", "arg max over windows")
    x, i = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.float32), np.arange(8, dtype=np.int32)
    r = c.m.op(
        "reduce-window",
        Shape(elements=[S("f32", 6), S("s32", 6)]),
        [c.input(x), c.input(i), c.input(np.float32(-np.inf)), c.input(np.int32(99))],
        [argmax_comp(c.m, "f32")],
        window={"dimensions": [full(dict(size=3))]},
    )
    v = np.lib.stride_tricks.sliding_window_view(x, 3)
    c.output(r, v.max(1))
    c.output(r, (v.argmax(1) + np.arange(6)).astype(np.int32), leaf=1)
    c = Case(
        "reduce",
        "select-and-scatter",
        "select-and-scatter",
        "each source element goes to the element its window selects, the first of equal ones",
    )
    for t, dims, window in [
        ("f32", (6,), [dict(size=2, stride=2)]),
        ("f32", (7,), [dict(size=3, stride=2, padding_low=1, padding_high=1)]),
        ("s32", (4, 6), [dict(size=2, stride=2), dict(size=3, stride=3)]),
        ("bf16", (5, 5), [dict(size=3), dict(size=2, stride=2)]),
        ("f64", (1, 4, 4, 2), [dict(size=1), dict(size=2, stride=2), dict(size=2, stride=2), dict(size=1)]),
    ]:
        x = np.random.default_rng(9).integers(0, 4, dims).astype(ty.dtype_of(t))
        out = windowed(x.astype(np.float64), -np.inf, window, max)
        src = fill(t, out.shape, 5)
        want = select_and_scatter(x, src, window, 1).astype(x.dtype)
        ge = c.m.scalar(
            "compare",
            t,
            comparison_direction="GE",
            comparison_order="PARTIAL",
            comparison_type="FLOAT" if t in ty.FLOATS else "SIGNED",
        )
        c.op(
            "select-and-scatter",
            [c.input(x), c.input(src), c.input(np.array(1).astype(x.dtype))],
            want,
            room(t, 4, 4),
            label=f"{t}{list(dims)}",
            called=[ge, c.m.scalar("add", t)],
            window={"dimensions": [full(w) for w in window]},
        )


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
        c.op(
            "map",
            [c.input(x), c.input(y)],
            want,
            (EPS["f32"] * 4, 0) if t == "c64" else 0,
            called=[f],
            dimensions=[0, 1],
        )
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
                want = (x - mean.reshape(lead)) / np.sqrt(var.reshape(lead) + eps) * scale.reshape(
                    lead
                ) + offset.reshape(lead)
                c.op(
                    "batch-norm-inference",
                    [c.input(v(a)) for a in (x, scale, offset, mean, var)],
                    v(want),
                    tol,
                    **common,
                )
                continue
            elements = [S(t, *dims), S(t, n), S(t, n)]
            if opcode == "training":
                r = c.m.op(
                    "batch-norm-training",
                    Shape(elements=elements),
                    [c.input(v(a)) for a in (x, scale, offset)],
                    **common,
                )
                results = [norm * scale.reshape(lead) + offset.reshape(lead), mean, var]
            else:
                dy = v(rng.standard_normal(dims)).astype(np.float64)
                mean, var = v(mean).astype(np.float64), v(var).astype(np.float64)
                norm = (x - mean.reshape(lead)) / np.sqrt(var.reshape(lead) + eps)
                dscale, doffset = (dy * norm).sum(axes), dy.sum(axes)
                m = x.size // n
                dx = (
                    (scale / np.sqrt(var + eps)).reshape(lead)
                    / m
                    * (m * dy - doffset.reshape(lead) - norm * dscale.reshape(lead))
                )
                r = c.m.op(
                    "batch-norm-grad",
                    Shape(elements=elements),
                    [c.input(v(a)) for a in (x, scale, mean, var, dy)],
                    **common,
                )
                results = [dx, dscale, doffset]
            for i, w in enumerate(results):
                c.output(r, v(w), tol, leaf=i, label=f"{t}{list(dims)} result {i}")


def make():
    make_window()
    make_map()
