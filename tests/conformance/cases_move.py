# SPDX-License-Identifier: Apache-2.0
"""Operations that move elements: shapes of rank 0 to 8, empty ones, layouts other than the default."""

import numpy as np

import hlo_types as ty
from build import default_layout
from case import Case
from cases_integer import array

TYPES = ["pred", "s4", "u4", "s8", "u16", "f8e4m3fn", "bf16", "f32", "s32", "f64", "c64", "c128"]


def fill(t, dims, seed=0):
    """Values that differ from their neighbours in any type."""
    n = int(np.prod(dims, dtype=np.int64))
    if t == "pred":
        a = np.random.default_rng(seed).integers(0, 2, n).astype(bool)
    elif t in ty.INTEGERS:
        a = array([(i * 7 + seed) * 5 + 3 for i in range(n)], t)
    elif t in ty.COMPLEX:
        a = (np.arange(n) + seed - 1j * np.arange(n)[::-1]).astype(ty.dtype_of(t))
    else:
        a = (((np.arange(n) * 5 + seed) % 23) / 4 - 2).astype(ty.dtype_of(t))
    return a.reshape(dims)


def layouts(rank, seed=0):
    """The default one, its reverse and a mixed one."""
    mixed = [int(v) for v in np.random.default_rng(rank + seed).permutation(rank)]
    return [default_layout(rank), list(range(rank)), mixed] if rank > 1 else [default_layout(rank)]


def variants(c, opcode, shapes, f, fields):
    """f(array, shape index) -> result; each element type once, each pair of layouts at least once."""
    k = 0
    for i, dims in enumerate(shapes):
        for from_layout in layouts(len(dims)):
            t = TYPES[k % len(TYPES)]
            x = fill(t, dims, k)
            want = f(x, i)
            to = layouts(want.ndim, 1)
            c.op(opcode, [c.input(x, from_layout)], want, layout=to[k % len(to)], label=f"{t}{list(dims)}", **fields(i))
            k += 1


def make_simple():
    c = Case("move", "transpose", "transpose")
    shapes = [(3, 5), (2, 3, 4), (2, 1, 3, 2), (64, 70), (2, 3, 2, 1, 3, 2), (0, 4), (5,), (33, 2, 40)]
    perms = [(1, 0), (2, 0, 1), (3, 1, 0, 2), (1, 0), (5, 0, 3, 2, 4, 1), (1, 0), (0,), (2, 1, 0)]
    variants(c, "transpose", shapes, lambda x, i: np.transpose(x, perms[i]), lambda i: {"dimensions": perms[i]})

    c = Case("move", "reverse", "reverse")
    shapes = [(7,), (3, 5), (2, 3, 4), (2, 1, 3, 2, 2, 3), (4, 0), (3, 17)]
    dims = [(0,), (1,), (0, 2), (5, 0, 3), (0,), ()]
    variants(c, "reverse", shapes, lambda x, i: np.flip(x, dims[i]), lambda i: {"dimensions": dims[i]})

    c = Case("move", "reshape", "reshape", "by logical row-major order, whatever the layouts")
    shapes = [(12,), (3, 4), (2, 3, 4), (2, 3, 2, 2), (1, 1), (), (0, 3), (2, 1, 3, 1, 2, 1, 2)]
    to = [(3, 4), (2, 6), (4, 3, 2), (24,), (), (1, 1, 1), (3, 0, 2), (3, 2, 4)]
    variants(c, "reshape", shapes, lambda x, i: x.reshape(to[i]), lambda i: {})

    c = Case("move", "copy", "copy", "changes the layout only")
    shapes = [(5,), (3, 5), (2, 3, 4), (2, 1, 3, 2, 1, 2), (), (0, 2), (31, 33)]
    variants(c, "copy", shapes, lambda x, i: x, lambda i: {})

    c = Case("move", "slice", "slice")
    shapes = [(20,), (7, 9), (4, 5, 6), (3, 2, 4, 3, 2, 3), (6, 5)]
    cuts = [
        [(3, 19, 4)],
        [(1, 6, 2), (0, 9, 3)],
        [(1, 3, 1), (4, 5, 1), (0, 6, 5)],
        [(1, 3, 1), (0, 2, 1), (0, 4, 3), (2, 3, 1), (0, 2, 1), (1, 3, 1)],
        [(2, 2, 1), (0, 5, 1)],
    ]
    variants(
        c,
        "slice",
        shapes,
        lambda x, i: x[tuple(slice(*r) for r in cuts[i])],
        lambda i: {"slice_dimensions": [dict(start=a, limit=b, stride=s) for a, b, s in cuts[i]]},
    )

    c = Case("move", "broadcast", "broadcast")
    shapes = [(), (3,), (3,), (2, 3), (2, 3), (2, 2, 2), (0,)]
    dims = [(), (0,), (1,), (0, 2), (2, 1), (1, 3, 5), (1,)]
    out = [(2, 5), (3, 4), (4, 3), (2, 2, 3), (2, 3, 2), (2, 2, 3, 2, 1, 2), (3, 0)]

    def spread(x, i):
        order = np.argsort(dims[i], kind="stable")
        sizes = [out[i][d] if d in dims[i] else 1 for d in range(len(out[i]))]
        return np.broadcast_to(np.transpose(x, order).reshape(sizes), out[i])

    variants(c, "broadcast", shapes, spread, lambda i: {"dimensions": dims[i]})


def make_iota():
    c = Case("move", "iota", "iota", "along any dimension; narrow integers wrap, floats are the numbers' nearest")
    for t in ty.INTEGERS + ["f16", "bf16", "f32", "f64", "c64", "c128"]:
        for dims, d, layout in [((3, 5, 2), 1, [0, 2, 1]), ((4,), 0, [0])] + (
            [((300,), 0, [0])] if ty.bits_of(t) in (8, 16) else []
        ):
            index = np.arange(dims[d])
            v = array(index.tolist(), t) if t in ty.INTEGERS else index.astype(ty.dtype_of(t))
            want = np.broadcast_to(v.reshape([-1 if k == d else 1 for k in range(len(dims))]), dims)
            c.op("iota", [], want, layout=layout, dimensions=[d])


def make_join():
    c = Case(
        "move", "concatenate", "concatenate", "one to five operands, empty ones among them, each with its own layout"
    )
    k = 0
    for d, parts in [
        (0, [(2, 3), (0, 3), (1, 3)]),
        (1, [(2, 3), (2, 1), (2, 5), (2, 0), (2, 2)]),
        (0, [(4,), (3,)]),
        (2, [(2, 2, 1), (2, 2, 3)]),
        (3, [(1, 2, 1, 2, 1, 2), (1, 2, 1, 3, 1, 2)]),
        (0, [(5, 2)]),
    ]:
        for t in TYPES[k % 2 :: 2]:
            xs = [fill(t, p, i) for i, p in enumerate(parts)]
            ls = layouts(len(parts[0]), k)
            c.op(
                "concatenate",
                [c.input(x, ls[(k + i) % len(ls)]) for i, x in enumerate(xs)],
                np.concatenate(xs, d),
                layout=ls[k % len(ls)],
                label=f"{t} dimension {d}",
                dimensions=[d],
            )
            k += 1


def make_pad():
    c = Case(
        "move",
        "pad",
        "pad",
        "negative edges cut, also after interior padding, and more than there is when the other edge adds",
    )
    k = 0
    for dims, config in [
        ((5,), [(2, 1, 0)]),
        ((5,), [(-2, 1, 0)]),
        ((5,), [(-1, -3, 1)]),
        ((4,), [(0, -5, 2)]),
        ((3, 4), [(1, 0, 1), (-1, 2, 0)]),
        ((3, 4), [(-1, -1, 0), (3, -2, 2)]),
        ((2, 3, 2), [(0, 0, 0), (0, 0, 3), (1, 1, 0)]),
        ((0, 3), [(2, 1, 4), (0, 1, 0)]),
        ((), []),
        ((3,), [(4, -6, 0)]),
        ((3,), [(-5, 4, 0)]),
        ((2, 1, 2, 1, 2, 1), [(1, 0, 1), (0, 1, 2), (0, -1, 0), (2, 0, 0), (-1, 0, 0), (0, 0, 0)]),
        ((3,), [(-3, 0, 0)]),
    ]:
        for layout in layouts(len(dims)):
            t = TYPES[k % len(TYPES)]
            x, v = fill(t, dims, k), fill(t, (4,), 9)[3:].reshape(())
            c.op(
                "pad",
                [c.input(x, layout), c.input(v)],
                pad_rule(x, v, config),
                layout=layouts(len(dims), 2)[k % len(layouts(len(dims)))],
                label=f"{t}{list(dims)} {config}",
                padding_config={
                    "dimensions": [
                        dict(edge_padding_low=lo, edge_padding_high=hi, interior_padding=i) for lo, hi, i in config
                    ]
                },
            )
            k += 1


def pad_rule(x, value, config):
    """Element i of the operand lands at low + i * (interior + 1), if that lies inside the result."""
    size = [n + max(n - 1, 0) * i + lo + hi for n, (lo, hi, i) in zip(x.shape, config)]
    out = np.full(size, value, x.dtype)
    for at in np.ndindex(x.shape):
        to = tuple(lo + i * (gap + 1) for i, (lo, _, gap) in zip(at, config))
        if all(0 <= p < s for p, s in zip(to, size)):
            out[to] = x[at]
    return out


def make_bitcast():
    c = Case(
        "move",
        "bitcast",
        "bitcast",
        "keeps memory order: the operand's elements in its layout's order, laid out by the result's",
    )
    k = 0
    for dims, frm, to_dims, to in [
        ((3, 4), [0, 1], (4, 3), [1, 0]),
        ((2, 3, 4), [1, 0, 2], (4, 6), [1, 0]),
        ((6,), [0], (2, 3), [0, 1]),
        ((2, 2, 3), [2, 1, 0], (3, 2, 2), [0, 2, 1]),
        ((1, 5), [0, 1], (5,), [0]),
        ((), [], (1, 1), [1, 0]),
        ((2, 3), [0, 1], (2, 3), [1, 0]),
    ]:
        for t in TYPES[k % 3 :: 3]:
            x = fill(t, dims, k)
            flat = ty.in_layout(x, frm)
            want = flat.reshape([to_dims[d] for d in reversed(to)]).transpose(
                [list(reversed(to)).index(d) for d in range(len(to_dims))]
            )
            c.op("bitcast", [c.input(x, frm)], want, layout=to, label=f"{t}{list(dims)}{frm} to {list(to_dims)}{to}")
            k += 1
    x = fill("f32", (3, 2), 1)
    c.op("bitcast", [c.input(x, [0, 1])], ty.in_layout(x, [0, 1]).view(np.int32).reshape(2, 3), label="f32 to s32")


def make_entry():
    c = Case(
        "move",
        "entry_layouts",
        "copy",
        "parameters and results of the program in layouts of their own; a parameter handed back",
    )
    k = 0
    for dims in [(3, 5), (2, 3, 4), (2, 2, 1, 3, 2, 2)]:
        for frm in layouts(len(dims)):
            for to in layouts(len(dims), 5):
                t = TYPES[k % len(TYPES)]
                x = fill(t, dims, k)
                c.op("copy", [c.input(x, frm)], x, layout=to, label=f"{t}{list(dims)} {frm} to {to}")
                k += 1
    c = Case("move", "scalars_and_empties", "negate add copy", "rank 0, rank 8, dimensions of 0 and 1")
    for t in ("s4", "bf16", "f32", "f64", "c64"):
        for dims in [(), (1,), (0,), (3, 0, 2), (1, 1, 1, 1, 1, 1, 1, 1), (1, 2, 1, 2, 1, 2, 1, 2)]:
            x = fill(t, dims, 2)
            p = c.input(x)
            want = -x if t != "s4" else array([-int(v) for v in x.astype(np.int8).ravel()], "s4").reshape(dims)
            c.op("negate", [p], want, label=f"{t}{list(dims)}")


def make():
    make_simple()
    make_iota()
    make_join()
    make_pad()
    make_bitcast()
    make_entry()
