#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three networks for the benchmark of the host device, as JAX functions.

usage: nets.py FOLDER [NET ...]     (a Python with JAX and its CUDA plugin; no GPU)

Writes FOLDER/NET/ with model.aot, compiled for an H100; inputs.safetensors (what comes with a request) and
weights.safetensors, named by parameter; outputs.safetensors, JAX's on the CPU; and case.json.

A generator, this file or another one, has MODELS: name -> function of one boolean (small) that returns a dict
with fn; args, its arguments, pytrees of numpy arrays; req, how many of them come with each request; and
perhaps donate, the positions of arguments whose memory results may take.
"""
import json
import os
import pathlib
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

TARGET = "h100_sxm"


class Draw:
    """Weights from one seed, scaled so that activations keep their size."""

    def __init__(self, seed, dtype=np.float32):
        self.random, self.dtype = np.random.default_rng(seed), dtype

    def normal(self, *shape, scale=1.0):
        return (self.random.standard_normal(shape, np.float32) * np.float32(scale)).astype(self.dtype)

    def matrix(self, rows, columns):
        return self.normal(rows, columns, scale=rows**-0.5)

    def filters(self, size, inputs, outputs):
        return self.normal(size, size, inputs, outputs, scale=(2 / (size * size * inputs)) ** 0.5)

    def norm(self, width):
        return {"scale": (1 + self.normal(width, scale=0.1)).astype(self.dtype), "shift": self.normal(width, scale=0.1)}


def layer_norm(x, p):
    y = x.astype(jnp.float32)
    y = y - y.mean(-1, keepdims=True)
    y = y * lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + 1e-5)
    return y.astype(x.dtype) * p["scale"] + p["shift"]


def feed_forward(x, p):
    return jax.nn.gelu(x @ p["up"]) @ p["down"]


def block_weights(d, width):
    return {
        "qkv": d.matrix(width, 3 * width), "out": d.matrix(width, width), "norm1": d.norm(width),
        "up": d.matrix(width, 4 * width), "down": d.matrix(4 * width, width), "norm2": d.norm(width),
    }


def softmax_product(scores, values):
    return jax.nn.softmax(scores.astype(jnp.float32), -1).astype(values.dtype) @ values


def encoder(small):
    """BERT-like: post-norm blocks over padded sentences, mean over what is no padding."""
    batch, length, width, heads, layers, words = (2, 16, 32, 4, 2, 100) if small else (4, 128, 256, 8, 4, 10000)

    def fn(words_in, lengths, p):
        real = jnp.arange(length) < lengths[:, None]
        x = layer_norm(p["words"][words_in] + p["places"], p["norm"])
        for b in p["blocks"]:
            q, k, v = jnp.moveaxis((x @ b["qkv"]).reshape(batch, length, 3, heads, -1), (2, 3), (0, 2))
            scores = jnp.where(real[:, None, None], q @ k.swapaxes(2, 3) * (width / heads) ** -0.5, -1e9)
            mixed = jnp.moveaxis(softmax_product(scores, v), 1, 2).reshape(x.shape)
            x = layer_norm(x + mixed @ b["out"], b["norm1"])
            x = layer_norm(x + feed_forward(x, b), b["norm2"])
        return (x * real[..., None]).sum(1) / lengths[:, None]

    d = Draw(11)
    p = {"words": d.normal(words, width), "places": d.normal(length, width, scale=0.1), "norm": d.norm(width),
         "blocks": [block_weights(d, width) for _ in range(layers)]}
    words_in = d.random.integers(0, words, (batch, length), np.int32)
    lengths = d.random.integers(length // 2, length + 1, batch, np.int32)
    return {"fn": fn, "args": [words_in, lengths, p], "req": 2, "tolerance": 1e-4}


def convnet(small):
    """ResNet-like: residual blocks of two 3x3 convolutions with scale and shift, four stages."""
    size, width, depth, classes = (32, 8, 1, 10) if small else (160, 64, 2, 1000)

    def conv(x, p, stride=1):
        y = lax.conv_general_dilated(x, p["w"], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return y * p["scale"] + p["shift"]

    def fn(image, p):
        x = jax.nn.relu(conv(image, p["stem"], 2))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for stage in range(4):
            for i in range(depth):
                b = p["blocks"][stage * depth + i]
                stride = 2 if stage and not i else 1
                y = conv(jax.nn.relu(conv(x, b["first"], stride)), b["second"])
                x = jax.nn.relu(y + (conv(x, b["skip"], stride) if "skip" in b else x))
        return jax.nn.softmax(x.mean((1, 2)) @ p["classes"])

    d = Draw(12)
    layer = lambda k, i, o, gain=1.0: {"w": d.filters(k, i, o) * np.float32(gain), **d.norm(o)}
    blocks, inputs = [], width
    for stage in range(4):
        outputs = width << stage
        for _ in range(depth):
            b = {"first": layer(3, inputs, outputs), "second": layer(3, outputs, outputs, 0.5)}
            if inputs != outputs:
                b["skip"] = layer(1, inputs, outputs)
            blocks.append(b)
            inputs = outputs
    p = {"stem": layer(7, 3, width), "blocks": blocks, "classes": d.matrix(inputs, classes)}
    return {"fn": fn, "args": [d.normal(1, size, size, 3), p], "req": 1, "tolerance": 1e-4}


def decoder(small):
    """GPT-like: one token in bf16, keys and values of the tokens before it in a cache that is updated in place."""
    width, heads, layers, room, words = (32, 4, 2, 32, 100) if small else (512, 8, 6, 512, 16384)

    def fn(token, place, keys, values, p):
        x = p["words"][token] + p["places"][place]
        for i, b in enumerate(p["blocks"]):
            q, k, v = (layer_norm(x, b["norm1"]) @ b["qkv"]).reshape(3, heads, 1, -1)
            keys = lax.dynamic_update_slice(keys, k[None], (i, 0, place, 0))
            values = lax.dynamic_update_slice(values, v[None], (i, 0, place, 0))
            scores = jnp.einsum("hqd,hkd->hqk", q, keys[i], preferred_element_type=jnp.float32)
            scores = jnp.where(jnp.arange(room) <= place, scores * (width / heads) ** -0.5, -1e9)
            x = x + softmax_product(scores, values[i]).reshape(1, width) @ b["out"]
            x = x + feed_forward(layer_norm(x, b["norm2"]), b)
        scores = layer_norm(x, p["norm"]) @ p["words"].T
        return scores.astype(jnp.float32), keys, values

    d = Draw(13, ml_dtypes.bfloat16)
    p = {"words": d.normal(words, width, scale=width**-0.5), "places": d.normal(room, width, scale=0.1),
         "norm": d.norm(width), "blocks": [block_weights(d, width) for _ in range(layers)]}
    cache = lambda: d.normal(layers, heads, room, width // heads)
    args = [np.array([words // 3], np.int32), np.int32(room // 2), cache(), cache(), p]
    return {"fn": fn, "args": args, "req": 4, "donate": (2, 3), "tolerance": 1e-1}


MODELS = {"encoder": encoder, "convnet": convnet, "decoder": decoder}


def write(folder, net):
    from thunkd_export import compile_for, write_safetensors

    folder.mkdir(parents=True, exist_ok=True)
    leaves, tree = jax.tree_util.tree_flatten(net["args"])
    leaves = [np.asarray(x) for x in leaves]
    first_weight = len(jax.tree_util.tree_leaves(net["args"][: net["req"]]))
    starts = np.cumsum([0] + [len(jax.tree_util.tree_leaves(a)) for a in net["args"]])
    donate = tuple(int(starts[i]) for i in net.get("donate", ()))
    flat = lambda *v: jax.tree_util.tree_leaves(net["fn"](*jax.tree_util.tree_unflatten(tree, v)))
    (folder / "model.aot").write_bytes(compile_for(TARGET, flat, leaves, donate=donate))
    with jax.default_matmul_precision("highest"):
        outputs = jax.jit(flat)(*leaves)
    write_safetensors(folder / "inputs.safetensors", {str(i): v for i, v in enumerate(leaves[:first_weight])})
    weights = {str(i): v for i, v in enumerate(leaves) if i >= first_weight}
    write_safetensors(folder / "weights.safetensors", weights)
    write_safetensors(folder / "outputs.safetensors", {str(i): np.asarray(v) for i, v in enumerate(outputs)})
    case = {"model": folder.name, "target": TARGET, "tolerance_host": net["tolerance"]}
    (folder / "case.json").write_text(json.dumps(case))


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/export"))
    for name in sys.argv[2:] or MODELS:
        write(pathlib.Path(sys.argv[1]) / name, MODELS[name](False))
        print(name, "written", flush=True)


if __name__ == "__main__":
    main()
