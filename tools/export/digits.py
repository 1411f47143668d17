#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train a small convolutional network on 8x8 digits and export it.

usage: digits.py [SAMPLES_FOLDER]

Writes store/digits/1/ and digits-test.safetensors, the images and labels held back
from training, below the folder (samples/ of the repository by default).
"""
import pathlib
import sys

from thunkd_export import export, write_safetensors

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

SEED = 7
HELD_BACK = 100
STEPS = 600
BATCH = 128


def convolve(x, w, b):
    """3x3, same size: nine shifted copies side by side, then one matrix product."""
    n, h, wd, c = x.shape
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    patches = jnp.concatenate([padded[:, i : i + h, j : j + wd] for i in range(3) for j in range(3)], axis=-1)
    return jnp.dot(patches.reshape(n * h * wd, 9 * c), w).reshape(n, h, wd, -1) + b


def logits(p, image):
    x = image[..., None]
    x = jax.nn.relu(convolve(x, p["conv1"], p["bias1"]))
    x = jax.nn.relu(convolve(x, p["conv2"], p["bias2"]))
    n, h, w, c = x.shape
    x = x.reshape(n, h // 2, 2, w // 2, 2, c).max(axis=(2, 4))
    return jnp.dot(x.reshape(n, -1), p["dense"]) + p["bias3"]


def probabilities(p, image):
    return jax.nn.softmax(logits(p, image))


def initial(rng):
    def normal(*shape):
        return (rng.standard_normal(shape) * np.sqrt(2 / shape[0])).astype(np.float32)

    def zeros(n):
        return np.zeros(n, np.float32)

    return {
        "conv1": normal(9, 8), "bias1": zeros(8),
        "conv2": normal(72, 16), "bias2": zeros(16),
        "dense": normal(256, 10), "bias3": zeros(10),
    }


def train(images, labels, rng):
    def loss(p, x, y):
        return -jax.nn.log_softmax(logits(p, x))[jnp.arange(len(y)), y].mean()

    @jax.jit
    def step(p, m, v, t, x, y):  # Adam
        g = jax.grad(loss)(p, x, y)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        rate = 3e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        return jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), p, m, v), m, v

    p = initial(rng)
    m = v = jax.tree.map(jnp.zeros_like, p)
    for t in range(1, STEPS + 1):
        pick = rng.integers(0, len(images), BATCH)
        p, m, v = step(p, m, v, jnp.float32(t), images[pick], labels[pick])
    return p


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    samples = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "samples"
    data = load_digits()
    images = (data.images / 16).astype(np.float32)
    labels = data.target.astype(np.int32)
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(images))
    test, rest = order[:HELD_BACK], order[HELD_BACK:]

    p = train(images[rest], labels[rest], rng)
    right = int((np.asarray(logits(p, images[test])).argmax(axis=1) == labels[test]).sum())
    print(f"trained on {len(rest)} digits; {right} of {len(test)} held back are right")

    export(
        probabilities, p, {"image": jax.ShapeDtypeStruct((1, 8, 8), jnp.float32)},
        outputs=["probabilities"], folder=samples / "store" / "digits" / "1",
    )
    write_safetensors(samples / "digits-test.safetensors", {"images": images[test], "labels": labels[test]})


if __name__ == "__main__":
    main()
