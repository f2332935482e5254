#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A few training steps with a third-party library, from fixed numbers, so that every run has the same result.

  train.py torch|cupy|jax|numpy STEPS

A network with two layers learns to add up its inputs. Prints "step N" after each step, waits there while a
file "pause" exists, and prints the last loss and a checksum of the weights at the end.
"""
import os
import sys
import time

import numpy

LIBRARY, STEPS = sys.argv[1], int(sys.argv[2])
INPUTS, HIDDEN, BATCH, RATE = 64, 256, 512, 1e-3


def numbers(*shape, seed):
    return numpy.random.RandomState(seed).randn(*shape).astype(numpy.float32)


DATA = numbers(BATCH, INPUTS, seed=1)
WANTED = DATA.sum(axis=1, keepdims=True) / INPUTS
WEIGHTS = [numbers(INPUTS, HIDDEN, seed=2) / 8, numbers(HIDDEN, 1, seed=3) / 16]


def with_torch():
    import torch
    torch.use_deterministic_algorithms(True)
    x, y = (torch.tensor(a, device="cuda") for a in (DATA, WANTED))
    weights = [torch.tensor(w, device="cuda", requires_grad=True) for w in WEIGHTS]
    optimizer = torch.optim.Adam(weights, lr=RATE)

    def step():
        optimizer.zero_grad()
        loss = ((torch.tanh(x @ weights[0]) @ weights[1] - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return float(loss)

    return step, lambda: [w.detach().cpu().numpy() for w in weights]


def with_jax():
    import jax
    import jax.numpy as jnp
    x, y = jnp.asarray(DATA), jnp.asarray(WANTED)
    state = [jnp.asarray(w) for w in WEIGHTS]

    @jax.jit
    def gradients(weights):
        return jax.value_and_grad(lambda w: ((jnp.tanh(x @ w[0]) @ w[1] - y) ** 2).mean())(weights)

    def step():
        loss, slopes = gradients(state)
        state[:] = [w - RATE * 10 * s for w, s in zip(state, slopes)]
        return float(loss)

    return step, lambda: [numpy.asarray(w) for w in state]


def with_arrays(xp):
    """NumPy, or CuPy, which has the same interface on a GPU."""
    x, y = xp.asarray(DATA), xp.asarray(WANTED)
    weights = [xp.asarray(w) for w in WEIGHTS]

    def step():
        hidden = xp.tanh(x @ weights[0])
        error = hidden @ weights[1] - y
        back = 2 * error / BATCH
        slopes = [x.T @ ((back @ weights[1].T) * (1 - hidden ** 2)), hidden.T @ back]
        for w, s in zip(weights, slopes):
            w -= RATE * 10 * s
        return float((error ** 2).mean())

    return step, lambda: [w.get() if hasattr(w, "get") else w for w in weights]


def main():
    if LIBRARY in ("cupy", "numpy"):
        step, weights = with_arrays(__import__(LIBRARY))
    else:
        step, weights = {"torch": with_torch, "jax": with_jax}[LIBRARY]()
    for i in range(STEPS):
        loss = step()
        print(f"step {i + 1}", flush=True)
        while os.path.exists("pause"):
            time.sleep(0.02)
    total = sum(float(numpy.abs(w.astype(numpy.float64)).sum()) for w in weights())
    print(f"loss {loss:.9g} weights {total:.12g}", flush=True)


main()
