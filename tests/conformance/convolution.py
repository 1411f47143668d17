# SPDX-License-Identifier: Apache-2.0
"""What a convolution is, an output element at a time, and its gradients."""

import numpy as np


def conv_rule(x, w, n, window, groups=1, batch_groups=1):
    """x: [N, C, spatial], w: [O, I, spatial] -> [N', O, spatial], an output element at a time."""
    spatial = []
    for i, d in enumerate(window):
        spread = (x.shape[2 + i] - 1) * d.get("base_dilation", 1) + 1 if x.shape[2 + i] else 0
        reach = (d["size"] - 1) * d.get("window_dilation", 1) + 1 if d["size"] else 0
        spatial.append(
            max((spread + d.get("padding_low", 0) + d.get("padding_high", 0) - reach) // d.get("stride", 1) + 1, 0)
        )
    batch, out_features = x.shape[0] // batch_groups, w.shape[0]
    out = np.zeros((batch, out_features, *spatial), x.dtype)
    per_group = w.shape[1]
    for at in np.ndindex(*spatial):
        for k in np.ndindex(*[d["size"] for d in window]):
            src, tap = [], []
            for a, o, d, size in zip(at, k, window, x.shape[2:]):
                p, bd = a * d.get("stride", 1) + o * d.get("window_dilation", 1) - d.get("padding_low", 0), d.get(
                    "base_dilation", 1
                )
                src.append(p // bd if p >= 0 and p % bd == 0 and p // bd < size else None)
                tap.append(d["size"] - 1 - o if d.get("window_reversal") else o)
            if None in src:
                continue
            xs, ws = x[(slice(None), slice(None), *src)], w[(slice(None), slice(None), *tap)]
            for f in range(out_features):
                g, b = f // (out_features // groups), f // (out_features // batch_groups)
                rows = xs[b * batch : (b + 1) * batch, g * per_group : (g + 1) * per_group]
                out[(slice(None), f, *at)] += rows @ ws[f]
    return out


def axes(order, array, names):
    """Axes named in `names` put into `order`."""
    return np.ascontiguousarray(np.transpose(array, [names.index(c) for c in order]))


# input order, kernel order, output order, x [N, C, s…], w [O, I, s…], window, groups, batch groups


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


def conv_numbers(orders):
    i, k, o = orders
    spatial = [c for c in i if c not in "NC"]
    return dict(
        input_batch_dimension=i.index("N"),
        input_feature_dimension=i.index("C"),
        kernel_input_feature_dimension=k.index("I"),
        kernel_output_feature_dimension=k.index("O"),
        output_batch_dimension=o.index("N"),
        output_feature_dimension=o.index("C"),
        input_spatial_dimensions=[i.index(c) for c in spatial],
        kernel_spatial_dimensions=[k.index(c) for c in spatial],
        output_spatial_dimensions=[o.index(c) for c in spatial],
    )


def window_proto(window):
    one = dict(stride=1, padding_low=0, padding_high=0, window_dilation=1, base_dilation=1)
    return {"dimensions": [one | w for w in window]}
