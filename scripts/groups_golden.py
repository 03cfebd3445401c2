#!/usr/bin/env python3
"""Writes epsilons of groups of records on Poisson batches with Gaussian noise, by methods that share nothing with privgrad.

    python scripts/groups_golden.py accountant/testdata/groups.json [ROWS [SEED [CHECKED]]]

Needs numpy and scipy, and dp-accounting for the rows that are checked by it (scripts/requirements.txt). A row is

    records, sampling rate, noise multiplier, steps, replace-one (0 or 1), delta, lower, upper, dp_accounting

of one pair: sum_j Binomial(records, rate)(j) N(j, sigma^2) against N(0, sigma^2), the worse of both directions, or
against its mirror image under replace-one. lower and upper bracket epsilon but for rounding of some 1e-12 of delta. The line is cut
into small cells. For lower each cell becomes one atom, whose loss is rounded down to a grid. For upper the mass of each
cell goes to the grid points around its losses so that both distributions keep their masses. Both are composed by a
Fourier transform. dp_accounting is 0, or the pessimistic epsilon of its MixtureGaussianPrivacyLoss on a grid of 1e-3.
"""
import json
import math
import random
import sys

import numpy as np
from scipy.special import logsumexp, ndtr
from scipy.stats import binom

CELLS = 1 << 17
LOG2 = 21
TAIL = 1e-17  # of one step, on either side


def masses(edges, centers, weights):
    """Of the mixture of normals at centers, between the edges."""
    total = np.zeros(len(edges) - 1)
    for c, w in zip(centers, weights):
        z = edges - c
        left, right = ndtr(z), ndtr(-z)
        total += w * np.where(z[:-1] > 0, right[:-1] - right[1:], left[1:] - left[:-1])
    return total


def log_density(z, centers, weights):
    with np.errstate(divide="ignore"):
        return logsumexp(np.log(weights)[:, None] - (z[None, :] - centers[:, None]) ** 2 / 2, axis=0)


def step(records, rate, sigma, replace):
    """Cells of one step: masses under P and Q, and the losses at their ends."""
    weights = binom.pmf(np.arange(records + 1), records, rate)
    centers = np.arange(records + 1) / sigma
    kept = weights > 1e-25
    weights, centers = weights[kept], centers[kept]
    other, at = (weights, -centers) if replace else (np.ones(1), np.zeros(1))
    high = 9.0
    while (weights * ndtr(centers - high)).sum() > TAIL:
        high += 0.25
    low = -high if replace else -9.0
    edges = np.linspace(low, high, CELLS + 1)
    losses = np.concatenate([log_density(part, centers, weights) - log_density(part, at, other) for part in np.array_split(edges, 64)])
    return masses(edges, centers, weights), masses(edges, at, other), losses


def reach(mass, loss, steps):
    """Where the composed loss lies but for 1e-14 of its mass on either side, by Chernoff's bound."""
    some = mass > 0
    mass, loss, rest = mass[some], loss[some], -math.log(1e-14)
    ends = []
    for sign in (-1, 1):
        best = math.inf
        for t in np.exp(np.linspace(math.log(1e-3), math.log(60), 150)):
            k = logsumexp(sign * t * loss + np.log(mass))
            best = min(best, (steps * k + rest) / t)
        ends.append(sign * best)
    return ends


def epsilon(index, mass, infinite, h, steps, low, delta):
    """Of masses at the losses index*h, composed; the window begins at low."""
    n = 1 << LOG2
    x = np.zeros(n)
    np.add.at(x, index % n, mass)
    f = np.fft.rfft(x)
    f = np.exp(steps * np.log(np.abs(f) + 1e-300)) * np.exp(1j * ((steps * np.angle(f)) % (2 * np.pi)))
    composed = np.maximum(np.fft.irfft(f, n), 0)
    first = math.floor(low / h)
    composed = np.roll(composed, -(first % n))
    loss = (first + np.arange(n)) * h
    missing = -math.expm1(steps * math.log1p(-infinite))

    def at(e):
        above = loss > e
        return missing + (composed[above] * -np.expm1(e - loss[above])).sum()

    a, b = 0.0, float(loss[-1])
    if at(a) <= delta:
        return 0.0
    for _ in range(60):
        e = (a + b) / 2
        a, b = (e, b) if at(e) > delta else (a, e)
    return b


def bracket(records, rate, sigma, steps, replace, delta):
    p, q, losses = step(records, rate, sigma, replace)
    best = [0.0, 0.0]
    for mirror in [False] if replace else [False, True]:
        a, b = losses[:-1], losses[1:]
        if mirror:
            p, q, a, b = q, p, -b, -a
        some = (p > 0) & (q > 0)
        mean = np.log(p[some] / q[some])
        low, high = reach(p[some], mean, steps)
        h = 1.1 * (high - low) / (1 << LOG2)
        # The margin of a tenth holds what rounding moves, for steps up to some 1e5.
        low -= 0.05 * (high - low)
        lower = epsilon(np.floor(mean / h).astype(np.int64), p[some], 0, h, steps, low, delta)
        i, j = np.floor(a[some] / h).astype(np.int64), np.ceil(b[some] / h).astype(np.int64)
        j = np.maximum(j, i + 1)
        up = (p[some] - np.exp(i * h) * q[some]) / -np.expm1((i - j) * h)
        up = np.clip(up, 0, p[some])
        index, mass = np.concatenate([i, j]), np.concatenate([p[some] - up, up])
        upper = epsilon(index, mass, max(0.0, 4 * TAIL), h, steps, low, delta)
        best = [max(best[0], lower), max(best[1], upper)]
    return best


def peer(records, rate, sigma, steps, delta):
    from dp_accounting.pld import privacy_loss_distribution as d
    weights = binom.pmf(np.arange(records + 1), records, rate)
    one = d.from_mixture_gaussian_mechanism(sigma, list(range(records + 1)), list(weights), value_discretization_interval=1e-3)
    return one.self_compose(steps).get_epsilon_for_delta(delta)


def main(path, count, seed, checked):
    rng = random.Random(seed)

    def between(low, high):
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    rows = []
    while len(rows) < count:
        records = int(between(2, 1000))
        rate = float(f"{between(1e-4, 0.3):.3g}")
        sigma = float(f"{between(0.5, 8 * math.sqrt(records)):.3g}")
        steps = int(between(1, 3000))
        replace = int(rng.random() < 0.3)
        delta = rng.choice([1e-5, 1e-6, 1e-8])
        if records * rate > 8 or records * math.sqrt(steps) * rate * (1 + replace) / sigma > 8:
            continue
        lower, upper = bracket(records, rate, sigma, steps, replace, delta)
        if not 0.05 < upper < 100 or upper - lower > 0.02 * upper:
            continue
        other = 0.0
        if not replace and records <= 16 and sum(r[8] > 0 for r in rows) < checked:
            other = float(peer(records, rate, sigma, steps, delta))
        rows.append([records, rate, sigma, steps, replace, delta, lower, upper, other])
        print(*rows[-1], file=sys.stderr, flush=True)
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")


if __name__ == "__main__":
    numbers = [int(x) for x in sys.argv[2:]]
    main(sys.argv[1], *(numbers + [100, 1, 12][len(numbers):]))
