"""The components of an ACES composition, read from runs or from published logs, and put together.

    certified   a run of `smoothcert aces certify`, or of `smoothcert certify` where something else selects
    selection   the entropies or the selection network of such a run, or a run of `smoothcert aces select`
    core        the same run, any run of the core network (its answers without noise), or a table of idx and predict

The logs of the paper's code are read as they are, by the prefix of their names: PREFIX_certification,
PREFIX_selection_0.30, PREFIX_entropies and PREFIX_core_prediction (`runs.component_logs`).

Below them, what runs over training inputs say as arrays: the labels of selectors are made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from smoothcert.bounds import Floats, Integers
from smoothcert.classifiers import composite
from smoothcert.contracts import Noise, Norm
from smoothcert.data import Subset
from smoothcert.decisions import BINS, Verdicts, VoteCounts, composed, median_bin, of_classes, of_selection
from smoothcert.errors import DataError, OptionError, RunError
from smoothcert.runs import component_logs as logs
from smoothcert.runs.run import Claim, Row, Run
from smoothcert.runs.store import MODEL, read

ENTROPY = "entropy"  # in the place of a run: the certified network's own entropy selects
GRID = np.arange(BINS + 1) / BINS
EVIDENCE = ("predict", "test")  # purposes of draws that did not choose what they are counted for


@dataclass(frozen=True, eq=False)
class Combination:
    """A composition at several thresholds on the same inputs."""

    thetas: Floats  # [thresholds]
    labels: Integers  # [inputs], the data's
    answers: Verdicts  # [thresholds, inputs], of the composition
    selection: Verdicts  # [thresholds, inputs]: 1, 0, or an abstention, which is neither (erratum E5)


class NoisyNetwork(NamedTuple):
    """A network under noise: the hash of its weights, and its noise."""

    digest: str
    noise: Noise


@dataclass(frozen=True, eq=False)
class Origin:
    """What a run says of its components and a published log does not."""

    draws: int  # of each test
    n_predict: int  # of them, those that predict
    alpha: float
    data: Subset
    certified: NoisyNetwork
    alone: Verdicts  # [inputs], the certified network alone, tested at alpha and not at alpha/2


@dataclass(frozen=True, eq=False)
class Components:
    """The networks of a composition on the same inputs, ready for any threshold."""

    name: str
    indices: Integers
    labels: Integers
    certified: Verdicts  # [inputs], at alpha/2
    selection: Verdicts  # [thresholds, inputs]
    thetas: Floats  # those that `selection` knows
    core: Integers
    entropy: Floats | None  # the median of each input's noisy copies, where it is known
    norm: Norm
    origin: Origin | None = None

    def at(self, thetas: Sequence[float] | Floats) -> Combination:
        """The composition at these thresholds."""
        places = [self._place(float(theta)) for theta in thetas]
        label, radius, natural = self.selection
        selection = Verdicts(label[places], radius[places], natural[places])
        return Combination(self.thetas[places], self.labels, composed(selection, self.certified, self.core), selection)

    def shared(self, other: Components) -> Integers:
        """Inputs that both have; those of different data or splits are different."""
        here, there = (one.origin and (one.origin.data.spec, one.origin.data.split) for one in (self, other))
        return np.intersect1d(self.indices, other.indices) if here == there else self.indices[:0]

    def refuse_holdout(self, other: Components) -> None:
        """A threshold may be chosen on other inputs only, with the same networks and noise."""
        if len(shared := self.shared(other)):
            raise OptionError(
                f"inputs of --holdout must not be those of --certify; got {len(shared)} of them, first index "
                f"{shared[0]}"
            )
        if not self.same_network(other):
            raise OptionError("networks and noise of --holdout must be those of --certify; got others")

    def same_network(self, other: Components) -> bool:
        """Whether both certify with one network under one noise, as far as it is known."""
        return (self.origin and self.origin.certified) == (other.origin and other.origin.certified)

    def _place(self, theta: float) -> int:
        near = np.flatnonzero(np.abs(self.thetas - theta) < 1e-9)
        if len(near) == 0:
            known = f"0, 0.01, …, {self.thetas[-1]:g}" if len(self.thetas) == BINS + 1 else _listed(self.thetas)
            raise OptionError(f"theta of a combination must be one of {known}; got {theta:g}")
        return int(near[0])


def components(certify: Path, core: Path | None, select: str | None = None, alpha: float | None = None) -> Components:
    """What these places hold; alpha is that of the certified run unless given."""
    if logs.is_prefix(certify):
        if alpha is not None:
            raise OptionError(f"--alpha needs counts, which the logs {certify} do not hold; got {alpha:g}")
        return _from_logs(certify, core, select)
    return components_of(read(certify), core, select, alpha)


def components_of(
    run: Run, core: Path | None = None, select: str | None = None, alpha: float | None = None
) -> Components:
    """The same of a run that has been read."""
    spec, dim = run.asked, run.asked.dim
    level = alpha_of(run) if alpha is None else alpha
    classes, noise = votes_of(run, "", 0), noise_of(run)
    bins, selecting, noise_there = _selector(run, select)
    if noise.norm != noise_there.norm:
        raise RunError(f"the runs of a combination must be of one norm; got {noise.norm} and {noise_there.norm}")
    indices, labels = column_of(run, "index"), column_of(run, "label")
    bins = VoteCounts(*(counts[_aligned(indices, labels, selecting)] for counts in bins))
    draws, n_predict = (int(counts[0].sum()) for counts in (classes.test, classes.predict))
    alone = of_classes(classes, level, noise, dim)
    return Components(
        run.name, indices, labels, of_classes(classes, level / 2, noise, dim),
        of_selection(bins, GRID, level / 2, noise_there, dim), GRID, _core(run, core, indices, labels),
        median_bin(bins), noise.norm, Origin(draws, n_predict, level, spec.data, _certified(run), alone),
    )  # fmt: skip


def as_run(parts: Components, theta: float, name: str) -> Run:
    """The rows of a composition at one threshold."""
    answers = parts.at([theta]).answers
    columns = zip(parts.indices, parts.labels, answers.label[0], answers.radius[0], strict=True)
    rows = tuple(Row(int(index), int(label), int(said), float(radius)) for index, label, said, radius in columns)
    claim = Claim(parts.norm, "smoothing", "guess", None if parts.origin is None else parts.origin.alpha)
    return Run(name=name, kind="certify", rows=rows, claim=claim)


@dataclass(frozen=True, eq=False)
class SingleNetwork:
    """One smoothed network alone, at its own alpha: what a composition is compared with."""

    name: str
    labels: Integers
    verdicts: Verdicts
    draws: int | None  # of its test, where it is known


def single(run: Run) -> SingleNetwork:
    """From a run with its counts, or a log: there what it says at radius 0 is the prediction."""
    labels, predicted = column_of(run, "label"), column_of(run, "predicted")
    if run.spec is None:
        radius = np.array([row.radius for row in run.rows])
        return SingleNetwork(run.name, labels, Verdicts(predicted, radius, predicted), None)
    counts = votes_of(run, "", 0)
    verdicts = of_classes(counts, alpha_of(run), noise_of(run), run.spec.dim)
    return SingleNetwork(run.name, labels, verdicts, int(counts.test[0].sum()))


def _selector(run: Run, select: str | None) -> tuple[VoteCounts, Run, Noise]:
    """The counts in bins, the run that holds them, and its noise; a selection network before entropies."""
    other = run if select in (None, ENTROPY) else read(Path(str(select)))
    if other.asked.kind == "select":
        return votes_of(other, "", 0), other, noise_of(other)
    network = any(answer.purpose.startswith("select-") for row in other.rows[:1] for answer in row.answers)
    if network and select != ENTROPY:
        return votes_of(other, "select-", 0), other, noise_of(other)
    return votes_of(other, "", 1), other, noise_of(other)


def _core(run: Run, core: Path | None, indices: Integers, labels: Integers) -> Integers:
    """What the core says of every input."""
    if core is not None and not core.is_dir():
        return logs.core(core, indices, labels)
    other = run if core is None else read(core)
    answers = [[answer for answer in row.answers if answer.purpose == "core"] for row in other.rows]
    if core is None and not all(answers):
        raise OptionError("--core must name a run of the core network or a table of its answers; got none")
    said = [
        int(np.argmax(found[0].counts[0])) if found else row.clean
        for row, found in zip(other.rows, answers, strict=True)
    ]
    if None in said:
        raise RunError(f"run {other.name} must hold what its network says without noise; it does not")
    return np.array(said)[_aligned(indices, labels, other)]


def _aligned(indices: Integers, labels: Integers, other: Run) -> Integers:
    """Where the inputs are in another run on the same data."""
    theirs = column_of(other, "index")
    at = np.searchsorted(theirs, indices)
    missing = indices[(at >= len(theirs)) | (theirs[np.minimum(at, len(theirs) - 1)] != indices)]
    if len(missing):
        raise RunError(f"run {other.name} must hold every input of the certified run; index {missing[0]} is missing")
    if not np.array_equal(column_of(other, "label")[at], labels):
        raise RunError(f"run {other.name} must be of the same data as the certified run; labels differ")
    return at


def _from_logs(certify: Path, core: Path | None, select: str | None) -> Components:
    if core is None:
        raise OptionError("--core must name a run of the core network or a table of its answers; got none")
    if select == ENTROPY:
        raise OptionError("--select must be a prefix of logs, or left out, where --certify is one; got entropy")
    indices, labels, certified = logs.certification(certify)
    thetas, selection = logs.selection(Path(select) if select else certify, indices)
    answers = logs.core(core, indices, labels) if not core.is_dir() else _core(read(core), core, indices, labels)
    entropy = logs.median_entropy(certify, indices)
    return Components(certify.name, indices, labels, certified, selection, thetas, answers, entropy, "l2")


def _certified(run: Run) -> NoisyNetwork:
    """The certified network: that of the composition which the run keeps, or the run's own."""
    spec, folder = run.asked, (run.folder or Path()) / MODEL
    members = composite.read(folder).members if run.folder is not None and composite.is_composite(folder) else ()
    digests = [member.digest for member in members if member.role == "certify"]
    return NoisyNetwork((digests or [spec.model_digest])[0], spec.noise)


def _listed(thetas: Floats) -> str:
    return ", ".join(f"{theta:g}" for theta in thetas)


def votes_of(run: Run, prefix: str, column: int) -> VoteCounts:
    """The counts of one column [inputs, outcomes] by what the draws were for."""
    found = [_counted(run, row, prefix, column) for row in run.rows]
    if not found:
        raise RunError(f"run {run.name} must hold at least one finished input; got none")
    counts = VoteCounts(*(np.array(part) for part in zip(*found, strict=True)))
    for part in counts:
        if len(np.unique(part.sum(axis=1))) > 1:
            raise RunError(f"run {run.name} must have equally many draws for every input; got different numbers")
    return counts


def _counted(run: Run, row: Row, prefix: str, column: int) -> tuple[Any, Any, Any]:
    guess = [answer.counts for answer in row.answers if answer.purpose == f"{prefix}guess"]
    tests = [answer.counts for answer in row.answers if answer.purpose == f"{prefix}test"]
    if len(guess) != 1 or not tests or any(len(counts) <= column for counts in [*guess, *tests]):
        what = "entropies" if column else "selections" if prefix else "classes"
        raise RunError(f"run {run.name} must hold counts of {what} from draws that chose and draws that tested; "
                       f"got none for input {row.index}")  # fmt: skip
    test = np.sum([counts[column] for counts in tests], axis=0)
    return guess[0][column], tests[0][column], test


def alpha_of(run: Run) -> float:
    """The probability that a statement of the run is wrong."""
    if run.asked.alpha == 0.0:
        raise RunError(f"run {run.name} must have tested at an alpha to be combined; it counted every case")
    return run.asked.alpha


def noise_of(run: Run) -> Noise:
    """The run's noise; refused where there is not one for all inputs."""
    if any(row.sigma is not None for row in run.rows):
        raise RunError(f"run {run.name} must have one noise level to be combined; got one for every input")
    return run.asked.noise


def column_of(run: Run, name: str) -> Integers:
    """One field of all rows."""
    return np.array([getattr(row, name) for row in run.rows], dtype=np.int64)


def right_votes(run: Run) -> tuple[Integers, Integers, int]:
    """Indices [N], votes for each input's own class [N], and the draws behind them."""
    if not run.rows:
        raise RunError(f"run {run.folder} must hold at least one finished input; got none")
    _refuse_split(run)
    evidence = [[answer for answer in row.answers if answer.purpose in EVIDENCE] for row in run.rows]
    draws = sorted({sum(answer.draws for answer in answers) for answers in evidence})
    if len(draws) > 1:
        raise RunError(
            f"run {run.folder} must have equally many draws for every input, as predict and certify without a radius "
            f"have; got {draws[0]:,} to {draws[-1]:,}"
        )
    pairs = zip(run.rows, evidence, strict=True)
    right = [sum(answer.counts[0][row.label] for answer in answers) for row, answers in pairs]
    return np.array([row.index for row in run.rows]), np.array(right), draws[0]


def gains(runs: Sequence[Run]) -> tuple[Integers, Integers]:
    """Indices [N], and radius·[correct] [branches, N], of certify runs over the same inputs, branch by branch."""
    for run in runs:
        if run.kind != "certify" or not run.rows:
            raise RunError(f"run {run.name} must be a certify run with finished inputs; it is not")
        _refuse_split(run)
    if len({run.claim.norm for run in runs}) > 1:
        raise RunError("runs of a route's branches must have one norm; got several")
    first = [(row.index, row.label) for row in runs[0].rows]
    for run in runs[1:]:
        if [(row.index, row.label) for row in run.rows] != first:
            raise DataError(f"inputs of run {run.name} must be those of run {runs[0].name}; got others")
    found = np.array([[row.radius if row.correct else 0.0 for row in run.rows] for run in runs])
    return np.array([index for index, _ in first]), found


def _refuse_split(run: Run) -> None:
    if (split := run.asked.data.split) != "train":
        raise RunError(f"run {run.folder} must be over the training inputs (--split train); got split '{split}'")
