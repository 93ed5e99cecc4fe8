"""A run as a value: certificates, one row an input, and the claim that stands beside each of them wherever it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from smoothcert.contracts import ABSTAIN, Answer, Norm, TestClass
from smoothcert.data import Subset
from smoothcert.errors import RunError
from smoothcert.spec import Means, Spec

INPUTS = "inputs.npz"  # in a run's folder: inputs that were given as arrays
UNCOUNTED = ("clean", "core")  # purposes of looks at an input without noise, which are no draws
Unstated: TypeAlias = Literal["unstated"]  # what a foreign log does not say
Guarantee: TypeAlias = Literal["smoothing", "memory", "deterministic", "none"]


class MemoryRef(NamedTuple):
    """The memory of regions that answers for a run."""

    identity: str
    place: str  # the file, or the URL without a password; it may move
    order: str | None  # of admissions; None: the run adds nothing to the memory
    regions: int | None  # in a memory that no longer changes; None: it grows with the run

    @property
    def frozen(self) -> bool:
        """Whether it no longer changes, and answers without draws."""
        return self.regions is not None

    def same(self, other: MemoryRef) -> bool:
        """Wherever it lies now."""
        return self._replace(place="") == other._replace(place="")


class BeforeMemory(NamedTuple):
    """What smoothing alone had said of an input that a memory answered for, and what the memory went by."""

    predicted: int  # by smoothing alone; −1 with radius 0 where nothing was drawn
    radius: float
    conflict: str | None  # "switched" to the label of a region around it, "shrunk" to make room for one
    by: int | None  # number of the region that answered, or that room was made for
    stored: bool  # as region seen + 1
    seen: int  # regions 1 to this were there


@dataclass(frozen=True)
class Claim:
    """What the certificates of a run say: norm, guarantee, tested class, α. No radius is shown without it."""

    norm: Norm | Unstated
    guarantee: Guarantee | Unstated  # of the rows that do not abstain
    test_class: TestClass | Unstated
    alpha: float | None = None  # None: a log does not say
    radii: tuple[float, ...] | None = None  # asked for in advance, rising; None: the largest one was looked for
    frozen: bool = False  # a memory answered that no longer changes
    measure: str = ""  # what a radius of 1 is, where the norm alone does not say it

    @property
    def ruler(self) -> str:
        """The norm, and what a radius of 1 is in it: only radii of one ruler compare."""
        return f"{self.norm} of {self.measure}" if self.measure else self.norm

    @property
    def comparable(self) -> tuple[object, ...]:
        """Equal for runs whose radii answer one question. Following the leader is another way, not another question."""
        return self.ruler, self.radii, self.test_class == "labels", self.guarantee == "none"

    @property
    def words(self) -> tuple[str, ...]:
        """What a reader has to know before the figures; nothing for the usual question."""
        said = [*self._radii_words(), *self._guarantee_words()]
        if self.measure:
            said.append(f"a radius of 1 is a patch of {self.measure} (rows × columns)")
        if self.guarantee == "deterministic":
            said.append("every case of the noise was counted: certificates are exact, without alpha")
        if self.test_class == "labels":
            said.append(
                "another question was answered, whether the true label is certified: "
                "the true label was tested, wrong labels are never reported"
            )
        elif self.test_class == "leader" and self.guarantee != "deterministic":
            said.append("the leading class was tested: no draws were spent on choosing the class")
        return tuple(said)

    def tried(self, radius: float) -> bool:
        """Whether the run can say anything about this radius."""
        return self.radii is None or radius <= self.radii[-1]

    def exact(self, radius: float) -> bool:
        """Whether this radius itself was tested, not only a larger one."""
        return self.radii is None or radius in self.radii

    def _guarantee_words(self) -> list[str]:
        if self.guarantee == "memory" and self.frozen:
            return [
                "answered by a memory that no longer changes, without a draw, where an input lies in one of its "
                "regions: inside them it is a fixed function"
            ]
        if self.guarantee == "memory":
            return [
                "a radius is the promise of a memory: every later query inside it gets this label from this memory; "
                "that depends on the order in which inputs came, and says nothing of the classifier without the memory"
            ]
        if self.guarantee == "none":
            return [
                "NOT CERTIFIED: each input has a noise level of its own, so the smoothed classifier is no fixed "
                "function; without a memory of regions these radii promise nothing about neighbours"
            ]
        return []

    def _radii_words(self) -> list[str]:
        if self.radii is None:
            return []
        names = [f"{radius:g}" for radius in self.radii]
        if len(names) == 1:
            return [f"radius {names[0]} was asked for; larger radii were not tried"]
        said = f"radii {', '.join(names[:-1])} and {names[-1]} were asked for"
        return [f"{said}; radii between them, and larger ones, were not tried"]


def claim_of(spec: Spec, memory: MemoryRef | None, answered: bool) -> Claim:
    """The claim of a run; `answered`: its memory has answered for at least one input."""
    guarantee: Guarantee = "smoothing"
    if memory is not None and (memory.frozen or answered):
        guarantee = "memory"
    elif spec.preparation is not None:
        guarantee = "none"
    elif spec.alpha == 0.0:
        guarantee = "deterministic"
    frozen = memory is not None and memory.frozen
    patch, tested = spec.noise.patch, spec.procedure.test_class
    measure = "" if patch in (None, (1, 1)) else f"{patch[0]} × {patch[1]} pixels"
    return Claim(spec.norm, guarantee, tested, spec.alpha, spec.radii, frozen, measure)


@dataclass(frozen=True, slots=True)
class Row:
    """One input of a run. predicted is −1 for an abstention; its radius is then 0, its guarantee none."""

    index: int
    label: int
    predicted: int
    radius: float
    draws: int | None = None  # None where a foreign log does not say
    seconds: float | None = None
    clean: int | None = None  # what the base classifier says without noise, where it was asked
    low: float | None = None  # lower bound on P(predicted), where it is kept
    answers: Sequence[Answer] = ()
    sigma: float | None = None  # the input's own noise level, where it was chosen
    settled: BeforeMemory | None = None  # what a memory made of it: predicted and radius are then the memory's
    attempt: int = field(default=0, compare=False)  # which continuation of the run made it; 0: the first

    @property
    def correct(self) -> bool:
        return self.predicted == self.label

    @property
    def smoothed(self) -> Row:
        """The row as smoothing alone left it."""
        if self.settled is None:
            return self
        return replace(self, predicted=self.settled.predicted, radius=self.settled.radius, settled=None)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of ours, or a foreign log: what it claims, what was asked, and a row an input."""

    name: str
    kind: Literal["certify", "predict"]
    rows: tuple[Row, ...]  # by index
    claim: Claim
    inputs: int | None = None  # how many inputs were asked for; fewer rows mean an unfinished run
    folder: Path | None = None  # None for a log
    spec: Spec | None = None  # None for a log
    means: Means | None = None
    memory: MemoryRef | None = None

    @property
    def asked(self) -> Spec:
        """What was asked; refused for a log, which does not say."""
        if self.spec is None:
            raise RunError(f"{self.name} must be a run of smoothcert; got a log, which does not say what was asked")
        return self.spec

    @property
    def data(self) -> Subset:
        """Where the inputs are: those that a run keeps itself moved with it."""
        subset, own = self.asked.data, None if self.folder is None else self.folder / INPUTS
        kept = own is not None and Path(subset.spec).name == INPUTS and own.is_file()
        return replace(subset, spec=str(own)) if kept else subset

    @property
    def unfinished(self) -> bool:
        return self.inputs is not None and len(self.rows) < self.inputs

    def guarantee(self, row: Row) -> Guarantee | Unstated:
        """What one row promises; nothing where it abstains."""
        if row.predicted == ABSTAIN:
            return "none"
        if self.claim.guarantee == "memory" and row.settled is None:
            return "none" if self.spec is not None and self.spec.preparation is not None else "smoothing"
        return self.claim.guarantee
