# SPDX-License-Identifier: Apache-2.0
"""Products and solvers as opcodes: dot, ragged-dot, scaled-dot, cholesky, triangular-solve, fft."""

import numpy as np

import hlo_types as ty
from build import S, enum
from case import EPS, Case
from cases_integer import array
from cases_move import layouts


def random(t, dims, seed):
    rng = np.random.default_rng(seed)
    if t in ty.INTEGERS:
        lo, hi = (-8, 8) if t[0] == "s" else (0, 16)
        return array(rng.integers(max(lo, -8), min(hi, 8), int(np.prod(dims))).tolist(), t).reshape(dims)
    # multiples of 1/32, so that the files compress
    normal = lambda: np.rint(rng.standard_normal(dims) * 32) / 32
    return (normal() + 1j * normal() if t in ty.COMPLEX else normal()).astype(ty.dtype_of(t))


def wide(x):
    t = ty.name_of(x)
    return (
        ty.plain(x).astype(np.int64)
        if t in ty.INTEGERS
        else x.astype(np.clongdouble if t in ty.COMPLEX else np.longdouble)
    )


def store(x, t):
    if t in ty.INTEGERS:
        return array([int(v) for v in x.ravel()], t).reshape(x.shape)
    with np.errstate(all="ignore"):
        x = x.astype(np.complex128 if t in ty.COMPLEX else np.float64) if t not in ("f64", "c128") else x
        return x.astype(np.float32).astype(ty.dtype_of(t)) if t in ty.SMALL_FLOATS else x.astype(ty.dtype_of(t))


def room(t, k, size=1.0):
    """Sums of k products in f32 at least, then one rounding to t."""
    if t in ty.INTEGERS:
        return 0
    eps = max(EPS[t], EPS["f32"]) if t not in ("f64", "c128") else EPS[t]
    inner = EPS["f64"] if t in ("f64", "c128") else EPS["f32"]
    return (2 * eps, 8 * inner * size * max(k, 1) ** 0.5 * 4)


def dot_rule(a, b, d):
    """Batch, then free dimensions of a, then of b."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    x, y = [None] * a.ndim, [None] * b.ndim
    for l, r in zip(d.get("lhs_batch_dimensions", []), d.get("rhs_batch_dimensions", [])):
        x[l] = y[r] = next(letters)
    batch = [x[l] for l in d.get("lhs_batch_dimensions", [])]
    for l, r in zip(d.get("lhs_contracting_dimensions", []), d.get("rhs_contracting_dimensions", [])):
        x[l] = y[r] = next(letters)
    free_x, free_y = [i for i in range(a.ndim) if x[i] is None], [i for i in range(b.ndim) if y[i] is None]
    for i in free_x:
        x[i] = next(letters)
    for i in free_y:
        y[i] = next(letters)
    out = batch + [x[i] for i in free_x] + [y[i] for i in free_y]
    return np.einsum(f"{''.join(x)},{''.join(y)}->{''.join(out)}", a, b)


DOTS = [
    ((5, 7), (7, 4), dict(lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0])),
    ((7, 5), (4, 7), dict(lhs_contracting_dimensions=[0], rhs_contracting_dimensions=[1])),
    (
        (2, 3, 5),
        (2, 5, 4),
        dict(
            lhs_batch_dimensions=[0],
            rhs_batch_dimensions=[0],
            lhs_contracting_dimensions=[2],
            rhs_contracting_dimensions=[1],
        ),
    ),
    (
        (3, 5, 2),
        (4, 2, 5),
        dict(
            lhs_batch_dimensions=[2],
            rhs_batch_dimensions=[1],
            lhs_contracting_dimensions=[1],
            rhs_contracting_dimensions=[2],
        ),
    ),
    ((6,), (6,), dict(lhs_contracting_dimensions=[0], rhs_contracting_dimensions=[0])),
    ((4, 6), (6,), dict(lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0])),
    ((3,), (4,), {}),
    ((2, 3, 4), (3, 4, 5), dict(lhs_contracting_dimensions=[1, 2], rhs_contracting_dimensions=[0, 1])),
    (
        (2, 3, 4, 3),
        (4, 3, 2, 2),
        dict(
            lhs_batch_dimensions=[0],
            rhs_batch_dimensions=[3],
            lhs_contracting_dimensions=[2, 1],
            rhs_contracting_dimensions=[0, 1],
        ),
    ),
    ((4, 0), (0, 3), dict(lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0])),
    ((0, 4), (4, 3), dict(lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0])),
    ((65, 130), (130, 33), dict(lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0])),
    ((1, 200), (200, 40), dict(lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0])),
    ((2, 1, 2, 2, 3, 2), (2, 3), dict(lhs_contracting_dimensions=[4], rhs_contracting_dimensions=[1])),
]
DOT_TYPES = [
    ("f32", "f32", "f32"),
    ("f64", "f64", "f64"),
    ("f16", "f16", "f16"),
    ("bf16", "bf16", "bf16"),
    ("c64", "c64", "c64"),
    ("c128", "c128", "c128"),
    ("s8", "s8", "s32"),
    ("s32", "s32", "s32"),
    ("u8", "u8", "u8"),
    ("s64", "s64", "s64"),
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f32"),
    ("f8e4m3fn", "f8e4m3fn", "f32"),
    ("f8e5m2", "f8e4m3fn", "bf16"),
    ("s4", "s4", "s32"),
    ("f32", "f32", "f64"),
    ("u4", "u4", "u8"),
    ("s16", "s16", "s16"),
]


def make_dot():
    c = Case("linear", "dot", "dot", "all types, contracting and batch dimensions, layouts, empty sums")
    k = 0
    for i, (ad, bd, d) in enumerate(DOTS):
        for j in range(4):
            a_t, b_t, t = DOT_TYPES[k % len(DOT_TYPES)]
            a, b = random(a_t, ad, k), random(b_t, bd, k + 100)
            want = store(dot_rule(wide(a), wide(b), d), t)
            n = int(np.prod([ad[x] for x in d.get("lhs_contracting_dimensions", [])]))
            pick = lambda rank, s: layouts(rank, s)[(k // 2 + s) % len(layouts(rank, s))]
            c.op(
                "dot",
                [c.input(a, pick(len(ad), 0)), c.input(b, pick(len(bd), 1))],
                want,
                room(t, n),
                layout=pick(want.ndim, 2),
                label=f"{a_t} {b_t} to {t} {list(ad)} {list(bd)}",
                dot_dimension_numbers=d,
            )
            k += 1
    c = Case(
        "linear",
        "dot_special",
        "dot",
        "infinity times zero is NaN; large partial sums do not overflow narrow types before the end",
    )
    d = DOTS[0][2]
    for t in ("f32", "f64", "bf16", "f16"):
        a = np.array([[np.inf, 0, 1], [0, 1, 2], [np.nan, 0, 0]], ty.dtype_of(t))
        b = np.array([[0, 1], [1, 1], [1, np.inf]], ty.dtype_of(t))
        with np.errstate(all="ignore"):
            want = (a.astype(np.float64) @ b.astype(np.float64)).astype(a.dtype)
        c.op("dot", [c.input(a), c.input(b)], want, (EPS[t], 0), label=f"{t} special", dot_dimension_numbers=d)
    a, b = np.array([[60000, 60000, -60000]], np.float16), np.ones((3, 1), np.float16)
    c.op("dot", [c.input(a), c.input(b)], np.array([[60000]], np.float16), label="f16 sum", dot_dimension_numbers=d)


def make_ragged():
    c = Case(
        "linear",
        "ragged-dot",
        "ragged-dot",
        "ragged rows (those past the groups are 0), ragged contraction, ragged batch; empty groups",
    )
    for t in ("f32", "f64", "bf16"):
        sizes = np.array([2, 0, 3], np.int32)
        lhs, rhs = random(t, (7, 4), 1), random(t, (3, 4, 5), 2)
        want = np.zeros((7, 5), np.longdouble)
        want[0:2], want[2:5] = wide(lhs)[0:2] @ wide(rhs)[0], wide(lhs)[2:5] @ wide(rhs)[2]
        d = dict(
            dot_dimension_numbers=dict(lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[1]),
            lhs_ragged_dimensions=[0],
            rhs_group_dimensions=[0],
        )
        c.op(
            "ragged-dot",
            [c.input(lhs), c.input(rhs), c.input(sizes)],
            store(want, t),
            room(t, 4),
            label=f"{t} rows",
            ragged_dot_dimension_numbers=d,
        )
        lhs, rhs = random(t, (4, 5), 3), random(t, (5, 6), 4)
        want = np.stack([wide(lhs)[:, 0:2] @ wide(rhs)[0:2], np.zeros((4, 6)), wide(lhs)[:, 2:5] @ wide(rhs)[2:5]])
        d = dict(
            dot_dimension_numbers=dict(lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0]),
            lhs_ragged_dimensions=[1],
        )
        c.op(
            "ragged-dot",
            [c.input(lhs), c.input(rhs), c.input(sizes)],
            store(want, t),
            room(t, 5),
            label=f"{t} contraction",
            ragged_dot_dimension_numbers=d,
        )
        lhs, rhs = random(t, (5, 2, 4), 5), random(t, (5, 4, 3), 6)
        d = dict(
            dot_dimension_numbers=dict(
                lhs_batch_dimensions=[0],
                rhs_batch_dimensions=[0],
                lhs_contracting_dimensions=[2],
                rhs_contracting_dimensions=[1],
            ),
            lhs_ragged_dimensions=[0],
        )
        c.op(
            "ragged-dot",
            [c.input(lhs), c.input(rhs), c.input(sizes)],
            store(wide(lhs) @ wide(rhs), t),
            room(t, 4),
            label=f"{t} batch",
            ragged_dot_dimension_numbers=d,
        )
    c = Case("linear", "scaled-dot", "scaled-dot", "block scales multiply their operand's blocks along the contraction")
    for t, out in [("f8e4m3fn", "f32"), ("f8e5m2", "bf16"), ("bf16", "f32")]:
        lhs, rhs = random(t, (5, 64), 1), random(t, (64, 6), 2)
        sl = np.exp2(np.random.default_rng(3).integers(-3, 4, (5, 2))).astype(ty.dtype_of("f8e8m0fnu"))
        sr = np.exp2(np.random.default_rng(4).integers(-3, 4, (2, 6))).astype(ty.dtype_of("f8e8m0fnu"))
        a, b = wide(lhs) * np.repeat(sl.astype(np.float64), 32, 1), wide(rhs) * np.repeat(sr.astype(np.float64), 32, 0)
        c.op(
            "scaled-dot",
            [c.input(v) for v in (lhs, rhs, sl, sr)],
            store(a @ b, out),
            room(out, 64, 64),
            label=f"{t} to {out}",
            dot_dimension_numbers=DOTS[0][2],
        )


def make_solvers():
    c = Case(
        "linear",
        "cholesky",
        "cholesky",
        "reads one triangle (the other holds NaN); what the other one of the result holds is open and masked",
    )
    for t in ("f32", "f64", "c64", "c128"):
        for dims, lower in [
            ((4, 4), True),
            ((4, 4), False),
            ((2, 3, 5, 5), True),
            ((1, 1), True),
            ((0, 3, 3), True),
            ((33, 33), False),
        ]:
            a = random(t, dims, 3)
            n = dims[-1]
            h = (wide(a) @ np.conj(np.swapaxes(wide(a), -1, -2)) + n * np.eye(n)).astype(
                np.complex128 if t in ty.COMPLEX else np.float64
            )
            h = h.astype(ty.dtype_of(t))
            l = np.linalg.cholesky(h.astype(np.complex128 if t in ty.COMPLEX else np.float64))
            want = l if lower else np.conj(np.swapaxes(l, -1, -2))
            mask = np.broadcast_to(np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T, dims)
            x = np.where(mask, h, np.array(np.nan, h.dtype))
            v = c.m.op("cholesky", S(t, *dims), [c.input(x)], cholesky_options=dict(lower=lower))
            c.op(
                "select",
                [c.input(mask), v, c.input(np.zeros(dims, h.dtype))],
                np.where(mask, want, 0).astype(h.dtype),
                (64 * EPS[t], 64 * EPS[t] * n),
                label=f"{t}{list(dims)} {'lower' if lower else 'upper'}",
            )
    c = Case(
        "linear",
        "triangular-solve",
        "triangular-solve",
        "the other triangle and a unit diagonal are not read: both hold NaN here",
    )
    k = 0
    for t in ("f32", "f64", "c64", "c128"):
        for trans in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
            for left, lower, unit in [
                (True, True, False),
                (True, False, True),
                (False, True, True),
                (False, False, False),
            ]:
                n, m, lead = [(4, 3, ()), (5, 1, (2,)), (3, 6, (2, 2)), (17, 5, ())][k % 4]
                a = np.tril(wide(random(t, lead + (n, n), k))) if lower else np.triu(wide(random(t, lead + (n, n), k)))
                a = a / n + np.eye(n) * (2 - 0 * a)
                a = (np.tril(a) if lower else np.triu(a)).astype(ty.dtype_of(t))
                b = random(t, lead + ((n, m) if left else (m, n)), k + 9)
                full = a.astype(np.complex128)
                if unit:
                    full = full * (1 - np.eye(n)) + np.eye(n)
                op = {
                    "NO_TRANSPOSE": full,
                    "TRANSPOSE": np.swapaxes(full, -1, -2),
                    "ADJOINT": np.conj(np.swapaxes(full, -1, -2)),
                }[trans]
                want = (
                    np.linalg.solve(op, b.astype(np.complex128))
                    if left
                    else np.swapaxes(
                        np.linalg.solve(np.swapaxes(op, -1, -2), np.swapaxes(b.astype(np.complex128), -1, -2)), -1, -2
                    )
                )
                want = (want if t in ty.COMPLEX else want.real).astype(ty.dtype_of(t))
                read = (
                    np.tri(n, k=-1 if unit else 0, dtype=bool)
                    if lower
                    else np.tri(n, k=-1 if unit else 0, dtype=bool).T
                )
                x = np.where(read, a, np.array(np.nan, a.dtype))
                c.op(
                    "triangular-solve",
                    [c.input(x), c.input(b, layouts(b.ndim)[k % 2])],
                    want,
                    (64 * EPS[t], 64 * EPS[t]),
                    label=f"{t} {trans} left {left} lower {lower} unit {unit}",
                    triangular_solve_options=dict(
                        left_side=left,
                        lower=lower,
                        unit_diagonal=unit,
                        transpose_a=enum("xla.TriangularSolveOptions.Transpose", trans),
                    ),
                )
                k += 1


def make_fft():
    c = Case(
        "linear",
        "fft",
        "fft",
        "one to three dimensions, even, odd and prime lengths, batches, lengths 1; inverse kinds are scaled by 1/n",
    )
    k = 0
    for lead, length in [
        ((3,), (8,)),
        ((2, 2), (7,)),
        ((), (12, 5)),
        ((2,), (4, 6, 3)),
        ((2,), (1,)),
        ((1,), (60,)),
        ((), (13,)),
        ((0,), (4,)),
        ((2, 1, 2), (3, 4, 5)),
    ]:
        for real, cplx in (("f32", "c64"), ("f64", "c128")):
            r, z = random(real, lead + length, k), random(cplx, lead + length, k + 1)
            ax = tuple(range(-len(length), 0))
            size = float(np.sqrt(np.prod(length)))
            tol = lambda t, s: (8 * EPS[t], 16 * EPS[t] * s)
            kind = lambda n: dict(fft_type=enum("xla.FftType", n), fft_length=length)
            f = (lambda g, v: g(v, axes=ax)) if r.size else (lambda g, v: v * 0)
            p = c.input(z, layouts(z.ndim)[k % 2 if z.ndim > 1 else 0])
            c.op(
                "fft",
                [p],
                f(np.fft.fftn, wide(z)).astype(z.dtype),
                tol(cplx, size),
                label=f"{cplx} FFT {list(length)}",
                **kind("FFT"),
            )
            c.op(
                "fft",
                [p],
                f(np.fft.ifftn, wide(z)).astype(z.dtype),
                tol(cplx, 1),
                label=f"{cplx} IFFT {list(length)}",
                **kind("IFFT"),
            )
            if r.size:
                spectrum = np.fft.rfftn(wide(r), axes=ax)
                c.op(
                    "fft",
                    [c.input(r)],
                    spectrum.astype(z.dtype),
                    tol(cplx, size),
                    label=f"{real} RFFT {list(length)}",
                    **kind("RFFT"),
                )
                c.op(
                    "fft",
                    [c.input(spectrum.astype(z.dtype))],
                    r,
                    tol(real, 4),
                    label=f"{real} IRFFT {list(length)}",
                    **kind("IRFFT"),
                )
            k += 1


def make():
    make_dot()
    make_ragged()
    make_solvers()
    make_fft()
