# SPDX-License-Identifier: Apache-2.0
"""Conversions: convert between all types, bitcast-convert, reduce-precision.

Floats round to nearest, ties to even, in one step; to integers they are cut towards zero and saturate, NaN
becomes 0; what a float format cannot hold becomes its infinity, or NaN where it has none. Integers wrap.
Inputs whose value depends on an intermediate rounding to f32 are left out.
"""

import numpy as np

import hlo_types as ty
from build import S
from case import Case
from cases_integer import array, bounds, ints
from cases_integer import sample as sample_ints

FLOAT_INPUTS = [
    0,
    -0.0,
    1,
    -1,
    0.5,
    -0.5,
    1.5,
    2.5,
    -1.5,
    -2.5,
    0.4999,
    1.9999,
    -1.9999,
    np.inf,
    -np.inf,
    np.nan,
    127,
    128,
    -128,
    -129,
    255,
    256,
    -1,
    32767,
    32768,
    65535,
    65536,
    7,
    8,
    -8,
    -9,
    15,
    16,
    2.0**31,
    -(2.0**31),
    2.0**32,
    2.0**63,
    -(2.0**63),
    2.0**64,
    1e30,
    -1e30,
    1e-3,
    240,
    248,
    464,
    480,
    57344,
    61440,
    65504,
    65520,
]


def floats(t, seed):
    """Values around every target's limits, exact ties of the 8-bit formats, random ones of all sizes."""
    rng = np.random.default_rng(seed)
    ties = [
        1.0625,
        1.1875,
        1.125,
        1.375,
        2.0**-10,
        3 * 2.0**-11,
        2.0**-17,
        3 * 2.0**-18,
        17,
        19,
        1 + 2.0**-8,
        1 + 3 * 2.0**-8,
        1 + 2.0**-11,
    ]
    random = rng.choice([-1, 1], 24) * np.exp2(rng.uniform(-12, 12, 24))
    with np.errstate(all="ignore"):
        return np.array(FLOAT_INPUTS + ties + [-v for v in ties] + random.tolist(), np.float64).astype(ty.dtype_of(t))


def to_float(x, t):
    """x: f64, exact. None where rounding through f32 gives something else."""
    direct, f32 = x.astype(ty.dtype_of(t)), x.astype(np.float32).astype(ty.dtype_of(t))
    if t == "bf16":  # this cast goes through f32, so find ties that f32 made
        bits = x.astype(np.float32).view(np.uint32)
        odd = ((bits & 0xFFFF) == 0x8000) & (x.astype(np.float32).astype(np.float64) != x)
        return direct, ~odd
    same = direct.view(f"u{direct.itemsize}") == f32.view(f"u{f32.itemsize}")
    return direct, same | np.isnan(x) | (t in ("f64",))


def to_int(x, t):
    lo, hi = bounds(t)
    out = []
    for v in x.astype(np.float64):
        out.append(0 if np.isnan(v) else lo if v == -np.inf else hi if v == np.inf else min(max(int(v), lo), hi))
    return array(out, t)


def converted(x, t):
    """(values, mask of those that count)."""
    s = ty.name_of(x)
    all_of = np.ones(x.shape, bool)
    if s in ty.INTEGERS + ["pred"]:
        values = ints(x) if s != "pred" else [int(v) for v in x]
        if t == "pred":
            return np.array([v != 0 for v in values]), all_of
        if t in ty.INTEGERS:
            return array(values, t), all_of
        exact = np.array(values, np.float64)
        near = np.array([float(v) == v for v in values])
        if t == "f32":  # one rounding from 64 bits
            return np.array(values, np.int64 if s[0] != "u" else np.uint64).astype(np.float32), all_of
        if t in ty.COMPLEX:
            w, m = converted(x, "f32" if t == "c64" else "f64")
            return w.astype(ty.dtype_of(t)), m
        if t == "f64":
            return exact, all_of
        w, m = to_float(exact, t)
        return w, m & near
    if s in ty.FLOATS:
        wide = x.astype(np.float64)
        if t == "pred":
            return wide != 0, all_of
        if t in ty.INTEGERS:
            return to_int(x, t), all_of
        if t in ty.COMPLEX:
            return wide.astype(ty.dtype_of(t)), all_of
        return to_float(wide, t)
    return x.astype(ty.dtype_of(t)), all_of


def make_convert():
    targets = ["pred"] + ty.INTEGERS + ty.FLOATS + ty.COMPLEX
    for k, s in enumerate(targets):
        c = Case("convert", f"convert_{s}", "convert", "to every type; floats saturate in integers and NaN becomes 0")
        for t in targets:
            if s in ty.COMPLEX and t not in ty.COMPLEX:
                continue
            if s == "pred":
                x = np.array([0, 1, 1, 0, 1], bool)
            elif s in ty.COMPLEX:
                x = np.array([1 + 2j, -0.0 + 3j, 1e30 - 1e30j, 0.1 + 0.2j], ty.dtype_of(s))
            else:
                x = floats(s, 1000 + k) if s in ty.FLOATS else sample_ints(s, 1000 + k)
            with np.errstate(all="ignore"):
                want, keep = converted(x, t)
                x, want = x[keep], want[keep]
            c.op("convert", [c.input(x)], want, label=f"{s} to {t}")


def make_odd_floats():
    """Formats without sign, zero or infinity, by their bits: every value of each."""
    c = Case("convert", "convert_f8e8m0fnu", "convert bitcast-convert", "all 256 values to f32: powers of two and NaN")
    bits = np.arange(256).astype(np.uint8)
    x = bits.view(ty.dtype_of("f8e8m0fnu"))
    c.op("convert", [c.input(x)], x.astype(np.float32))
    back = np.exp2(np.arange(-126, 127, 11)).astype(np.float32)
    c.op("convert", [c.input(back)], back.astype(ty.dtype_of("f8e8m0fnu")))
    c = Case(
        "convert",
        "convert_f4e2m1fn",
        "convert",
        "all 16 values to f32; back: ties to even, saturation at 6, NaN is left out",
    )
    x = np.arange(16).astype(np.uint8).view(ty.dtype_of("f4e2m1fn"))
    c.op("convert", [c.input(x)], x.astype(np.float32))
    back = np.array([0, -0.0, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6, 7, 100, -100, -5, 0.3, -1.4, 4.9], np.float32)
    c.op("convert", [c.input(back)], back.astype(ty.dtype_of("f4e2m1fn")))
    for t in ty.F8:
        c = Case("convert", f"all_values_{t}", "convert", "all 256 values to f32, f16, bf16 and f64")
        x = np.arange(256).astype(np.uint8).view(ty.dtype_of(t))
        p = c.input(x)
        for to in ("f32", "f64", "f16", "bf16"):
            c.op("convert", [p], x.astype(ty.dtype_of(to)), label=f"{t} to {to}")


def bits_as(x, t):
    """Elementwise reinterpretation; a wider type takes the last dimension's elements, first one lowest."""
    n, s = ty.bits_of(t), ty.bits_of(ty.name_of(x))
    raw = np.ascontiguousarray(x)
    if n == s:
        return raw.view(ty.dtype_of(t)) if n >= 8 else None
    if n > s:
        return raw.view(ty.dtype_of(t)).reshape(x.shape[:-1])
    return raw.view(ty.dtype_of(t)).reshape(x.shape + (s // n,))


def make_bitcast():
    rng = np.random.default_rng(3)
    widths = {
        8: ["s8", "u8"] + ty.F8,
        16: ["s16", "u16", "f16", "bf16"],
        32: ["s32", "u32", "f32"],
        64: ["s64", "u64", "f64", "c64"],
    }
    for n, types in widths.items():
        c = Case(
            "convert",
            f"bitcast_convert_{n}",
            "bitcast-convert",
            "same width: bits stay, NaN payloads and signs of zero included",
        )
        for s in types:
            raw = rng.integers(0, 256, 6 * n).astype(np.uint8)
            if n == 8:
                raw = np.concatenate([raw, [0x7F, 0xFF, 0x80, 0, 0xF8]]).astype(np.uint8)
            p = c.input(raw.view(ty.dtype_of(s)))
            for t in types:
                if s != t and "c64" not in (s, t):
                    # compared as integers, so that a NaN must keep its bits
                    v = c.m.op("bitcast-convert", S(t, raw.size * 8 // n), [p])
                    u = f"u{n}"
                    w = v if t == u else c.m.op("bitcast-convert", S(u, raw.size * 8 // n), [v])
                    c.output(w, raw.view(ty.dtype_of(u)), label=f"{s} to {t}")
    c = Case(
        "convert",
        "bitcast_convert_width",
        "bitcast-convert",
        "a new last dimension holds the parts, lowest first; and back",
    )
    for s, t in [
        ("f32", "u8"),
        ("f32", "u16"),
        ("f64", "s32"),
        ("u64", "u16"),
        ("s16", "s8"),
        ("u32", "bf16"),
        ("s32", "f16"),
    ]:
        x = rng.integers(0, 120, (3, 2, ty.bits_of(s) // 8)).astype(np.uint8).view(ty.dtype_of(s)).reshape(3, 2)
        y = bits_as(x, t)
        c.op("bitcast-convert", [c.input(x)], y, label=f"{s} to {t}")
        c.op("bitcast-convert", [c.input(y)], x, label=f"{t} to {s}")
    c = Case(
        "convert",
        "bitcast_convert_4bit",
        "bitcast-convert",
        "the first of two 4-bit elements is the low half of the byte",
    )
    x = np.array([0x21, 0xF0, 0x8E, 0x47, 0x00, 0xA5], np.uint8)
    halves = np.stack([x & 15, x >> 4], -1)
    c.op("bitcast-convert", [c.input(x)], halves.astype(ty.dtype_of("u4")), label="u8 to u4")
    signed = (halves.astype(np.int8) ^ 8) - 8
    c.op("bitcast-convert", [c.input(x.view(np.int8))], signed.astype(ty.dtype_of("s4")), label="s8 to s4")
    c.op("bitcast-convert", [c.input(halves.astype(ty.dtype_of("u4")))], x, label="u4 to u8")
    nibbles = np.arange(-8, 8).astype(np.int8).astype(ty.dtype_of("s4"))
    c.op(
        "bitcast-convert",
        [c.input(nibbles)],
        (np.arange(-8, 8) & 15).astype(np.uint8).astype(ty.dtype_of("u4")),
        label="s4 to u4",
    )


# element type: (exponent bits, mantissa bits, unsigned integer as wide)
FORMAT = {"f64": (11, 52, np.uint64), "f32": (8, 23, np.uint32), "f16": (5, 10, np.uint16), "bf16": (8, 7, np.uint16)}


def reduced(x, exponent, mantissa):
    """Mantissa to nearest even; then beyond the smaller exponent range infinity above, zero of the same sign below."""
    e, m, _ = FORMAT[ty.name_of(x)]
    word = x.view(FORMAT[ty.name_of(x)][2])
    out = []
    for b in word.ravel().tolist():
        sign, mag = b >> (e + m) << (e + m), b & ((1 << (e + m)) - 1)
        inf = ((1 << e) - 1) << m
        if mag > inf:
            out.append(b)
            continue
        if mantissa < m:
            cut = m - mantissa
            mag += (1 << (cut - 1)) - 1 + (mag >> cut & 1)
            mag = mag >> cut << cut
        if exponent < e and mag:
            bias, small = (1 << (e - 1)) - 1, (1 << (exponent - 1)) - 1
            if mag >> m > bias + small:
                mag = inf
            elif mag >> m <= bias - small:
                mag = 0
        out.append(sign | mag)
    return np.array(out, word.dtype).view(x.dtype)


def make_precision():
    c = Case(
        "convert",
        "reduce_precision",
        "reduce-precision",
        "mantissa to nearest even; a smaller exponent range overflows to infinity, flushes below its normal numbers",
    )
    rng = np.random.default_rng(4)
    for t in FORMAT:
        e, m, u = FORMAT[t]
        raw = rng.integers(0, np.iinfo(u).max, 120, dtype=u)
        with np.errstate(all="ignore"):
            near = np.array(
                [
                    0,
                    -0.0,
                    np.inf,
                    -np.inf,
                    np.nan,
                    1,
                    65504,
                    65520,
                    2.0**-14,
                    2.0**-15,
                    1.9999,
                    240,
                    248,
                    447,
                    465,
                    480,
                    0.0156,
                    0.0155,
                    1.0625,
                    1.1875,
                    -1.375,
                    2.0**-24,
                    3.0e38,
                ],
                np.float64,
            ).astype(ty.dtype_of(t))
            x = np.concatenate([raw.view(ty.dtype_of(t)), near])
        p = c.input(x)
        for exponent, mantissa in [(5, 10), (8, 7), (4, 3), (5, 2), (8, 23), (11, 52), (2, 1), (3, 0), (5, 23), (8, 3)]:
            c.op(
                "reduce-precision",
                [p],
                reduced(x, exponent, mantissa),
                label=f"{t} e{exponent}m{mantissa}",
                exponent_bits=exponent,
                mantissa_bits=mantissa,
            )


def make():
    make_convert()
    make_odd_floats()
    make_bitcast()
    make_precision()
