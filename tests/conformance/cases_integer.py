# SPDX-License-Identifier: Apache-2.0
"""Element-wise operations on integers and predicates, an output per element type.

Expected values are Python integers wrapped to the type's width, so nothing depends on numpy's own rules.
Division by zero gives all ones and the dividend as remainder; a shift by the width or more (also by a
negative amount, which counts as large) leaves 0 or copies of the sign.
"""

import itertools

import numpy as np

import hlo_types as ty
from case import Case


def wrap(v, t):
    bits = ty.bits_of(t)
    v &= (1 << bits) - 1
    return v - (1 << bits) if t[0] == "s" and v >> (bits - 1) else v


def array(values, t):
    wide = np.array([wrap(int(v), t) for v in values], np.int64 if t[0] == "s" else np.uint64)
    return (
        wide.astype(np.int8 if t[0] == "s" else np.uint8).astype(ty.dtype_of(t))
        if ty.bits_of(t) < 8
        else wide.astype(ty.dtype_of(t))
    )


def ints(a):
    return [int(v) for v in ty.plain(a).ravel()] if ty.bits_of(ty.name_of(a)) < 8 else [int(v) for v in a.ravel()]


def bounds(t):
    bits = ty.bits_of(t)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if t[0] == "s" else (0, (1 << bits) - 1)


def sample(t, seed, n=37):
    """The extremes first, then random bits and small values. An odd number, so that packed arrays end in padding."""
    lo, hi = bounds(t)
    rng = np.random.default_rng(seed)
    first = [0, 1, -1, 2, lo, hi, lo + 1, hi - 1, 7, -7]
    return array(
        first + [int(v) for v in rng.integers(0, 1 << 62, n - 20)] + [int(v) for v in rng.integers(-9, 10, 10)], t
    )


def pairs(t, seed):
    lo, hi = bounds(t)
    some = [0, 1, -1, 2, 3, lo, hi]
    both = list(itertools.product(some, some))
    rng = np.random.default_rng(seed)
    x, y = [p[0] for p in both], [p[1] for p in both]
    more = [(int(a), int(b)) for a, b in zip(rng.integers(0, 1 << 62, 20), rng.integers(0, 1 << 62, 20))]
    more += [(int(a), int(b)) for a, b in zip(rng.integers(0, 1 << 62, 10), rng.integers(-9, 10, 10))]
    return array(x + [m[0] for m in more], t), array(y + [m[1] for m in more], t)


def divide(x, y, t):
    if y == 0:
        return -1
    q = abs(x) // abs(y)
    return -q if (x < 0) != (y < 0) else q


def remainder(x, y, t):
    return x if y == 0 else x - y * divide(x, y, t)


def power(x, y, t):
    if y >= 0:
        return pow(x, y, 1 << ty.bits_of(t))
    return 1 if x == 1 else (1 if y % 2 == 0 else -1) if x == -1 else 0


def unsigned(v, t):
    return v & ((1 << ty.bits_of(t)) - 1)


def shift_left(x, y, t):
    n = unsigned(y, t)
    return x << n if n < ty.bits_of(t) else 0


def shift_logical(x, y, t):
    n = unsigned(y, t)
    return unsigned(x, t) >> n if n < ty.bits_of(t) else 0


def shift_arithmetic(x, y, t):
    bits = ty.bits_of(t)
    signed = unsigned(x, t) - (1 << bits) if unsigned(x, t) >> (bits - 1) else unsigned(x, t)
    return signed >> min(unsigned(y, t), bits - 1)


BINARY = {
    "add": lambda x, y, t: x + y,
    "subtract": lambda x, y, t: x - y,
    "multiply": lambda x, y, t: x * y,
    "divide": divide,
    "remainder": remainder,
    "power": power,
    "maximum": lambda x, y, t: max(x, y),
    "minimum": lambda x, y, t: min(x, y),
    "and": lambda x, y, t: x & y,
    "or": lambda x, y, t: x | y,
    "xor": lambda x, y, t: x ^ y,
    "mulhi": lambda x, y, t: x * y >> ty.bits_of(t),
    "shift-left": shift_left,
    "shift-right-logical": shift_logical,
    "shift-right-arithmetic": shift_arithmetic,
}
UNARY = {
    "abs": lambda x, t: abs(x),
    "negate": lambda x, t: -x,
    "not": lambda x, t: ~x,
    "sign": lambda x, t: (x > 0) - (x < 0),
    "popcnt": lambda x, t: bin(unsigned(x, t)).count("1"),
    "count-leading-zeros": lambda x, t: ty.bits_of(t) - unsigned(x, t).bit_length(),
}
WHY = {
    "divide": "x/0 is all ones, the quotient is cut towards zero, the least number over -1 wraps",
    "remainder": "x%0 is x, the sign is the dividend's, the least number over -1 leaves 0",
    "shift-left": "by the width or more: 0",
    "shift-right-logical": "by the width or more: 0",
    "shift-right-arithmetic": "by the width or more: copies of the sign",
    "power": "negative exponents cut 1/x to an integer",
}


def make_arithmetic():
    for opcode, f in BINARY.items():
        c = Case("integer", opcode, opcode, WHY.get(opcode, ""))
        for k, t in enumerate(ty.INTEGERS):
            x, y = pairs(t, 700 + k)
            c.op(opcode, [c.input(x), c.input(y)], array([f(a, b, t) for a, b in zip(ints(x), ints(y))], t))
    for opcode, f in UNARY.items():
        c = Case("integer", opcode, opcode)
        for k, t in enumerate(ty.INTEGERS):
            if t[0] == "u" and opcode in ("abs", "negate"):
                continue
            x = sample(t, 750 + k)
            c.op(opcode, [c.input(x)], array([f(a, t) for a in ints(x)], t))


DIRECTIONS = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "GE": lambda a, b: a >= b,
    "GT": lambda a, b: a > b,
    "LE": lambda a, b: a <= b,
    "LT": lambda a, b: a < b,
}


def make_compare():
    c = Case("integer", "compare", "compare")
    for k, t in enumerate(ty.INTEGERS):
        x, y = pairs(t, 800 + k)
        a, b = c.input(x), c.input(y)
        for d, f in DIRECTIONS.items():
            c.op(
                "compare",
                [a, b],
                np.array([f(u, v) for u, v in zip(ints(x), ints(y))]),
                label=f"{t} {d}",
                comparison_direction=d,
                comparison_order="TOTAL",
                comparison_type="SIGNED" if t[0] == "s" else "UNSIGNED",
            )
    c = Case("integer", "clamp", "clamp", "the upper bound wins over the lower one; bounds may be scalars")
    for k, t in enumerate(ty.INTEGERS):
        x, low = pairs(t, 850 + k)
        high = np.roll(low, 5)
        p = c.input(x)
        c.op(
            "clamp",
            [c.input(low), p, c.input(high)],
            array([min(max(a, l), h) for l, a, h in zip(ints(low), ints(x), ints(high))], t),
        )
        lo, hi = array([1], t).reshape(()), array([bounds(t)[1] - 1], t).reshape(())
        c.op(
            "clamp",
            [c.input(lo), p, c.input(hi)],
            array([min(max(a, 1), bounds(t)[1] - 1) for a in ints(x)], t),
            label=t + " scalar bounds",
        )
    c = Case("integer", "select", "select", "a scalar predicate chooses all")
    for k, t in enumerate(ty.INTEGERS):
        x, y = pairs(t, 870 + k)
        p = np.random.default_rng(k).integers(0, 2, x.size).astype(bool)
        a, b = c.input(x), c.input(y)
        c.op("select", [c.input(p), a, b], array([u if q else v for q, u, v in zip(p, ints(x), ints(y))], t))
        c.op("select", [c.input(np.array(k % 2 == 0)), a, b], x if k % 2 == 0 else y, label=t + " scalar")


def make_pred():
    x, y = np.array([0, 0, 1, 1, 1, 0, 1], bool), np.array([0, 1, 0, 1, 0, 1, 1], bool)
    c = Case(
        "integer",
        "pred",
        "and or xor not add multiply maximum minimum compare select",
        "add and maximum of predicates are or; multiply and minimum are and; false < true",
    )
    a, b = c.input(x), c.input(y)
    for opcode, want in [
        ("and", x & y),
        ("or", x | y),
        ("xor", x ^ y),
        ("add", x | y),
        ("multiply", x & y),
        ("maximum", x | y),
        ("minimum", x & y),
    ]:
        c.op(opcode, [a, b], want, label=opcode)
    c.op("not", [a], ~x, label="not")
    for d, f in DIRECTIONS.items():
        c.op(
            "compare",
            [a, b],
            np.array([f(int(u), int(v)) for u, v in zip(x, y)]),
            label=d,
            comparison_direction=d,
            comparison_order="TOTAL",
            comparison_type="UNSIGNED",
        )
    c.op("select", [a, b, c.input(~y)], np.where(x, y, ~y), label="select")


def make():
    make_arithmetic()
    make_compare()
    make_pred()
