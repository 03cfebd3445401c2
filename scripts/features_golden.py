#!/usr/bin/env python3
"""Writes features/testdata/golden.json: features of small images before whitening, by the
formulas of docs/guides/features.md in float64, with nothing but numpy.

    python3 scripts/features_golden.py > features/testdata/golden.json
"""
import json

import numpy as np

ANGLES = 8


def stream(seed):
    """Uniform numbers of [0, 1) with 8 bits, by a linear congruence that the test repeats."""
    while True:
        seed = (seed * 1103515245 + 12345) % 2**31
        yield (seed >> 16 & 255) / 256


def draw(seed, *shape):
    s = stream(seed)
    return np.array([next(s) for _ in range(int(np.prod(shape)))]).reshape(shape)


def grid(n):
    t = np.arange(n) - (n - 1) / 2
    return np.meshgrid(t, t, indexing="ij")


def morlet(scale, angle, n):
    y, x = grid(n)
    s, k = 0.8 * 2**scale, 0.75 * np.pi / 2**scale
    along = x * np.cos(angle) + y * np.sin(angle)
    across = y * np.cos(angle) - x * np.sin(angle)
    envelope = np.exp(-(along**2 + (across * 4 / ANGLES) ** 2) / (2 * s**2)) * 4 / ANGLES / (2 * np.pi * s**2)
    wave = envelope * np.exp(1j * k * along)
    return wave - envelope * wave.sum() / envelope.sum()


def gauss(s, n):
    y, x = grid(n)
    g = np.exp(-(x**2 + y**2) / (2 * s**2))
    return g / g.sum()


def correlate(plane, kernel, stride):
    n = len(kernel)
    padded = np.pad(plane, (n - stride) // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (n, n))[::stride, ::stride]
    return np.einsum("yxij,ij->yx", windows, kernel)


def scatter(plane):
    turns = [np.pi * a / ANGLES for a in range(ANGLES)]
    wave = lambda p, scale: [
        abs(correlate(p, morlet(scale, t, 16 if scale else 9), 2 if scale else 1)) for t in turns
    ]
    fine = wave(plane, 0)
    coarse = wave(plane, 1) + [m for p in fine for m in wave(p, 1)]
    maps = [correlate(p, gauss(1.6, 12), 4) for p in [plane] + fine]
    maps += [correlate(p, gauss(0.8, 8), 2) for p in coarse]
    maps = np.array(maps)
    _, h, w = maps.shape
    if min(h, w) >= 8 and h % 2 == 0 and w % 2 == 0:
        maps = maps.reshape(len(maps), h // 2, 2, w // 2, 2).mean((2, 4))
    return maps


def cells(maps):
    """Averages over 2×2 cells, which overlap where they do not divide a side."""
    cell = lambda n, c: slice(c * n // 2, -(-(c + 1) * n // 2))
    return np.array([[[m[cell(len(m), i), cell(len(m[0]), j)].mean() for j in range(2)] for i in range(2)] for m in maps])


def patches(image, atoms):
    """image: channels, height, width; atoms: n, channels, side, side."""
    found = products(image, atoms, 0.002)
    return cells(np.concatenate([np.maximum(found - 0.25, 0), np.maximum(-found - 0.25, 0)]))


def signs(seed1, seed2, n):
    """Signs by the top bit of PCG-DXSM, the generator of Go's math/rand/v2."""
    word, state, out = 2**64, seed1 << 64 | seed2, []
    for _ in range(n):
        state = (state * 0x2360ED051FC65DA44385DF649FCCF645 + (6364136223846793005 << 64 | 1442695040888963407)) % 2**128
        hi, lo = state >> 64, state % word
        hi = (hi ^ hi >> 32) * 0xDA942042E4DD58B5 % word
        hi = (hi ^ hi >> 48) * (lo | 1) % word
        out.append(1 - 2 * (hi >> 63))
    return np.array(out)


def hadamard(n):
    h = np.ones((1, 1))
    while len(h) < n:
        h = np.block([[h, h], [h, -h]])
    return h


def products(image, atoms, flat):
    """What every patch over its contrast has in common with every atom: atoms, rows, columns."""
    side = atoms.shape[-1]
    windows = np.lib.stride_tricks.sliding_window_view(image, (side, side), (1, 2))
    contrast = np.sqrt(windows.transpose(1, 2, 0, 3, 4).reshape(windows.shape[1], windows.shape[2], -1).var(-1) + flat)
    return np.einsum("cyxij,acij->ayx", windows, atoms) / contrast


def means(maps, window, stride):
    """Averages over windows of places."""
    h, w = window
    rows, cols = (maps.shape[1] - h) // stride + 1, (maps.shape[2] - w) // stride + 1
    return np.array([[[m[y * stride : y * stride + h, x * stride : x * stride + w].mean() for x in range(cols)] for y in range(rows)] for m in maps])


def pairs(image, atoms, stride, project, offset, mirror, chosen):
    """Some of the features of pairs, of one size: atoms are without their mirror images."""
    side = atoms.shape[-1]
    both = np.concatenate([atoms, atoms[..., ::-1]])
    vectors = (hadamard(512) * signs(5, side, 512))[chosen, :504] / np.sqrt(504)
    maps = []
    for x in [image, image[..., ::-1]][: 1 + mirror]:
        found = products(x, both, 0.002)
        found = np.concatenate([np.maximum(found - 0.25, 0), np.maximum(-found - 0.25, 0)])
        window = [n - (n - 5) // stride * stride for n in found.shape[1:]]
        u = np.einsum("mk,kyx->myx", project, means(found, window, stride)) + offset[:, None, None]
        z = np.maximum(abs(products(u, vectors.reshape(-1, 56, 3, 3), 0.001)) - 1, 0)
        maps.append(cells(z))
    return np.sum(maps, 0) / 2


def convolve(x, weights, bias, stride):
    """3x3 filters with a border of zeros, then a ReLU."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::stride, ::stride]
    return np.maximum(np.einsum("cyxij,ocij->oyx", windows, weights, optimize=True) + bias[:, None, None], 0)


def encoder(image, seed, mirror):
    layers = [(3, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1)]
    weights = [draw(seed + 100 * i, n, m, 3, 3) - 0.5 for i, (m, n, _) in enumerate(layers, 1)]
    biases = [draw(seed + 100 * (10 + i), n) - 0.5 for i, (_, n, _) in enumerate(layers, 1)]
    maps = []
    for x in [image, image[..., ::-1]][: 1 + mirror]:
        x = (x - 0.5) * 4
        read = []
        for w, b, (_, _, stride) in zip(weights, biases, layers):
            x = convolve(x, w, b, stride)
            read.append(cells(x))
        maps.append(np.concatenate([read[4], read[6]]))
    return np.mean(maps, 0)[np.arange(22) * 17]


def main():
    cases = []

    def case(kind, shape, seed, maps, side=0, mirror=False):
        values = [float(f"{v:.7g}") for v in np.asarray(maps).ravel()]
        cases.append({"kind": kind, "shape": shape, "seed": seed, "maps": len(maps), "side": side, "mirror": mirror, "values": values})

    for seed, shape in enumerate([(1, 12, 8), (2, 8, 8), (1, 32, 32)], 1):
        image = draw(seed, *shape)
        case("scatter", shape, seed, np.concatenate([scatter(p) for p in image]))
    for seed, (side, shape) in enumerate([(6, (1, 9, 12)), (6, (3, 11, 10)), (4, (3, 7, 8))], 11):
        atoms = draw(seed + 100, 4, shape[0], side, side)
        atoms -= atoms.mean((1, 2, 3), keepdims=True)
        case("patches", shape, seed, patches(draw(seed, *shape), atoms), side)
    for seed, (side, n, stride, mirror, shape) in enumerate([(6, 64, 2, False, (1, 21, 22)), (4, 32, 3, True, (3, 22, 21)), (8, 64, 3, True, (1, 21, 24))], 21):
        atoms = draw(seed + 100, n, shape[0], side, side)
        atoms -= atoms.mean((1, 2, 3), keepdims=True)
        project, offset = draw(seed + 200, 56, 4 * n) - 0.5, draw(seed + 300, 56) - 0.5
        chosen = np.arange(16) * 31
        case("pairs", shape, seed, pairs(draw(seed, *shape), atoms, stride, project, offset, mirror, chosen), side, mirror)
    for seed, (mirror, shape) in enumerate([(False, (3, 16, 21)), (True, (3, 19, 18))], 31):
        case("encoder", shape, seed, encoder(draw(seed, *shape), seed, mirror), 0, mirror)
    print("[" + ",\n".join(json.dumps(c) for c in cases) + "]")


if __name__ == "__main__":
    main()
