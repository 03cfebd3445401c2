#!/usr/bin/env python3
"""Writes internal/device/reference/testdata/models.json: of one record the logits and the gradient of named residual models, by
PyTorch in float64, with the networks of bench/compare/peers/torch_steps.py. Of a tensor's gradient it has the length and
two weighted sums. TestNamedModelsAgree and TestLongWideModelAgrees make the same parameters
and pixels. Where JAX is installed, its network in
jax_steps.py must agree.

    pip install torch jax
    python3 scripts/models_golden.py > internal/device/reference/testdata/models.json
"""
import contextlib
import importlib.util
import io
import json
import pathlib
import runpy
import sys

import numpy as np

PEERS = pathlib.Path(__file__).parent.parent / "bench/compare/peers"
sys.path.insert(0, str(PEERS))
import common

MODELS = ["resnet-small", "wrn-16-4"]
TARGET = 3


def pattern(which, n):
    """n integers from 0 to 4095, that look random."""
    h = (np.arange(n, dtype=np.uint64) + np.uint64(1000003 * (which + 1))) & np.uint64(0xFFFFFFFF)
    for factor, shift in ((2654435761, 15), (2246822519, 13)):
        h = h * np.uint64(factor) & np.uint64(0xFFFFFFFF)
        h ^= h >> np.uint64(shift)
    return (h >> np.uint64(20)).astype(np.float64)


def parameters(model):
    """The tensors of each layer that has some, as common.initial orders them. float32 holds all values exactly."""
    made, k = [], 0
    for tensors in common.initial(model):
        mine = []
        for place, t in enumerate(tensors):
            k += 1
            v = (pattern(k, t.size) - 2048) / 8192
            if place != 1 and t.ndim == 1:
                v = 1 + v  # scales and gains
            elif place == 1:
                v = v / 4
            mine.append(v.reshape(t.shape))
        made.append(mine)
    return made


def script(name, *arguments):
    """The names in a peer's script, after it has timed some steps."""
    sys.argv = [name, "--batch", "1", "--threads", "1", "--seconds", "0", *arguments]
    with contextlib.redirect_stdout(io.StringIO()):
        return runpy.run_path(str(PEERS / name))


def by_torch(model, made, pixels):
    torch = importlib.import_module("torch")
    net = script("torch_steps.py", "--model", model, "--mode", "plain")["network"]().double()
    flat = [t for tensors in made for t in tensors]
    mine = [getattr(m, name) for m in net.modules() for name in ("weight", "bias", "gain") if hasattr(m, name)]
    with torch.no_grad():
        for p, t in zip(mine, flat, strict=True):
            p.copy_(torch.from_numpy(t))
    logits = net(torch.from_numpy(pixels)[None])
    torch.nn.functional.cross_entropy(logits, torch.tensor([TARGET])).backward()
    return logits[0].tolist(), [p.grad.numpy() for p in mine]


def check_jax(model, made, pixels, gradients):
    import jax
    import jax.numpy as jnp
    names = script("jax_steps.py", "--model", model, "--mode", "plain")
    single = jnp.float32
    try:
        jax.config.update("jax_enable_x64", True)
        jnp.float32 = jnp.float64  # to which the script rounds what products give
        params = [tuple(map(names["device_layout"], tensors)) for tensors in made]
        found = jax.grad(names["loss"])(params, jnp.asarray(pixels.transpose(1, 2, 0)[None]), jnp.asarray([TARGET]))
        found = [np.asarray(t) for tensors in found for t in tensors]
    finally:
        jnp.float32 = single
        jax.config.update("jax_enable_x64", False)
    for f, g in zip(found, gradients, strict=True):
        f = f.transpose(3, 2, 0, 1) if f.ndim == 4 else f.T
        assert f.shape == g.shape and np.abs(f - g).max() <= 1e-10 * np.abs(g).max(), (model, f.shape, np.abs(f - g).max(), np.abs(g).max())
    print(f"{model}: JAX agrees in {len(found)} tensors", file=sys.stderr)


def main():
    number = lambda v: float(f"{v:.13g}")
    lines = []
    for model in MODELS:
        made = parameters(model)
        shape = common.NETWORKS[model][0]
        pixels = (np.floor(pattern(0, int(np.prod(shape))) / 16) / 64 - 2).reshape(shape)
        logits, gradients = by_torch(model, made, pixels)
        if importlib.util.find_spec("jax"):
            check_jax(model, made, pixels, gradients)
        digests = []
        for k, g in enumerate(g.ravel() for g in gradients):
            sums = [float(g @ (pattern(1000 + 2 * k + i, g.size) / 2048 - 1)) for i in (0, 1)]
            digests.append([number(v) for v in (float(np.sqrt(g @ g)), *sums)])
        row = lambda v: json.dumps(v, separators=(",", ":"))
        lines.append(f'"{model}": {{"logits": {row([number(v) for v in logits])},\n"gradients": [\n' + ",\n".join(map(row, digests)) + "]}")
    print("{" + ",\n".join(lines) + "}")


if __name__ == "__main__":
    main()
