# SPDX-License-Identifier: Apache-2.0
"""Element-wise operations on floating types. Each case: one opcode, an output per element type.

Functions are expected as numpy computes them in a type at least twice as wide (long double for f64);
types of 16 bits and fewer are computed in f32 and rounded once, so +, -, *, / and sqrt are exact for them.
"""

import numpy as np
import scipy.special

import hlo_types as ty
from case import EPS, Case

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -1.5,
    -2.5,
    3.5,
    np.inf,
    -np.inf,
    np.nan,
    2.0,
    100.0,
    -100.0,
    0.1,
    6.5e4,
]


def limits(t):
    """Largest, smallest normal and smallest positive value."""
    if t in ("f32", "f64"):
        i = np.finfo(ty.dtype_of(t))
        return float(i.max), float(i.tiny), float(i.smallest_subnormal)
    import ml_dtypes

    i = ml_dtypes.finfo(ty.dtype_of(t))
    return float(i.max), float(i.smallest_normal), float(i.smallest_subnormal)


def sample(t, seed, n=40, low=-8.0, high=8.0, special=True):
    """Special values first, then uniform random ones."""
    rng = np.random.default_rng(seed)
    big, tiny, least = limits(t)
    first = SPECIAL + [big, -big, tiny, -tiny, least, -least] if special else []
    with np.errstate(all="ignore"):
        return np.concatenate([np.array(first), rng.uniform(low, high, n)]).astype(ty.dtype_of(t))


def wide(a):
    """What to compute expected values in."""
    t = ty.name_of(a)
    return a.astype(np.longdouble if t == "f64" else np.float64)


def narrow(a, t):
    with np.errstate(all="ignore"):
        if t in ("f32", "f64"):
            return a.astype(ty.dtype_of(t))
        return a.astype(np.float32).astype(ty.dtype_of(t))


def ulps(t, n):
    """Room for n units in the last place (one for types that are rounded from f32)."""
    _, tiny, least = limits(t)
    return (n * EPS[t], tiny) if t in ("f32", "f64") else (EPS[t], least)


def unary(opcode, f, ulp=0, types=ty.FLOATS, **kw):
    c = Case("float", opcode, opcode)
    for k, t in enumerate(types):
        x = sample(t, 100 + k, **kw)
        with np.errstate(all="ignore"):
            want = narrow(f(x if opcode == "sqrt" and t == "f64" else wide(x)), t)  # not rounded twice
        c.op(opcode, [c.input(x)], want, ulp and ulps(t, ulp))


def pairs(t, seed, n=60, positive=False):
    """Every special value against every other, then random ones."""
    rng = np.random.default_rng(seed)
    some = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5, -0.75, limits(t)[0], limits(t)[1]])
    a, b = [v.ravel() for v in np.meshgrid(some, some)]
    with np.errstate(all="ignore"):
        x = np.concatenate([a, rng.uniform(0 if positive else -8, 8, n)]).astype(ty.dtype_of(t))
        y = np.concatenate([b, rng.uniform(-8, 8, n)]).astype(ty.dtype_of(t))
    return x, y


def binary(opcode, f, ulp=0, exact_f32=False, keep=None, types=ty.FLOATS):
    c = Case("float", opcode, opcode)
    for k, t in enumerate(types):
        x, y = pairs(t, 200 + k)
        if keep is not None:
            x, y = x[keep(x, y)], y[keep(x, y)]
        with np.errstate(all="ignore"):
            if exact_f32 and t == "f64":
                want = f(x, y)
            elif exact_f32:
                want = narrow(f(x.astype(np.float32), y.astype(np.float32)), t)
            else:
                want = narrow(f(wide(x), wide(y)), t)
        c.op(opcode, [c.input(x), c.input(y)], want, ulp and ulps(t, ulp))


def away_from_zero(x):
    return np.where(np.isfinite(x), np.copysign(np.floor(np.abs(x) + 0.5), x), x)


def make_unary():
    unary("abs", np.abs)
    unary("negate", np.negative)
    unary("ceil", np.ceil)
    unary("floor", np.floor)
    unary("sign", lambda x: np.where(np.isnan(x) | (x == 0), x, np.sign(x)))
    unary("sqrt", np.sqrt)
    unary("round-nearest-even", np.rint)
    unary("round-nearest-afz", away_from_zero)
    unary("rsqrt", lambda x: 1 / np.sqrt(x), 4)
    unary("cbrt", np.cbrt, 8)
    for opcode, f in FUNCTIONS.items():
        unit = opcode in ("asin", "acos", "atanh", "tanh")
        unary(opcode, f, 8, low=-1 if unit else -8, high=1 if unit else 8)
    unary("erf", lambda x: scipy.special.erf(x.astype(np.float64)), 8, low=-4, high=4)
    unary("logistic", lambda x: 1 / (1 + np.exp(-x)), 8)
    c = Case("float", "is-finite", "is-finite")
    for k, t in enumerate(ty.FLOATS):
        x = sample(t, 150 + k)
        c.op("is-finite", [c.input(x)], np.isfinite(x.astype(np.float64)), label=t)


def make_binary():
    binary("add", np.add, exact_f32=True)
    binary("subtract", np.subtract, exact_f32=True)
    binary("multiply", np.multiply, exact_f32=True)
    binary("divide", np.divide, exact_f32=True)
    # which zero wins is left open, so pairs of zeros of different sign are left out
    same_zero = lambda x, y: ~((x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y)))
    binary("maximum", np.maximum, keep=same_zero)
    binary("minimum", np.minimum, keep=same_zero)
    binary("remainder", np.fmod, exact_f32=True)
    binary("power", np.power, 8)
    binary("atan2", np.arctan2, 8)
    c = Case("float", "clamp", "clamp", "NaN wins; the upper bound wins over the lower one; bounds may be scalars")
    for k, t in enumerate(ty.FLOATS):
        x, low = pairs(t, 300 + k)
        high = np.roll(low, 7)
        keep = ~((x == 0) & ((low == 0) | (high == 0)) | ((low == 0) & (high == 0)))
        x, low, high = x[keep], low[keep], high[keep]
        with np.errstate(all="ignore"):
            w = [v.astype(np.float64) for v in (low, x, high)]
            want = np.minimum(np.maximum(w[0], w[1]), w[2]).astype(x.dtype)
            one = np.minimum(np.maximum(np.float64(-1), w[1]), np.float64(2)).astype(x.dtype)
        p = c.input(x)
        c.op("clamp", [c.input(low), p, c.input(high)], want)
        c.op(
            "clamp", [c.input(np.array(-1, x.dtype)), p, c.input(np.array(2, x.dtype))], one, label=t + " scalar bounds"
        )


EDGES = {  # where results overflow, underflow or stop changing, for f32 and f64
    "exponential": (
        [88.5, 88.7, 88.722, 88.7228, 88.73, 89, -87, -88, -100, -103, -104, -110],
        [709, 709.7827, 709.782712, 709.7828, 710, -708, -720, -744, -745, -746, -800],
    ),
    "exponential-minus-one": (
        [88.7, 88.722, 88.73, -20, -100, 1e-30, -1e-10],
        [709.7, 709.782712, 709.7828, -40, -800, 1e-300, -1e-17],
    ),
    "sinh": (
        [88.7, 89, 89.4, 89.41, 89.42, -89.41, 1e-20, 100],
        [709.7, 710.4, 710.475, 710.4758, 710.476, -710.475, 1e-200, 800],
    ),
    "cosh": (
        [88.7, 89, 89.4, 89.41, 89.42, -89.41, 1e-20, 100],
        [709.7, 710.4, 710.475, 710.4758, 710.476, -710.475, 1e-200, 800],
    ),
    "log": (
        [1e-38, 1e-40, 1e-45, 3e38, 1.0000001, 0.9999999],
        [1e-308, 1e-310, 5e-324, 1.7e308, 1 + 2.0**-52, 1 - 2.0**-53],
    ),
    "log-plus-one": (
        [1e38, 3e38, 1e30, 1e-40, -0.9999999, 1e-8],
        [1e308, 1.7e308, 1e300, 1e-310, -1 + 2.0**-53, 1e-18],
    ),
    "asinh": ([1e18, 1e20, -1e38, 3e38, 1e-20, 1e9], [1e150, 1e160, -1e308, 1.7e308, 1e-200, 1e9]),
    "acosh": ([1e18, 1e20, 1e38, 3e38, 1.0000001, 1e9], [1e150, 1e160, 1e308, 1.7e308, 1 + 2.0**-52, 1e9]),
    "tanh": ([9, 10, 20, -9.1, 1e-20, 1e-40, 1e30], [19, 20, 22, -19.1, 1e-200, 1e-310, 1e300]),
    "sine": ([1e5, 1e10, 1e20, 3e38, 3.1415927, 1e-40], [1e5, 1e15, 1e100, 1.7e308, 3.141592653589793, 1e-310]),
    "cosine": ([1e5, 1e10, 1e20, 3e38, 1.5707964, 1e-40], [1e5, 1e15, 1e100, 1.7e308, 1.5707963267948966, 1e-310]),
    "tan": ([1e5, 1e10, 1e20, 3e38, 1.5707964, 1e-40], [1e5, 1e15, 1e100, 1.7e308, 1.5707963267948966, 1e-310]),
    "sqrt": ([1e-45, 1e-40, 3e38], [5e-324, 1e-310, 1.7e308]),
    "cbrt": ([1e-45, 1e-40, 3e38, -1e-38], [5e-324, 1e-310, 1.7e308, -1e-308]),
    "erf": ([3.9, 4, 10, 1e-20, 1e-40], [5.9, 6, 30, 1e-200, 1e-310]),
    "logistic": ([-88, -100, 17, 90], [-700, -745, 37, 720]),
    "atanh": ([0.9999999, 1e-20, 1e-40], [1 - 2.0**-53, 1e-200, 1e-310]),
    "asin": ([0.9999999, 1e-20], [1 - 2.0**-53, 1e-200]),
    "acos": ([0.9999999, -0.9999999], [1 - 2.0**-53, -1 + 2.0**-53]),
    "atan": ([1e10, 3e38, 1e-40], [1e20, 1.7e308, 1e-310]),
}
FUNCTIONS = {
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
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
}


def make_edges():
    more = {
        "sqrt": np.sqrt,
        "cbrt": np.cbrt,
        "erf": lambda x: scipy.special.erf(x.astype(np.float64)),
        "logistic": lambda x: 1 / (1 + np.exp(-x)),
    }
    for opcode, of_type in EDGES.items():
        c = Case(
            "float", f"edges_{opcode}", opcode, "at the ends of the range: overflow, subnormal results, large arguments"
        )
        f = (FUNCTIONS | more)[opcode]
        for t, v in zip(("f32", "f64"), of_type):
            x = np.array(v, ty.dtype_of(t))
            with np.errstate(all="ignore"):
                want = narrow(f(wide(x)), t)
            # results below the normal numbers may be off by one step of theirs
            c.op(opcode, [c.input(x)], want, (8 * EPS[t], limits(t)[1] if opcode == "logistic" else 2 * limits(t)[2]))
    c = Case("float", "edges_power", "power", "results near the largest and the smallest number")
    for t, x, y in [
        (
            "f32",
            [3.4028235e38, 2, 2, 2, 10, 10, 1.0000001, 0.5, -2, -3, 1e-45],
            [1, 127.99, -149, -126, 38.53, -44.8, 1e9, 149, 127, 3, 0.5],
        ),
        (
            "f64",
            [1.7976931348623157e308, 2, 2, 2, 10, 10, 1 + 1e-15, 0.5, -2, -3, 5e-324],
            [1, 1023.999, -1074, -1022, 308.25, -323, 7e17, 1074, 1023, 3, 0.5],
        ),
    ]:
        x, y = np.array(x, ty.dtype_of(t)), np.array(y, ty.dtype_of(t))
        with np.errstate(all="ignore"):
            want = narrow(np.power(wide(x), wide(y)), t)
        c.op("power", [c.input(x), c.input(y)], want, (8 * EPS[t], 2 * limits(t)[2]))


def total_key(x):
    """Integer key of the total order: -NaN < -inf < ... < -0 < +0 < ... < NaN."""
    bits = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[x.dtype.itemsize]
    k = x.view(bits).astype(np.int64)
    return np.where(k < 0, k ^ np.iinfo(bits).max, k)


DIRECTIONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}


def make_compare():
    for order in ("PARTIAL", "TOTAL"):
        c = Case(
            "float",
            f"compare_{order.lower()}",
            "compare",
            "every value against every other; partial: NaN is unordered, -0 = +0; total: by sign and bits",
        )
        for k, t in enumerate(ty.FLOATS if order == "PARTIAL" else ["f16", "bf16", "f32", "f64"]):
            x, y = pairs(t, 400 + k)
            if order == "TOTAL":
                x[3] = -np.abs(x[6])
            a, b = c.input(x), c.input(y)
            with np.errstate(all="ignore"):
                u, v = (
                    (x.astype(np.float64), y.astype(np.float64)) if order == "PARTIAL" else (total_key(x), total_key(y))
                )
            for d, f in DIRECTIONS.items():
                c.op(
                    "compare",
                    [a, b],
                    f(u, v),
                    label=f"{t} {d}",
                    comparison_direction=d,
                    comparison_order=order,
                    comparison_type="FLOATTOTALORDER" if order == "TOTAL" else "FLOAT",
                )


def make_select():
    c = Case(
        "float",
        "select",
        "select",
        "the value not chosen does not matter, NaN included; a scalar predicate chooses all",
    )
    for k, t in enumerate(ty.FLOATS + ty.COMPLEX):
        x, y = sample("f64", 500 + k), sample("f64", 600 + k)[::-1]
        with np.errstate(all="ignore"):
            x, y = x.astype(ty.dtype_of(t)), y.astype(ty.dtype_of(t))
        p = np.random.default_rng(k).integers(0, 2, x.size).astype(bool)
        a, b = c.input(x), c.input(y)
        c.op("select", [c.input(p), a, b], np.where(p, x, y))
        c.op("select", [c.input(np.array(k % 2 == 0)), a, b], x if k % 2 == 0 else y, label=t + " scalar")


def make():
    make_unary()
    make_binary()
    make_edges()
    make_compare()
    make_select()
