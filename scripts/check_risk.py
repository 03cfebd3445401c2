#!/usr/bin/env python3
"""Sets privgrad's attack risks beside those of dp_accounting and riskcal on random schedules.

    python3 -m venv peers && peers/bin/pip install -r scripts/requirements.txt
    go build -o bin/privgrad ./cmd/privgrad
    peers/bin/python scripts/check_risk.py bin/privgrad

The schedules are those of check_accountants.py, for add-remove neighbors. Compared are the advantage of a membership
attack and its true-positive rate at false-positive rates of 0.1, 1 and 5 %:

  privgrad        the `risk` of `privgrad account --json`, an upper end
  dp_accounting   the minimum of delta(epsilon) + fpr * e^epsilon over its hockey-stick curves of both directions, whose
                  values are pessimistic: an upper end as well
  riskcal         its trade-off curve of the same loss distributions (Kulynych et al. 2024)

Two upper ends agree if they are within 0.5 % of the larger one, or within 1e-4. Where riskcal gives a true-positive rate
below the false-positive one, which a coin exceeds, its rates have lost mass and are left out. Prints a line for each disagreement
and a table of the largest gaps; the exit status is 1 if there is a disagreement, 2 if nothing could be compared.
"""
import argparse
import json
import math
import subprocess
import sys
import warnings

from check_accountants import INSTALL, Google, events, schedules

warnings.filterwarnings("ignore")

RATES = (0.001, 0.01, 0.05)
NAMES = ("advantage",) + tuple(f"TPR at {r:g}" for r in RATES)
RELATIVE, ABSOLUTE = 5e-3, 1e-4


def ours(binary, kinds):
    done = subprocess.run([binary, "account", "--events", "-", "--delta", "1e-6", "--json"],
                          input=json.dumps(events(kinds)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    risk = json.loads(done.stdout)["risk"]
    return [risk["advantage"]] + [risk["tpr_at_fpr"][f"{r:g}"] for r in RATES]


class Peers:
    def __init__(self):
        import numpy
        from riskcal import analysis
        self.np, self.riskcal, self.google = numpy, analysis, Google()

    def __call__(self, kinds, delta):
        pld = self.loss(kinds)
        at = self.np.linspace(-40, 40, 80001)
        sides = [self.np.array(side.get_delta_for_epsilon(at)) for side in (pld._pmf_remove, pld._pmf_add)]
        ends = lambda rate: max(float(self.np.min(side + self.np.exp(at) * rate)) for side in sides)
        google = [pld.get_delta_for_epsilon(0.0)] + [min(1.0, ends(r)) for r in RATES]
        riskcal = [self.riskcal.get_advantage_from_pld(pld)] + [1 - float(self.riskcal.get_beta_from_pld(pld, alpha=r)) for r in RATES]
        return {"dp_accounting": google, "riskcal": riskcal}

    def loss(self, kinds):
        mu = math.sqrt(sum(t * (1 / s**2 if q == 1 else q * q * math.expm1(1 / s**2)) for q, s, t in kinds))
        account = self.google.pld.PLDAccountant(value_discretization_interval=min(max(mu / 1e3, 1e-5), 1e-3))
        for q, s, t in kinds:
            one = self.google.dp.GaussianDpEvent(s)
            account.compose(one if q == 1 else self.google.dp.PoissonSampledDpEvent(q, one), t)
        return account._pld


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary", help="path of privgrad")
    p.add_argument("--count", type=int, default=200, help="schedules (default 200)")
    p.add_argument("--seed", type=int, default=1, help="of the schedules (default 1)")
    o = p.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    try:
        peers = Peers()
    except ImportError as e:
        print(f"nothing to compare: {e}; {INSTALL}")
        return 2
    wrong, compared, lost, gaps, below = 0, 0, 0, {}, {}
    for number, (delta, kinds) in enumerate(schedules(o.seed, o.count)):
        mine = ours(o.binary, kinds)
        for peer, theirs in peers(kinds, delta).items():
            if any(y < r * (1 - 1e-9) for y, r in zip(theirs[1:], RATES)):
                lost += 1
                theirs = theirs[:1]
            for name, x, y in zip(NAMES, mine, theirs):
                compared += 1
                gaps[peer, name] = max(gaps.get((peer, name), 0), (x - y) / max(x, y))
                below[peer, name] = max(below.get((peer, name), 0), (y - x) / max(x, y))
                if abs(x - y) > max(RELATIVE * max(x, y), ABSOLUTE):
                    wrong += 1
                    print(f"DISAGREE {name}: privgrad {x:.6g}, {peer} {y:.6g}: schedule {number}, (q, sigma, T) " + ", ".join(f"({q:.6g}, {s:.6g}, {t})" for q, s, t in kinds))
    print(f"\n{compared} figures compared, {wrong} disagree; rates of {lost} schedules left out. How far privgrad's are above and below, at most:")
    for peer, name in gaps:
        print(f"{peer:<16}{name:<16}{gaps[peer, name]:>10.3%}{below[peer, name]:>10.3%}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
