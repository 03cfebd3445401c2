"""Writes internal/budget/testdata/golden.json: what 100 random budgets have spent, in 30 digits.

    pip install -r scripts/requirements.txt
    python scripts/budget_golden.py > internal/budget/testdata/golden.json

A case has a delta, an order, and runs. A run is a number of Poisson-subsampled Gaussian releases, or an epsilon and a delta of
its own. The divergence of a release at the order is integrated numerically, in both directions (Mironov, Talwar and Zhang 2019,
section 3), and converted at half of the delta (Balle et al. 2020, theorem 21). dp-accounting's figure for the same runs stands
beside it: an upper bound, whose series for orders that are no whole numbers is cut early.
"""

import json
import random

import mpmath as mp
from dp_accounting import dp_event
from dp_accounting.rdp import rdp_privacy_accountant as rdp

mp.mp.dps = 30
ORDERS = [1.5, 2, 2.5, 3, 4.2, 5, 6.5, 7.9, 8, 10.3, 12, 16, 19, 24, 32, 48, 63, 128]


def divergence(rate, noise, order):
    """Of one release, whichever direction is worse."""
    q, z, a = mp.mpf(rate), mp.mpf(noise), mp.mpf(order)
    if rate == 1:
        return a / (2 * z**2)
    # The trapezoidal rule at steps of z/6: its error is below exp(-100 z), and so are the tails that are left out.
    sums = [mp.mpf(0), mp.mpf(0)]
    for k in range(-90, int(6 * (a / z + 15)) + 1):
        x = k * z / 6
        ratio = 1 - q + q * mp.exp((2 * x - 1) / (2 * z**2))
        density = mp.exp(-(x**2) / (2 * z**2)) / (6 * mp.sqrt(2 * mp.pi))
        power = mp.exp((a - 1) * mp.log(ratio))
        sums = [sums[0] + density * power * ratio, sums[1] + density / power]
    return max(mp.log(m) for m in sums) / (a - 1)


def case(r):
    order, delta = r.choice(ORDERS), 10 ** r.uniform(-9, -4)
    library, total, runs, spent = rdp.RdpAccountant([order]), mp.mpf(0), [], None
    for _ in range(r.randint(1, 6)):
        if r.random() < 0.25:
            run = {"epsilon": round(r.uniform(0.01, 2), 4), "delta": delta / 100}
            total += mp.mpf(repr(run["epsilon"]))
        else:
            run = {
                "rate": 1 if r.random() < 0.2 else 10 ** r.uniform(-3, -0.3),
                "noise": r.uniform(0.8, 12),
                "steps": r.randint(1, 2000),
            }
            spent = (spent or 0) + run["steps"] * divergence(run["rate"], run["noise"], order)
            event = dp_event.GaussianDpEvent(run["noise"])
            if run["rate"] < 1:
                event = dp_event.PoissonSampledDpEvent(run["rate"], event)
            library.compose(event, run["steps"])
        runs.append(run)
    if spent is not None:
        a, half = mp.mpf(order), mp.mpf(delta) / 2
        total += max(spent + mp.log(1 - 1 / a) - mp.log(half * a) / (a - 1), 0)
    number = lambda x: float(mp.nstr(x, 17))
    return {
        "delta": delta,
        "order": order,
        "runs": runs,
        "divergence": number(spent or 0),
        "epsilon": number(total),
        "library": float(library._rdp[0]) if spent is not None else 0.0,
    }


if __name__ == "__main__":
    r = random.Random(20261130)
    print("[\n" + ",\n".join(json.dumps(case(r)) for _ in range(100)) + "\n]")
