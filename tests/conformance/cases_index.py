# SPDX-License-Identifier: Apache-2.0
"""Operations with indices: dynamic slices, gather, scatter, sort, top-k."""

import numpy as np

import hlo_types as ty
from build import S, Shape
from case import Case
from cases_integer import array
from cases_move import TYPES, fill, layouts

INDEX_TYPES = ["s32", "s64", "u32", "s8", "u8", "s16", "u64"]


def scalar(v, t):
    return np.array(v).astype(ty.dtype_of(t))


def clamp_start(start, dims, sizes):
    return [int(min(max(int(s), 0), d - n)) for s, d, n in zip(start, dims, sizes)]


STARTS = [
    ((10,), (3,), (2,)),
    ((10,), (3,), (9,)),
    ((10,), (3,), (-4,)),
    ((4, 6), (2, 3), (1, 2)),
    ((4, 6), (2, 3), (3, -1)),
    ((2, 3, 4), (1, 3, 2), (5, 1, 1)),
    ((3, 2, 3, 2, 3, 2), (1, 2, 2, 1, 3, 1), (1, 0, 2, 1, 0, 1)),
    ((), (), ()),
    ((0, 3), (0, 2), (0, 1)),
    ((5,), (0,), (9,)),
    ((6,), (6,), (2,)),
]


def make_dynamic():
    c = Case("index", "dynamic-slice", "dynamic-slice", "start indices are clamped so that the slice fits")
    u = Case(
        "index", "dynamic-update-slice", "dynamic-update-slice", "start indices are clamped so that the update fits"
    )
    k = 0
    for dims, sizes, start in STARTS:
        for layout in layouts(len(dims)):
            t, it = TYPES[k % len(TYPES)], INDEX_TYPES[k % len(INDEX_TYPES)]
            start_of_type = [scalar(max(s, 0) if it[0] == "u" else s, it) for s in start]
            at = clamp_start(start_of_type, dims, sizes)
            where = tuple(slice(a, a + n) for a, n in zip(at, sizes))
            x, y = fill(t, dims, k), fill(t, sizes, k + 40)
            label = f"{t}{list(dims)} at {[int(s) for s in start_of_type]}"
            to = layouts(len(dims), 3)[k % len(layouts(len(dims)))]
            c.op(
                "dynamic-slice",
                [c.input(x, layout)] + [c.input(s) for s in start_of_type],
                x[where],
                layout=to,
                label=label,
                dynamic_slice_sizes=sizes,
            )
            want = x.copy()
            want[where] = y
            u.op(
                "dynamic-update-slice",
                [u.input(x, layout), u.input(y, to)] + [u.input(s) for s in start_of_type],
                want,
                layout=layout,
                label=label,
            )
            k += 1
    c = Case(
        "index",
        "dynamic-slice_vector",
        "dynamic-slice dynamic-update-slice",
        "start indices as one array, the older form",
    )
    x = fill("f32", (5, 6), 1)
    s = np.array([2, 5], np.int32)
    c.op("dynamic-slice", [c.input(x), c.input(s)], x[2:4, 3:6], dynamic_slice_sizes=(2, 3))
    want = x.copy()
    want[2:4, 3:6] = -1
    c.op("dynamic-update-slice", [c.input(x), c.input(np.full((2, 3), -1, np.float32)), c.input(s)], want)


def make_in_place():
    c = Case(
        "index", "in_place", "dynamic-update-slice scatter add sort", "results in the memory of a donated parameter"
    )
    for t in ("f32", "bf16", "s8", "c64"):
        x, y = fill(t, (6, 4), 3), fill(t, (2, 4), 50)
        p = c.input(x)
        want = x.copy()
        want[3:5] = y
        zero = c.input(scalar(0, "s32"))
        c.op(
            "dynamic-update-slice", [p, c.input(y), c.input(scalar(3, "s32")), zero], want, label=f"{t} update", into=p
        )
    x, y = fill("f32", (9,), 1), fill("f32", (9,), 2)
    p = c.input(x)
    c.op("add", [p, c.input(y)], x + y, label="f32 add", into=p)
    x = np.random.default_rng(8).permutation(37).astype(np.float32)
    p = c.input(x)
    less = c.m.scalar("compare", "f32", comparison_direction="LT", comparison_order="TOTAL", comparison_type="FLOAT")
    c.op("sort", [p], np.sort(x), label="f32 sort", into=p, called=[less], dimensions=[0])
    x, i, v = fill("s32", (7,), 4), np.array([[1], [1], [6]], np.int32), np.array([10, 20, 30], np.int32)
    p = c.input(x)
    want = x.copy()
    np.add.at(want, i[:, 0], v)
    c.op(
        "scatter",
        [p, c.input(i), c.input(v)],
        want,
        label="s32 scatter",
        into=p,
        called=[c.m.scalar("add", "s32")],
        scatter_dimension_numbers=dict(inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=1),
    )
    # the slice that the update replaces is read by the update itself
    f = c.m.computation("shift")
    a, i, one = f.param(S("f32", 5)), f.param(S("s32")), f.const(np.int32(1))
    before = f.op("dynamic-slice", S("f32", 2), [a, i], dynamic_slice_sizes=[2])
    f.op("dynamic-update-slice", S("f32", 5), [a, before, f.op("add", S("s32"), [i, one])])
    x = np.arange(5).astype(np.float32)
    p = c.input(x)
    c.output(
        c.m.fusion(f, [p, c.input(scalar(1, "s32"))], into=p),
        np.array([0, 1, 1, 2, 4], np.float32),
        label="f32 overlap",
    )


def gather_rule(x, index, d, sizes):
    """XLA's definition, an element at a time."""
    ivd = d["index_vector_dim"]
    starts = index if ivd < index.ndim else index[..., None]
    starts = np.moveaxis(starts, ivd, -1)
    batch = starts.shape[:-1]
    ob, sb = d.get("operand_batching_dims", []), d.get("start_indices_batching_dims", [])
    sb = [b - (b > ivd) for b in sb]
    kept = [k for k in range(x.ndim) if k not in d.get("collapsed_slice_dims", []) and k not in ob]
    rank = len(batch) + len(kept)
    batch_dims = [r for r in range(rank) if r not in d["offset_dims"]]
    shape = [0] * rank
    for r, n in zip(batch_dims, batch):
        shape[r] = n
    for r, k in zip(d["offset_dims"], kept):
        shape[r] = sizes[k]
    out = np.zeros(shape, x.dtype)
    for b in np.ndindex(batch):
        at = [0] * x.ndim
        for k, m in enumerate(d["start_index_map"]):
            at[m] = min(max(int(starts[b][k]), 0), x.shape[m] - sizes[m])
        for o, s in zip(ob, sb):
            at[o] = b[s]
        for off in np.ndindex(*[sizes[k] for k in kept]):
            src = list(at)
            for k, o in zip(kept, off):
                src[k] += o
            to = [0] * rank
            for r, v in zip(batch_dims, b):
                to[r] = v
            for r, v in zip(d["offset_dims"], off):
                to[r] = v
            out[tuple(to)] = x[tuple(src)]
    return out


# operand dimensions, index dimensions, slice sizes, dimension numbers
GATHERS = [
    ((6, 4), (5, 1), (1, 4), dict(offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1)),
    ((6, 4), (5,), (1, 4), dict(offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1)),
    ((6, 5), (3, 2), (2, 3), dict(offset_dims=[1, 2], start_index_map=[0, 1], index_vector_dim=1)),
    (
        (6, 5),
        (2, 3),
        (2, 1),
        dict(offset_dims=[0], collapsed_slice_dims=[1], start_index_map=[1, 0], index_vector_dim=0),
    ),
    (
        (4, 5, 3),
        (2, 2, 2),
        (1, 2, 3),
        dict(offset_dims=[0, 3], collapsed_slice_dims=[0], start_index_map=[2, 0], index_vector_dim=2),
    ),
    (
        (3, 5, 2),
        (3, 4, 1),
        (1, 2, 2),
        dict(
            offset_dims=[2, 3],
            operand_batching_dims=[0],
            start_indices_batching_dims=[0],
            start_index_map=[1],
            index_vector_dim=2,
        ),
    ),
    (
        (2, 5, 3),
        (4, 3, 2),
        (1, 2, 1),
        dict(
            offset_dims=[2],
            operand_batching_dims=[0, 2],
            start_indices_batching_dims=[2, 1],
            start_index_map=[1],
            index_vector_dim=3,
        ),
    ),
    ((6, 4), (0, 1), (1, 4), dict(offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1)),
    ((7,), (), (3,), dict(offset_dims=[0], start_index_map=[0], index_vector_dim=0)),
]


def make_gather():
    c = Case(
        "index",
        "gather",
        "gather",
        "start indices are clamped so that the slice fits; batching dimensions; any index type",
    )
    k = 0
    for dims, index_dims, sizes, d in GATHERS:
        for layout in layouts(len(dims)):
            t, it = TYPES[k % len(TYPES)], INDEX_TYPES[k % len(INDEX_TYPES)]
            rng = np.random.default_rng(k)
            index = rng.integers(0 if it[0] == "u" else -3, 9, index_dims).astype(ty.dtype_of(it))
            x = fill(t, dims, k)
            want = gather_rule(x, index, d, sizes)
            c.op(
                "gather",
                [c.input(x, layout), c.input(index, layouts(len(index_dims))[k % len(layouts(len(index_dims)))])],
                want,
                layout=layouts(want.ndim, 1)[k % len(layouts(want.ndim))],
                label=f"{t}{list(dims)} by {it}{list(index_dims)}",
                gather_slice_sizes=sizes,
                gather_dimension_numbers=d,
            )
            k += 1


def scatter_rule(operands, index, updates, d, combine):
    """XLA's definition: updates in order of their index; a window that does not fit is dropped whole."""
    out = [o.copy() for o in operands]
    shape, ivd = operands[0].shape, d["index_vector_dim"]
    starts = index if ivd < index.ndim else index[..., None]
    starts = np.moveaxis(starts, ivd, -1)
    uw, ib = d.get("update_window_dims", []), d.get("input_batching_dims", [])
    sb = [b - (b > ivd) for b in d.get("scatter_indices_batching_dims", [])]
    kept = [k for k in range(len(shape)) if k not in d.get("inserted_window_dims", []) and k not in ib]
    batch_dims = [r for r in range(updates[0].ndim) if r not in uw]
    for b in np.ndindex(starts.shape[:-1]):
        at = [0] * len(shape)
        for k, m in enumerate(d["scatter_dims_to_operand_dims"]):
            at[m] = int(starts[b][k])
        for o, s in zip(ib, sb):
            at[o] = b[s]
        window = [updates[0].shape[r] for r in uw]
        size = [1] * len(shape)
        for k, n in zip(kept, window):
            size[k] = n
        if any(a < 0 or a + n > s for a, n, s in zip(at, size, shape)):
            continue
        for off in np.ndindex(*window):
            to, frm = list(at), [0] * updates[0].ndim
            for k, o in zip(kept, off):
                to[k] += o
            for r, v in zip(batch_dims, b):
                frm[r] = v
            for r, v in zip(uw, off):
                frm[r] = v
            new = combine([o[tuple(to)] for o in out], [u[tuple(frm)] for u in updates])
            for o, v in zip(out, new):
                o[tuple(to)] = v
    return out


# operand dimensions, index dimensions, update dimensions, dimension numbers
SCATTERS = [
    (
        (6, 4),
        (5, 1),
        (5, 4),
        dict(update_window_dims=[1], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=1),
    ),
    ((8,), (6,), (6,), dict(inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=1)),
    (
        (6, 5),
        (4, 2),
        (4, 2, 3),
        dict(update_window_dims=[1, 2], scatter_dims_to_operand_dims=[0, 1], index_vector_dim=1),
    ),
    (
        (6, 5),
        (2, 4),
        (3, 4),
        dict(update_window_dims=[0], inserted_window_dims=[0], scatter_dims_to_operand_dims=[1, 0], index_vector_dim=0),
    ),
    (
        (3, 5, 2),
        (3, 4, 1),
        (3, 4, 2, 1),
        dict(
            update_window_dims=[2, 3],
            input_batching_dims=[0],
            scatter_indices_batching_dims=[0],
            scatter_dims_to_operand_dims=[1],
            index_vector_dim=2,
        ),
    ),
    ((6,), (0, 1), (0, 2), dict(update_window_dims=[1], scatter_dims_to_operand_dims=[0], index_vector_dim=1)),
]
COMBINE = {"add": lambda a, b: a + b, "multiply": lambda a, b: a * b, "minimum": min, "maximum": max}


def second(m, t):
    c = m.computation("assign")
    c.param(S(t))
    c.root = c.param(S(t))
    return c


def plus(a, b, t):
    if t == "pred":
        return a | b
    if t in ty.INTEGERS:
        return array([int(a) + int(b)], t)[0]
    return np.asarray(a + b).astype(ty.dtype_of(t))


def make_scatter():
    c = Case("index", "scatter", "scatter", "a window that does not fit is dropped whole; duplicates accumulate")
    k = 0
    for dims, index_dims, update_dims, d in SCATTERS:
        for op in ["add", "multiply", "minimum", "maximum", "assign"]:
            for layout in layouts(len(dims))[k % 2 :: 2]:
                t, it = ["f32", "s32", "f64", "u8", "s64"][k % 5], ["s32", "s64", "s8", "u32"][k % 4]
                rng = np.random.default_rng(k)
                index = rng.integers(0 if it[0] == "u" else -2, 8, index_dims).astype(ty.dtype_of(it))
                if op == "assign":  # which of two updates of one element wins is open
                    if len(index_dims) != 2 or d["index_vector_dim"] != 1:
                        continue
                    index = np.repeat(np.arange(index_dims[0])[:, None] * 2, index_dims[1], 1).astype(index.dtype)
                x, v = fill(t, dims, k), fill(t, update_dims, k + 9)
                f = (lambda a, b: b) if op == "assign" else COMBINE[op]
                with np.errstate(all="ignore"):
                    want = scatter_rule([x], index, [v], d, lambda a, b: [f(a[0], b[0])])[0]
                comp = second(c.m, t) if op == "assign" else c.m.scalar(op, t)
                c.op(
                    "scatter",
                    [c.input(x, layout), c.input(index), c.input(v)],
                    want,
                    layout=layout,
                    label=f"{op} {t}{list(dims)} by {it}",
                    called=[comp],
                    scatter_dimension_numbers=d,
                )
                k += 1
    d = SCATTERS[1][3]
    c = Case("index", "scatter_types", "scatter", "add of every type; small floats round after each addition")
    index = np.array([3, 0, 3, 7, 3, 9, -1], np.int32)
    for t in ["pred", "s4", "u4", "s8", "u16", "f8e5m2", "f16", "bf16", "c64", "c128"]:
        op = "or" if t == "pred" else "add"
        x, v = fill(t, (8,), 1), fill(t, (7,), 2)
        want = scatter_rule([x], index, [v], d, lambda a, b: [plus(a[0], b[0], t)])[0]
        c.op(
            "scatter",
            [c.input(x), c.input(index), c.input(v)],
            want,
            called=[c.m.scalar(op, t)],
            scatter_dimension_numbers=d,
        )
    c = Case("index", "scatter_pairs", "scatter", "two operands at once: keep the larger key and its value")
    key, val = np.array([5, 1, 3, 9], np.float32), np.array([50, 10, 30, 90], np.int32)
    index, k2, v2 = (
        np.array([1, 2, 1, 3, 4], np.int32),
        np.array([2, 8, 7, 4, 1], np.float32),
        np.array([21, 81, 71, 41, 11], np.int32),
    )
    f = c.m.computation("larger")
    a, i, b, j = f.param(S("f32")), f.param(S("s32")), f.param(S("f32")), f.param(S("s32"))
    p = f.op(
        "compare", S("pred"), [a, b], comparison_direction="GE", comparison_order="PARTIAL", comparison_type="FLOAT"
    )
    f.tuple([f.op("select", S("f32"), [p, a, b]), f.op("select", S("s32"), [p, i, j])])
    want = scatter_rule([key, val], index, [k2, v2], d, lambda o, n: o if o[0] >= n[0] else n)
    r = c.m.op(
        "scatter",
        Shape(elements=[S("f32", 4), S("s32", 4)]),
        [c.input(v) for v in (key, val, index, k2, v2)],
        [f],
        scatter_dimension_numbers=d,
    )
    c.output(r, want[0])
    c.output(r, want[1], leaf=1)


def make():
    make_dynamic()
    make_in_place()
    make_gather()
    make_scatter()
