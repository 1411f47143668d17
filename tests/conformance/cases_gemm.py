# SPDX-License-Identifier: Apache-2.0
"""Matrix product thunks: cublas_lt_matmul with all its epilogues, and the older gemm.

Matrices are read through their layouts only. Products ask for full f32 precision.
"""

import numpy as np

import hlo_types as ty
from build import S, enum, new
from case import EPS, Case
from cases_linear import random, store, wide

EPILOGUES = {"": 0, "relu": 1, "bias": 2, "bias+relu": 3, "gelu": 4, "gelu+aux": 7, "bias+gelu": 8, "bias+gelu+aux": 10}


def gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(np.longdouble(2) / np.pi) * (x + 0.044715 * x**3)))


class Matrix:
    """A batch of matrices in memory: rows or columns outermost, with a leading dimension and a batch stride."""

    def __init__(self, array, column=False, pad=0, gap=0, repeat=False):
        self.array, self.column = array, column
        self.batch, self.rows, self.cols = array.shape
        major, minor = (self.cols, self.rows) if column else (self.rows, self.cols)
        self.ld, self.repeat = minor + pad, repeat
        self.stride = 0 if repeat else major * self.ld + gap
        self.size = (1 if repeat else self.batch) * (major * self.ld + gap)

    def indices(self):
        b, i, j = np.ogrid[: self.batch, : self.rows, : self.cols]
        return b * self.stride + (j * self.ld + i if self.column else i * self.ld + j)

    def memory(self, filler):
        flat = np.full(self.size, filler, self.array.dtype)
        flat[self.indices()] = self.array
        return flat

    def proto(self):
        return new(
            "xla.GemmConfigProto.MatrixLayout",
            order=2 if self.column else 1,
            num_rows=self.rows,
            num_cols=self.cols,
            batch_size=1 if self.repeat else self.batch,
            leading_dim_stride=self.ld,
            batch_stride=self.stride if self.batch > 1 else 0,
            dtype=enum("xla.PrimitiveType", ty.name_of(self.array).upper()),
        )


def gemm(c, a, b, d, alpha=1.0, beta=0.0, addend=None, epilogue="", bias=None, scales=(), kind="lt"):
    """Adds a product; returns the value that holds D's memory. With beta, addend is C and lies in D's memory."""
    m = c.m
    ins = [c.input(v.memory(np.array(0, v.array.dtype))) for v in (a, b)]
    if beta:
        out = c.input(addend.memory(np.array(0, addend.array.dtype)))
    else:
        out = m.buffer(S(ty.name_of(d.array), d.size))
        m.thunk(memzero_thunk=new("xla.gpu.MemzeroThunkProto", dest_buffer=m.slice_of(out)))
    config = new(
        "xla.GemmConfigProto",
        lhs_layout=a.proto(),
        rhs_layout=b.proto(),
        c_layout=d.proto(),
        output_layout=d.proto(),
        alpha_real=complex(alpha).real,
        alpha_imag=complex(alpha).imag,
        beta=beta,
        compute_precision=2,
        algorithm=-1,
    )
    if kind == "legacy":
        raw = lambda v: m.slice_of(v).slice
        m.thunk(
            gemm_thunk=new(
                "xla.gpu.GemmThunkProto",
                gemm_config=config,
                lhs_buffer=raw(ins[0]),
                rhs_buffer=raw(ins[1]),
                output_buffer=raw(out),
            )
        )
        return out, None
    t = new(
        "xla.gpu.CublasLtMatmulThunkProto",
        gemm_config=config,
        epilogue=EPILOGUES[epilogue],
        canonical_hlo=f"{c.name}.{out.id}",
        a=m.slice_of(ins[0]),
        b=m.slice_of(ins[1]),
        c=m.slice_of(out),
        d=m.slice_of(out),
    )
    aux = None
    if bias is not None:
        t.bias.CopyFrom(m.slice_of(c.input(bias)))
    if epilogue.endswith("aux"):
        aux = m.buffer(S(ty.name_of(d.array), d.size))
        m.thunk(memzero_thunk=new("xla.gpu.MemzeroThunkProto", dest_buffer=m.slice_of(aux)))
        t.aux.CopyFrom(m.slice_of(aux))
    for name, v in zip(("a_scale", "b_scale"), scales):
        getattr(t, name).CopyFrom(m.slice_of(c.input(np.float32(v))))
    m.thunk(cublas_lt_matmul_thunk=t)
    return out, aux


def room(t, k, size=4.0):
    inner = EPS["f64"] if t in ("f64", "c128") else EPS["f32"]
    return 0 if t in ty.INTEGERS else (2 * EPS[t], 8 * inner * size * k**0.5)


def product(
    c,
    label,
    a_t,
    b_t,
    t,
    batch=1,
    m=8,
    k=16,
    n=24,
    forms=(False, False, False),
    pads=(0, 0, 0),
    repeat=None,
    alpha=1.0,
    beta=0.0,
    epilogue="",
    scales=(),
    kind="lt",
):
    seed = len(c.outputs)
    x, y = random(a_t, (batch, m, k), seed + 1), random(b_t, (batch, k, n), seed + 2)
    if repeat is not None:
        (x if repeat == 0 else y)[:] = (x if repeat == 0 else y)[:1]
    a = Matrix(x, forms[0], pads[0], 8 if pads[0] else 0, repeat == 0)
    b = Matrix(y, forms[1], pads[1], 8 if pads[1] else 0, repeat == 1)
    z = random(t, (batch, m, n), seed + 3)
    bias = random(t, (n,), seed + 4) if "bias" in epilogue else None
    scale = (
        complex(alpha)
        if t in ty.COMPLEX
        else np.longdouble(complex(alpha).real) if t not in ty.INTEGERS else int(alpha)
    )
    acc = scale * np.matmul(wide(x), wide(y))
    for s in scales:
        acc = acc * np.longdouble(np.float32(s))
    if beta:
        acc = acc + (int(beta) if t in ty.INTEGERS else beta) * wide(z)
    if bias is not None:
        acc = acc + wide(bias)
    pre = acc
    acc = np.maximum(acc, 0) if "relu" in epilogue else gelu(acc) if "gelu" in epilogue else acc
    d = Matrix(store(acc, t), forms[2], pads[2], 8 if pads[2] else 0)
    out, aux = gemm(
        c, a, b, d, alpha, beta, Matrix(z, forms[2], pads[2], 8 if pads[2] else 0), epilogue, bias, scales, kind
    )
    c.output(out, d.memory(np.array(0, d.array.dtype)), room(t, k), label=label)
    if aux is not None:
        c.output(
            aux,
            Matrix(store(pre, t), forms[2], pads[2], 8 if pads[2] else 0).memory(np.array(0, d.array.dtype)),
            room(t, k),
            label=label + " aux",
        )


def make_gemm():
    # a padded C with beta keeps its padding, which is 0 here, so D's memory is known everywhere
    c = Case("library", "matmul_types", "dot custom-call", "cublas_lt_matmul: types of A, B and D", host_only=False)
    for a_t, b_t, t in [
        ("f32", "f32", "f32"),
        ("f64", "f64", "f64"),
        ("f16", "f16", "f16"),
        ("bf16", "bf16", "bf16"),
        ("f16", "f16", "f32"),
        ("bf16", "bf16", "f32"),
        ("c64", "c64", "c64"),
        ("c128", "c128", "c128"),
        ("s8", "s8", "s32"),
    ]:
        product(c, f"{a_t} {b_t} {t}", a_t, b_t, t)
    c = Case(
        "library",
        "matmul_layouts",
        "dot custom-call",
        "row- and column-major matrices in every combination, leading dimensions, batches, one matrix for all",
        host_only=False,
    )
    for form in np.ndindex(2, 2, 2):
        product(c, f"column-major {form}", "f32", "f32", "f32", forms=form, pads=(4, 8, 0), batch=1 + form[0])
    product(c, "one A", "f32", "f32", "f32", batch=3, repeat=0)
    product(c, "one B", "f64", "f64", "f64", batch=3, repeat=1, forms=(True, False, True))
    product(c, "one row", "f32", "f32", "f32", m=1, k=40)
    product(c, "one column", "f32", "f32", "f32", n=1, k=40)
    product(c, "k is 1", "f32", "f32", "f32", k=1)
    product(c, "large", "f32", "f32", "f32", m=65, k=130, n=33)
    c = Case(
        "library",
        "matmul_scalars",
        "dot custom-call",
        "alpha (complex too) and beta; C lies in D's memory",
        host_only=False,
    )
    for t, alpha, beta in [
        ("f32", 0.5, 1.0),
        ("f32", -2.0, 0.25),
        ("f64", 1.5, -1.0),
        ("bf16", 1.0, 1.0),
        ("c64", 1 - 2j, 1.0),
        ("c128", 0.5j, 2.0),
        ("f32", 0.0, 1.0),
        ("f32", 3.0, 0.0),
    ]:
        product(c, f"{t} {alpha} {beta}", t, t, t, alpha=alpha, beta=beta, batch=2)
    product(c, "s8 to s32", "s8", "s8", "s32", alpha=1, beta=1.0)
    c = Case(
        "library",
        "matmul_epilogues",
        "dot custom-call",
        "relu, bias along columns, gelu in its tanh form, the value before gelu",
        host_only=False,
    )
    for epilogue in list(EPILOGUES)[1:]:
        for t in ("f32", "bf16", "f16"):
            product(c, f"{t} {epilogue}", t, t, t, epilogue=epilogue, beta=1.0 if epilogue == "bias+relu" else 0.0)
        if epilogue in ("relu", "bias", "bias+relu"):
            product(c, f"f64 {epilogue}", "f64", "f64", "f64", epilogue=epilogue)
    c = Case(
        "library",
        "matmul_f8",
        "dot custom-call",
        "8-bit floats with scales that multiply; A by rows, B by columns",
        host_only=False,
    )
    for a_t, b_t, t in [
        ("f8e4m3fn", "f8e4m3fn", "f32"),
        ("f8e4m3fn", "f8e5m2", "bf16"),
        ("f8e5m2", "f8e4m3fn", "f16"),
        ("f8e4m3fn", "f8e4m3fn", "bf16"),
    ]:
        product(c, f"{a_t} {b_t} {t}", a_t, b_t, t, m=16, k=32, n=16, forms=(False, True, False), scales=(0.5, 3.0))
    c = Case(
        "library",
        "gemm_legacy",
        "dot custom-call",
        "gemm, the thunk of older artifacts; C lies in D's memory; alpha and beta 0 give zeros whatever A and B hold",
        host_only=False,
    )
    for t in ("f32", "f64", "bf16", "c64"):
        product(c, t, t, t, t, kind="legacy", batch=2, forms=(True, False, False))
        product(c, t + " beta", t, t, t, kind="legacy", beta=0.5, alpha=2.0)
    a = Matrix(np.full((1, 4, 4), np.nan, np.float32))
    out, _ = gemm(c, a, a, Matrix(np.zeros((1, 4, 4), np.float32)), alpha=0.0, kind="legacy")
    c.output(out, np.zeros(16, np.float32), label="alpha 0")


def make():
    make_gemm()
