"""Few draws and few members together: spending at known radii through K-consensus, against every draw of every member.

    python benchmarks/product.py --members A,B,C,D,E [--data cifar10 --sigma 0.25 --start 0 --skip 500 --max -1]
                                 [--radii 0.25,0.5,0.75] [--consensus 2,3,5] [--n 100000 --probe 2000]

The other side of the ratio is the full soft vote at a fixed n for every input. Its draws and evaluations of members are
known without drawing; its seconds are those of `probe` draws of the same inputs, measured here before and after,
times n over probe: the engine's time is proportional to its draws. "certified" counts labels at the radius, right or
wrong. Members must be given in the order of their accuracy on hold-out data, the best first.
"""

from __future__ import annotations

import argparse
import time

from ensembles import spread

from smoothcert.classifiers import load, ready
from smoothcert.contracts import ABSTAIN, Job, Source
from smoothcert.data import load as load_data
from smoothcert.engine.engine import Engine
from smoothcert.engine.threads import Threads
from smoothcert.ensembles.k_consensus import KConsensus
from smoothcert.ensembles.soft_vote import SoftVote
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.fixed import Fixed
from smoothcert.sampling.spending import Spending

GUESS = 100


class Contender:
    """A classifier in an engine of its own that has settled."""

    def __init__(self, classifier, workers, inputs, sigma):
        self.classifier, self.inputs = classifier, inputs
        self.source, self.engine = Source(classifier, Gaussian(sigma)), Engine(Threads(workers=workers))
        self.run(Fixed(64, 0.05))

    def run(self, sampling):
        """Seconds, draws, evaluations of members, and the certified share."""
        procedure, tally = Certify(GUESS, sampling), getattr(self.classifier, "tally", None)
        before = tally.asked if tally else 0
        start = time.perf_counter()
        jobs = [Job(number, x, procedure(self.source, x.numel())) for number, x in enumerate(self.inputs)]
        found = list(self.engine.run(jobs))
        seconds = time.perf_counter() - start
        draws = sum(answer.draws for one in found for answer in one.answers)
        asked = tally.asked - before if tally else draws * len(self.classifier.members)
        return seconds, draws, asked, sum(one.result.label != ABSTAIN for one in found) / len(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", required=True)
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--skip", type=int, default=500)
    parser.add_argument("--max", type=int, default=-1)
    parser.add_argument("--radii", default="0.25,0.5,0.75")
    parser.add_argument("--consensus", default="2,3,5")
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--probe", type=int, default=2_000)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    names = options.members.split(",")
    inputs = list(load_data(options.data, skip=options.skip, start=options.start, max=options.max).tensors())
    prepared = ready(SoftVote(tuple(load(name) for name in names)), inputs[0], threads=options.threads)
    given = (prepared.workers, inputs, options.sigma)
    full = Contender(prepared.classifier, *given)
    probes, lines = [full.run(Fixed(options.probe))[0]], []
    for k in map(int, options.consensus.split(",")):
        vote = ready(KConsensus(prepared.classifier, k), inputs[0], threads=options.threads).classifier
        contender = Contender(vote, *given)
        for radius in map(float, options.radii.split(",")):
            lines.append((k, radius, *contender.run(Spending((radius,), cap=options.n))))
        probes.append(full.run(Fixed(options.probe))[0])
    scale = (options.n + GUESS) / (options.probe + GUESS)
    draws, seconds = (options.n + GUESS) * len(inputs), [scale * probe for probe in probes]
    print(f"{len(names)} members, {len(inputs)} inputs of {options.data}, noise {options.sigma:g}, ", end="")
    print(f"fixed n = {options.n}: {draws * len(names):,} evaluations, {spread(seconds)} s by {len(probes)} probes\n")
    print("| K | radius | certified | draws an input | fewer draws | fewer evaluations | less time |")
    print("|---|---|---|---|---|---|---|")
    middle = sorted(seconds)[len(seconds) // 2]
    for k, radius, took, drawn, asked, share in lines:
        print(f"| {k} | {radius:g} | {share:.1%} | {drawn / len(inputs):,.0f} | {draws / drawn:.1f} × ", end="")
        print(f"| {draws * len(names) / asked:.1f} × | {middle / took:.1f} × |")


if __name__ == "__main__":
    main()
