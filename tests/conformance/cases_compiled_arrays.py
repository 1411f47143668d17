# SPDX-License-Identifier: Apache-2.0
"""Compiled programs: moving, indexing, reducing and multiplying arrays; linear algebra; control flow."""

import numpy as np
import scipy.linalg

from cases_gemm import gelu
from cases_integer import sample as int_sample
from cases_linear import random
from cases_move import pad_rule
from cases_random import bits_philox, bits_threefry
from cases_window import select_and_scatter, windowed
from compiled import T, program
from convolution import conv_adjoint, conv_rule


def moves():
    x, y, z = (
        np.arange(40, dtype=np.float32).reshape(2, 4, 5),
        np.arange(12, dtype=np.float32).reshape(3, 4),
        np.arange(96, dtype=np.int16).reshape(2, 2, 2, 3, 2, 2),
    )
    pad = lambda config: pad_rule(y, np.float32(7), config)
    program(
        "move",
        "transpose reverse slice concatenate broadcast reshape pad iota copy",
        [x, y, z],
        [
            x.transpose(2, 0, 1),
            x[::-1, :, ::-1],
            x[1:, ::2, 1:3],
            np.concatenate([x, x[:, :1]], 1),
            np.broadcast_to(x[:, None], (2, 3, 4, 5)),
            x.reshape(5, 8),
            pad([(1, 2, 0), (0, 1, 2)]),
            pad([(-1, 0, 1), (2, -2, 0)]),
            pad([(3, -5, 0), (0, 0, 0)]),
            np.broadcast_to(np.arange(4, dtype=np.int32), (3, 4)),
            z.transpose(5, 3, 1, 0, 2, 4),
            z.reshape(6, -1).T,
            x.T.copy(),
        ],
        "negative padding cuts",
    )
    s, e, o = np.float32(2.5), np.zeros((0, 3), np.float32), np.array([[4]], np.int32)
    program(
        "small_shapes",
        "add reduce concatenate reshape negate",
        [s, e, o],
        [np.float32(3.5), e, np.zeros(3, np.float32), np.zeros((0, 6), np.float32), np.int32(3), np.float32(0), -o],
        "scalars, empty arrays, dimensions of 1",
    )
    x, u, i, j = np.arange(42, dtype=np.float32).reshape(6, 7), -np.ones((2, 3), np.float32), np.int32(5), np.int32(-3)
    want = x.copy()
    want[3:5, 4:7] = u  # index -3 counts from the end in this front end, 5 is clamped to 4
    program(
        "dynamic",
        "dynamic-slice dynamic-update-slice",
        [x, u, i, j],
        [x[4:6, 4:7], want, x[0:6, 4:6], x[:, 5:6]],
        "start indices are clamped so that the slice fits",
    )
    i, k = np.array([0, 7, 2, -9, 5, 6], np.int32), np.random.default_rng(3).integers(0, 9, (6, 3)).astype(np.int32)
    clip = np.clip(i, 0, 5)
    wrapped = np.where(i < 0, i + 6, i)
    fill = np.where(((wrapped >= 0) & (wrapped < 6))[:, None], x[np.clip(wrapped, 0, 5)], np.float32(-1))
    window = np.stack(
        [x[min(max(v, 0), 4) : min(max(v, 0), 4) + 2, min(max(v, 0), 4) : min(max(v, 0), 4) + 3] for v in i]
    )
    program(
        "gather",
        "gather",
        [x, i, k],
        [x[clip], fill, np.take_along_axis(x, np.clip(k, 0, 6), 1), window],
        "start indices are clamped so that the slice fits",
    )
    u, n, m = (
        np.arange(42, dtype=np.float32).reshape(6, 7) / 4 - 5,
        np.arange(6, dtype=np.int32) + 1,
        np.array([3, 5, 7, 11, 13, 17], np.int32),
    )
    i = np.array([0, 7, 2, -9, 2, 6], np.int32)

    def at(base, f, upd):
        out = base.copy()
        for t, v in zip(i, upd):
            t = t + 6 if t < 0 else t
            if 0 <= t < 6:
                out[t] = f(out[t], v)
        return out

    spread = x.copy()
    for v in i:
        if 0 <= v <= 4:
            spread[v : v + 2, v : v + 2] += 1
    program(
        "scatter",
        "scatter",
        [x, i, u, n, m],
        [
            (at(x, np.add, u), (1e-6, 1e-6)),
            at(x, np.maximum, u),
            at(x, np.minimum, u),
            at(n, np.add, m),
            at(n, np.multiply, m),
            spread,
        ],
        "a window that does not fit is dropped whole; duplicates accumulate",
    )


def reductions():
    x, n = random("f32", (9, 37), 80), int_sample("s32", 81)[:36].reshape(4, 9)
    p, d, b = (
        np.random.default_rng(82).integers(0, 4, (5, 6)) > 0,
        random("f64", (3, 50), 83),
        random("bf16", (16, 5), 84),
    )
    near, w = (2e-6, 2e-5), x.astype(np.float64)
    f32 = lambda v: np.asarray(v).astype(np.float32)
    program(
        "reduce",
        "reduce",
        [x, n, p, d, b],
        [
            (f32(w.sum(1)), near),
            (f32(w.sum(0)), near),
            (f32(w.sum()), (2e-6, 1e-4)),
            x.max(1),
            x.min(0),
            (f32(w.prod(1)), (1e-5, 1e-30)),
            n.sum(0),
            n.max(),
            n.min(1),
            p.any(1),
            p.all(0),
            (d.sum(1), (1e-14, 1e-13)),
            (b.astype(np.float32).sum(0).astype(b.dtype), (2.0**-6, 2.0**-5)),
            x.argmax(1),
            n.argmin(0),
            np.bitwise_xor.reduce(n, 1),
            (f32(w.sum()), (2e-6, 1e-4)),
        ],
    )
    x, n = random("f32", (6, 8), 85), np.random.default_rng(86).integers(-50, 50, (3, 20)).astype(np.int32)
    add = lambda dims: (windowed(x.astype(np.float64), 0.0, dims, lambda a, b: a + b).astype(np.float32), near)
    program(
        "windows",
        "reduce-window",
        [x, n],
        [
            windowed(x, np.float32(-np.inf), [dict(size=2, stride=2), dict(size=3)], max),
            add([dict(size=3, padding_low=1, padding_high=1), dict(size=3, stride=2, padding_low=2)]),
            add([dict(size=2, window_dilation=2), dict(size=2, window_dilation=3)]),
            np.cumsum(n, 1, dtype=np.int64).astype(n.dtype),
            (x.astype(np.float64).cumsum(0).astype(np.float32), near),
            np.maximum.accumulate(x, 1),
            add([dict(size=2, padding_low=1, base_dilation=2), dict(size=2, padding_high=1)]),
        ],
    )
    x = np.random.default_rng(87).permutation(24).reshape(4, 6).astype(np.float32)
    program(
        "pool_gradient",
        "select-and-scatter",
        [x],
        [
            select_and_scatter(
                x, np.arange(1, 7, dtype=np.float32).reshape(2, 3), [dict(size=2, stride=2)] * 2, 0
            ).astype(np.float32)
        ],
    )
    x, n, d = (
        random("f32", (5, 33), 88),
        np.random.default_rng(89).integers(0, 9, 60).astype(np.int32),
        random("f64", (60,), 90),
    )
    x[0, :4] = [np.nan, np.inf, -np.inf, 0.5]
    order, both = np.argsort(n, kind="stable"), np.lexsort([d, n])
    top = np.argsort(-n, kind="stable")[:7]
    program(
        "sort",
        "sort topk",
        [x, n, d],
        [
            np.sort(x, 1),
            np.sort(x, 0),
            n[order],
            order.astype(np.int32),
            n[both],
            d[both],
            n[top],
            top.astype(np.int32),
            order,
            np.sort(d)[::-1],
        ],
        "equal keys keep their order, equal values in top-k the lower index first; NaN last",
    )


def products():
    a, b = random("f32", (17, 40), 100), random("f32", (40, 12), 101)
    c, d = random("bf16", (16, 32), 102), random("bf16", (32, 16), 103)
    e, f = random("f16", (2, 8, 16), 104), random("f16", (2, 16, 8), 105)
    g, h = int_sample("s8", 106, 64).reshape(8, 8), int_sample("s8", 107, 64).reshape(8, 8)
    w = lambda v: v.astype(np.float64)
    cd, ef = w(c) @ w(d), w(e) @ w(f)
    program(
        "dots",
        "dot",
        [a, b, c, d, e, f, g, h],
        [
            ((w(a) @ w(b)).astype(np.float32), (2e-6, 2e-5)),
            (cd.astype(np.float32), (2e-6, 2e-5)),
            (cd.astype(np.float32).astype(c.dtype), (2.0**-7, 2.0**-7)),
            (ef.astype(np.float32).astype(e.dtype), (2.0**-10, 2.0**-9)),
            g.astype(np.int32) @ h.astype(np.int32),
            ((w(a) @ w(b[:, 0])).astype(np.float32), (2e-6, 2e-5)),
        ],
    )
    a, b, z, y = (
        random("f64", (9, 30), 108),
        random("f64", (30, 7), 109),
        random("c128", (6, 20), 110),
        random("c128", (20, 5), 111),
    )
    program(
        "dots_f64", "dot", [a, b, z, y], [(a @ b, (1e-14, 1e-13)), (z @ y, (1e-14, 1e-13)), (a.T @ a, (1e-14, 1e-13))]
    )
    x, k, n = random("f32", (9, 4), 112), random("f32", (3, 4, 6), 113), np.array([4, 0, 5], np.int32)
    want = np.concatenate([w(x[:4]) @ w(k[0]), w(x[4:]) @ w(k[2])])
    program("ragged", "ragged-dot dot", [x, k, n], [(want.astype(np.float32), (2e-6, 1e-5))])
    x, k, g = random("f32", (2, 8, 7, 4), 114), random("f32", (3, 3, 4, 8), 115), random("f32", (3, 3, 1, 8), 116)
    h, q = random("f16", (1, 6, 6, 8), 117), random("f16", (3, 3, 8, 8), 118)
    one = lambda v, u, dims, groups=1: conv_rule(
        w(v).transpose(0, 3, 1, 2), w(u).transpose(3, 2, 0, 1), 2, dims, groups
    ).transpose(0, 2, 3, 1)
    same = [dict(size=3, padding_low=1, padding_high=1)] * 2
    near = (2.0**-9, 0.02)  # a GPU may use TF32
    program(
        "conv",
        "convolution",
        [x, k, g, h, q],
        [
            (one(x, k, same).astype(np.float32), near),
            (one(x, k, [dict(size=3, stride=2, padding_low=1, padding_high=1)] * 2).astype(np.float32), near),
            (one(x, g, same, 4).astype(np.float32), near),
            (
                one(
                    x,
                    k,
                    [
                        dict(size=3, window_dilation=2, padding_low=2, padding_high=1),
                        dict(size=3, window_dilation=2, padding_high=2),
                    ],
                ).astype(np.float32),
                near,
            ),
            (one(x, k, [dict(size=3, base_dilation=2, padding_low=2, padding_high=2)] * 2).astype(np.float32), near),
            (one(h, q, [dict(size=3)] * 2).astype(np.float16), (2.0**-9, 2.0**-7)),
        ],
    )
    x, k = random("f32", (2, 3, 8, 6), 119), random("f32", (4, 3, 3, 3), 120)
    dims = [dict(size=3, stride=2, padding_low=1, padding_high=1), dict(size=3, padding_low=1, padding_high=1)]
    dx, dk = conv_adjoint(w(x), w(k), conv_rule(w(x), w(k), 2, dims), dims, 1)
    program(
        "conv_gradients",
        "convolution",
        [x, k],
        [(dx.astype(np.float32), (2.0**-8, 0.5)), (dk.astype(np.float32), (2.0**-8, 1.0))],
    )


def linear_algebra():
    z, r, q, d = (
        random("c64", (3, 12), 130),
        random("f32", (2, 15), 131),
        random("c64", (6, 5), 132),
        random("f64", (4, 7), 133),
    )
    near = (4e-6, 2e-5)
    c64 = lambda v: v.astype(np.complex64)
    program(
        "transforms",
        "fft",
        [z, r, q, d],
        [
            (c64(np.fft.fft(z)), near),
            (c64(np.fft.ifft(z)), near),
            (c64(np.fft.rfft(r)), near),
            (r, near),
            (c64(np.fft.fft2(q)), near),
            (c64(np.fft.ifftn(q)), near),
            (np.fft.rfft2(d), (1e-14, 1e-13)),
        ],
    )
    a, b = random("f64", (5, 5), 134) + 4 * np.eye(5), random("f64", (5, 3), 135)
    g, k = random("f64", (5, 5), 136), random("c128", (4, 4), 137)
    h, kk = g @ g.T + 5 * np.eye(5), k @ k.conj().T + 4 * np.eye(4)
    l, t = np.linalg.cholesky(h), (1e-12, 1e-12)
    pivots = np.argmax(scipy.linalg.lu(a)[0], axis=0)  # row i of P^T A is row pivots[i] of A
    program(
        "solve",
        "custom-call triangular-solve cholesky",
        [a, b, h, kk],
        [
            (l, t),
            (a[pivots], t),
            (a[pivots], t),
            (np.linalg.solve(l, b), t),
            (np.linalg.solve(l, b).T, t),
            (np.linalg.cholesky(kk), t),
            (np.linalg.solve(a, b), t),
        ],
        "Cholesky, LU with pivots, triangular solves",
    )
    a, h = random("f64", (6, 4), 138), random("f64", (5, 5), 139)
    h = h + h.T
    program(
        "decompose",
        "custom-call",
        [a, h],
        [
            (a, t),
            (np.eye(4), t),
            np.zeros((4, 4)),
            (np.linalg.eigvalsh(h), t),
            (h, t),
            (np.linalg.svd(a, compute_uv=False), t),
            (a, t),
            (np.linalg.eigvalsh(h), t),
        ],
        "QR, eigenvalues, singular values: compared by what the factors multiply to",
    )
    dl, dd, du, b = (
        random("f32", (9,), 140),
        random("f32", (9,), 141) + 5,
        random("f32", (9,), 142),
        random("f32", (9, 2), 143),
    )
    dl[0] = du[-1] = 0
    m = np.diag(dd.astype(np.float64)) + np.diag(dl[1:].astype(np.float64), -1) + np.diag(du[:-1].astype(np.float64), 1)
    program("tridiagonal", "custom-call", [dl, dd, du, b], [(np.linalg.solve(m, b).astype(np.float32), (1e-5, 1e-6))])


def flow():
    n, x, p, k = np.int32(5), np.array([3, -2, 8, 100], np.float32), np.array(True), np.int32(7)
    total, steps, halved, c, seen = x.copy(), 0, x.copy(), np.float32(1), []
    for i in range(5):
        total = total * np.float32(0.5) + np.float32(i)
    while (halved > 1).all():
        steps, halved = steps + 1, halved / 2
    for v in x:
        seen.append(c * v)
        c = c + v
    program(
        "control",
        "while conditional",
        [n, x, p, k],
        [
            (total, (1e-6, 0)),
            np.int32(steps),
            halved,
            c,
            np.array(seen, np.float32),
            (np.sin(x.astype(np.float64)).astype(np.float32), T["f32"]),
            -x,
            x * x,
        ],
        "an index past the branches takes the last one",
    )
    key2, key3 = np.array([0x0123456789ABCDEF, 2**64 - 2], np.uint64), np.array([5, 6, 7], np.uint64)
    a, s2 = bits_threefry(key2, "u32", (5, 3))
    b, s3 = bits_philox(key2, "u64", (7,))
    state = lambda s: np.array([v & 2**64 - 1 for v in s], np.uint64)
    program(
        "random_bits",
        "rng-bit-generator",
        [key2, key3],
        [state(s2), a, state(s3), b, bits_philox(key2, "u16", (4, 3))[0]],
        "bit for bit",
    )
    x, g, b = random("f32", (6, 40), 150), random("f32", (40,), 151), random("f32", (40,), 152)
    w = x.astype(np.float64)
    e = np.exp(w - w.max(-1, keepdims=True))
    f32, near = lambda v: np.asarray(v).astype(np.float32), (1e-5, 2e-6)
    norm = (w - w.mean(-1, keepdims=True)) / np.sqrt(w.var(-1, keepdims=True) + 1e-5) * g + b
    program(
        "softmax_norm",
        "reduce exponential rsqrt divide tanh log",
        [x, g, b],
        [
            (f32(e / e.sum(-1, keepdims=True)), near),
            (f32(norm), near),
            (f32(gelu(w)), near),
            (f32(np.log(e.sum(-1)) + w.max(-1)), near),
        ],
    )


def make():
    moves()
    reductions()
    products()
    linear_algebra()
    flow()
