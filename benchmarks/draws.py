"""How many draws a certificate costs, against the fewest that any test could do with.

    python benchmarks/draws.py [--paths 150000] [--spacing 100]
    python benchmarks/draws.py LOG_AT_025 LOG_AT_05 --sigmas 0.25,0.5      # other logs or runs, a sigma for each

Inputs are those of two published CIFAR-10 logs unless others are named, their p recovered as METHODS.md (section 2)
says. A ratio is mean draws ÷ mean min(cap, Wald's bound), selection draws counted where a scheme uses them; `decidable`
is over inputs with Wald's bound below cap/4, where it is rigorous. Everything is simulated with fixed seeds; after ±
stands the Monte-Carlo standard error. Two classes are simulated (see smoothcert/plan/cost.py): so a guess can be wrong,
and the leader's hits are those of whichever class leads. The SPRT knows p and the class; it looks at every draw up to
200, then every 0.5 %.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from smoothcert.boundaries import leader_alpha
from smoothcert.noise.gaussian import Gaussian
from smoothcert.plan import ASSUMED_DIM
from smoothcert.plan.cost import Mean, TabledScheme, full_radius, mean_of, radius_tests, repeats_for, simulate
from smoothcert.plan.like import recovered
from smoothcert.runs.exchange import open_run
from smoothcert.sampling import Budget
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.pilot import Pilot
from smoothcert.sampling.spending import Spending

ALPHA = BETA = 0.001
CAP, N, N0 = 120_000, 100_000, 100
LEVELS = (0.5, 1.0, 2.0, 3.0)  # r/σ
PUBLISHED = Path(__file__).parents[1] / "../shared/reference/locuslab/certify/cifar10/resnet110"
AIMS = {"spending": 1.16, "spending, leader": 1.10}


@dataclass(frozen=True)
class Line:
    """One scheme at one radius."""

    name: str
    ratio: Mean
    decidable: Mean
    certified: Mean
    draws: float


def kl(p, q):
    return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))


def wald(p, p0):
    """The fewest expected draws of any test with these errors, where p is known to the test."""
    price = np.where(p > p0, kl(1 - BETA, ALPHA), kl(1 - ALPHA, BETA))
    return price / np.maximum(kl(p, p0), 1e-300)


def line(name, draws, certified, repeats, least):
    """Ratios to the least draws, over all inputs and over the decidable ones."""
    easy = least < CAP / 4
    bound = np.minimum(least, CAP)
    each = np.repeat(easy, repeats)
    spent, spent_easy = mean_of(draws, repeats), mean_of(draws[each], repeats[easy])
    ratio, decidable = (
        Mean(mean.value / of.mean(), mean.error / of.mean()) for mean, of in ((spent, bound), (spent_easy, bound[easy]))
    )
    return Line(name, ratio, decidable, mean_of(certified, repeats), spent.value)


def sprt(p, p0, rng):
    """Wald's test of p against p0, both known, stopped at the cap."""
    looks = list(range(1, 201))
    while looks[-1] < CAP:
        looks.append(min(CAP, max(looks[-1] + 1, round(looks[-1] * 1.005))))
    above = p > p0
    hit, miss = np.log(p / p0), np.log((1 - p) / (1 - p0))
    # In favour of p: certify when p is above p0, give up when it is below; the other way round for p0.
    win, lose = np.log((1 - BETA) / ALPHA), np.log(BETA / (1 - ALPHA))
    score, draws, certified = np.zeros(len(p)), np.zeros(len(p), dtype=np.int64), np.zeros(len(p), dtype=bool)
    running = np.arange(len(p))
    for new in np.diff(looks, prepend=0).tolist():
        hits = rng.binomial(new, p[running])
        score[running] += hits * hit[running] + (new - hits) * miss[running]
        draws[running] += new
        now = score[running]
        certified[running] = np.where(above[running], now >= win, now <= lose)
        running = running[(now < win) & (now > lose)]
    return draws, certified


def known_radius(p, sigma, level, spacing, paths):
    """Every scheme at one radius, and the mean of Wald's bound."""
    noise = Gaussian(sigma)
    p0 = noise.p_needed(level * sigma, ASSUMED_DIM)
    least = wald(p, p0)
    able, _ = radius_tests(noise, ASSUMED_DIM, Budget((level * sigma,), ALPHA, BETA, CAP, N), N0)
    if spacing != 100:
        able += at_spacing(noise, level * sigma, p0, spacing)
    repeats = repeats_for(p, able[0].tables, paths)
    many = np.repeat(p, repeats)
    lines = []
    for number, scheme in enumerate(able):
        draws, proven = simulate(scheme, many, np.random.default_rng(number))
        lines.append(line(scheme.name, draws, proven == 1, repeats, least))
    draws, certified = sprt(many, p0, np.random.default_rng(99))
    lines.append(line("SPRT that knows p", draws, certified, repeats, least))
    return lines, least


def at_spacing(noise, radius, p0, spacing):
    """Spending with other looks than the benchmark's own."""
    other = Spending((radius,), ALPHA, BETA, CAP, spacing)
    tables = ((p0, other.boundaries(p0)),), ((p0, other.boundaries(p0, leader_alpha(other, (p0,), p0))),)
    return [
        TabledScheme(f"spending/{spacing}", tables[0], ALPHA, N0),
        TabledScheme(f"spending/{spacing}, leader", tables[1], ALPHA, 0),
    ]


def print_known_radius(p, sigma, options):
    for level in LEVELS:
        lines, least = known_radius(p, sigma, level, options.spacing, options.paths)
        fixed = lines[0]
        print(
            f"\nsigma {sigma:g}, r/sigma {level:g}: mean min(cap, Wald) {np.minimum(least, CAP).mean():.0f},"
            f" decidable {100 * (least < CAP / 4).mean():.1f} %"
        )
        print(f"{'scheme':<24}{'draws':>9}{'ratio':>16}{'decidable':>16}{'certified %':>17}{'SampleRF':>10}  aim")
        for found in lines:
            print(
                f"{found.name:<24}{found.draws:>9.0f}{pair(found.ratio, 3):>16}{pair(found.decidable, 3):>16}"
                f"{pair(Mean(*(100 * value for value in found.certified)), 2):>17}"
                f"{fixed.draws / found.draws:>10.2f}  {verdict(found, fixed)}",
                flush=True,
            )


def verdict(found, fixed):
    """Whether the issue's aims are reached: ratios, and the share within 0.2 points of fixed n."""
    aim = AIMS.get(found.name)
    if aim is None:
        return ""
    short = 100 * (fixed.certified.value - found.certified.value)
    words = [f"ratio ≤ {aim:.2f} {said(found.ratio.value <= aim)}"]
    words.append(f"decidable ≤ 1.25 {said(found.decidable.value <= 1.25)}")
    return ", ".join([*words, f"share −{short:.2f} ≤ 0.2 {said(short <= 0.2)}"])


def said(reached):
    return "yes" if reached else "NO"


def pair(mean, decimals):
    return f"{mean.value:.{decimals}f} ±{mean.error:.{decimals}f}"


def print_full_radius(p, sigma, paths):
    noise, pilot = Gaussian(sigma), Pilot(ALPHA)
    print(f"\nsigma {sigma:g}, full radius: mean radius and draws, pilot draws and n0={N0} counted")
    for name, sampling in ((f"fixed n={N}", Fixed(N, ALPHA)), (f"pilot cap={pilot.cap} loss={pilot.loss:g}", pilot)):
        found = full_radius(sampling, noise, ASSUMED_DIM, p, N0, paths)
        print(f"{name:<32}radius {pair(found.gain, 4)}  draws {pair(found.draws, 0)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", type=Path, nargs="*", help="logs or runs; default: two published ones")
    parser.add_argument("--sigmas", default="0.25,0.5", help="the sigma of each log")
    parser.add_argument("--log-alpha", type=float, help="alpha of the logs; default: as their ceilings show")
    parser.add_argument("--paths", type=int, default=150_000, help="simulated inputs a scheme")
    parser.add_argument("--spacing", type=int, default=100, help="also spending with looks this far apart, at most 100")
    options = parser.parse_args()
    start = time.perf_counter()
    print(f"alpha {ALPHA:g}, beta {BETA:g}, cap {CAP}, n0 {N0} (none for the leader, none for the SPRT)")
    sigmas = [float(sigma) for sigma in options.sigmas.split(",")]
    logs = options.logs or [PUBLISHED / f"noise_{sigma:.2f}/test/sigma_{sigma:.2f}" for sigma in sigmas]
    if len(logs) != len(sigmas):
        parser.error(f"--sigmas must name the sigma of each log; got {len(sigmas)} for {len(logs)} logs")
    for log, sigma in zip(logs, sigmas, strict=True):
        p, notes = recovered(open_run(log), Gaussian(sigma), ASSUMED_DIM, N, options.log_alpha)
        print(f"\n{log}, sigma {sigma:g}: {len(p)} inputs; {'; '.join(notes)}")
        print_known_radius(p, sigma, options)
        print_full_radius(p, sigma, options.paths // 5)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
