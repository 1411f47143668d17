# SPDX-License-Identifier: Apache-2.0
"""sort and top-k."""

import numpy as np

import hlo_types as ty
from build import S, Shape
from case import Case
from cases_move import fill, layouts


def total_order(x):
    bits = x.view({1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[x.dtype.itemsize]).astype(np.int64)
    return np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)


def make_sort():
    c = Case("index", "sort", "sort", "every type, both directions, each dimension; NaN and -0 by the total order")
    for k, t in enumerate(
        ["pred", "s4", "u4", "s8", "u16", "s32", "u64", "s64", "f8e4m3fn", "f16", "bf16", "f32", "f64"]
    ):
        rng = np.random.default_rng(k)
        x = rng.integers(0, 2, (5, 9)).astype(bool) if t == "pred" else fill(t, (5, 9), k)
        if t in ty.FLOATS:
            with np.errstate(all="ignore"):
                x = (rng.standard_normal((5, 9)) * 4).astype(ty.dtype_of(t))
                x[0, :5] = np.array([np.nan, 0.0, -0.0, 1, -np.nan]).astype(x.dtype)
            if t in ("f16", "bf16", "f32", "f64"):
                x[1, :3] = np.array([np.inf, -np.inf, 2]).astype(x.dtype)
        key = total_order(x) if t in ty.FLOATS else ty.plain(x).astype(np.int64) if t != "u64" else x
        for axis, up in [(1, True), (0, False)]:
            order = np.argsort(key, axis=axis, kind="stable")
            if not up:
                order = np.flip(order, axis)
            less = c.m.scalar(
                "compare",
                t,
                comparison_direction="LT" if up else "GT",
                comparison_order="TOTAL",
                comparison_type="FLOATTOTALORDER" if t in ty.FLOATS else "UNSIGNED" if t[0] in "up" else "SIGNED",
            )
            c.op(
                "sort",
                [c.input(x, layouts(2)[k % 2])],
                np.take_along_axis(x, order, axis),
                label=f"{t} dimension {axis}",
                called=[less],
                dimensions=[axis],
            )
    c = Case(
        "index", "sort_stable", "sort", "equal keys keep their order; the comparator sees the keys only; four operands"
    )
    key = np.random.default_rng(5).integers(0, 4, (3, 40)).astype(np.int32)
    rest = [np.arange(120).reshape(3, 40).astype(ty.dtype_of(t)) for t in ("s32", "f32", "bf16")]
    m = c.m.computation("less")
    ps = [m.param(S(t)) for t in ("s32", "s32", "s32", "s32", "f32", "f32", "bf16", "bf16")]
    m.op("compare", S("pred"), ps[:2], comparison_direction="LT", comparison_order="TOTAL", comparison_type="SIGNED")
    order = np.argsort(key, axis=1, kind="stable")
    r = c.m.op(
        "sort",
        Shape(elements=[S(t, 3, 40) for t in ("s32", "s32", "f32", "bf16")]),
        [c.input(v) for v in [key] + rest],
        [m],
        dimensions=[1],
        is_stable=True,
    )
    for i, v in enumerate([key] + rest):
        c.output(r, np.take_along_axis(v, order, 1), leaf=i)
    c = Case("index", "sort_by_two", "sort", "first key, then second; second key descending; long rows")
    a, b = np.random.default_rng(6).integers(0, 30, 3000).astype(np.int16), np.random.default_rng(7).permutation(
        3000
    ).astype(np.float32)
    m = c.m.computation("less")
    p = [m.param(S(t)) for t in ("s16", "s16", "f32", "f32")]
    lt = m.op(
        "compare", S("pred"), p[:2], comparison_direction="LT", comparison_order="TOTAL", comparison_type="SIGNED"
    )
    eq = m.op(
        "compare", S("pred"), p[:2], comparison_direction="EQ", comparison_order="TOTAL", comparison_type="SIGNED"
    )
    gt = m.op(
        "compare", S("pred"), p[2:], comparison_direction="GT", comparison_order="PARTIAL", comparison_type="FLOAT"
    )
    m.op("or", S("pred"), [lt, m.op("and", S("pred"), [eq, gt])])
    order = np.lexsort([-b, a])
    r = c.m.op("sort", Shape(elements=[S("s16", 3000), S("f32", 3000)]), [c.input(a), c.input(b)], [m], dimensions=[0])
    c.output(r, a[order])
    c.output(r, b[order], leaf=1)
    c = Case("index", "sort_empty", "sort", "no rows, rows of no and of one element")
    less = c.m.scalar("compare", "f32", comparison_direction="LT", comparison_order="TOTAL", comparison_type="FLOAT")
    for dims in [(0, 4), (4, 0), (3, 1), (1,)]:
        x = fill("f32", dims, 1)
        c.op("sort", [c.input(x)], x, called=[less], dimensions=[len(dims) - 1], label=str(list(dims)))


def make_topk():
    c = Case("index", "topk", "topk", "descending or ascending; of equal values the one with the lower index first")
    for t, n, k, largest in [
        ("f32", 20, 5, True),
        ("f32", 20, 5, False),
        ("s32", 50, 8, True),
        ("bf16", 33, 33, True),
        ("u8", 12, 1, False),
        ("f64", 9, 4, True),
    ]:
        x = (np.random.default_rng(n).integers(0, 8, (3, n)) - (0 if t == "u8" else 3)).astype(ty.dtype_of(t))
        order = np.argsort(-x.astype(np.float64) if largest else x.astype(np.float64), axis=1, kind="stable")[:, :k]
        r = c.m.op("topk", Shape(elements=[S(t, 3, k), S("s32", 3, k)]), [c.input(x)], k=k, largest=largest)
        c.output(r, np.take_along_axis(x, order, 1), label=f"{t} {'largest' if largest else 'smallest'} values")
        c.output(r, order.astype(np.int32), leaf=1, label=f"{t} indices")


def make():
    make_sort()
    make_topk()
