"""What a vote costs beside its members, and what K-consensus saves, as ratios measured in turn.

    python benchmarks/ensembles.py [--arch resnet20 --size 5] [--threads 2 --rounds 5 --draws 4000]
    python benchmarks/ensembles.py --members A,B,C,D,E [--data cifar10 --sigma 0.25 --start 1 --skip 500]

Without members: a soft vote of untrained networks against one of them, certified at a fixed number of draws by the
same engine. time ÷ (size × single) is 1 when voting costs nothing; noise is made once for all members, which may bring
it below.

With members (checkpoints or names of the zoo, the most accurate first): their full soft vote against K-consensus at
K = 2, 3, … on the inputs given, with the members asked for each noisy input and the share on which the first K agree.

Every round measures all contenders one after the other; ratios are paired by round, median and range are printed.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from smoothcert import catalog
from smoothcert.classifiers import load, ready, wrap
from smoothcert.contracts import Job, Source
from smoothcert.data import load as load_data
from smoothcert.engine.engine import Engine
from smoothcert.engine.threads import Threads
from smoothcert.ensembles.k_consensus import KConsensus
from smoothcert.ensembles.soft_vote import SoftVote
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.fixed import Fixed


class Contender:
    """A classifier in an engine that has settled, timed on the same draws as every other."""

    def __init__(self, name, classifier, workers, inputs, sigma, draws):
        self.name, self.classifier, self.inputs = name, classifier, inputs
        self.source, self.engine = Source(classifier, Gaussian(sigma)), Engine(Threads(workers=workers))
        self.draws, self.counted = draws, None
        self.seconds(64)

    def seconds(self, draws=None):
        """Of a certification of every input, and what the members were asked meanwhile."""
        procedure, tally = Certify(64, Fixed(draws or self.draws, 0.05)), getattr(self.classifier, "tally", None)
        before = (tally.rows, tally.asked, tally.early) if tally else None
        jobs = [Job(number, x, procedure(self.source, x.numel())) for number, x in enumerate(self.inputs)]
        start = time.perf_counter()
        for _ in self.engine.run(jobs):
            pass
        elapsed = time.perf_counter() - start
        if tally:
            self.counted = tuple(a - b for a, b in zip((tally.rows, tally.asked, tally.early), before, strict=True))
        return elapsed


def rounds_of(contenders, rounds):
    """Seconds by contender, a list over rounds; every second round backwards, so that drift favours nobody."""
    found = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        for contender in contenders if number % 2 == 0 else contenders[::-1]:
            found[contender.name].append(contender.seconds())
    return found


def spread(values):
    return f"{statistics.median(values):.3f} [{min(values):.3f}, {max(values):.3f}]"


def vote_cost(options):
    shape = (3, 32, 32)
    part = catalog.build("architectures", options.arch)
    networks = []
    for seed in range(options.size):
        torch.manual_seed(seed)
        networks.append(wrap(part.build(shape, 10).eval()))
    inputs = [torch.rand(shape, generator=torch.Generator().manual_seed(seed)) for seed in range(2)]
    prepared = ready(SoftVote(tuple(networks)), inputs[0], threads=options.threads)
    single = prepared.classifier.members[0]
    given = (prepared.workers, inputs, 0.25, options.draws)
    found = rounds_of(
        [Contender("single", single, *given), Contender("vote", prepared.classifier, *given)], options.rounds
    )
    ratios = [vote / (options.size * one) for vote, one in zip(found["vote"], found["single"], strict=True)]
    print(f"soft vote of {options.size} {options.arch}, {prepared.workers} workers, {options.draws} draws, ", end="")
    print(f"{options.rounds} rounds: time ÷ ({options.size} × single) {spread(ratios)}")


def consensus_gain(options):
    names = options.members.split(",")
    data = load_data(options.data, skip=options.skip, start=options.start)
    inputs = list(data.tensors())
    prepared = ready(SoftVote(tuple(load(name) for name in names)), inputs[0], threads=options.threads)
    full, given = prepared.classifier, (prepared.workers, inputs, options.sigma, options.draws)
    contenders = [Contender("full", full, *given)]
    for k in range(2, len(names) + 1):
        vote = ready(KConsensus(full, k), inputs[0], threads=options.threads).classifier
        contenders.append(Contender(f"K = {k}", vote, *given))
    found = rounds_of(contenders, options.rounds)
    print(f"{len(names)} members, {len(inputs)} inputs of {options.data}, noise {options.sigma:g}, ", end="")
    print(f"{options.draws} draws, {prepared.workers} workers, {options.rounds} rounds")
    for contender in contenders[1:]:
        rows, asked, early = contender.counted
        ratios = [mine / whole for mine, whole in zip(found[contender.name], found["full"], strict=True)]
        agreed = f", the first agree on {early / rows:.1%}" if early else ""
        print(f"  {contender.name}: time ÷ full {spread(ratios)}, {asked / rows:.2f} members asked a draw{agreed}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="resnet20")
    parser.add_argument("--size", type=int, default=5)
    parser.add_argument("--members")
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--start", type=int, default=1)
    parser.add_argument("--skip", type=int, default=500)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=4000)
    options = parser.parse_args()
    (consensus_gain if options.members else vote_cost)(options)


if __name__ == "__main__":
    main()
