#!/usr/bin/env python3
"""Writes schedules with few participations of a record each, and dp_accounting's pessimistic epsilon of them.

    peers/bin/python scripts/make_tiny_rates.py accountant/pld/testdata/tiny_rates.json

peers is the environment of scripts/check_accountants.py. A row is [sampling rate, noise multiplier, steps, delta, epsilon],
for add-remove neighbors. A schedule that takes more than 90 seconds is left out.
"""
import json
import math
import random
import signal
import sys

import dp_accounting
from dp_accounting import pld


def epsilon(q, sigma, steps, delta):
    grid = min(1e-4, 0.1 * q * math.sqrt(math.expm1(1 / sigma**2)))  # a tenth of one loss's standard deviation
    account = pld.PLDAccountant(value_discretization_interval=grid)
    account.compose(dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma)), steps)
    return account.get_epsilon(delta)


def main(path, count):
    rng = random.Random(52)

    def between(low, high):
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    def late(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    rows = []
    while len(rows) < count:
        q = float(f"{between(1e-6, 1e-2):.3g}")
        steps = round(between(0.1, 100) / q)
        sigma, delta = float(f"{between(0.5, 8):.3g}"), 10.0 ** -rng.randint(3, 9)
        if not 1 <= steps <= 3e7:
            continue
        signal.alarm(90)
        try:
            e = epsilon(q, sigma, steps, delta)
        except (TimeoutError, MemoryError, ValueError, OverflowError) as why:
            print("left out", q, sigma, steps, delta, repr(why), file=sys.stderr)
            continue
        finally:
            signal.alarm(0)
        if 1e-5 < e < 20:
            rows.append([q, sigma, steps, delta, e])
            with open(path, "w") as f:
                f.write("[\n" + ",\n".join("  " + json.dumps(r) for r in rows) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200)
