"""Writes accountant/testdata/selection.json: what random selections cost, by dp-accounting.

    pip install -r scripts/requirements.txt
    python scripts/selection_golden.py > accountant/testdata/selection.json

A case is a trial, Poisson-subsampled Gaussian releases, and a distribution of the number of trials. Its epsilon is that of a
RepeatAndSelectDpEvent. All orders are whole numbers, for which dp-accounting's divergences are exact. It takes the mean number of
trials, computed here from eta and gamma, and finds gamma again to 1e-9. Cases of a large epsilon are left out: there privgrad's
order 1, at which no divergence counts, and dp-accounting's bound on a large delta make a difference.
"""

import json
import math
import random

from dp_accounting import dp_event
from dp_accounting.rdp import rdp_privacy_accountant as rdp

ORDERS = list(range(2, 64)) + [80, 128, 256, 512]


def mean(eta, gamma):
    if eta == 0:
        return (1 / gamma - 1) / math.log(1 / gamma)
    return eta * (1 - gamma) / (gamma * -math.expm1(eta * math.log(gamma)))


def case(r):
    c = {
        "rate": 1.0 if r.random() < 0.2 else 10 ** r.uniform(-3, -0.5),
        "noise": r.uniform(0.8, 6),
        "steps": r.randint(1, 500),
        "delta": 10 ** r.uniform(-9, -4),
    }
    if c["rate"] == 1:
        c["noise"] *= 10
    event = dp_event.GaussianDpEvent(c["noise"])
    if c["rate"] < 1:
        event = dp_event.PoissonSampledDpEvent(c["rate"], event)
    event = dp_event.SelfComposedDpEvent(event, c["steps"])
    if r.random() < 0.4:
        c["trials"] = f"poisson:{r.uniform(1, 60)!r}"
        event = dp_event.RepeatAndSelectDpEvent(event, float(c["trials"].split(":")[1]), math.inf)
    else:
        eta, gamma = r.choice([0.0, 0.5, 1.0, 2.0]), 10 ** r.uniform(-3, -0.2)
        c["trials"] = f"tnb:{eta!r},{gamma!r}"
        event = dp_event.RepeatAndSelectDpEvent(event, mean(eta, gamma), eta)
    accountant = rdp.RdpAccountant(ORDERS)
    accountant.compose(event)
    c["epsilon"] = accountant.get_epsilon(c["delta"])
    return c


def main():
    r = random.Random(2110)
    cases = []
    while len(cases) < 60:
        c = case(r)
        if 0.05 < c["epsilon"] < 10:
            cases.append(c)
    print("[" + ",\n".join(json.dumps(c) for c in cases) + "]")


main()
