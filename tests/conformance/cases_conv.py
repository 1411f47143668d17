# SPDX-License-Identifier: Apache-2.0
"""Convolution thunks, as XLA hands them to cuDNN: symmetric padding, no base dilation.

The tolerances of f32 leave room for TF32, which cuDNN may choose.
"""

import numpy as np

from build import Shape, new
from case import EPS, Case
from cases_linear import random, store, wide
from convolution import axes, conv_adjoint, conv_forward, conv_numbers, window_proto

ACTIVATION = {
    "none": lambda x, a: x,
    "relu": lambda x, a: np.maximum(x, 0),
    "relu6": lambda x, a: np.clip(x, 0, 6),
    "elu": lambda x, a: np.where(x > 0, x, np.expm1(x)),
    "leaky": lambda x, a: np.where(x > 0, x, a * x),
}
MODE = {"none": 0, "relu": 2, "relu6": 3, "elu": 7, "leaky": 8}
# orders, x, w, window, groups: symmetric padding, no base dilation, as XLA hands them to cuDNN
CONVS = [
    ("NCHW", "OIHW", (2, 4, 8, 9), (6, 4, 3, 3), [dict(size=3, padding_low=1, padding_high=1)] * 2, 1),
    (
        "NHWC",
        "OHWI",
        (2, 4, 9, 8),
        (8, 4, 3, 2),
        [dict(size=3, stride=2, padding_low=1, padding_high=1), dict(size=2)],
        1,
    ),
    (
        "NCHW",
        "OIHW",
        (1, 6, 9, 9),
        (6, 2, 3, 3),
        [dict(size=3, window_dilation=2), dict(size=3, window_dilation=2, padding_low=2, padding_high=2)],
        3,
    ),
    ("NHWC", "OHWI", (2, 8, 6, 6), (8, 1, 3, 3), [dict(size=3, padding_low=1, padding_high=1)] * 2, 8),
    ("NCW", "OIW", (2, 4, 12), (4, 4, 5), [dict(size=5, stride=2, padding_low=2, padding_high=2)], 1),
    (
        "NCDHW",
        "OIDHW",
        (1, 4, 4, 5, 6),
        (4, 4, 2, 3, 3),
        [dict(size=2), dict(size=3, padding_low=1, padding_high=1), dict(size=3)],
        1,
    ),
    ("NCHW", "OIHW", (2, 3, 6, 6), (4, 3, 3, 3), [dict(size=3, window_reversal=True)] * 2, 1),
]


def conv_thunk(c, kind, operands, result, orders, window, groups, **config):
    config.setdefault("conv_result_scale", 1.0)
    shapes = [v.shape.proto() for v in operands[:2]]
    algorithm = new("stream_executor.dnn.AlgorithmProto", algo_id=-1)
    d = new(
        "xla.gpu.GpuConvDescriptorProto",
        kind=kind,
        operand0_shape=shapes[0],
        operand1_shape=shapes[1],
        result_shape=result.shape.proto(),
        window=new("xla.Window", **window_proto(window)),
        dnums=new("xla.ConvolutionDimensionNumbers", **conv_numbers(orders)),
        feature_group_count=groups,
        backend_config=new("xla.gpu.CudnnConvBackendConfig", algorithm=algorithm, **config),
    )
    c.m.thunk(
        convolution_thunk=new(
            "xla.gpu.ConvolutionThunkProto",
            conv_descriptor=d,
            operand_buffers=[c.m.slice_of(v) for v in operands],
            result_buffers=[c.m.slice_of(result)],
        )
    )


def conv_room(t, k):
    """f32 leaves room for TF32, of 10 bits."""
    return (2.0**-9, 2.0**-9 * k**0.5) if t == "f32" else (4 * EPS[t], 8 * EPS["f32" if t != "f64" else "f64"] * k**0.5)


def make_conv():
    kinds = {"forward": 1, "backward_filter": 2, "backward_data": 3}
    for name, kind in kinds.items():
        c = Case(
            "library",
            f"conv_{name}",
            "convolution custom-call",
            "window and dimension numbers are those of the forward convolution",
            host_only=False,
        )
        k = 0
        for i, w, xd, wd, window, groups in CONVS:
            names_x, names_w = ["N", "C"] + [s for s in i if s not in "NC"], ["O", "I"] + [
                s for s in i if s not in "NC"
            ]
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
                depth = (
                    int(np.prod(wd[1:]))
                    if kind == 1
                    else int(np.prod(y.shape)) // y.shape[1] if kind == 2 else int(np.prod(wd)) // groups // wd[1]
                )
                c.output(result, want, conv_room(t, 4 * depth), label=f"{t} {i} {w} groups {groups}")
                k += 1
    c = Case(
        "library",
        "conv_bias_activation",
        "convolution custom-call",
        "act(scale conv + side scale side + bias) with one rounding",
        host_only=False,
    )
    i, w, xd, wd, window, groups = CONVS[0]
    names_x, names_w = ["N", "C", "H", "W"], ["O", "I", "H", "W"]
    for t in ("f32", "f16", "f64"):
        for act, fields, side in [
            ("none", {}, 0),
            ("relu", {}, 0),
            ("relu", {}, 1.0),
            ("relu6", {}, 0.5),
            ("elu", {}, 0),
            ("leaky", dict(leakyrelu_alpha=0.25), 0),
        ]:
            x, f = random(t, xd, 1), random(t, wd, 2)
            bias = random(t, (6,), 3)
            y = conv_forward(wide(x), wide(f), window, groups) * 0.5 + wide(bias).reshape(1, -1, 1, 1)
            s = random(t, y.shape, 4)
            y = ACTIVATION[act](y + side * wide(s), 0.25)
            values = [c.input(x), c.input(f), c.input(bias)] + ([c.input(s)] if side else [])
            result = c.m.buffer(Shape(t, y.shape))
            conv_thunk(
                c,
                4,
                values,
                result,
                (i, w, i),
                window,
                groups,
                conv_result_scale=0.5,
                side_input_scale=float(side),
                activation_mode=MODE[act],
                **fields,
            )
            c.output(result, store(y, t), conv_room(t, 144), label=f"{t} {act} side {side}")
    c = Case(
        "library",
        "conv_int8",
        "convolution custom-call",
        "8-bit integers to f32, and to 8 bits rounded and saturated",
        host_only=False,
    )
    i, w, xd, wd, window, groups = (
        "NHWC",
        "OHWI",
        (2, 8, 6, 6),
        (8, 8, 3, 3),
        [dict(size=3, padding_low=1, padding_high=1)] * 2,
        1,
    )
    x, f = axes(i, random("s8", xd, 1), names_x), axes(w, random("s8", wd, 2), names_w)
    y = axes(i, conv_forward(wide(random("s8", xd, 1)), wide(random("s8", wd, 2)), window, 1), names_x)
    result = c.m.buffer(Shape("f32", y.shape))
    conv_thunk(c, 1, [c.input(x), c.input(f)], result, (i, w, i), window, 1)
    c.output(result, y.astype(np.float32), label="s8 to f32")
    bias = random("f32", (8,), 3)
    result = c.m.buffer(Shape("s8", y.shape))
    conv_thunk(
        c,
        4,
        [c.input(x), c.input(f), c.input(bias)],
        result,
        (i, w, i),
        window,
        1,
        conv_result_scale=0.25,
        activation_mode=MODE["relu"],
    )
    v = np.maximum(y * 0.25 + bias.astype(np.float64), 0)
    c.output(result, np.clip(np.rint(v), -128, 127).astype(np.int8), label="s8 to s8")


def make():
    make_conv()
