# SPDX-License-Identifier: Apache-2.0
"""Random numbers: bit generators bit for bit, distributions by their bounds and moments.

Threefry-2x32 with 20 rounds and Philox-4x32 with 10 rounds are written here from their papers (Salmon et al.,
SC 2011); how words become an array is a fact of xla/hlo/builder/lib/prng.cc: Philox in row-major order, Threefry
of 32 bits as pairs along the first even dimension (else the largest).
"""

import numpy as np

import hlo_types as ty
from build import S, Shape, enum
from case import Case
from cases_integer import array

M32 = 0xFFFFFFFF


def threefry(x0, x1, k0, k1):
    ks = [k0, k1, 0x1BD11BDA ^ k0 ^ k1]
    x0, x1 = x0 + k0 & M32, x1 + k1 & M32
    for r in range(5):
        for d in ([13, 15, 26, 6], [17, 29, 16, 24])[r % 2]:
            x0 = x0 + x1 & M32
            x1 = (x1 << d | x1 >> 32 - d) & M32 ^ x0
        x0, x1 = x0 + ks[(r + 1) % 3] & M32, x1 + ks[(r + 2) % 3] + r + 1 & M32
    return x0, x1


def philox(c, k):
    c, k = list(c), list(k)
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [b >> 32 ^ c[1] ^ k[0], b & M32, a >> 32 ^ c[3] ^ k[1], a & M32]
        k = [k[0] + 0x9E3779B9 & M32, k[1] + 0xBB67AE85 & M32]
    return c


def bits_threefry(state, t, dims):
    key, counter = int(state[0]), int(state[1])
    n = int(np.prod(dims, dtype=np.int64))
    block = lambda i: threefry(i & M32, i >> 32, key & M32, key >> 32)
    if ty.bits_of(t) == 64:
        words = [block(counter + i & 2**64 - 1) for i in range(n)]
        return array([a | b << 32 for a, b in words], t).reshape(dims), [key, counter + n]
    if not dims:
        return array([block(counter)[0]], t).reshape(()), [key, counter + 1]
    split = next((i for i, d in enumerate(dims) if d % 2 == 0), int(np.argmax(dims)))
    half = list(dims)
    half[split] = (half[split] + 1) // 2
    h = int(np.prod(half))
    words = np.array([block(counter + i & 2**64 - 1) for i in range(h)], dtype=np.uint64).reshape(h, 2)
    pairs = np.stack([words[:, 0].reshape(half), words[:, 1].reshape(half)], split + 1)
    full = list(dims)
    full[split] = 2 * half[split]
    cut = pairs.reshape(full)[tuple(slice(0, d) for d in dims)]
    return array([int(v) for v in cut.ravel()], t).reshape(dims), [key, counter + h]


def bits_philox(state, t, dims):
    key = int(state[0])
    low, high = (int(state[1]), int(state[2])) if len(state) == 3 else (int(state[1]), int(state[0]))
    counter, n = low | high << 64, int(np.prod(dims, dtype=np.int64))
    each = 2 if ty.bits_of(t) == 64 else 4
    blocks = -(-n // each)
    values = []
    for i in range(blocks):
        v = counter + i & 2**128 - 1
        w = philox([v >> 32 * j & M32 for j in range(4)], [key & M32, key >> 32])
        values += w if each == 4 else [w[0] | w[1] << 32, w[2] | w[3] << 32]
    after = counter + blocks & 2**128 - 1
    new = [key, after & 2**64 - 1] + ([after >> 64] if len(state) == 3 else [])
    return array(values[:n], t).reshape(dims), new


def make_bits():
    shapes = [
        ("u32", (9,)),
        ("u32", (4, 6)),
        ("u64", (3, 5)),
        ("u16", (3, 4)),
        ("u8", (5, 3)),
        ("s32", (3, 5, 3)),
        ("s64", (7,)),
        ("u32", ()),
        ("u32", (2, 3, 4)),
        ("s8", (10,)),
        ("u64", ()),
    ]
    near_end = 2**64 - 3
    for name, rule, words in [("threefry", bits_threefry, (2,)), ("philox", bits_philox, (2, 3))]:
        c = Case(
            "random",
            f"rng-bit-generator_{name}",
            "rng-bit-generator",
            "bits and the new state; counters that overflow a word",
        )
        for k, (t, dims) in enumerate(shapes):
            for n in words:
                state = np.array([0x0123456789ABCDEF + k, near_end if k % 2 else 5, 7][:n], np.uint64)
                want, new = rule(state, t, dims)
                r = c.m.op(
                    "rng-bit-generator",
                    Shape(elements=[S("u64", n), S(t, *dims)]),
                    [c.input(state)],
                    rng_algorithm=enum("xla.RandomAlgorithm", "RNG_THREE_FRY" if name == "threefry" else "RNG_PHILOX"),
                )
                c.output(
                    r, np.array([v & 2**64 - 1 for v in new], np.uint64), label=f"state[{n}] after {t}{list(dims)}"
                )
                c.output(r, want, leaf=1, label=f"{t}{list(dims)} from state[{n}]")


def all_of(c, value, *tests):
    """A predicate: every test(fusion, value) holds for every element."""
    f = c.m.computation("check")
    x = f.param(value.shape)
    p = None
    for test in tests:
        q = test(f, x)
        p = q if p is None else f.op("and", q.shape, [p, q])
    f.op(
        "reduce",
        S("pred"),
        [p, f.const(np.array(True))],
        [c.m.scalar("and", "pred")],
        dimensions=list(range(len(value.shape.dims))),
    )
    return c.m.fusion(f, [value])


def bound(direction, limit, t):
    def test(f, x):
        b = f.op("broadcast", x.shape, [f.const(np.array(limit).astype(ty.dtype_of(t)))], dimensions=[])
        return f.op(
            "compare",
            Shape("pred", x.shape.dims),
            [x, b],
            comparison_direction=direction,
            comparison_order="PARTIAL",
            comparison_type="FLOAT" if t in ty.FLOATS else "SIGNED",
        )

    return test


def mean_of(c, value, power):
    """Mean of x^power in f64."""
    f = c.m.computation("mean")
    x = f.op("convert", Shape("f64", value.shape.dims), [f.param(value.shape)])
    y = x
    for _ in range(power - 1):
        y = f.op("multiply", x.shape, [y, x])
    s = f.op(
        "reduce",
        S("f64"),
        [y, f.const(np.array(0.0))],
        [c.m.scalar("add", "f64")],
        dimensions=list(range(len(value.shape.dims))),
    )
    f.op("divide", S("f64"), [s, f.const(np.array(float(np.prod(value.shape.dims))))])
    return c.m.fusion(f, [value])


def make_distributions():
    n = (100, 100)
    c = Case("random", "rng_uniform", "rng", "inside [a, b); mean and mean square within six standard errors")
    for t, a, b in [("f32", 2.0, 5.0), ("f64", -1.0, 1.0), ("s32", -10, 20), ("f16", 0.0, 1.0), ("bf16", 0.0, 4.0)]:
        v = c.m.op(
            "rng",
            S(t, *n),
            [c.input(np.array(a).astype(ty.dtype_of(t))), c.input(np.array(b).astype(ty.dtype_of(t)))],
            distribution=enum("xla.RandomDistribution", "RNG_UNIFORM"),
        )
        # rounding may lift bf16 and f16 numbers to the upper bound
        upper = bound("LE" if t in ty.SMALL_FLOATS else "LT", b, t)
        c.output(all_of(c, v, bound("GE", a, t), upper), np.array(True), label=t)
        values = np.arange(a, b) if t == "s32" else np.linspace(a, b, 100001)
        for power in (1, 2):
            m = float(np.mean(values.astype(float) ** power))
            sd = float(np.std(values.astype(float) ** power))
            c.output(
                mean_of(c, v, power),
                np.array(m),
                (0, 6 * sd / 100 + (0.02 * abs(b) ** power if t in ty.SMALL_FLOATS else 0)),
                label=f"{t} moment {power}",
            )
    c = Case("random", "rng_normal", "rng", "moments one to four within six standard errors")
    for t, mu, sigma in [("f32", 0.0, 1.0), ("f64", 3.0, 0.5), ("f32", -2.0, 2.0)]:
        v = c.m.op(
            "rng",
            S(t, *n),
            [c.input(np.array(mu).astype(ty.dtype_of(t))), c.input(np.array(sigma).astype(ty.dtype_of(t)))],
            distribution=enum("xla.RandomDistribution", "RNG_NORMAL"),
        )
        moments = [0, mu, mu**2 + sigma**2, mu**3 + 3 * mu * sigma**2, mu**4 + 6 * mu**2 * sigma**2 + 3 * sigma**4]
        moments += [mu**6 + 15 * mu**4 * sigma**2 + 45 * mu**2 * sigma**4 + 15 * sigma**6]
        eighth = mu**8 + 28 * mu**6 * sigma**2 + 210 * mu**4 * sigma**4 + 420 * mu**2 * sigma**6 + 105 * sigma**8
        seconds = {1: moments[2], 2: moments[4], 3: moments[5], 4: eighth}
        for power in (1, 2, 3, 4):
            sd = (seconds[power] - moments[power] ** 2) ** 0.5
            c.output(mean_of(c, v, power), np.array(moments[power]), (0, 6 * sd / 100), label=f"{t} moment {power}")
    c = Case("random", "rng_state", "rng-get-and-update-state", "the state a program starts with")
    v = c.m.op("rng-get-and-update-state", S("u64", 2), [], delta=3)
    c.output(v, np.array([0x7012395, 0], np.uint64))


def make_stochastic():
    c = Case(
        "random",
        "stochastic-convert",
        "stochastic-convert",
        "up, away from zero, when the random word is below the fraction; saturates at the type's ends",
    )
    x = np.array(
        [0, 0.25, 0.25, -0.25, -0.75, 1.5, 2.5, -3.5, 126.75, 127.5, 1e9, -128.5, -1e9, 7, -7, 0.999, -0.0], np.float64
    )
    share = np.array([0, 0.2, 0.3, 0.2, 0.8, 0.49, 0.51, 0.4, 0.5, 0.9, 0, 0.1, 0.9, 0, 0.5, 0.99, 0.1])
    for t, r in [("f32", "u32"), ("f64", "u64"), ("f16", "u16"), ("bf16", "u16")]:
        with np.errstate(all="ignore"):
            v = x.astype(ty.dtype_of(t))
        v[~np.isfinite(v)] = np.array(500).astype(v.dtype)
        word = array([int(s * 2 ** ty.bits_of(r)) for s in share], r)
        for to in ("s8", "s32", "s16"):
            lo, hi = -(2 ** (ty.bits_of(to) - 1)), 2 ** (ty.bits_of(to) - 1) - 1
            out = []
            for value, w in zip(v.astype(np.float64), word):
                whole = int(abs(value))
                whole += int(w) < int((abs(value) - whole) * 2 ** ty.bits_of(r))
                out.append(lo if value <= lo else hi if value >= hi else -whole if value < 0 else whole)
            c.op("stochastic-convert", [c.input(v), c.input(word)], array(out, to), label=f"{t} to {to}")


def make():
    make_bits()
    make_distributions()
    make_stochastic()
