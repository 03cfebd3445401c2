#!/usr/bin/env python3
"""Writes FOLDER/gradients.json: of some records the gradient, by itself, in the ResNet-18 with group norm that scripts/onnx_files.py writes
into the same folder. PyTorch finds them by torch.func in float64. Of a tensor the file has the length, two weighted sums and some elements.
Of TRIES records of a target it takes that whose units are farthest from the kink of ReLU, where float32 finds another gradient than
float64. The tests named in devicetest.NewGoldenFile read both files.

    pip install torch onnx
    python3 scripts/onnx_golden.py internal/onnx/lower/testdata
    python3 scripts/onnx_golden.py FOLDER --full
"""
import argparse
import json
import pathlib

import numpy as np
import torch
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

import onnx_files
from views_golden import digest

NAME, FILE = "resnet18-group", "resnet18-group-script.onnx"
TARGETS, TRIES = [3, 0, 7], 60


def check_weights(path, net):
    """The file is of this network: its weights are those that the file has under their names."""
    import onnx

    has = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    same = [np.array_equal(has[n], p.detach().numpy()) for n, p in net.named_parameters() if n in has]
    assert len(same) >= 20 and all(same), (len(same), same)


def choose(net, shape):
    """The number of each record, and how far its units are from 0 at least, in parts of the root mean square of their layer."""
    least = []

    def relu(x, inplace=False):
        h = x.flatten(1)
        least.append(float((h.abs().amin(1) / h.square().mean(1).sqrt()).min()))
        return x.clamp(min=0)

    usual, F.relu, best = F.relu, relu, []
    for i in range(len(TARGETS)):
        tries = []
        for number in range(3000 + TRIES * i, 3000 + TRIES * (i + 1)):
            least.clear()
            with torch.no_grad():
                net(torch.from_numpy(onnx_files.records(shape, [number])).to(next(net.parameters()).dtype))
            tries.append((min(least), number))
        best.append(max(tries))
    F.relu = usual
    return [number for _, number in best], min(far for far, _ in best)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--full", action="store_true")
    chosen = arguments.parse_args()
    network, shape, _ = onnx_files.torch_networks(chosen.full)[NAME]
    net = onnx_files.make(network, NAME)
    check_weights(chosen.folder / FILE, net)
    net.double()
    numbers, far = choose(net, shape)
    params = {name: p.detach() for name, p in net.named_parameters()}

    def loss(p, x, target):
        return F.cross_entropy(functional_call(net, p, (x[None],)), target[None])

    x = torch.from_numpy(onnx_files.records(shape, numbers)).double()
    each = vmap(grad(loss), (None, 0, 0), chunk_size=1)(params, x, torch.tensor(TARGETS))
    row = lambda v: json.dumps(v, separators=(",", ":"))
    records = ["[\n" + ",\n".join(row(d) for d in digest([each[name][i].numpy() for name in params])) + "]" for i in range(len(TARGETS))]
    text = f'{{"file": "{FILE}", "records": {row(numbers)}, "targets": {row(TARGETS)}, "kink": {far:.3g}, "names": {row(list(params))},\n"gradients": [{",".join(records)}]}}\n'
    (chosen.folder / "gradients.json").write_text(text)


if __name__ == "__main__":
    main()
