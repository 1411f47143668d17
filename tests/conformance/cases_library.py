# SPDX-License-Identifier: Apache-2.0
"""Library thunks: transforms, triangular solves, norms, top-k.

They need no kernel image, so these cases run on every device; cases_gemm.py and cases_conv.py have the others.
"""

import numpy as np

import hlo_types as ty
from build import S, Shape, default_layout, enum, new
from case import EPS, Case
from cases_linear import random, store, wide


def make_transforms():
    c = Case(
        "library",
        "fft",
        "fft",
        "all kinds, both precisions, one to three dimensions, batches; inverse kinds are scaled by 1/n",
        host_only=False,
    )
    k = 0
    for lead, length in [((3,), (8,)), ((2, 2), (7,)), ((2,), (6, 5)), ((), (4, 3, 6)), ((1,), (60,)), ((5,), (1,))]:
        for real, cplx in (("f32", "c64"), ("f64", "c128")):
            r, z = random(real, lead + length, k), random(cplx, lead + length, k + 1)
            ax, k = tuple(range(-len(length), 0)), k + 2
            spectrum = np.fft.rfftn(wide(r), axes=ax).astype(z.dtype)
            for kind, x, want in [
                ("FFT", z, np.fft.fftn(wide(z), axes=ax).astype(z.dtype)),
                ("IFFT", z, np.fft.ifftn(wide(z), axes=ax).astype(z.dtype)),
                ("RFFT", r, spectrum),
                ("IRFFT", spectrum, r),
            ]:
                v, out = c.input(x), c.m.buffer(Shape(ty.name_of(want), want.shape))
                raw = lambda u: c.m.slice_of(u).slice
                c.m.thunk(
                    fft_thunk=new(
                        "xla.gpu.FftThunkProto",
                        fft_type=enum("xla.FftType", kind),
                        fft_length=length,
                        input_buffer=raw(v),
                        output_buffer=raw(out),
                        input_shape=v.shape.proto(),
                        output_shape=out.shape.proto(),
                    )
                )
                c.output(
                    out,
                    want,
                    (8 * EPS[cplx], 32 * EPS[cplx] * np.prod(length) ** 0.5),
                    label=f"{ty.name_of(x)} {kind} {list(length)}",
                )
    c = Case(
        "library",
        "triangular_solve",
        "triangular-solve",
        "column-major, whatever A's recorded shape says; what is not to be read holds NaN; X takes B's memory",
        host_only=False,
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
                a = wide(random(t, lead + (n, n), k)) / n + 2 * np.eye(n)
                a = (np.tril(a) if lower else np.triu(a)).astype(ty.dtype_of(t))
                b = random(t, lead + ((n, m) if left else (m, n)), k + 9)
                full = a.astype(np.complex128)
                full = full * (1 - np.eye(n)) + np.eye(n) if unit else full
                op = {
                    "NO_TRANSPOSE": full,
                    "TRANSPOSE": np.swapaxes(full, -1, -2),
                    "ADJOINT": np.conj(np.swapaxes(full, -1, -2)),
                }[trans]
                flip = lambda v: np.swapaxes(v, -1, -2)
                want = (
                    np.linalg.solve(op, b.astype(np.complex128))
                    if left
                    else flip(np.linalg.solve(flip(op), flip(b.astype(np.complex128))))
                )
                want = (want if t in ty.COMPLEX else want.real).astype(b.dtype)
                read = np.tri(n, k=-1 if unit else 0, dtype=bool)
                x = np.where(read if lower else read.T, a, np.array(np.nan, a.dtype))
                rank = b.ndim
                layout = [rank - 2, rank - 1] + list(range(rank - 3, -1, -1))
                va, vb = c.input(x, layout), c.input(b, layout)
                va.shape.layout = layout
                slice_a = c.m.slice_of(va)
                slice_a.shape.layout.minor_to_major[:] = default_layout(rank)
                temp = c.m.buffer(S("s8", 256))
                c.m.thunk(
                    triangular_solve_thunk=new(
                        "xla.gpu.TriangularSolveThunkProto",
                        a_buffer=slice_a,
                        b_buffer=c.m.slice_of(vb),
                        temp_buffer=c.m.slice_of(temp),
                        options=new(
                            "xla.TriangularSolveOptions",
                            left_side=left,
                            lower=lower,
                            unit_diagonal=unit,
                            transpose_a=enum("xla.TriangularSolveOptions.Transpose", trans),
                        ),
                    )
                )
                c.output(
                    vb,
                    want,
                    (64 * EPS[t], 64 * EPS[t]),
                    label=f"{t} {trans} left {left} lower {lower} unit {unit}",
                )
                k += 1


def make_norm():
    eps = 1e-3
    raw = lambda c, v: c.m.slice_of(v).slice
    for kind, name in enumerate(("infer", "train", "backward")):
        c = Case(
            "library",
            f"norm_{name}",
            "custom-call",
            "layer norm over dimensions 1 and on; biased variance; the norm factor is 1/sqrt(variance + epsilon)",
            host_only=False,
        )
        for t, dims in [("f32", (6, 32, 1, 1)), ("f32", (4, 8, 3, 2)), ("bf16", (5, 64, 1, 1)), ("f16", (3, 16, 2, 2))]:
            row = (1,) + dims[1:]
            x, scale, bias, dy = random(t, dims, 1), random(t, row, 2), random(t, row, 3), random(t, dims, 4)
            ax = (1, 2, 3)
            mean = wide(x).mean(ax, keepdims=True)
            factor = 1 / np.sqrt(wide(x).var(ax, keepdims=True) + eps)
            tol = (4 * EPS[t], 4 * EPS[t])
            d = new(
                "xla.gpu.GpuNormDescriptorProto",
                backend_config=new(
                    "xla.gpu.CudnnNormBackendConfig",
                    epsilon=eps,
                    kind=kind,
                    algorithm=new("stream_executor.dnn.AlgorithmProto"),
                ),
            )
            vx, vs, scratch = c.input(x), c.input(scale), c.m.buffer(S("u8", 1 << 20))
            y, stat = c.m.buffer(Shape(t, dims)), Shape("f32", (dims[0], 1, 1, 1))
            p = new(
                "xla.gpu.NormThunkProto", x=raw(c, vx), scale=raw(c, vs), y_or_dx=raw(c, y), scratch=raw(c, scratch)
            )
            for f, v in (("x", vx), ("scale", vs), ("y_or_dx", y), ("scratch", scratch)):
                getattr(d, f + "_shape").CopyFrom(v.shape.proto())

            def add(field, v):
                getattr(p, field).CopyFrom(raw(c, v))
                getattr(d, field + "_shape").CopyFrom(v.shape.proto())
                return v

            outs = []
            if kind < 2:
                add("bias", c.input(bias))
                outs = [(y, (wide(x) - mean) * factor * wide(scale) + wide(bias), tol)]
                if kind == 1:
                    outs += [
                        (add("expectation", c.m.buffer(stat)), mean, (1e-5, 1e-5)),
                        (add("norm_factor", c.m.buffer(stat)), factor, (1e-5, 0)),
                    ]
            else:
                m32, f32 = mean.astype(np.float32), factor.astype(np.float32)
                add("dy", c.input(dy)), add("expectation", c.input(m32)), add("norm_factor", c.input(f32))
                hat = (wide(x) - m32) * f32
                g = wide(dy) * wide(scale)
                dx = f32 * (g - g.mean(ax, keepdims=True) - hat * (g * hat).mean(ax, keepdims=True))
                outs = [
                    (y, dx, tol),
                    (add("dscale", c.m.buffer(Shape(t, row))), (wide(dy) * hat).sum(0, keepdims=True), tol),
                    (add("dbias", c.m.buffer(Shape(t, row))), wide(dy).sum(0, keepdims=True), tol),
                ]
            p.norm_descriptor.CopyFrom(d)
            c.m.thunk(norm_thunk=p)
            for i, (v, want, room_) in enumerate(outs):
                c.output(
                    v,
                    want.astype(np.float32) if v.shape.type == "f32" else store(want, t),
                    room_,
                    label=f"{t}{list(dims)} {i}",
                )


def make_topk():
    c = Case(
        "library",
        "select_k",
        "topk",
        "the largest k in descending order; all values differ, for the order of equal ones is open",
        host_only=False,
    )
    for t, rows, n, k in [("f32", 3, 40, 5), ("bf16", 2, 60, 8), ("u64", 2, 33, 33), ("f32", 1, 2000, 16)]:
        x = np.stack([np.random.default_rng(n + r).permutation(n) for r in range(rows)])
        x = (
            (x * 2 - n).astype(ty.dtype_of(t))
            if t != "u64"
            else (x.astype(np.uint64) << np.uint64(50)) + np.uint64(1 << 63)
        )
        v, values, index = c.input(x), c.m.buffer(S(t, rows, k)), c.m.buffer(S("s32", rows, k))
        c.m.thunk(
            select_k_thunk=new(
                "xla.gpu.SelectKThunkProto",
                args=[c.m.slice_of(u).slice for u in (v, values, index)],
                batch_size=rows,
                num_elements=n,
                k=k,
                dtype=enum("xla.PrimitiveType", t.upper()),
            )
        )
        order = np.argsort(x.astype(np.float64) if t != "u64" else x, axis=1)[:, ::-1][:, :k]
        c.output(values, np.take_along_axis(x, order, 1), label=f"{t} {n} values")
        c.output(index, order.astype(np.int32), label=f"{t} {n} indices")


def make():
    make_transforms()
    make_norm()
    make_topk()
