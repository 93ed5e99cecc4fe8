"""Whoever carries out draws, in whatever pieces and order: the same answers, for every noise and every procedure."""

from __future__ import annotations

import random
import sys

import pytest
import questions
import torch

from smoothcert.contracts import Done, Executor, Job, Source
from smoothcert.engine.engine import AHEAD, Engine
from smoothcert.engine.threads import Threads
from smoothcert.engine.worker import Workbench, through
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.anytime import Anytime
from smoothcert.sampling.spending import Spending
from smoothcert.sampling.staged import Staged

SEED = 5


class Unruly(Executor):
    """Takes parcels of any size, many at once, and returns them in any order."""

    def __init__(self, seed: int, most: int = 150) -> None:
        self.chance, self.most = random.Random(seed), most
        self.inner, self.under_way, self.notes = Threads(13), {}, []
        self.rows = 0

    def room(self, source, job, left=None):
        return 0 if len(self.under_way) >= 7 else self.chance.randint(1, self.most)

    def submit(self, parcel, segments):
        self.under_way[parcel] = segments
        self.rows += sum(segment.rows for segment in segments)

    def collect(self):
        parcel = self.chance.choice(list(self.under_way))
        return [Done(parcel, *through(self.inner, self.under_way.pop(parcel)))]

    def close(self):
        self.under_way.clear()


@pytest.fixture(scope="module")
def expected():
    return questions.answers(Engine(Threads(64), SEED), questions.jobs(questions.networks(), each=2))


def test_the_questions_have_different_answers(expected):
    """Labels, abstentions, selections; sequential schemes that stop at different looks."""
    results = {result.label for result, _ in expected.values()}
    lengths = {len(answers) for name, (_, answers) in expected.items() if "spending" in name or "anytime" in name}
    assert len(results) >= 3 and len(lengths) >= 3


@pytest.mark.parametrize(("batch", "workers"), [(1000, 1), (7, 1), (64, 2), (33, 3)])
def test_threads_in_any_batch(expected, batch, workers):
    asked = questions.jobs(questions.networks(), each=2)
    assert questions.answers(Engine(Threads(batch, workers), SEED), asked) == expected


@pytest.mark.parametrize("seed", range(4))
def test_parcels_of_any_size_in_any_order(expected, seed):
    asked = questions.jobs(questions.networks(), each=2)
    assert questions.answers(Engine(Unruly(seed), SEED), asked) == expected


def test_every_question_alone_though_drawn_ahead(expected):
    """One input at a time: parcels are filled with draws ahead of the next look."""
    wasted = 0
    for name, job in questions.jobs(questions.networks(), each=2):
        engine = Engine(Unruly(0), SEED)
        assert questions.answers(engine, [(name, job)]) == {name: expected[name]}
        wasted += engine.wasted
    assert wasted > 0, "nothing was drawn ahead"


@pytest.mark.parametrize("sampling", [Spending, Anytime, Staged])
@pytest.mark.parametrize("most", [10, 1000, 100_000])
def test_draws_ahead_are_bounded_and_never_counted(sampling, most):
    noise, network = Gaussian(0.25), questions.networks()["three"]
    procedure = Certify(30, sampling((0.05, 0.2, 0.3), 0.001, 0.001))
    for number, x in enumerate(questions.inputs(20 if most > 10 else 5)):  # small parcels take long

        def asked(procedure=procedure, x=x):
            return procedure(Source(network, noise), x.numel())

        executor = Unruly(number, most)
        engine = Engine(executor, SEED)
        (found,) = engine.run([Job(0, x, asked())])
        (alone,) = Engine(Threads(64), SEED).run([Job(0, x, _nothing_ahead(asked()))])
        assert found.answers == alone.answers and found.result == alone.result
        used = sum(answer.draws for answer in found.answers)
        assert executor.rows == used + engine.wasted and engine.wasted <= max(AHEAD, used)


def _nothing_ahead(steps):
    """The same procedure, which does not say what it will ask next."""
    counts = None
    while True:
        try:
            draw = next(steps) if counts is None else steps.send(counts)
        except StopIteration as end:
            return end.value
        counts = yield draw._replace(ahead=())


def test_progress_tells_counted_draws_only():
    told = []
    executor = Unruly(1, 1000)
    engine = Engine(executor, SEED, told.append)
    steps = Certify(30, Spending((0.2,)))(Source(questions.networks()["three"], Gaussian(0.25)), 9)
    (outcome,) = engine.run([Job(0, questions.inputs(1)[0], steps)])
    assert sum(answer.draws for answer in outcome.answers) <= sum(told) <= executor.rows


def bench() -> Workbench:
    """What a Ray worker builds: the same networks, on its own threads."""
    torch.set_num_threads(1)
    return Workbench(Threads(50), list(questions.networks().values()))


@pytest.mark.xdist_group("ray")
def test_ray_workers_share_every_question_and_a_single_input(expected):
    ray = pytest.importorskip("ray")
    from smoothcert.engine.cluster import Cluster
    from smoothcert.engine.ray import Ray

    for module in (sys.modules[__name__], questions):  # workers cannot import tests
        ray.cloudpickle.register_pickle_by_value(module)
    cluster = Cluster(workers=2)
    with cluster.connected():
        networks = questions.networks()
        asked = questions.jobs(networks, each=2)
        assert questions.answers(Engine(Ray(cluster, bench, list(networks.values())), SEED), asked) == expected
        x, source = questions.inputs(1)[0], Source(networks["three"], Gaussian(0.25))
        procedure = Certify(30, Spending((0.12,), 0.001, 0.001))
        executor = Ray(cluster, bench, list(networks.values()))
        engine = Engine(executor, SEED)
        (found,) = engine.run([Job(0, x, procedure(source, 9))])
        (alone,) = Engine(Threads(64), SEED).run([Job(0, x, procedure(source, 9))])
        assert found.answers == alone.answers and len(found.answers) > 3
        assert engine.wasted <= max(AHEAD, sum(answer.draws for answer in found.answers))
