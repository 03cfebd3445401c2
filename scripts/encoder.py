#!/usr/bin/env python3
"""Trains a convolutional encoder on synthetic images alone, and writes its weights.

    python3 scripts/encoder.py --minutes 60 --out features/constants/encoder-3x32x32-leaves-mirror.safetensors
    make features

The second command adds the constants of whitening to the file.

No photograph is read. The images are textured shapes that cover one another (dead leaves). Two
views of one image belong together, all other pairs of a batch are pushed apart (Chen et al. 2020,
"A Simple Framework for Contrastive Learning of Visual Representations", equation 1). With --pairs
recipes, two images belong together if one recipe drew both: the same colors, sizes, shapes and
textures.

It needs PyTorch and NumPy. On a GPU, give --device cuda and a larger --width. The file has the
weights of 3x3 convolutions, layer by layer, with batch normalization folded in: each has padding 1
and a ReLU behind it. What the first one reads is (pixel / 255 - 0.5) * 4. The metadata say the strides.
docs/explain/features.md has how the network of this project was trained.
"""
import argparse
import json
import math
import struct
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

SIDE, VIEW = 48, 32  # pixels of an image, and of a view of it
LEAVES, COLORS = 80, 6
CHUNK = 512  # images drawn at a time
STRIDES = [1, 2, 1, 2, 1, 2, 1]
LARGEST = 30  # radius of a leaf, in pixels


class Images:
    """Draws images. All numbers come from one generator."""

    def __init__(self, device, seed):
        self.device = device
        self.random = torch.Generator(device).manual_seed(seed)

    def uniform(self, *shape, low=0.0, high=1.0):
        return torch.rand(*shape, device=self.device, generator=self.random) * (high - low) + low

    def normal(self, *shape):
        return torch.randn(*shape, device=self.device, generator=self.random)

    def recipes(self, n):
        """The parameters by which n images are drawn."""
        u, normal = self.uniform, self.normal
        palette = 0.15 * normal(n, COLORS, 3) + 0.2 * normal(n, COLORS, 1) + 0.12 * normal(n, 1, 3)
        return {
            "palette": (palette + u(n, 1, 1, low=0.3, high=0.7)).clamp(0, 1),
            "radius": u(n, 1, low=1.5, high=5.0),  # the smallest
            "power": u(n, 1, low=1.5, high=3.5),  # of the density of radii
            "aspect": u(n, 1, low=0.15, high=1.0),
            "corners": torch.where(u(n, 1) < 0.5, 2.0, u(n, 1, low=1.0, high=8.0)),  # 2: an ellipse
            "angle": u(n, 1, high=math.pi),
            "turn": u(n, 1, high=math.pi) * (u(n, 1) < 0.7),
            "wave": u(n, 1, low=0.4, high=2.5),
            "amplitude": u(n, 1, high=0.25),
            "wave angle": u(n, 1, high=math.pi),
            "shade": u(n, 1, high=0.03),
            "grain": u(n, 1, high=0.06),
        }

    def draw(self, r):
        """One image for each recipe: (n, 3, SIDE, SIDE), in [0, 1]."""
        n = len(r["radius"])

        def each(low=0.0, high=1.0):
            return self.uniform(n, LEAVES, low=low, high=high)

        radius = (r["radius"] * each(0.001) ** (-1 / r["power"])).clamp(max=LARGEST)
        angle = r["angle"] + r["turn"] * each(-1, 1)
        cx, cy = each(-4, SIDE + 4), each(-4, SIDE + 4)
        cos, sin = torch.cos(angle) / radius, torch.sin(angle) / radius
        aspect = r["aspect"] + (1 - r["aspect"]) * each() * 0.5
        t = torch.arange(SIDE, device=self.device, dtype=torch.float32)
        power = r["corners"].view(n, 1, 1)
        label = torch.zeros(n, SIDE, SIDE, dtype=torch.int64, device=self.device)  # leaf 0 is the ground
        for k in range(1, LEAVES):
            col = lambda v: v[:, k].view(n, 1, 1)
            dx, dy = (t - cx[:, k, None])[:, None, :], (t - cy[:, k, None])[:, :, None]
            u = (dx * col(cos) + dy * col(sin)).abs().clamp(max=4)
            v = ((dy * col(cos) - dx * col(sin)).abs() / col(aspect)).clamp(max=4)
            label.masked_fill_(u**power + v**power < 1, k)

        def at(v):
            return v.gather(1, label.view(n, -1)).view(n, SIDE, SIDE)

        color = torch.randint(COLORS, (n, LEAVES), device=self.device, generator=self.random)
        paint = r["palette"].gather(1, color[..., None].expand(-1, -1, 3)) + 0.04 * self.normal(n, LEAVES, 3)
        wave, turn = r["wave"] * each(0.8, 1.25), r["wave angle"] + each(-0.3, 0.3)
        x, y = t.view(1, 1, -1), t.view(1, -1, 1)
        phase = at(wave * torch.cos(turn)) * x + at(wave * torch.sin(turn)) * y + at(each(0, 2 * math.pi))
        light = torch.sin(phase) * at(r["amplitude"] * each() ** 2)
        light = light + at(r["shade"] * each(-1, 1)) * (x - at(cx)) + at(r["shade"] * each(-1, 1)) * (y - at(cy))
        image = torch.stack([at(paint[:, :, c].contiguous()) for c in range(3)], 1) + light[:, None]
        return (image + self.normal(*image.shape) * r["grain"].view(n, 1, 1, 1)).clamp(0, 1)

    def view(self, images):
        """A random part of each image, with other colors: (n, 3, VIEW, VIEW)."""
        n, u = len(images), self.uniform
        one = lambda low, high: u(n, 1, 1, 1, low=low, high=high)
        scale, stretch = u(n, low=0.4, high=0.9), u(n, low=0.85, high=1.18)
        flip = (u(n) < 0.5).float() * 2 - 1
        part = torch.zeros(n, 2, 3, device=self.device)
        part[:, 0, 0], part[:, 1, 1] = scale * stretch * flip, scale / stretch
        part[:, 0, 2], part[:, 1, 2] = (1 - scale) * u(n, low=-1), (1 - scale) * u(n, low=-1)
        grid = F.affine_grid(part, (n, 3, VIEW, VIEW), align_corners=False)
        v = F.grid_sample(images, grid, align_corners=False, padding_mode="reflection") * one(0.6, 1.4)
        gray = v.mean(1, keepdim=True)
        v = gray + (v - gray) * one(0.4, 1.6) * (one(0, 1) > 0.25)
        middle = v.mean((1, 2, 3), keepdim=True)
        v = middle + (v - middle) * one(0.6, 1.4)
        return (v + 0.05 * self.normal(n, 3, 1, 1) * (one(0, 1) < 0.8)).clamp(0, 1)


def network(width):
    channels = [3, width] + [width * 2**i for i in (1, 1, 2, 2, 3, 3)]
    return nn.Sequential(*(
        nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
        for i, o, s in zip(channels, channels[1:], STRIDES)
    ))


def head(width):
    return nn.Sequential(nn.Linear(8 * width, 8 * width, bias=False), nn.BatchNorm1d(8 * width), nn.ReLU(), nn.Linear(8 * width, 128))


def loss_of(a, b, temperature=0.2):
    z = F.normalize(torch.cat([a, b]), dim=1)
    logits = (z @ z.t() / temperature).fill_diagonal_(-1e9)
    n = len(a)
    return F.cross_entropy(logits, (torch.arange(2 * n, device=z.device) + n) % (2 * n))


def train(net, a):
    images, top = Images(a.device, a.seed), head(a.width).to(a.device)
    opt = torch.optim.AdamW([*net.parameters(), *top.parameters()], weight_decay=1e-4)
    begin, step, mean, pool = time.time(), 0, 0.0, []
    while (done := (time.time() - begin) / (60 * a.minutes)) < 1:
        if len(pool) * CHUNK < a.pool or step % 16 == 0:  # an image is in about twelve views
            r = images.recipes(CHUNK)
            one = (images.draw(r) * 255).byte()
            pool.append((one, (images.draw(r) * 255).byte() if a.pairs == "recipes" else one))
            pool = pool[-(a.pool // CHUNK):]
        for g in opt.param_groups:
            g["lr"] = a.lr * min(1, step / 200) * 0.5 * (1 + math.cos(math.pi * done))
        sides = ([], [])
        for c in torch.randint(len(pool), (4,)):
            i = torch.randperm(CHUNK, device=a.device)[: a.batch // 4]
            for side, chunk in zip(sides, pool[c]):
                side.append(chunk[i])
        with torch.no_grad():
            x = torch.cat([images.view(torch.cat(s).float() / 255) for s in sides])
            x = ((x - 0.5) * 4).contiguous(memory_format=torch.channels_last)
        with torch.autocast(a.device.split(":")[0], dtype=torch.bfloat16):
            maps = net(x)
        z = top(maps.mean((2, 3)).float())
        loss = loss_of(*z.chunk(2))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        mean, step = mean + loss.item(), step + 1
        if step % 100 == 0:
            print(f"{step} steps, {100 * done:.0f} %, loss {mean / 100:.3f}, {step * a.batch / (time.time() - begin):.0f} pairs/s", flush=True)
            mean = 0.0


@torch.no_grad()
def folded(net, images):
    """Weights and biases of convolutions that do what convolution and batch normalization do. Each layer's are scaled so that
    its output has mean square 1 over some images. Features from several layers are then of one size."""
    all, before = {}, 1.0
    x = (images.draw(images.recipes(CHUNK))[:, :, :VIEW, :VIEW] - 0.5) * 4
    for i, (conv, norm, relu) in enumerate(net, 1):
        x = relu(norm(conv(x)))
        size = x.square().mean().sqrt()
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps) / size
        all[f"encoder.conv{i}.weight"] = conv.weight * scale[:, None, None, None] * before
        all[f"encoder.conv{i}.bias"] = norm.bias / size - norm.running_mean * scale
        before = size
    return {name: t.detach().cpu().float().numpy() for name, t in all.items()}


def write(path, tensors, metadata):
    """A file in the safetensors format, in half precision."""
    head, data, at = {"__metadata__": metadata}, [], 0
    for name in sorted(tensors):
        data.append(np.ascontiguousarray(tensors[name], dtype="<f2").tobytes())
        head[name] = {"dtype": "F16", "shape": list(tensors[name].shape), "data_offsets": [at, at + len(data[-1])]}
        at += len(data[-1])
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True, metavar="FILE", help="write the weights here, in half precision")
    p.add_argument("--pairs", choices=["crops", "recipes"], default="crops", help="what belongs together (default crops)")
    p.add_argument("--minutes", type=float, default=60, help="train so long (default 60); 0 converts the network of --start")
    p.add_argument("--width", type=int, default=32, help="channels of the first layer (default 32)")
    p.add_argument("--batch", type=int, default=384, help="pairs of a step, a multiple of 4 (default 384)")
    p.add_argument("--pool", type=int, default=20480, help="images kept at a time (default 20480)")
    p.add_argument("--lr", type=float, default=2e-3, help="largest learning rate (default 0.002)")
    p.add_argument("--start", metavar="FILE", help="begin with a network that --state wrote, a PyTorch state dict")
    p.add_argument("--state", metavar="FILE", help="also write the network as PyTorch has it, to go on from")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    a = p.parse_args()
    torch.manual_seed(a.seed)
    net = network(a.width)
    if a.start:
        net.load_state_dict(torch.load(a.start, map_location="cpu", weights_only=True))
    net = net.to(a.device, memory_format=torch.channels_last)
    if a.minutes > 0:
        train(net, a)
    net.eval()
    if a.state:
        torch.save(net.state_dict(), a.state)
    write(a.out, folded(net, Images(a.device, a.seed + 1)), {"strides": " ".join(map(str, STRIDES)), "input": "(pixel/255-0.5)*4", "pairs": a.pairs, "seed": str(a.seed)})


if __name__ == "__main__":
    main()
