# SPDX-License-Identifier: Apache-2.0
"""Library thunks: matrix products, convolutions, transforms, triangular solves, norms, top-k.

They need no kernel image, so these cases run on every device. Products ask for full f32 precision; the
tolerances of f32 convolutions leave room for TF32, which cuDNN may choose.
"""
import numpy as np

import hlo_types as ty
from build import S, Shape, default_layout, enum, new
from case import EPS, Case
from cases_linear import axes, conv_numbers, conv_rule, random, store, wide, window_proto

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
        return new("xla.GemmConfigProto.MatrixLayout", order=2 if self.column else 1, num_rows=self.rows, num_cols=self.cols,
                   batch_size=1 if self.repeat else self.batch, leading_dim_stride=self.ld, batch_stride=self.stride if self.batch > 1 else 0,
                   dtype=enum("xla.PrimitiveType", ty.name_of(self.array).upper()))


def gemm(c, a, b, d, alpha=1.0, beta=0.0, addend=None, epilogue="", bias=None, scales=(), kind="lt"):
    """Adds a product; returns the value that holds D's memory. With beta, addend is C and lies in D's memory."""
    m = c.m
    ins = [c.input(v.memory(np.array(0, v.array.dtype))) for v in (a, b)]
    if beta:
        out = c.input(addend.memory(np.array(0, addend.array.dtype)))
    else:
        out = m.buffer(S(ty.name_of(d.array), d.size))
        m.thunk(memzero_thunk=new("xla.gpu.MemzeroThunkProto", dest_buffer=m.slice_of(out)))
    config = new("xla.GemmConfigProto", lhs_layout=a.proto(), rhs_layout=b.proto(), c_layout=d.proto(), output_layout=d.proto(),
                 alpha_real=complex(alpha).real, alpha_imag=complex(alpha).imag, beta=beta, compute_precision=2, algorithm=-1)
    if kind == "legacy":
        raw = lambda v: m.slice_of(v).slice
        m.thunk(gemm_thunk=new("xla.gpu.GemmThunkProto", gemm_config=config, lhs_buffer=raw(ins[0]), rhs_buffer=raw(ins[1]), output_buffer=raw(out)))
        return out, None
    t = new("xla.gpu.CublasLtMatmulThunkProto", gemm_config=config, epilogue=EPILOGUES[epilogue], canonical_hlo=f"{c.name}.{out.id}",
            a=m.slice_of(ins[0]), b=m.slice_of(ins[1]), c=m.slice_of(out), d=m.slice_of(out))
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


def product(c, label, a_t, b_t, t, batch=1, m=8, k=16, n=24, forms=(False, False, False), pads=(0, 0, 0), repeat=None, alpha=1.0, beta=0.0, epilogue="",
            scales=(), kind="lt"):
    seed = len(c.outputs)
    x, y = random(a_t, (batch, m, k), seed + 1), random(b_t, (batch, k, n), seed + 2)
    if repeat is not None:
        (x if repeat == 0 else y)[:] = (x if repeat == 0 else y)[:1]
    a = Matrix(x, forms[0], pads[0], 8 if pads[0] else 0, repeat == 0)
    b = Matrix(y, forms[1], pads[1], 8 if pads[1] else 0, repeat == 1)
    z = random(t, (batch, m, n), seed + 3)
    bias = random(t, (n,), seed + 4) if "bias" in epilogue else None
    scale = complex(alpha) if t in ty.COMPLEX else np.longdouble(complex(alpha).real) if t not in ty.INTEGERS else int(alpha)
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
    out, aux = gemm(c, a, b, d, alpha, beta, Matrix(z, forms[2], pads[2], 8 if pads[2] else 0), epilogue, bias, scales, kind)
    c.output(out, d.memory(np.array(0, d.array.dtype)), room(t, k), label=label)
    if aux is not None:
        c.output(aux, Matrix(store(pre, t), forms[2], pads[2], 8 if pads[2] else 0).memory(np.array(0, d.array.dtype)), room(t, k), label=label + " aux")


def make_gemm():
    # a padded C with beta keeps its padding, which is 0 here, so D's memory is known everywhere
    c = Case("library", "matmul_types", "dot custom-call", "cublas_lt_matmul: types of A, B and D", host_only=False)
    for a_t, b_t, t in [("f32", "f32", "f32"), ("f64", "f64", "f64"), ("f16", "f16", "f16"), ("bf16", "bf16", "bf16"), ("f16", "f16", "f32"), ("bf16", "bf16", "f32"),
                        ("c64", "c64", "c64"), ("c128", "c128", "c128"), ("s8", "s8", "s32")]:
        product(c, f"{a_t} {b_t} {t}", a_t, b_t, t)
    c = Case("library", "matmul_layouts", "dot custom-call", "row- and column-major matrices in every combination, leading dimensions, batches, one matrix for all", host_only=False)
    for form in np.ndindex(2, 2, 2):
        product(c, f"column-major {form}", "f32", "f32", "f32", forms=form, pads=(4, 8, 0), batch=1 + form[0])
    product(c, "one A", "f32", "f32", "f32", batch=3, repeat=0)
    product(c, "one B", "f64", "f64", "f64", batch=3, repeat=1, forms=(True, False, True))
    product(c, "one row", "f32", "f32", "f32", m=1, k=40)
    product(c, "one column", "f32", "f32", "f32", n=1, k=40)
    product(c, "k is 1", "f32", "f32", "f32", k=1)
    product(c, "large", "f32", "f32", "f32", m=65, k=130, n=33)
    c = Case("library", "matmul_scalars", "dot custom-call", "alpha (complex too) and beta; C lies in D's memory", host_only=False)
    for t, alpha, beta in [("f32", 0.5, 1.0), ("f32", -2.0, 0.25), ("f64", 1.5, -1.0), ("bf16", 1.0, 1.0), ("c64", 1 - 2j, 1.0), ("c128", 0.5j, 2.0), ("f32", 0.0, 1.0),
                           ("f32", 3.0, 0.0)]:
        product(c, f"{t} {alpha} {beta}", t, t, t, alpha=alpha, beta=beta, batch=2)
    product(c, "s8 to s32", "s8", "s8", "s32", alpha=1, beta=1.0)
    c = Case("library", "matmul_epilogues", "dot custom-call", "relu, bias along columns, gelu in its tanh form, the value before gelu", host_only=False)
    for epilogue in list(EPILOGUES)[1:]:
        for t in ("f32", "bf16", "f16"):
            product(c, f"{t} {epilogue}", t, t, t, epilogue=epilogue, beta=1.0 if epilogue == "bias+relu" else 0.0)
        if epilogue in ("relu", "bias", "bias+relu"):
            product(c, f"f64 {epilogue}", "f64", "f64", "f64", epilogue=epilogue)
    c = Case("library", "matmul_f8", "dot custom-call", "8-bit floats with scales that multiply; A by rows, B by columns", host_only=False)
    for a_t, b_t, t in [("f8e4m3fn", "f8e4m3fn", "f32"), ("f8e4m3fn", "f8e5m2", "bf16"), ("f8e5m2", "f8e4m3fn", "f16"), ("f8e4m3fn", "f8e4m3fn", "bf16")]:
        product(c, f"{a_t} {b_t} {t}", a_t, b_t, t, m=16, k=32, n=16, forms=(False, True, False), scales=(0.5, 3.0))
    c = Case("library", "gemm_legacy", "dot custom-call", "gemm, the thunk of older artifacts; C lies in D's memory; alpha and beta 0 give zeros whatever A and B hold", host_only=False)
    for t in ("f32", "f64", "bf16", "c64"):
        product(c, t, t, t, t, kind="legacy", batch=2, forms=(True, False, False))
        product(c, t + " beta", t, t, t, kind="legacy", beta=0.5, alpha=2.0)
    a = Matrix(np.full((1, 4, 4), np.nan, np.float32))
    out, _ = gemm(c, a, a, Matrix(np.zeros((1, 4, 4), np.float32)), alpha=0.0, kind="legacy")
    c.output(out, np.zeros(16, np.float32), label="alpha 0")


ACTIVATION = {"none": lambda x, a: x, "relu": lambda x, a: np.maximum(x, 0), "relu6": lambda x, a: np.clip(x, 0, 6),
              "elu": lambda x, a: np.where(x > 0, x, np.expm1(x)), "leaky": lambda x, a: np.where(x > 0, x, a * x)}
MODE = {"none": 0, "relu": 2, "relu6": 3, "elu": 7, "leaky": 8}
# orders, x, w, window, groups: symmetric padding, no base dilation, as XLA hands them to cuDNN
CONVS = [
    ("NCHW", "OIHW", (2, 4, 8, 9), (6, 4, 3, 3), [dict(size=3, padding_low=1, padding_high=1)] * 2, 1),
    ("NHWC", "OHWI", (2, 4, 9, 8), (8, 4, 3, 2), [dict(size=3, stride=2, padding_low=1, padding_high=1), dict(size=2)], 1),
    ("NCHW", "OIHW", (1, 6, 9, 9), (6, 2, 3, 3), [dict(size=3, window_dilation=2), dict(size=3, window_dilation=2, padding_low=2, padding_high=2)], 3),
    ("NHWC", "OHWI", (2, 8, 6, 6), (8, 1, 3, 3), [dict(size=3, padding_low=1, padding_high=1)] * 2, 8),
    ("NCW", "OIW", (2, 4, 12), (4, 4, 5), [dict(size=5, stride=2, padding_low=2, padding_high=2)], 1),
    ("NCDHW", "OIDHW", (1, 4, 4, 5, 6), (4, 4, 2, 3, 3), [dict(size=2), dict(size=3, padding_low=1, padding_high=1), dict(size=3)], 1),
    ("NCHW", "OIHW", (2, 3, 6, 6), (4, 3, 3, 3), [dict(size=3, window_reversal=True)] * 2, 1),
]


def conv_forward(x, w, window, groups):
    return conv_rule(x, w, len(window), window, groups)


def conv_adjoint(x, w, dy, window, groups):
    """Gradients of sum(y * dy) with respect to x and w."""
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    per = w.shape[0] // groups
    for at in np.ndindex(*dy.shape[2:]):
        for k in np.ndindex(*[d["size"] for d in window]):
            src, tap = [], []
            for a, o, d, size in zip(at, k, window, x.shape[2:]):
                p = a * d.get("stride", 1) + o * d.get("window_dilation", 1) - d.get("padding_low", 0)
                src.append(p if 0 <= p < size else None)
                tap.append(d["size"] - 1 - o if d.get("window_reversal") else o)
            if None in src:
                continue
            for f in range(w.shape[0]):
                g = slice(f // per * w.shape[1], (f // per + 1) * w.shape[1])
                dx[(slice(None), g, *src)] += dy[(slice(None), f, *at)][:, None] * w[(f, slice(None), *tap)]
                dw[(f, slice(None), *tap)] += dy[(slice(None), f, *at)] @ x[(slice(None), g, *src)]
    return dx, dw


def conv_thunk(c, kind, operands, result, orders, window, groups, **config):
    config.setdefault("conv_result_scale", 1.0)
    shapes = [v.shape.proto() for v in operands[:2]]
    algorithm = new("stream_executor.dnn.AlgorithmProto", algo_id=-1)
    d = new("xla.gpu.GpuConvDescriptorProto", kind=kind, operand0_shape=shapes[0], operand1_shape=shapes[1], result_shape=result.shape.proto(),
            window=new("xla.Window", **window_proto(window)), dnums=new("xla.ConvolutionDimensionNumbers", **conv_numbers(orders)),
            feature_group_count=groups, backend_config=new("xla.gpu.CudnnConvBackendConfig", algorithm=algorithm, **config))
    c.m.thunk(convolution_thunk=new("xla.gpu.ConvolutionThunkProto", conv_descriptor=d, operand_buffers=[c.m.slice_of(v) for v in operands],
                                    result_buffers=[c.m.slice_of(result)]))


def conv_room(t, k):
    """f32 leaves room for TF32, of 10 bits."""
    return (2.0**-9, 2.0**-9 * k**0.5) if t == "f32" else (4 * EPS[t], 8 * EPS["f32" if t != "f64" else "f64"] * k**0.5)


def make_conv():
    kinds = {"forward": 1, "backward_filter": 2, "backward_data": 3}
    for name, kind in kinds.items():
        c = Case("library", f"conv_{name}", "convolution custom-call", "window and dimension numbers are those of the forward convolution", host_only=False)
        k = 0
        for i, w, xd, wd, window, groups in CONVS:
            names_x, names_w = ["N", "C"] + [s for s in i if s not in "NC"], ["O", "I"] + [s for s in i if s not in "NC"]
            for t in ["f32", "f64", ["f16", "bf16"][k % 2]]:
                x, f = random(t, xd, k), random(t, wd, k + 7)
                y = conv_forward(wide(x), wide(f), window, groups)
                dy = random(t, y.shape, k + 8)
                if kind == 1:
                    ops, want, order, names = [(x, i, names_x), (f, w, names_w)], y, i, names_x
                else:
                    dx, dw = conv_adjoint(wide(x), wide(f), wide(dy), window, groups)
                    ops = [(x, i, names_x), (dy, i, names_x)] if kind == 2 else [(dy, i, names_x), (f, w, names_w)]
                    want, order, names = (dw, w, names_w) if kind == 2 else (dx, i, names_x)
                want = axes(order, store(want, t), names)
                values = [c.input(axes(o, a, n)) for a, o, n in ops]
                result = c.m.buffer(Shape(t, want.shape))
                conv_thunk(c, kind, values, result, (i, w, i), window, groups)
                depth = int(np.prod(wd[1:])) if kind == 1 else int(np.prod(y.shape)) // y.shape[1] if kind == 2 else int(np.prod(wd)) // groups // wd[1]
                c.output(result, want, conv_room(t, 4 * depth), label=f"{t} {i} {w} groups {groups}")
                k += 1
    c = Case("library", "conv_bias_activation", "convolution custom-call", "act(scale conv + side scale side + bias) with one rounding", host_only=False)
    i, w, xd, wd, window, groups = CONVS[0]
    names_x, names_w = ["N", "C", "H", "W"], ["O", "I", "H", "W"]
    for t in ("f32", "f16", "f64"):
        for act, fields, side in [("none", {}, 0), ("relu", {}, 0), ("relu", {}, 1.0), ("relu6", {}, 0.5), ("elu", {}, 0), ("leaky", dict(leakyrelu_alpha=0.25), 0)]:
            x, f = random(t, xd, 1), random(t, wd, 2)
            bias = random(t, (6,), 3)
            y = conv_forward(wide(x), wide(f), window, groups) * 0.5 + wide(bias).reshape(1, -1, 1, 1)
            s = random(t, y.shape, 4)
            y = ACTIVATION[act](y + side * wide(s), 0.25)
            values = [c.input(x), c.input(f), c.input(bias)] + ([c.input(s)] if side else [])
            result = c.m.buffer(Shape(t, y.shape))
            conv_thunk(c, 4, values, result, (i, w, i), window, groups, conv_result_scale=0.5, side_input_scale=float(side), activation_mode=MODE[act], **fields)
            c.output(result, store(y, t), conv_room(t, 144), label=f"{t} {act} side {side}")
    c = Case("library", "conv_int8", "convolution custom-call", "8-bit integers to f32, and to 8 bits rounded and saturated", host_only=False)
    i, w, xd, wd, window, groups = ("NHWC", "OHWI", (2, 8, 6, 6), (8, 8, 3, 3), [dict(size=3, padding_low=1, padding_high=1)] * 2, 1)
    x, f = axes(i, random("s8", xd, 1), names_x), axes(w, random("s8", wd, 2), names_w)
    y = axes(i, conv_forward(wide(random("s8", xd, 1)), wide(random("s8", wd, 2)), window, 1), names_x)
    result = c.m.buffer(Shape("f32", y.shape))
    conv_thunk(c, 1, [c.input(x), c.input(f)], result, (i, w, i), window, 1)
    c.output(result, y.astype(np.float32), label="s8 to f32")
    bias = random("f32", (8,), 3)
    result = c.m.buffer(Shape("s8", y.shape))
    conv_thunk(c, 4, [c.input(x), c.input(f), c.input(bias)], result, (i, w, i), window, 1, conv_result_scale=0.25, activation_mode=MODE["relu"])
    v = np.maximum(y * 0.25 + bias.astype(np.float64), 0)
    c.output(result, np.clip(np.rint(v), -128, 127).astype(np.int8), label="s8 to s8")


def make_transforms():
    c = Case("library", "fft", "fft", "all kinds, both precisions, one to three dimensions, batches; inverse kinds are scaled by 1/n", host_only=False)
    k = 0
    for lead, length in [((3,), (8,)), ((2, 2), (7,)), ((2,), (6, 5)), ((), (4, 3, 6)), ((1,), (60,)), ((5,), (1,))]:
        for real, cplx in (("f32", "c64"), ("f64", "c128")):
            r, z = random(real, lead + length, k), random(cplx, lead + length, k + 1)
            ax, k = tuple(range(-len(length), 0)), k + 2
            spectrum = np.fft.rfftn(wide(r), axes=ax).astype(z.dtype)
            for kind, x, want in [("FFT", z, np.fft.fftn(wide(z), axes=ax).astype(z.dtype)), ("IFFT", z, np.fft.ifftn(wide(z), axes=ax).astype(z.dtype)),
                                  ("RFFT", r, spectrum), ("IRFFT", spectrum, r)]:
                v, out = c.input(x), c.m.buffer(Shape(ty.name_of(want), want.shape))
                raw = lambda u: c.m.slice_of(u).slice
                c.m.thunk(fft_thunk=new("xla.gpu.FftThunkProto", fft_type=enum("xla.FftType", kind), fft_length=length, input_buffer=raw(v),
                                        output_buffer=raw(out), input_shape=v.shape.proto(), output_shape=out.shape.proto()))
                c.output(out, want, (8 * EPS[cplx], 32 * EPS[cplx] * np.prod(length) ** 0.5), label=f"{ty.name_of(x)} {kind} {list(length)}")
    c = Case("library", "triangular_solve", "triangular-solve",
             "column-major, whatever A's recorded shape says; the other triangle and a unit diagonal hold NaN; X takes B's memory", host_only=False)
    k = 0
    for t in ("f32", "f64", "c64", "c128"):
        for trans in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
            for left, lower, unit in [(True, True, False), (True, False, True), (False, True, True), (False, False, False)]:
                n, m, lead = [(4, 3, ()), (5, 1, (2,)), (3, 6, (2, 2)), (17, 5, ())][k % 4]
                a = wide(random(t, lead + (n, n), k)) / n + 2 * np.eye(n)
                a = (np.tril(a) if lower else np.triu(a)).astype(ty.dtype_of(t))
                b = random(t, lead + ((n, m) if left else (m, n)), k + 9)
                full = a.astype(np.complex128)
                full = full * (1 - np.eye(n)) + np.eye(n) if unit else full
                op = {"NO_TRANSPOSE": full, "TRANSPOSE": np.swapaxes(full, -1, -2), "ADJOINT": np.conj(np.swapaxes(full, -1, -2))}[trans]
                flip = lambda v: np.swapaxes(v, -1, -2)
                want = np.linalg.solve(op, b.astype(np.complex128)) if left else flip(np.linalg.solve(flip(op), flip(b.astype(np.complex128))))
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
                c.m.thunk(triangular_solve_thunk=new("xla.gpu.TriangularSolveThunkProto", a_buffer=slice_a, b_buffer=c.m.slice_of(vb), temp_buffer=c.m.slice_of(temp),
                                                     options=new("xla.TriangularSolveOptions", left_side=left, lower=lower, unit_diagonal=unit,
                                                                 transpose_a=enum("xla.TriangularSolveOptions.Transpose", trans))))
                c.output(vb, want, (64 * EPS[t], 64 * EPS[t]), label=f"{t} {trans} {'left' if left else 'right'} {'lower' if lower else 'upper'} {'unit' if unit else ''}")
                k += 1


def make_norm():
    eps = 1e-3
    raw = lambda c, v: c.m.slice_of(v).slice
    for kind, name in enumerate(("infer", "train", "backward")):
        c = Case("library", f"norm_{name}", "custom-call", "layer norm over dimensions 1 and on; biased variance; the norm factor is 1/sqrt(variance + epsilon)", host_only=False)
        for t, dims in [("f32", (6, 32, 1, 1)), ("f32", (4, 8, 3, 2)), ("bf16", (5, 64, 1, 1)), ("f16", (3, 16, 2, 2))]:
            row = (1,) + dims[1:]
            x, scale, bias, dy = random(t, dims, 1), random(t, row, 2), random(t, row, 3), random(t, dims, 4)
            ax = (1, 2, 3)
            mean = wide(x).mean(ax, keepdims=True)
            factor = 1 / np.sqrt(wide(x).var(ax, keepdims=True) + eps)
            tol = (4 * EPS[t], 4 * EPS[t])
            d = new("xla.gpu.GpuNormDescriptorProto", backend_config=new("xla.gpu.CudnnNormBackendConfig", epsilon=eps, kind=kind,
                                                                         algorithm=new("stream_executor.dnn.AlgorithmProto")))
            vx, vs, scratch = c.input(x), c.input(scale), c.m.buffer(S("u8", 1 << 20))
            y, stat = c.m.buffer(Shape(t, dims)), Shape("f32", (dims[0], 1, 1, 1))
            p = new("xla.gpu.NormThunkProto", x=raw(c, vx), scale=raw(c, vs), y_or_dx=raw(c, y), scratch=raw(c, scratch))
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
                    outs += [(add("expectation", c.m.buffer(stat)), mean, (1e-5, 1e-5)), (add("norm_factor", c.m.buffer(stat)), factor, (1e-5, 0))]
            else:
                m32, f32 = mean.astype(np.float32), factor.astype(np.float32)
                add("dy", c.input(dy)), add("expectation", c.input(m32)), add("norm_factor", c.input(f32))
                hat = (wide(x) - m32) * f32
                g = wide(dy) * wide(scale)
                dx = f32 * (g - g.mean(ax, keepdims=True) - hat * (g * hat).mean(ax, keepdims=True))
                outs = [(y, dx, tol), (add("dscale", c.m.buffer(Shape(t, row))), (wide(dy) * hat).sum(0, keepdims=True), tol),
                        (add("dbias", c.m.buffer(Shape(t, row))), wide(dy).sum(0, keepdims=True), tol)]
            p.norm_descriptor.CopyFrom(d)
            c.m.thunk(norm_thunk=p)
            for i, (v, want, room_) in enumerate(outs):
                c.output(v, want.astype(np.float32) if v.shape.type == "f32" else store(want, t), room_, label=f"{t}{list(dims)} {i}")


def make_topk():
    c = Case("library", "select_k", "topk", "the largest k in descending order; all values differ, for the order of equal ones is open", host_only=False)
    for t, rows, n, k in [("f32", 3, 40, 5), ("bf16", 2, 60, 8), ("u64", 2, 33, 33), ("f32", 1, 2000, 16)]:
        x = np.stack([np.random.default_rng(n + r).permutation(n) for r in range(rows)])
        x = (x * 2 - n).astype(ty.dtype_of(t)) if t != "u64" else (x.astype(np.uint64) << np.uint64(50)) + np.uint64(1 << 63)
        v, values, index = c.input(x), c.m.buffer(S(t, rows, k)), c.m.buffer(S("s32", rows, k))
        c.m.thunk(select_k_thunk=new("xla.gpu.SelectKThunkProto", args=[c.m.slice_of(u).slice for u in (v, values, index)], batch_size=rows, num_elements=n, k=k,
                                     dtype=enum("xla.PrimitiveType", t.upper())))
        order = np.argsort(x.astype(np.float64) if t != "u64" else x, axis=1)[:, ::-1][:, :k]
        c.output(values, np.take_along_axis(x, order, 1), label=f"{t} {n} values")
        c.output(index, order.astype(np.int32), label=f"{t} {n} indices")


def make():
    make_gemm()
    make_conv()
    make_transforms()
    make_norm()
    make_topk()
