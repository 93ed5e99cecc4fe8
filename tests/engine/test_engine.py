"""The engine: counts do not depend on how draws are batched, packed or ordered."""

from __future__ import annotations

import linear
import numpy as np
import pytest
import torch

from smoothcert.classifiers import ready, wrap
from smoothcert.contracts import Draw, Job, Source, Stream, input_key
from smoothcert.engine.batch_check import FixedShape, check_batches
from smoothcert.engine.engine import Engine
from smoothcert.engine.threads import Threads
from smoothcert.errors import ModelError, OptionError
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.fixed import Fixed

BATCHES = (1, 7, 64, 1000)


def network() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 3, padding=1),
        torch.nn.BatchNorm2d(6),
        torch.nn.ReLU(),
        torch.nn.Conv2d(6, 12, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(12 * 36, 4),
    ).eval()


def inputs(number: int, shape: tuple[int, ...]) -> list[torch.Tensor]:
    return list(torch.rand(number, *shape, generator=torch.Generator().manual_seed(2)))


def counts_of(source: Source, xs, batch: int, seed: int = 3, indices=None) -> dict[int, tuple]:
    procedure = Certify(30, Fixed(200, 0.05))
    indices = range(len(xs)) if indices is None else indices
    jobs = [Job(i, x, procedure(source, x.numel())) for i, x in zip(indices, xs, strict=True)]
    return {outcome.index: outcome.answers for outcome in Engine(Threads(batch), seed).run(jobs)}


@pytest.mark.parametrize("engine", ["onnxruntime", "torch"])
def test_counts_are_the_same_for_any_batch_alone_or_packed(engine):
    xs = inputs(5, (1, 8, 8))
    source = Source(ready(wrap(network()), xs[0], engine).classifier, Gaussian(0.3))
    expected = counts_of(source, xs, 64)
    assert len({answers[1].counts for answers in expected.values()}) > 1  # inputs that differ, or nothing is shown
    for batch in BATCHES:
        assert counts_of(source, xs, batch) == expected
        for i, x in enumerate(xs):
            assert counts_of(source, [x], batch, indices=[i]) == {i: expected[i]}
    assert counts_of(source, xs[::-1], 64, indices=[4, 3, 2, 1, 0]) == expected


def test_networks_that_take_different_numbers_of_rows_share_a_run():
    """One takes any number of rows, the other always the same: each batch has the size that its own network needs."""

    def moody(x):  # its last bits follow the number of rows
        return linear.score(x) * (1 + 1e-6 * len(x) / 1000)

    def both(plain, other):
        first = yield Draw(plain, 150)
        second = yield Draw(other, 70)
        third = yield Draw(plain, 90)
        return [int(votes[0].sum()) for votes in (first, second, third)]

    xs = inputs(9, (4,))
    plain, other = Source(linear.score, Gaussian(0.3)), Source(moody, Gaussian(0.5))
    for batch in (10, 100, 1000):
        engine = Engine(Threads(batch), 3)
        pairs = [(plain, other) if i % 2 else (other, plain) for i in range(9)]
        outcomes = list(engine.run(Job(i, x, both(*pairs[i])) for i, x in enumerate(xs)))
        assert all(outcome.result == [150, 70, 90] for outcome in outcomes) and len(outcomes) == 9
        assert any("every batch has 256 rows" in note for note in engine.notes)


def test_seed_and_content_change_the_noise_and_the_place_of_an_input_does_not():
    x = inputs(1, (4,))[0]
    source = Source(linear.score, Gaussian(0.5))
    by_seed = [counts_of(source, [x], 64, seed=s)[0][1].counts for s in range(6)]
    by_index = [counts_of(source, [x], 64, indices=[i])[i][1].counts for i in range(6)]
    nearly = [counts_of(source, [x + i * 1e-7], 64)[0][1].counts for i in range(6)]
    assert len(set(by_seed)) > 1 and len(set(by_index)) == 1 and len(set(nearly)) > 1


def test_draws_of_one_purpose_continue_their_stream():
    """Two requests of 50 are the same draws as one of 100; another purpose has its own."""
    x = inputs(1, (4,))[0]
    source = Source(linear.score, Gaussian(0.5))

    def ask(*sizes):
        total = np.zeros((1, 2), dtype=np.int64)
        for size in sizes:
            total = total + (yield Draw(source, size))
        return total

    results = [
        next(Engine(Threads(64)).run([Job(0, x, ask(*sizes))])).result.tolist() for sizes in ((100,), (50, 50), (1, 99))
    ]
    assert results[0] == results[1] == results[2]


def test_counts_are_those_of_a_plain_loop():
    x = inputs(1, (4,))[0]
    noise, source = Gaussian(0.5), Source(linear.score, Gaussian(0.5))
    (outcome,) = Engine(Threads(64), 9).run([Job(12, x, Certify(30, Fixed(200, 0.05))(source, 4))])
    noisy = torch.empty(200, 4)
    noise.fill(noisy, x, Stream(9, input_key(x), "test"), 0)
    expected = torch.bincount(linear.score(noisy).argmax(1), minlength=2)
    assert list(outcome.answers[1].counts[0]) == expected.tolist()


def test_batches_are_full_except_the_last():
    sizes = []
    engine = Engine(Threads(64), advance=sizes.append)
    source = Source(linear.score, Gaussian(0.5))

    def looks():  # a scheme that looks every 10 draws
        for _ in range(20):
            yield Draw(source, 10)

    list(engine.run(Job(i, x, looks()) for i, x in enumerate(inputs(50, (4,)))))
    assert sum(sizes) == 50 * 200
    # At the end fewer inputs are alive than would fill a batch; until then every batch is full.
    assert sum(size < 64 for size in sizes) <= 20


def test_inputs_are_begun_only_when_needed_and_oldest_first():
    begun = []
    source = Source(linear.score, Gaussian(0.5))

    def jobs():
        for i, x in enumerate(inputs(20, (4,))):
            begun.append(i)
            yield Job(i, x, Certify(100, Fixed(1000, 0.05))(source, 4))

    order = []
    for outcome in Engine(Threads(64)).run(jobs()):
        order.append(outcome.index)
        assert begun[-1] <= outcome.index + 4  # as many guesses as fill a parcel
    assert order == list(range(20))


@pytest.mark.parametrize(
    ("classifier", "message"),
    [
        (linear.nan, "must return numbers; got NaN"),
        (linear.flat, r"must return scores \[batch, classes\]"),
        (linear.batchwise, "must give the same scores for the same input"),
        (linear.moody, "must give the same scores for the same input; they change when the same batch is given twice"),
        (linear.text, "must return a tensor of scores"),
        (linear.broken, "raised RuntimeError: no such luck"),
    ],
)
def test_what_is_not_a_function_is_refused_with_the_input(classifier, message):
    with pytest.raises(ModelError, match=message) as error:
        counts_of(Source(wrap(classifier), Gaussian(0.5)), inputs(1, (4,)), 64, indices=[7])
    assert str(error.value).startswith("input 7: ")


def test_last_bits_that_move_with_the_batch_size_are_pinned():
    def shaky(x):
        return linear.score(x) * (1 + 1e-7 * len(x))

    probe = torch.rand(64, 4, generator=torch.Generator().manual_seed(0))
    settled = check_batches(shaky, probe, 64)
    assert isinstance(settled.call, FixedShape) and "last bits" in settled.note
    assert torch.equal(settled.call(probe[:5]), settled.call(probe)[:5])
    engine = Engine(Threads(7))
    jobs = [Job(0, inputs(1, (4,))[0], Certify(30, Fixed(200, 0.05))(Source(shaky, Gaussian(0.5)), 4))]
    list(engine.run(jobs))
    assert engine.notes == [settled.note]


@pytest.mark.parametrize("batch", [0, -1, 1.5])
def test_bad_batches_are_refused(batch):
    with pytest.raises(OptionError, match="batch of the engine must be a positive whole number"):
        Threads(batch)


@pytest.mark.parametrize("workers", [2, 3])
def test_counts_do_not_depend_on_the_number_of_workers(workers):
    xs = inputs(12, (1, 8, 8))
    source = Source(ready(wrap(network()), xs[0], "onnxruntime").classifier, Gaussian(0.3))
    procedure = Certify(30, Fixed(500, 0.05))

    def answers(number):
        jobs = [Job(i, x, procedure(source, x.numel())) for i, x in enumerate(xs)]
        return {outcome.index: outcome.answers for outcome in Engine(Threads(64, number), 3).run(jobs)}

    assert answers(workers) == answers(1)


def test_an_error_in_a_worker_names_its_input_and_ends_the_run():
    calls = []

    def fails_late(x):
        calls.append(len(x))
        if len(calls) > 40:
            raise RuntimeError("out of luck")
        return linear.score(x)

    source = Source(wrap(fails_late), Gaussian(0.5))
    jobs = [Job(7, inputs(1, (4,))[0], Certify(30, Fixed(20_000, 0.05))(source, 4))]
    with pytest.raises(ModelError, match=r"input 7: .*RuntimeError: out of luck"):
        list(Engine(Threads(64, 2)).run(jobs))


def coins(x):
    """Three classes; which one, the sign of a sum and of a difference tell."""
    return torch.stack([x.sum(1) - 1.5, x[:, 0] - x[:, 1], 1 - x.sum(1)], dim=1)


class Feed:
    """Jobs that come while others run: asked when there is none, it may have some later."""

    def __init__(self):
        self.jobs = []

    def __iter__(self):
        return self

    def __next__(self):
        if not self.jobs:
            raise StopIteration
        return self.jobs.pop(0)


def waiting_for(draws, *looks):
    def steps(source):
        found = []
        for look in (draws, *looks):
            found.append((yield Draw(source, look)).tolist())
        return found

    return steps


@pytest.mark.parametrize("workers", [1, 2])
def test_jobs_join_while_others_run_and_are_drawn_as_alone(workers):
    source, xs, feed = Source(coins, Gaussian(0.5)), torch.rand(6, 3), Feed()
    alone = {
        number: next(iter(Engine(Threads(16), 5).run([Job(number, x, waiting_for(40, 60)(source))]))).result
        for number, x in enumerate(xs)
    }
    engine, found = Engine(Threads(16, workers), 5), {}
    late = [Job(number, x, waiting_for(40, 60)(source)) for number, x in enumerate(xs)]
    feed.jobs.append(late.pop(0))
    engine.advance = lambda rows: feed.jobs.append(late.pop(0)) if late else None
    for outcome in engine.run_open(feed):
        found[outcome.index] = outcome.result
    assert found == alone
    feed.jobs.append(Job(9, xs[0], waiting_for(40, 60)(source)))  # after a rest
    assert [outcome.result for outcome in engine.run_open(feed)] == [alone[0]]
    assert engine.passed >= 7 * 100 and engine.passed % 16 == 0
    engine.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_cancelled_job_ends_and_nobody_else_notices(workers):
    source, xs, feed = Source(coins, Gaussian(0.5)), torch.rand(4, 3), Feed()
    engine = Engine(Threads(16, workers), 5)
    expected = {
        number: next(iter(Engine(Threads(16), 5).run([Job(number, x, waiting_for(100, 300)(source))]))).result
        for number, x in enumerate(xs)
    }
    closed, cancelled = [], []

    def endless():
        try:
            while True:
                yield Draw(source, 50, ahead=(50, 50))
        finally:
            closed.append(True)

    feed.jobs = [Job(9, xs[0], endless())]
    feed.jobs += [Job(number, x, waiting_for(100, 300)(source)) for number, x in enumerate(xs)]
    drawn = 0

    def advance(rows):
        nonlocal drawn
        drawn += rows
        if drawn > 500 and not cancelled:
            cancelled.append(engine.cancel(9))

    engine.advance = advance
    found = {outcome.index: outcome.result for outcome in engine.run_open(feed)}
    assert found == expected and closed == [True]
    assert cancelled[0].result is None and sum(answer.draws for answer in cancelled[0].answers) >= 50
    assert engine.cancel(9) is None and engine.cancel(77) is None
    engine.close()


def test_a_job_may_have_a_seed_of_its_own():
    source, x = Source(coins, Gaussian(0.5)), torch.rand(3)
    same, other, own = (
        next(iter(Engine(Threads(16), engine).run([Job(0, x, waiting_for(200)(source), seed)]))).result
        for engine, seed in ((5, None), (6, None), (6, 5))
    )
    assert same == own != other
