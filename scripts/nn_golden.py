#!/usr/bin/env python3
"""Writes internal/device/reference/testdata/pytorch.json: the logits and each record's gradient of a small network, by
PyTorch in float64. TestPyTorchAgrees builds the same network as a graph of package nn.

    pip install torch
    python3 scripts/nn_golden.py > internal/device/reference/testdata/pytorch.json
"""
import json

import torch
from torch.func import grad, vmap
from torch.nn import functional as F

SHAPES = {  # in PyTorch's layout
    "conv1.weight": (4, 2, 3, 3), "conv1.bias": (4,), "conv1.gain": (4,),
    "groupnorm1.weight": (4,), "groupnorm1.bias": (4,),
    "layernorm1.weight": (5,), "layernorm1.bias": (5,),
    "fc1.weight": (5, 16), "fc1.bias": (5,),
    "layernorm2.weight": (5,), "layernorm2.bias": (5,),
    "fc2.weight": (3, 5), "fc2.bias": (3,),
}  # fmt: skip


def standardize(w, gain):
    """Scaled weight standardization: De et al. 2022, section 3.1."""
    axes = (1, 2, 3)
    mean, var = w.mean(axes, keepdim=True), w.var(axes, unbiased=False, keepdim=True)
    fan_in = w[0].numel()
    return (w - mean) / torch.sqrt(torch.clamp(fan_in * var, min=1e-4)) * gain.reshape(-1, 1, 1, 1)


def network(p, x):
    h = F.conv2d(x[None], standardize(p["conv1.weight"], p["conv1.gain"]), p["conv1.bias"], padding=1)
    h = F.gelu(F.group_norm(h, 2, p["groupnorm1.weight"], p["groupnorm1.bias"]))
    h = F.layer_norm(h, (5,), p["layernorm1.weight"], p["layernorm1.bias"])
    h = F.avg_pool2d(h, 2).flatten(1)
    h = F.linear(h, p["fc1.weight"], p["fc1.bias"])
    h = F.gelu(F.layer_norm(h, (5,), p["layernorm2.weight"], p["layernorm2.bias"]))
    return F.linear(h, p["fc2.weight"], p["fc2.bias"])[0]


def loss(p, x, target):
    return F.cross_entropy(network(p, x), target)


def digits(t):
    return [float(f"{v:.13g}") for v in t.flatten().tolist()]


def main():
    torch.manual_seed(4)
    torch.set_default_dtype(torch.float64)
    # Multiples of 1/256, which float32 holds exactly.
    params = {name: torch.randint(-192, 193, shape) / 256 for name, shape in SHAPES.items()}
    # One kernel that hardly varies, so that the least variance takes the place of its own.
    params["conv1.weight"][3] = 0.5 + torch.randint(-4, 5, (2, 3, 3)) / 4096
    pixels = torch.randint(0, 256, (3, 2, 5, 5))
    targets = torch.tensor([0, 2, 1])
    x = pixels / 64 - 2
    logits = vmap(network, (None, 0))(params, x)
    grads = vmap(grad(loss), (None, 0, 0))(params, x, targets)

    def row(key, value):
        return f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}"

    lines = [row("pixels", pixels.flatten().tolist()), row("targets", targets.tolist()), row("logits", digits(logits))]
    of = lambda tensors: "{\n" + ",\n".join(row(k, digits(t)) for k, t in tensors.items()) + "}"
    lines += ['"params": ' + of(params), '"gradients": ' + of(grads)]
    print("{" + ",\n".join(lines) + "}")


if __name__ == "__main__":
    main()
