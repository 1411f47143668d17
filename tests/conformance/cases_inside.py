# SPDX-License-Identifier: Apache-2.0
"""Constants, and opcodes inside kernels that pass values on, choose or repeat; aliased results."""

import numpy as np

from build import S, Shape
from case import Case
from cases_flow import SIGNED
from cases_move import TYPES, fill, layouts


def make_constants():
    c = Case(
        "flow",
        "constants",
        "constant copy",
        "every type, in the literal's layout; packed elements; empty arrays; in a kernel and with memory of their own",
    )
    for k, t in enumerate(TYPES + ["u8", "s16", "f16", "f8e5m2", "u64", "s64", "u32"]):
        for dims in [(3, 5), (0, 2), ()]:
            x, layout = fill(t, dims, k), layouts(len(dims))[k % len(layouts(len(dims)))]
            v = c.m.const(x, layout)
            c.op("copy", [v], x, label=f"{t}{list(dims)} with memory")
            f = c.m.computation("inner")
            inner = f.const(x, layout)
            f.op("copy", Shape(t, dims), [inner])
            c.output(c.m.fusion(f, []), x, label=f"{t}{list(dims)} in the kernel")


def make_inside():
    """Opcodes of called computations, as one kernel each."""
    c = Case(
        "flow",
        "calls",
        "call fusion tuple get-tuple-element opt-barrier add-dependency after-all domain map",
        "nested, with tuples passed through",
    )
    x, y = fill("f32", (3, 4), 1), fill("f32", (3, 4), 8)
    a = S("f32", 3, 4)
    g = c.m.computation("product")
    p, q = g.param(a), g.param(a)
    g.op("multiply", a, [p, q])
    h = c.m.computation("pair")
    p, q = h.param(a), h.param(a)
    h.tuple([h.op("call", a, [p, q], [g]), h.op("subtract", a, [p, q])])
    f = c.m.computation("outer")
    p, q = f.param(a), f.param(a)
    r = f.op("fusion", h.root.shape, [p, q], [h], fusion_kind="kLoop")
    b = f.op("opt-barrier", r.shape, [r])
    first, second = (f.op("get-tuple-element", a, [b], tuple_index=i) for i in range(2))
    d = f.op("domain", a, [first])
    f.tuple([f.op("add", a, [d, second]), second, first])
    v = c.m.fusion(f, [c.input(x), c.input(y)])
    for leaf, want in enumerate([x * y + (x - y), x - y, x * y]):
        c.output(v, want, leaf=leaf, label=f"result {leaf}")
    c = Case("flow", "loops_inside", "while conditional", "loops and branches inside a kernel")
    i, state = S("s32"), Shape(elements=[S("s32"), S("f32", 3)])
    cond = c.m.computation("condition")
    p = cond.param(state)
    cond.op(
        "compare",
        S("pred"),
        [cond.op("get-tuple-element", i, [p], tuple_index=0), cond.const(np.int32(5))],
        comparison_direction="LT",
        **SIGNED,
    )
    body = c.m.computation("body")
    p = body.param(state)
    n, x = body.op("get-tuple-element", i, [p], tuple_index=0), body.op(
        "get-tuple-element", S("f32", 3), [p], tuple_index=1
    )
    body.tuple([body.op("add", i, [n, body.const(np.int32(1))]), body.op("add", S("f32", 3), [x, x])])
    f = c.m.computation("loop")
    x = f.param(S("f32", 3))
    w = f.op("while", state, [f.tuple([f.const(np.int32(2)), x])], [body, cond])
    f.op("get-tuple-element", S("f32", 3), [w], tuple_index=1)
    v = np.array([1, -2, 0.5], np.float32)
    c.output(c.m.fusion(f, [c.input(v)]), v * 8, label="while")
    branches = []
    for k in range(3):
        b = c.m.computation(f"branch{k}")
        q = b.param(S("f32", 3))
        b.op(["negate", "abs", "sign"][k], S("f32", 3), [q])
        branches.append(b)
    for index in [0, 1, 2, 3, -5]:
        f = c.m.computation("switch")
        k, x = f.param(S("s32")), f.param(S("f32", 3))
        f.op("conditional", S("f32", 3), [k, x, x, x], branches)
        want = [-v, np.abs(v), np.sign(v)][index if 0 <= index < 3 else 2]
        c.output(c.m.fusion(f, [c.input(np.int32(index)), c.input(v)]), want, label=f"branch {index}")
    for index in (True, False):
        f = c.m.computation("choose")
        k, x = f.param(S("pred")), f.param(S("f32", 3))
        f.op("conditional", S("f32", 3), [k, x, x], branches[:2])
        c.output(
            c.m.fusion(f, [c.input(np.array(index)), c.input(v)]), -v if index else np.abs(v), label=f"branch {index}"
        )
    c = Case(
        "flow",
        "sizes",
        "get-dimension-size set-dimension-size partition-id replica-id",
        "static sizes; the only device is number 0",
    )
    x = c.input(np.arange(12, dtype=np.float32).reshape(3, 4))
    c.op("get-dimension-size", [x], np.int32(4), dimensions=[1], label="bound")
    c.op("partition-id", [], np.uint32(0), label="partition-id")
    c.op("replica-id", [], np.uint32(0), label="replica-id")


def make_pairs():
    c = Case(
        "flow",
        "pairs_inside",
        "async-start async-update async-done copy-start copy-done dynamic-reshape parameter",
        "asynchronous pairs inside a kernel are what they start; a copy may change the layout",
    )
    a, turned, u32 = S("f32", 3, 4), S("f32", 3, 4, layout=[0, 1]), S("u32")
    body = c.m.computation("negated")
    body.op("negate", a, [body.param(a)])
    f = c.m.computation("pairs")
    p = f.param(a)
    started = Shape(elements=[Shape(elements=[a]), a, u32])
    s = f.op("async-start", started, [p], [body])
    d = f.op("async-done", a, [f.op("async-update", started, [s])])
    k = f.op("copy-start", Shape(elements=[turned, a, u32]), [d])
    f.tuple(
        [
            d,
            f.op("copy", a, [f.op("copy-done", turned, [k])]),
            f.op("dynamic-reshape", S("f32", 4, 3), [p, f.const(np.int32(4)), f.const(np.int32(3))]),
        ]
    )
    x = fill("f32", (3, 4), 3)
    v = c.m.fusion(f, [c.input(x)])
    for leaf, want in enumerate([-x, -x, x.reshape(4, 3)]):
        c.output(v, want, leaf=leaf)
    c = Case(
        "flow",
        "scan",
        "scan",
        "outputs of all steps beside each other, then the last carry; backward: from the last slice on",
    )
    for t, reverse, axis in [("f32", False, 0), ("s32", True, 1), ("f64", True, 0), ("bf16", False, 1)]:
        x = fill(t, (4, 5), 2)
        n = x.shape[1 - axis]
        row = S(t, n)
        f = c.m.computation("step")
        v, carry = f.param(row), f.param(row)
        total = f.op("add", row, [v, carry])
        f.tuple([f.op("multiply", row, [total, v]), total])
        init = fill(t, (n,), 9)
        carry, rows = init.copy(), []
        for r in (np.moveaxis(x, axis, 0)[::-1] if reverse else np.moveaxis(x, axis, 0)):
            carry = (r + carry).astype(x.dtype)
            rows.append((carry * r).astype(x.dtype))
        want = np.moveaxis(np.stack(rows[::-1] if reverse else rows), 0, axis)
        r = c.m.op(
            "scan",
            Shape(elements=[S(t, 4, 5), row]),
            [c.input(x), c.input(init)],
            [f],
            dimensions=[axis],
            is_reverse=reverse,
            num_carries=1,
        )
        c.output(r, want, label=f"{t} {'backward' if reverse else 'forward'}")
        c.output(r, carry, leaf=1, label=f"{t} carry")


def make_aliases():
    c = Case("flow", "several_outputs", "fusion", "results in the memory of operands that other results read too")
    a = S("f32", 40, 50)
    f = c.m.computation("swap")
    p, q = f.param(a), f.param(a)
    f.tuple(
        [
            f.op("add", a, [p, q]),
            f.op("subtract", a, [p, q]),
            f.op("transpose", S("f32", 50, 40), [p], dimensions=[1, 0]),
        ]
    )
    x, y = fill("f32", (40, 50), 1), fill("f32", (40, 50), 5)
    u, w = c.input(x), c.input(y)
    v = c.m.entry.op("fusion", f.root.shape, [u, w], [f], fusion_kind="kLoop")
    v.buffers = [w.buffers[0], u.buffers[0], c.m.alloc(a.bytes)]
    c.m.kernel(v.name, [(u.buffers[0], a), (w.buffers[0], a)], list(zip(v.buffers, f.root.shape.leaves())))
    for leaf, want in enumerate([x + y, x - y, x.T]):
        c.output(v, want, leaf=leaf, label=["into operand 1", "into operand 0", "transposed"][leaf])
    c = Case(
        "flow",
        "reduce_beside",
        "reduce exponential",
        "a reduction of an operand beside an element-wise result in its memory",
    )
    f = c.m.computation("both")
    p = f.param(a)
    f.tuple(
        [
            f.op("negate", a, [p]),
            f.op("reduce", S("f32", 50), [p, f.const(np.float32(0))], [c.m.scalar("add", "f32")], dimensions=[0]),
        ]
    )
    u = c.input(x)
    v = c.m.entry.op("fusion", f.root.shape, [u], [f], fusion_kind="kInput")
    v.buffers = [u.buffers[0], c.m.alloc(200)]
    c.m.kernel(v.name, [(u.buffers[0], a)], list(zip(v.buffers, f.root.shape.leaves())))
    c.output(v, -x, label="negated")
    c.output(v, x.sum(0), (1e-6, 1e-6), leaf=1, label="sum")


def make():
    make_constants()
    make_inside()
    make_pairs()
    make_aliases()
