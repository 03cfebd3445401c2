#!/usr/bin/env python3
"""Writes internal/device/devicetest/testdata/views.json: of records that go through a network in several views, the mean of the
gradients of a record's views, its length, and the sum of such means, each clipped to one length. PyTorch finds them by torch.func
in float64, with the networks of bench/compare/peers/torch_steps.py. The views are made here, from a word each. Of a tensor
the file has the length, two weighted sums and some elements. Of TRIES images of a record it takes that whose units are farthest
from the kink of ReLU, where float32 finds another gradient than float64. The tests named in devicetest.NewGoldenViews make the
same parameters and images.

    pip install torch
    python3 scripts/views_golden.py > internal/device/devicetest/testdata/views.json
"""
import json

import numpy as np
import torch
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

import models_golden as models
from models_golden import common

TARGETS = [3, 0, 7]  # of three records
VIEWS, MARGIN = 4, 4  # a record's views, and the pixels by which one moves at most
# The first record's are the four corners, two of them mirrored; the others' are as they fall.
CORNERS = [0x00000000, 0x3FFFFFFF, 0xFFFFFFFF, 0xBFFF8000]
ELEMENTS = 5  # of a tensor
TRIES = 60


def words():
    random = np.random.default_rng(6)
    drawn = random.integers(0, 1 << 32, (len(TARGETS) - 1, VIEWS))
    return [CORNERS, *(list(map(int, row)) for row in drawn)]


def moves(word):
    """Whether a word's view is mirrored, and by how many rows and columns it moves. From the highest: a bit, then two numbers of
    15 bits for columns and rows, of which each stands for a part of the places from -MARGIN to MARGIN."""
    bits = f"{word:032b}"
    place = lambda number: int(number, 2) * (2 * MARGIN + 1) // 2**15 - MARGIN
    return bits[0] == "1", place(bits[17:]), place(bits[2:17])


def view(x, word):
    """An image of channels, rows and columns: mirrored left to right, or not, then moved. PyTorch's border is a mirror image that does
    not repeat the pixels at the edge."""
    mirrored, down, right = moves(word)
    if mirrored:
        x = x.flip(-1)
    rows, columns = x.shape[1:]
    wide = F.pad(x[None], (MARGIN,) * 4, mode="reflect")[0]
    return wide[:, MARGIN + down:MARGIN + down + rows, MARGIN + right:MARGIN + right + columns]


def network(model):
    """The network in float64, and its parameters by name, a tensor after the other."""
    net = models.script("torch_steps.py", "--model", model, "--mode", "plain")["network"]().double()
    names = {tensor: name for name, tensor in net.named_parameters()}
    mine = [names[getattr(m, part)] for m in net.modules() for part in ("weight", "bias", "gain") if hasattr(m, part)]
    flat = [torch.from_numpy(t) for tensors in models.parameters(model) for t in tensors]
    net.load_state_dict(dict(zip(mine, flat, strict=True)))
    return net, {name: net.get_parameter(name).detach() for name in mine}


def image(model, seed):
    shape = common.NETWORKS[model][0]
    return torch.from_numpy((np.floor(models.pattern(seed, int(np.prod(shape))) / 16) / 64 - 2).reshape(shape))


def choose(model, net, drawn):
    """The seed of each record's image, and how far its views' units are from 0 at least, in parts of the root mean square of their layer
    and view."""
    least = []

    def look(_, inputs):
        x = inputs[0].flatten(1).abs()
        least.append(float((x.amin(1) / x.square().mean(1).sqrt()).min()))

    hooks = [m.register_forward_pre_hook(look) for m in net.modules() if isinstance(m, torch.nn.ReLU)]
    best = []
    for i, record in enumerate(drawn):
        tries = []
        for seed in range(2000 + TRIES * i, 2000 + TRIES * (i + 1)):
            least.clear()
            with torch.no_grad():
                net(torch.stack([view(image(model, seed), w) for w in record]))
            tries.append((min(least), seed))
        best.append(max(tries))
    for hook in hooks:
        hook.remove()
    return [seed for _, seed in best], min(far for far, _ in best)


def gradients(net, params, views):
    """Each record's mean gradient, a tensor after the other."""

    def loss(p, view, target):
        return F.cross_entropy(functional_call(net, p, (view[None],)), target[None])

    each = vmap(vmap(grad(loss), (None, 0, None)), (None, 0, 0))(params, views, torch.tensor(TARGETS))
    return [each[name].mean(1).numpy() for name in params]


def digest(tensors):
    rows = []
    for k, g in enumerate(g.ravel() for g in tensors):
        sums = [float(g @ (models.pattern(1000 + 2 * k + i, g.size) / 2048 - 1)) for i in (0, 1)]
        elements = [float(g[(2 * i + 1) * g.size // (2 * ELEMENTS)]) for i in range(ELEMENTS)]
        rows.append([float(f"{v:.13g}") for v in (float(np.sqrt(g @ g)), *sums, *elements)])
    return rows


def main():
    row = lambda v: json.dumps(v, separators=(",", ":"))
    table = lambda rows: "[\n" + ",\n".join(map(row, rows)) + "]"
    drawn, found = words(), []
    for model in models.MODELS:
        net, params = network(model)
        seeds, far = choose(model, net, drawn)
        views = torch.stack([torch.stack([view(image(model, seed), w) for w in record]) for seed, record in zip(seeds, drawn)])
        means = gradients(net, params, views)
        norms = np.sqrt(sum((g**2).reshape(len(TARGETS), -1).sum(1) for g in means))
        least, second = np.sort(norms)[:2]
        clip = float(np.float32(np.sqrt(least * second)))
        assert least < 0.99 * clip and clip < 0.99 * second, norms  # one record keeps its length, whatever rounds
        factors = np.minimum(1, clip / norms)
        records = [digest([g[i] for g in means]) for i in range(len(TARGETS))]
        total = digest([np.tensordot(factors, g, 1) for g in means])
        found.append(f'"{model}": {{"images": {row(seeds)}, "kink": {far:.3g}, "clip": {clip!r}, "norms": {row([float(f"{v:.13g}") for v in norms])},\n'
                     f'"records": [{",".join(map(table, records))}],\n"sum": {table(total)}}}')
    print(f'{{"targets": {row(TARGETS)}, "words": {row(drawn)},\n"models": {{\n' + ",\n".join(found) + "}}")


if __name__ == "__main__":
    main()
