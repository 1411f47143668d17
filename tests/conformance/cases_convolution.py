# SPDX-License-Identifier: Apache-2.0
"""The opcode convolution."""

import numpy as np

from case import Case
from cases_linear import random, room, store, wide
from cases_move import layouts
from convolution import axes, conv_numbers, conv_rule, window_proto

CONVS = [
    ("NCW", "OIW", "NCW", (2, 3, 9), (4, 3, 3), [dict(size=3)], 1, 1),
    ("NWC", "WIO", "NWC", (2, 3, 9), (4, 3, 3), [dict(size=3, stride=2, padding_low=1, padding_high=2)], 1, 1),
    (
        "NHWC",
        "HWIO",
        "NHWC",
        (2, 3, 6, 7),
        (4, 3, 3, 2),
        [dict(size=3, padding_low=1, padding_high=1), dict(size=2, stride=2)],
        1,
        1,
    ),
    (
        "NCHW",
        "OIHW",
        "NCHW",
        (1, 4, 6, 6),
        (6, 2, 3, 3),
        [dict(size=3, window_dilation=2, padding_low=2, padding_high=2), dict(size=3)],
        2,
        1,
    ),
    ("NHWC", "HWIO", "NHWC", (1, 5, 5, 6), (5, 1, 3, 3), [dict(size=3, padding_low=1, padding_high=1)] * 2, 5, 1),
    (
        "NCHW",
        "OIHW",
        "NCHW",
        (1, 2, 4, 5),
        (3, 2, 3, 3),
        [
            dict(size=3, base_dilation=2, padding_low=2, padding_high=1),
            dict(size=3, base_dilation=3, padding_low=1, padding_high=2),
        ],
        1,
        1,
    ),
    (
        "NCHW",
        "OIHW",
        "NCHW",
        (2, 2, 6, 6),
        (3, 2, 3, 3),
        [dict(size=3, window_reversal=True), dict(size=3, padding_low=-1, padding_high=1)],
        1,
        1,
    ),
    ("CNHW", "IOHW", "HNWC", (4, 3, 5, 4), (4, 3, 2, 2), [dict(size=2), dict(size=2, stride=2, padding_high=1)], 1, 2),
    (
        "NDHWC",
        "DHWIO",
        "NDHWC",
        (1, 2, 4, 4, 3),
        (3, 2, 2, 3, 2),
        [dict(size=2), dict(size=3, stride=2, padding_low=1), dict(size=2)],
        1,
        1,
    ),
    ("NC", "OI", "NC", (3, 4), (5, 4), [], 1, 1),
    ("NHWC", "HWIO", "NHWC", (2, 8, 5, 5), (16, 8, 1, 1), [dict(size=1)] * 2, 1, 1),
    ("NHWC", "OHWI", "NHWC", (2, 64, 3, 3), (32, 64, 3, 3), [dict(size=3, padding_low=1, padding_high=1)] * 2, 1, 1),
    ("NCHW", "OIHW", "NCHW", (0, 3, 5, 5), (4, 3, 3, 3), [dict(size=3)] * 2, 1, 1),
    (
        "NCHW",
        "OIHW",
        "NCHW",
        (2, 3, 2, 2),
        (4, 3, 2, 2),
        [dict(size=2, padding_low=-2, padding_high=1), dict(size=2, padding_high=1)],
        1,
        1,
    ),
]
CONV_TYPES = [
    ("f32", "f32"),
    ("f64", "f64"),
    ("f16", "f16"),
    ("bf16", "bf16"),
    ("s8", "s32"),
    ("s32", "s32"),
    ("c64", "c64"),
    ("bf16", "f32"),
    ("u8", "u8"),
    ("c128", "c128"),
]


def make_convolution():
    c = Case(
        "linear",
        "convolution",
        "convolution",
        "strides, dilations, uneven and negative padding, reversal, feature and batch groups, any dimension order",
    )
    k = 0
    for i, w, o, xd, wd, window, groups, batch_groups in CONVS:
        spatial = [s for s in i if s not in "NC"]
        for _ in range(2):
            t, out = CONV_TYPES[k % len(CONV_TYPES)]
            x, f = random(t, xd, k), random(t, wd, k + 50)
            want = conv_rule(wide(x), wide(f), len(spatial), window, groups, batch_groups)
            want = axes(o, store(want, out), ["N", "C"] + spatial)
            a, b = axes(i, x, ["N", "C"] + spatial), axes(w, f, ["O", "I"] + spatial)
            ls = layouts(a.ndim, 4)
            c.op(
                "convolution",
                [c.input(a, ls[k % len(ls)]), c.input(b, ls[(k + 1) % len(ls)])],
                want,
                room(out, int(np.prod(wd[1:])), 2),
                layout=ls[(k + 2) % len(ls)],
                label=f"{t} {i} {w} {o}",
                convolution_dimension_numbers=conv_numbers((i, w, o)),
                window=window_proto(window),
                feature_group_count=groups,
                batch_group_count=batch_groups,
            )
            k += 1


def make():
    make_convolution()
