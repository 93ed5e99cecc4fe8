"""The parts of an ACES composition, read from runs or from published logs, and put together.

    certified   a run of `smoothcert aces certify`, or of `smoothcert certify` where something else selects
    selection   the entropies or the selection network of such a run, or a run of `smoothcert aces select`
    core        the same run, any run of the core network (its answers without noise), or a table of idx and predict

The logs of the paper's code are read as they are, by the prefix of their names: PREFIX_certification,
PREFIX_selection_0.30, PREFIX_entropies and PREFIX_core_prediction (`runs.component_logs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smoothcert import catalog
from smoothcert.bounds import Floats, Integers
from smoothcert.classifiers import composite
from smoothcert.contracts import Noise, Norm
from smoothcert.decisions import BINS, Verdicts, VoteCounts, composed, median_bin, of_classes, of_selection
from smoothcert.errors import OptionError, RunError
from smoothcert.runs import component_logs as logs
from smoothcert.runs.run import Claim, Row, Run, Unstated
from smoothcert.runs.store import MODEL, read

ENTROPY = "entropy"  # in the place of a run: the certified network's own doubt selects
GRID = np.arange(BINS + 1) / BINS


@dataclass(frozen=True, eq=False)
class Combined:
    """A composition at several thresholds on the same inputs."""

    thetas: Floats  # [thresholds]
    indices: Integers  # [inputs]
    labels: Integers  # [inputs], the data's
    answers: Verdicts  # [thresholds, inputs], of the composition
    selection: Verdicts  # [thresholds, inputs]: 1, 0, or an abstention, which is neither (erratum E5)
    certified: Verdicts  # [inputs], of the certified network alone at the same level
    core: Integers  # [inputs]


@dataclass(frozen=True, eq=False)
class Parts:
    """A composition's components on the same inputs, ready for any threshold."""

    name: str
    indices: Integers
    labels: Integers
    certified: Verdicts
    selection: Verdicts  # [thresholds, inputs]
    thetas: Floats  # those that `selection` knows
    core: Integers
    doubt: Floats | None  # the median doubt of each input, where it is known
    plain: Verdicts | None  # the certified network alone, tested at alpha and not at alpha/2, where counts are known
    settings: dict[str, Any]  # n, look, alpha and where the inputs came from, as far as they are known
    norm: Norm | Unstated

    def at(self, thetas: Sequence[float] | Floats) -> Combined:
        """The composition at these thresholds."""
        places = [self._place(float(theta)) for theta in thetas]
        label, radius, natural = self.selection
        selection = Verdicts(label[places], radius[places], natural[places])
        answers = composed(selection, self.certified, self.core)
        return Combined(self.thetas[places], self.indices, self.labels, answers, selection, self.certified, self.core)

    def shared(self, other: Parts) -> Integers:
        """Inputs that both have; those of different data or splits are different."""
        here, there = ((str(p.settings.get("data")), str(p.settings.get("split"))) for p in (self, other))
        return np.intersect1d(self.indices, other.indices) if here == there else self.indices[:0]

    def refuse_holdout(self, other: Parts) -> None:
        """A threshold may be chosen on other inputs only, with the same networks and noise."""
        if len(shared := self.shared(other)):
            raise OptionError(
                f"inputs of --holdout must not be those of --certify; got {len(shared)} of them, first index "
                f"{shared[0]}"
            )
        if self.settings.get("networks") != other.settings.get("networks"):
            raise OptionError("networks and noise of --holdout must be those of --certify; got others")

    def _place(self, theta: float) -> int:
        near = np.flatnonzero(np.abs(self.thetas - theta) < 1e-9)
        if len(near) == 0:
            known = f"0, 0.01, …, {self.thetas[-1]:g}" if len(self.thetas) == BINS + 1 else _listed(self.thetas)
            raise OptionError(f"theta of a combination must be one of {known}; got {theta:g}")
        return int(near[0])


def parts(certify: Path, core: Path | None, select: str | None = None, alpha: float | None = None) -> Parts:
    """The components that these places hold; alpha is that of the certified run unless given."""
    if logs.is_prefix(certify):
        if alpha is not None:
            raise OptionError(f"--alpha needs counts, which the logs {certify} do not hold; got {alpha:g}")
        return _from_logs(certify, core, select)
    return of_record(read(certify), core, select, alpha, certify / MODEL)


def of_record(
    run: Run,
    core: Path | None = None,
    select: str | None = None,
    alpha: float | None = None,
    model: Path | None = None,
) -> Parts:
    """The same of a run that has been read; `model` is the folder of its composition, if not where it was made."""
    level = alpha_of(run) if alpha is None else alpha
    classes, noise = tally(run, "", 0), noise_of(run)
    bins, selecting, noise_there = _selector(run, select)
    _refuse_other_norm(noise, noise_there)
    indices, labels = column_of(run, "index"), column_of(run, "label")
    bins = VoteCounts(*(counts[_aligned(indices, labels, selecting)] for counts in bins))
    spec, dim = run.asked, run.asked.dim
    return Parts(
        run.name, indices, labels, of_classes(classes, level / 2, noise, dim),
        of_selection(bins, GRID, level / 2, noise_there, dim), GRID, _core(run, core, indices, labels),
        median_bin(bins), of_classes(classes, level, noise, dim),
        {
            "n": int(classes.test[0].sum()), "look": int(classes.predict[0].sum()), "alpha": level,
            "data": spec.data.spec, "split": spec.data.split, "networks": _networks(run, model),
        }, noise.norm,
    )  # fmt: skip


def as_run(parts: Parts, theta: float, name: str) -> Run:
    """The rows of a composition at one threshold."""
    answers = parts.at([theta]).answers
    columns = zip(parts.indices, parts.labels, answers.label[0], answers.radius[0], strict=True)
    rows = tuple(Row(int(index), int(label), int(said), float(radius)) for index, label, said, radius in columns)
    claim = Claim(parts.norm, "smoothing", "guess", parts.settings.get("alpha"))
    return Run(name=name, kind="certify", rows=rows, norm=parts.norm, claim=claim)


@dataclass(frozen=True, eq=False)
class Single:
    """One smoothed network alone, at its own alpha: what a composition is compared with."""

    name: str
    labels: Integers
    verdicts: Verdicts
    draws: int | None  # of its test, where it is known


def single(run: Run) -> Single:
    """From a run with its counts, or a log: there what it says at radius 0 is the prediction."""
    labels, predicted = column_of(run, "label"), column_of(run, "predicted")
    if run.spec is None:
        radius = np.array([row.radius for row in run.rows])
        return Single(run.name, labels, Verdicts(predicted, radius, predicted), None)
    counts = tally(run, "", 0)
    verdicts = of_classes(counts, alpha_of(run), noise_of(run), run.spec.dim)
    return Single(run.name, labels, verdicts, int(counts.test[0].sum()))


def _selector(run: Run, select: str | None) -> tuple[VoteCounts, Run, Noise]:
    """The counts in bins, the run that holds them, and its noise; a selection network before entropies."""
    other = run if select in (None, ENTROPY) else read(Path(str(select)))
    if other.asked.kind == "select":
        return tally(other, "", 0), other, noise_of(other)
    network = any(answer.purpose.startswith("select-") for row in other.rows[:1] for answer in row.answers)
    if network and select != ENTROPY:
        return tally(other, "select-", 0), other, noise_of(other)
    return tally(other, "", 1), other, noise_of(other)


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


def _from_logs(certify: Path, core: Path | None, select: str | None) -> Parts:
    if core is None:
        raise OptionError("--core must name a run of the core network or a table of its answers; got none")
    if select == ENTROPY:
        raise OptionError("--select must be a prefix of logs, or left out, where --certify is one; got entropy")
    indices, labels, certified = logs.certification(certify)
    thetas, selection = logs.selection(Path(select) if select else certify, indices)
    answers = logs.core(core, indices, labels) if not core.is_dir() else _core(read(core), core, indices, labels)
    doubt = logs.median_entropy(certify, indices)
    return Parts(certify.name, indices, labels, certified, selection, thetas, answers, doubt, None, {}, "l2")


def _networks(run: Run, model: Path | None) -> dict[str, Any]:
    """The hash of the certified network and its noise: equal for runs that can be compared."""
    spec = run.asked
    folder = Path(spec.model) if model is None else model
    members = composite.read(folder).members if composite.is_composite(folder) else ()
    digests = [member.digest for member in members if member.role == "certify"]
    return {"certified": (digests or [spec.model_digest])[0], "noise": catalog.describe(spec.noise)}


def _refuse_other_norm(first: Noise, second: Noise) -> None:
    if first.norm != second.norm:
        raise RunError(f"the runs of a combination must be of one norm; got {first.norm} and {second.norm}")


def _listed(thetas: Floats) -> str:
    return ", ".join(f"{theta:g}" for theta in thetas)


def tally(run: Run, prefix: str, column: int) -> VoteCounts:
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
