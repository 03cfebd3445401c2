#!/usr/bin/env python3
"""Adds schedules with few participations of a record each, and dp_accounting's pessimistic epsilon of them, to a file.

    peers/bin/python scripts/make_tiny_rates.py accountant/internal/pld/testdata/tiny_rates.json [ROWS [SEED]]

peers is the environment of scripts/check_accountants.py. A row is [sampling rate, noise multiplier, steps, delta, epsilon],
for add-remove neighbors. The rows that are there stay as they are.

Of the 200 rows in the repository, 103 are of an earlier version (noise multipliers from 0.5 to 8, rates from 1e-6), the
others of seeds 53 to 64 with limits of 10 to 30 seconds. 8 schedules had no epsilon within the limit and were left out; up
to 11 more were cut short when their runs were ended. What the limit leaves out, and how fine a grid gets, depends on the machine.
"""
import json
import math
import os
import random
import signal
import sys
import time

import dp_accounting
from dp_accounting import pld

LIMIT = 10  # seconds of processor time a schedule


def epsilon(q, sigma, steps, delta, grid):
    account = pld.PLDAccountant(value_discretization_interval=grid)
    account.compose(dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma)), steps)
    return account.get_epsilon(delta)


def least(q, sigma, steps, delta):
    """The least epsilon of ever finer grids, until it stays, or a grid is a tenth of one loss's standard deviation, or
    there is no time for the next. Each is pessimistic. None: there was no time for one."""
    finest = min(1e-4, 0.1 * q * math.sqrt(math.expm1(1 / sigma**2)))
    best, start = None, time.process_time()
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        for grid in sorted({min(1e-3, coarser * finest) for coarser in (100, 30, 10, 3, 1)}, reverse=True):
            before = time.process_time()
            e = epsilon(q, sigma, steps, delta, grid)
            stays = best is not None and e > 0.9995 * best
            best = e if best is None else min(e, best)
            now = time.process_time()
            if stays or 3 * (now - before) > LIMIT - (now - start):
                break
    except (TimeoutError, MemoryError, ValueError, OverflowError) as why:
        print("left out" if best is None else "stopped", q, sigma, steps, delta, best, repr(why), file=sys.stderr, flush=True)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return best


def main(path, count, seed):
    rng = random.Random(seed)

    def between(low, high):
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    def late(*_):
        raise TimeoutError

    signal.signal(signal.SIGPROF, late)
    rows = []
    if os.path.exists(path):
        with open(path) as f:
            rows = json.load(f)
    while len(rows) < count:
        q = float(f"{between(1e-7, 1e-2):.3g}")
        steps = round(between(0.1, 100) / q)
        sigma, delta = float(f"{between(0.4, 4):.3g}"), 10.0 ** -rng.randint(3, 9)
        e = least(q, sigma, steps, delta)
        if e is None:
            continue
        if not 1e-5 < e < math.inf:
            print("nothing to compare", q, sigma, steps, delta, e, file=sys.stderr, flush=True)
            continue
        rows.append([q, sigma, steps, delta, e])
        with open(path, "w") as f:
            f.write("[\n" + ",\n".join("  " + json.dumps(r) for r in rows) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200, int(sys.argv[3]) if len(sys.argv) > 3 else 53)
