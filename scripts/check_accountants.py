#!/usr/bin/env python3
"""Sets privgrad's accountants beside dp_accounting's and prv_accountant's on random schedules.

    python3 -m venv peers && peers/bin/pip install -r scripts/requirements.txt
    go build -o bin/privgrad ./cmd/privgrad
    peers/bin/python scripts/check_accountants.py bin/privgrad

Every schedule is asked of `privgrad account --json`, of dp_accounting's PLD accountant and of prv_accountant, all for
add-remove neighbors. Prints a line for each disagreement and a table; the exit status is 1 if there is a disagreement,
2 if nothing could be compared. What is missing is named and left out.

What agreement means, with [lower, upper] privgrad's interval (an accountant without one, such as rdp, is an upper bound):
  pld with prv        the intervals meet
  dp_accounting       its value is pessimistic, so never below lower; and at most upper + 1e-3 of it + 4 of its grid
  prv_accountant      the intervals meet. It knows one of the two directions, one record removed, so where the other one
                      is worse, its interval may be below ours: then dp_accounting decides
"""
import argparse
import json
import math
import random
import subprocess
import sys
import warnings
from dataclasses import dataclass

warnings.filterwarnings("ignore")

INSTALL = "python3 -m pip install -r scripts/requirements.txt"


@dataclass
class Interval:
    lower: float
    upper: float
    slack: float = 0.0  # that upper may be above the exact value's upper bound, for a value without a lower bound

    def __str__(self):
        return f"[{self.lower:.6g}, {self.upper:.6g}]"


class Declined(Exception):
    """An accountant cannot answer this schedule, or is not there."""


def schedules(seed, count):
    """(delta, [(rate, noise multiplier, steps)]), of each ten: six of one kind, three of two to four, one unsampled."""
    rng = random.Random(seed)

    def kind(sampled):
        sigma, steps = math.exp(rng.uniform(math.log(.5), math.log(8))), round(math.exp(rng.uniform(0, math.log(1e4))))
        return (math.exp(rng.uniform(math.log(1e-4), math.log(.2))) if sampled else 1.0), sigma, steps

    def size(kinds):  # what a central limit makes of it: mu of one Gaussian
        return math.sqrt(sum(t * (1 / s**2 if q == 1 else q * q * math.expm1(1 / s**2)) for q, s, t in kinds))

    made = []
    while len(made) < count:
        turn = len(made) % 10
        if turn < 6:
            kinds = [kind(True)]
        elif turn < 9:
            kinds = [kind(True) for _ in range(rng.randint(2, 4))]
            if turn == 8:
                q, s, t = kind(False)
                kinds[-1] = (q, s, max(1, t // 100))
        else:
            kinds = [kind(False)]
        delta = rng.choice([1e-5, 1e-6, 1e-8])
        if size(kinds) < 8:  # more is an epsilon of above about 60, which nobody publishes
            made.append((delta, kinds))
    return made


def events(kinds):
    return [{"mechanism": "gaussian", "noise_multiplier": s, "count": t} if q == 1 else
            {"batch": {"poisson": q, "mechanisms": [{"mechanism": "gaussian", "noise_multiplier": s}]}, "count": t}
            for q, s, t in kinds]


class Privgrad:
    def __init__(self, binary, accountant):
        self.binary, self.accountant = binary, accountant
        self.name = "privgrad " + accountant
        try:
            self([(0.01, 1.0, 1)], 1e-5)
        except OSError as e:
            raise Declined(f"{binary}: {e.strerror}")

    def __call__(self, kinds, delta):
        done = subprocess.run(
            [self.binary, "account", "--events", "-", "--delta", repr(delta), "--accountant", self.accountant,
             "--neighbouring", "add-remove", "--json"], input=json.dumps(events(kinds)), capture_output=True, text=True)
        if done.returncode:
            raise Declined((done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1])
        out = json.loads(done.stdout)
        if out["epsilon"] is None:
            raise Declined("epsilon is infinite")
        between = out["interval"] or {"lower": -math.inf, "upper": out["epsilon"]}
        if not between["lower"] <= between["upper"] == out["epsilon"]:
            raise ValueError(f"{self.name}: epsilon {out['epsilon']} is not the upper end of {between}")
        return Interval(between["lower"], between["upper"])


class Google:
    name = "dp_accounting"

    def __init__(self):
        import dp_accounting
        from dp_accounting import pld
        self.dp, self.pld = dp_accounting, pld

    def __call__(self, kinds, delta, about):
        grid = min(max(about / 1e4, 1e-6), 1e-3)  # a coarse one adds to every step's variance
        account = self.pld.PLDAccountant(value_discretization_interval=grid)
        for q, s, t in kinds:
            one = self.dp.GaussianDpEvent(s)
            account.compose(one if q == 1 else self.dp.PoissonSampledDpEvent(q, one), t)
        value = account.get_epsilon(delta)
        return Interval(value, value, 4 * grid + 1e-3 * value)


class Microsoft:
    name = "prv_accountant"

    def __init__(self):
        import prv_accountant
        self.prv = prv_accountant

    def __call__(self, kinds, delta, about):
        prvs = [self.prv.GaussianMechanism(s) if q == 1 else self.prv.PoissonSubsampledGaussianMechanism(q, s) for q, s, _ in kinds]
        steps = [t for _, _, t in kinds]
        error = min(max(.01 * about, 1e-3), .1)
        try:
            account = self.prv.PRVAccountant(prvs, eps_error=error, delta_error=delta / 1000, max_self_compositions=steps)
            lower, _, upper = account.compute_epsilon(delta, steps)
        except (RuntimeError, ValueError, OverflowError, FloatingPointError) as e:
            raise Declined(f"{type(e).__name__}: {e}")
        if math.isnan(lower + upper):
            raise Declined("not a number")
        return Interval(max(lower, 0), max(upper, 0))


class Tally:
    def __init__(self):
        self.agreed = self.disagreed = self.declined = self.below = 0
        self.gap = 0.0  # the largest, between upper ends, over the first or 1


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary", help="path of privgrad")
    p.add_argument("--accountants", default="pld,prv", help="of privgrad, comma separated (default pld,prv)")
    p.add_argument("--count", type=int, default=200, help="schedules (default 200)")
    p.add_argument("--seed", type=int, default=1, help="of the schedules (default 1)")
    p.add_argument("--verbose", action="store_true", help="print every schedule with every answer")
    o = p.parse_args()

    sys.stdout.reconfigure(line_buffering=True)

    ours, peers = [], []
    for name in o.accountants.split(","):
        try:
            ours.append(Privgrad(o.binary, name))
        except Declined as e:
            print(f"skipped: privgrad {name}: {e}")
    for peer in (Google, Microsoft):
        try:
            peers.append(peer())
        except ImportError as e:
            print(f"skipped: {peer.name}: {e}; {INSTALL}")
    if not ours or len(ours) + len(peers) < 2:
        print("nothing to compare")
        return 2

    table = {(a.name, b.name): Tally() for i, a in enumerate(ours) for b in ours[i + 1:] + peers}
    for number, (delta, kinds) in enumerate(schedules(o.seed, o.count)):
        what = f"schedule {number}: delta {delta:g}, (q, sigma, T) " + ", ".join(f"({q:.6g}, {s:.6g}, {t})" for q, s, t in kinds)
        answers = {}
        about = None
        for a in ours + peers:
            try:
                answers[a.name] = a(kinds, delta) if a in ours else a(kinds, delta, about or 1.0)
                about = about or answers[a.name].upper
            except Declined as e:
                print(f"declined by {a.name}: {what}: {e}")
        if o.verbose:
            print(what, *(f"{name} {answer}" for name, answer in answers.items()), sep="\n  ")
        google = answers.get(Google.name)
        for (a, b), tally in table.items():
            x, y = answers.get(a), answers.get(b)
            if x is None or y is None:
                tally.declined += 1
                continue
            fine = x.lower <= y.upper and y.lower <= x.upper + y.slack
            if not fine and b == Microsoft.name and y.upper < x.lower and google and y.upper < google.lower - google.slack:
                fine = True  # the other direction is worse
                tally.below += 1
            if fine:
                tally.agreed += 1
            else:
                tally.disagreed += 1
                print(f"DISAGREE {a} {x}, {b} {y}: {what}")
            tally.gap = max(tally.gap, abs(x.upper - y.upper) / max(x.upper, 1))

    print(f"\n{'':<16}{'':<16}{'agree':>7}{'of them below':>15}{'disagree':>10}{'declined':>10}{'largest gap':>13}")
    for (a, b), t in table.items():
        print(f"{a:<16}{b:<16}{t.agreed:>7}{t.below:>15}{t.disagreed:>10}{t.declined:>10}{t.gap:>12.2%}")
    print("The gap is between upper ends, over the first's or over 1. Below: only the direction that prv_accountant does not know reaches so far.")
    return 1 if any(t.disagreed for t in table.values()) else 0 if any(t.agreed for t in table.values()) else 2


if __name__ == "__main__":
    sys.exit(main())
