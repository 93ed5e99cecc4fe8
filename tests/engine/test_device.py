"""Draws on a device: the same counts as anywhere, in any batch; what goes wrong is said in one line."""

from __future__ import annotations

import numpy as np
import pytest
import questions
import torch
from torch import nn

from smoothcert.classifiers.composed import DenoisedClassifier
from smoothcert.classifiers.module import Module
from smoothcert.contracts import Job, Segment, Source, Stream, TopClass
from smoothcert.engine import device as device_file
from smoothcert.engine.device import Device
from smoothcert.engine.engine import Engine
from smoothcert.engine.threads import Threads
from smoothcert.ensembles.spec import Ensemble
from smoothcert.errors import DataError, ModelError, OptionError
from smoothcert.noise import NoNoise
from smoothcert.noise.gaussian import Gaussian
from smoothcert.noise.gaussian_grid import GaussianGrid
from smoothcert.noise.uniform import Uniform
from smoothcert.philox import Compiled
from smoothcert.readouts import ClassAndEntropy, SelectorUncertainty

SEED = 5
WAYS = (None, False)  # noise by numpy, and by torch


def job(index: int, x: torch.Tensor) -> Job:
    return Job(index, x, iter(()))


def segment(source: Source, index: int, x, rows: int, first: int = 0, purpose: str = "test") -> Segment:
    one = job(index, x)
    return Segment(source, one, Stream(SEED, one.key, purpose), first, rows)


def counted(executor, segments):
    executor.submit(1, segments)
    (done,) = executor.collect()
    return [counts.tolist() for counts in done.counts]


def direct(part: Segment):
    """The same by a plain loop on the CPU."""
    source, one, stream, first, rows = part
    noisy = torch.empty(rows, *one.x.shape)
    source.noise.fill(noisy, one.x, stream, first)
    scores = source.classifier(noisy)
    votes, outcomes = source.readout(scores).numpy(), source.readout.outcomes(scores.shape[1])
    return [np.bincount(column, minlength=outcomes).tolist() for column in votes.T]


def mixed(network, readout=None) -> list[Segment]:
    """Segments of several inputs, noises, purposes and lengths, in no order."""
    xs = questions.inputs(4)
    gaussian, grid, uniform = GaussianGrid(0.25), GaussianGrid(0.4), Uniform(lam=0.4)
    asked = [
        (gaussian, 0, 90, 0, "test"), (grid, 1, 25, 7, "test"), (gaussian, 2, 1, 0, "guess"),
        (uniform, 3, 130, 3, "test"), (gaussian, 0, 20, 90, "test"),
        (NoNoise(gaussian), 1, 1, 0, "clean"), (gaussian, 3, 40, 2**40, "test"),
    ]  # fmt: skip
    readout = readout or TopClass()
    return [segment(Source(network, noise, readout), i, xs[i], rows, first, purpose)
            for noise, i, rows, first, purpose in asked]  # fmt: skip


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_counts_of_a_mixed_parcel_in_any_batch(batch, compiled):
    segments = mixed(questions.networks()["three"])
    assert counted(Device("cpu", batch, compiled), segments) == [direct(part) for part in segments]


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("vote", ["soft", "softmax", "hard", "max_margin", "consensus", "early_exit"])
def test_ensembles_and_their_members_nan(vote, compiled):
    parts = list(questions.networks().values())
    members = [parts[0], parts[2], parts[0]]
    options = {"consensus": {"consensus": 2}, "early_exit": {"early_exit": True}}.get(vote, {"vote": vote})
    segments = mixed(Ensemble(members, **options))
    assert counted(Device("cpu", 50, compiled), segments) == [direct(part) for part in segments]


@pytest.mark.parametrize("compiled", WAYS)
def test_denoisers_and_the_readouts_of_aces(compiled):
    parts = questions.networks()
    behind = DenoisedClassifier(Module(nn.Hardtanh(0.0, 1.0).eval()), parts["three"])
    for network, readout in (
        (behind, TopClass()),
        (parts["three"], ClassAndEntropy()),
        (parts["two"], SelectorUncertainty()),
    ):
        segments = mixed(network, readout)
        assert counted(Device("cpu", 50, compiled), segments) == [direct(part) for part in segments]


@pytest.fixture(scope="module")
def expected():
    return questions.answers(Engine(Threads(64), SEED), questions.jobs(questions.networks(), each=2))


@pytest.mark.parametrize("batch", [1000, 33])
def test_every_noise_and_procedure_with_noise_by_numpy(expected, batch):
    asked = questions.jobs(questions.networks(), each=2)
    assert questions.answers(Engine(Device("cpu", batch), SEED), asked) == expected


def test_every_noise_and_procedure_with_noise_by_torch(expected):
    """Noise of whole numbers is equal to the last bit; logarithm and cosine are rounded otherwise than by numpy.

    A vote then moves only where two scores are within rounding of each other, which these inputs do not meet.
    """
    asked = questions.jobs(questions.networks(), each=2)
    found = questions.answers(Engine(Device("cpu", 64, compiled=False), SEED), asked)
    assert {name: answer for name, answer in found.items() if answer != expected[name]} == {}


class Greedy(nn.Module):
    """Finds no memory for more than so many rows."""

    def __init__(self, most: int, error=torch.OutOfMemoryError) -> None:
        super().__init__()
        self.inner, self.most, self.error = questions.Sides(3, 0), most, error

    def forward(self, x):
        if len(x) > self.most:
            raise self.error("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")
        return self.inner(x)


def test_mixed_batches_with_compiled_noise_are_those_of_threads():
    """Rows of several purposes in one batch; through the compiler's front end, which takes no C++ compiler."""
    noises = {"gaussian_grid": questions.NOISES["gaussian_grid"], "discrete": questions.NOISES["discrete"]}
    executor = Device("cpu", 64, compiled=True)
    executor._compiled = Compiled("aot_eager")
    found = questions.answers(Engine(executor, SEED), questions.jobs(questions.networks(), noises))
    assert found == questions.answers(Engine(Threads(64), SEED), questions.jobs(questions.networks(), noises))
    assert not executor.notes and executor._compiled._trusted


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
@pytest.mark.parametrize("most", [1, 20])
def test_out_of_memory_halves_the_batch_and_counts_stay(most, error):
    segments = mixed(Module(Greedy(most, error).eval()))
    executor = Device("cpu", 64)
    assert counted(executor, segments) == [direct(part) for part in mixed(questions.networks()["three"])]
    assert executor.room(segments[0].source, segments[0].job) == (16 if most == 20 else 1)
    assert any("out of memory on cpu with 64 rows a batch: later ones have 32" in note for note in executor.notes)


def test_memory_that_runs_out_in_the_middle_of_a_parcel():
    """Nothing is counted twice: the parcel is begun again in smaller batches."""
    network = Greedy(10**6)
    segments, executor = mixed(Module(network.eval())), Device("cpu", 64)
    assert executor.room(segments[0].source, segments[0].job) == 64
    calls = []
    network.register_forward_pre_hook(
        lambda *_: calls.append(1) or (setattr(network, "most", 40) if len(calls) == 2 else None)
    )
    assert counted(executor, segments) == [direct(part) for part in mixed(questions.networks()["three"])]
    assert executor.room(segments[0].source, segments[0].job) == 32 and len(calls) > 4


def test_a_network_that_does_not_fit_with_one_row_is_an_error_in_one_line():
    source = Source(Module(Greedy(0).eval()), Gaussian(0.25))
    with pytest.raises(
        ModelError, match=r"must fit into the memory of cpu with one row at a time; it ran out .*--engine"
    ):
        Device("cpu").room(source, job(0, questions.inputs(1)[0]))


def test_other_errors_of_a_network_are_not_taken_for_memory():
    class Broken(nn.Module):
        def forward(self, x):
            raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        Device("cpu", 8).room(Source(Module(Broken().eval()), Gaussian(0.25)), job(0, questions.inputs(1)[0]))


class Nan(nn.Module):
    """Gives no number where the first value is large: a probe of these inputs does not meet it."""

    def forward(self, x):
        first = x.flatten(1)[:, :1]
        return torch.cat([first, -first], 1) + torch.where(first > 10, torch.nan, 0.0)


def test_scores_that_are_no_numbers_are_refused_with_their_inputs():
    network, (fine, large) = Module(Nan().eval()), (torch.zeros(4), torch.full((4,), 20.0))
    source, executor = Source(network, Gaussian(0.1)), Device("cpu", 16)
    parts = [segment(source, 3, fine, 5), segment(source, 9, large, 5)]
    assert counted(executor, parts[:1]) == [direct(parts[0])]
    for parcel, whose in ((parts, "among inputs 3 to 9"), (parts[1:], "input 9")):
        executor.submit(1, parcel)
        with pytest.raises(ModelError, match=f"^{whose}: the classifier must return numbers; got NaN$"):
            executor.collect()
    executor.close()
    assert counted(executor, parts[:1]) == [direct(parts[0])]  # rows that only fill up a batch are not looked at


def test_a_members_nan_is_refused_though_its_vote_would_hide_it():
    whole = Ensemble([Module(Nan().eval()), Module(nn.Linear(4, 2).eval())], vote="hard")
    executor = Device("cpu", 16)
    executor.room(Source(whole, Gaussian(0.1)), job(0, torch.zeros(4)))
    executor.submit(1, [segment(Source(whole, Gaussian(0.1)), 4, torch.full((4,), 20.0), 5)])
    with pytest.raises(ModelError, match="input 4: the classifier must return numbers; got NaN"):
        executor.collect()


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (nn.Linear(4, 1), "input 2: the classifier must return scores for at least 2 classes"),
        (nn.Identity(), None),
        (nn.Unflatten(1, (2, 2)), r"input 2: the classifier must return scores \[batch, classes\], here"),
        (nn.Dropout(0.5), "must be in eval mode"),
    ],
)
def test_bad_shapes_are_refused(network, message):
    def look():
        training = isinstance(network, nn.Dropout)
        source = Source(Module(network.train(training)), Gaussian(0.25))
        return Device("cpu", 8).room(source, job(2, torch.zeros(4)))

    if message is None:
        assert look() == 8
        return
    with pytest.raises(ModelError, match=message):
        look()


def test_inputs_off_the_grid_are_refused_though_a_device_would_not_see_it():
    source = Source(questions.networks()["three"], GaussianGrid(0.25))
    executor = Device("cpu", 16, compiled=False)
    executor.room(source, job(0, questions.inputs(1)[0]))
    off = questions.inputs(1)[0] + 0.001
    with pytest.raises((DataError, OptionError), match=r"input 7: .*grid"):
        executor.submit(1, [segment(source, 7, off, 3)])


class Paced(nn.Module):
    """Takes a while for a call, and for many rows more than for as many few."""

    def __init__(self, call: float, row: float) -> None:
        super().__init__()
        self.call, self.row, self.rows = call, row, []

    def forward(self, x):
        import time

        self.rows.append(len(x))
        time.sleep(self.call + self.row * len(x) ** 2)
        return x.flatten(1)[:, :2]


@pytest.mark.parametrize(("call", "row", "best"), [(0.02, 0.0, 64), (0.0, 1e-4, 8)])
def test_the_batch_is_the_smallest_that_is_about_as_fast_as_any(monkeypatch, call, row, best):
    monkeypatch.setattr(device_file, "CPU_SIZES", (8, 64))
    network, executor = Module(Paced(call, row).eval()), Device("cpu")
    known = device_file.KnownClassifier(network, network, 1)
    assert executor._measured(known, Source(network, Gaussian(0.25)), job(0, torch.zeros(4))) == best
    assert any(note.startswith(f"batches of {best} rows, by measuring (rows a second:") for note in executor.notes)
    assert executor.shares == {}  # what was measured is no part of the run


def test_measuring_stops_where_a_pass_is_slow_or_memory_short(monkeypatch):
    monkeypatch.setattr(device_file, "SLOW", 0.02)
    network = Paced(0.03, 0.0).eval()
    Device("cpu").room(Source(Module(network), Gaussian(0.25)), job(0, torch.zeros(4)))
    assert set(network.rows[:2]) == {64} and max(network.rows) <= 256  # 256: the probe of batch dependence
    greedy = Source(Module(Greedy(64).eval()), Gaussian(0.25))
    executor = Device("cpu")
    assert executor.room(greedy, job(0, questions.inputs(1)[0])) <= 64
    large = torch.zeros(3, 224, 224)
    flat = Module(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval())
    assert Device("cpu").room(Source(flat, Gaussian(0.25)), job(0, large)) == 8


class Moody(nn.Module):
    """Its last bits follow the number of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = []

    def forward(self, x):
        self.rows.append(len(x))
        return x.flatten(1)[:, :2] * (1 + 1e-6 * len(x) / 1000)


def test_where_the_number_of_rows_matters_it_is_the_batch_and_always_the_same():
    network = Moody().eval()
    source, executor = Source(Module(network), Gaussian(0.25)), Device("cpu", 40)
    assert executor.room(source, job(0, torch.zeros(4))) == 40
    assert executor.notes == ["scores differ in their last bits with the batch size, so every batch has 40 rows"]
    network.rows.clear()
    counted(executor, [segment(source, 0, torch.zeros(4), 95)])
    assert network.rows == [40, 40, 40]


def test_a_frozen_number_of_rows_is_kept():
    network = Moody().eval()
    source = Source(Module(network, rows=12), Gaussian(0.25))
    executor = Device("cpu", 64)
    assert executor.room(source, job(0, torch.zeros(4))) == 12
    counted(executor, [segment(source, 0, torch.zeros(4), 30)])
    assert set(network.rows) == {12}


def test_one_parcel_is_under_way_at_a_time_and_none_after_close():
    source, x = Source(questions.networks()["three"], Gaussian(0.25)), questions.inputs(1)[0]
    executor = Device("cpu", 16)
    assert executor.room(source, job(0, x)) == 16
    executor.submit(1, [segment(source, 0, x, 16)])
    assert executor.room(source, job(0, x)) == 0
    executor.close()
    assert executor.room(source, job(0, x)) == 16 and executor.collect() == []


def test_inputs_that_stay_on_the_device_are_bounded(monkeypatch):
    monkeypatch.setattr(device_file, "KEPT", 3 * 36)  # bytes: three inputs of nine floats
    executor, source = Device("cpu", 16, compiled=False), Source(questions.networks()["three"], GaussianGrid(0.25))
    for index, x in enumerate([*questions.inputs(6), *questions.inputs(6)]):
        part = segment(source, index, x, 20)
        assert counted(executor, [part]) == [direct(part)]
        assert len(executor._inputs) <= 3
    many = [segment(source, index, x, 2) for index, x in enumerate(questions.inputs(6))]
    assert counted(executor, many) == [direct(part) for part in many]


def test_a_device_that_is_not_there_and_a_batch_of_none_are_refused():
    with pytest.raises(OptionError, match="engine must name a device that torch has here; got 'torch:nonsense'"):
        Device("nonsense")
    if not torch.cuda.is_available():
        with pytest.raises(OptionError, match="engine must name a device that torch has here; got 'torch:cuda'"):
            Device("cuda")
    with pytest.raises(OptionError, match="batch of the engine"):
        Device("cpu", 0)
