# SPDX-License-Identifier: Apache-2.0
"""Goldens from layers of networks: products with epilogues, attention with a cache, convolution."""

import jax
import jax.numpy as jnp
import numpy as np
from case import case, integers, normal
from jax import lax

EXACT = lax.Precision.HIGHEST  # else a GPU may multiply f32 in TF32
LIBRARY_GEMM = {"xla_gpu_enable_triton_gemm": False}


def wide(*arrays):
    return [np.asarray(a, np.float64) for a in arrays]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x):  # the tanh form, jax.nn.gelu's default
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


# ---- mlp: the weights are constants of the executable

W1, B1 = normal(32, 64, seed=1, scale=0.2), normal(64, seed=2)
W2, B2 = normal(64, 64, seed=3, scale=0.2), normal(64, seed=4)
W3 = normal(64, 12, seed=5, scale=0.2)


def mlp_reference(x):
    x, w1, b1, w2, b2, w3 = wide(x, W1, B1, W2, B2, W3)
    h = gelu(np.maximum(x @ w1 + b1, 0) @ w2 + b2)
    p = softmax(h @ w3)
    return [p.astype(np.float32), p.argmax(-1).astype(np.int32)]


@case(
    inputs=[normal(8, 32)],
    reference=mlp_reference,
    options=LIBRARY_GEMM,
    covers="constants with and without symbols, cuBLASLt products with bias, ReLU and GELU epilogues",
)
def mlp(x):
    h = jax.nn.relu(jnp.dot(x, W1, precision=EXACT) + B1)
    h = jax.nn.gelu(jnp.dot(h, W2, precision=EXACT) + B2)
    p = jax.nn.softmax(jnp.dot(h, W3, precision=EXACT))
    return p, jnp.argmax(p, -1).astype(jnp.int32)


# ---- attention: one step of a decoder with a cache that the results take over

HEADS, PLACES, WIDTH = 4, 16, 32


def normalised(x, gain, shift):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + shift


def attention_reference(token, place, keys, values, table, gain, shift, w_qkv, w_out):
    keys, values, table, gain, shift, w_qkv, w_out = wide(keys, values, table, gain, shift, w_qkv, w_out)
    x = table[token]
    q, k, v = np.split(normalised(x, gain, shift) @ w_qkv, 3, -1)
    q, k, v = (t.reshape(-1, HEADS, 1, WIDTH // HEADS) for t in (q, k, v))
    keys, values = keys.copy(), values.copy()
    keys[:, :, place : place + 1], values[:, :, place : place + 1] = k, v
    scores = q @ keys.swapaxes(-1, -2) / np.sqrt(WIDTH // HEADS)
    scores[..., int(place) + 1 :] = -np.inf
    y = x + (softmax(scores) @ values).reshape(-1, WIDTH) @ w_out
    logits = y @ table.T
    state = [keys.astype(np.float32), values.astype(np.float32)]
    return [logits.argmax(-1).astype(np.int32), place + np.int32(1), *state, logits.astype(np.float32)]


@case(
    inputs=[
        integers(0, 64, 2),
        np.int32(5),
        normal(2, HEADS, PLACES, WIDTH // HEADS, seed=1),
        normal(2, HEADS, PLACES, WIDTH // HEADS, seed=2),
        normal(64, WIDTH, seed=3),
        normal(WIDTH, seed=4),
        normal(WIDTH, seed=5),
        normal(WIDTH, 3 * WIDTH, seed=6, scale=0.2),
        normal(WIDTH, WIDTH, seed=7, scale=0.2),
    ],
    reference=attention_reference,
    donate=(2, 3),
    tolerance=5e-5,
    covers="gather, donated state, dynamic update slices, batched products, masked softmax, argmax",
)
def attention(token, place, keys, values, table, gain, shift, w_qkv, w_out):
    x = table[token]
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    h = (x - mean) * lax.rsqrt(variance + 1e-5) * gain + shift
    q, k, v = jnp.split(jnp.dot(h, w_qkv, precision=EXACT), 3, -1)
    q, k, v = (t.reshape(-1, HEADS, 1, WIDTH // HEADS) for t in (q, k, v))
    keys = lax.dynamic_update_slice(keys, k, (0, 0, place, 0))
    values = lax.dynamic_update_slice(values, v, (0, 0, place, 0))
    scores = jnp.matmul(q, keys.swapaxes(-1, -2), precision=EXACT) / np.sqrt(WIDTH // HEADS)
    scores = jnp.where(jnp.arange(PLACES) <= place, scores, -jnp.inf)
    mixed = jnp.matmul(jax.nn.softmax(scores, -1), values, precision=EXACT).reshape(-1, WIDTH)
    y = x + jnp.dot(mixed, w_out, precision=EXACT)
    logits = jnp.dot(y, table.T, precision=EXACT)
    return jnp.argmax(logits, -1).astype(jnp.int32), place + 1, keys, values, logits


# ---- norm: the library's layer norm


def norm_reference(x, gain, shift):
    return [normalised(*wide(x, gain, shift)).astype(np.float32)]


@case(
    inputs=[normal(4, 16, 64), normal(64, seed=1), normal(64, seed=2)],
    reference=norm_reference,
    options={"xla_gpu_enable_cudnn_layer_norm": True},
    tolerance=1e-4,
    covers="the cuDNN norm",
)
def norm(x, gain, shift):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * gain + shift


# ---- convolution

NHWC = ("NHWC", "HWIO", "NHWC")


def convolved(x, w):
    """Stride 1, same size, one 3x3 kernel."""
    n, height, width, _ = x.shape
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    out = np.zeros((n, height, width, w.shape[3]))
    for i in range(3):
        for j in range(3):
            out += padded[:, i : i + height, j : j + width] @ w[i, j]
    return out


def convolution_reference(x, w, bias, side):
    y = np.maximum(convolved(*wide(x, w)) + wide(bias)[0] + wide(side)[0], 0)
    n, height, width, c = y.shape
    pooled = y.reshape(n, height // 2, 2, width // 2, 2, c).max((2, 4))
    return [y.astype(np.float16), pooled.astype(np.float16)]


@case(
    inputs=[
        normal(2, 8, 8, 16, dtype=np.float16),
        normal(3, 3, 16, 16, seed=1, scale=0.1, dtype=np.float16),
        normal(16, seed=2, dtype=np.float16),
        normal(2, 8, 8, 16, seed=3, dtype=np.float16),
    ],
    reference=convolution_reference,
    tolerance=1e-2,
    covers="a convolution with bias, side input and ReLU, pooling, f16",
)
def convolution(x, w, bias, side):
    y = jax.nn.relu(lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=NHWC) + bias + side)
    return y, lax.reduce_window(y, np.float16(-np.inf), lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
