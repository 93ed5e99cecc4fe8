"""Which question a run answers, in plain words: the radii asked for in advance, and the class that was tested.

Figures of runs that answer different questions stand side by side all too easily; ACR above all, because a run that was
asked for radius 0.5 never tries a larger one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smoothcert.runs.run import Run

WARNING = (
    "These runs answer different questions (radii asked for, or the class that was tested): their ACR do not compare."
)


@dataclass(frozen=True)
class Asked:
    """The question of one run; the default is that of CERTIFY: which class, and how far?"""

    radii: tuple[float, ...] | None = None  # rising; None: the largest radius was looked for
    against: str = "guess"  # or "leader", "labels"
    counted: bool = False  # every case of the noise, instead of draws
    own_levels: bool = False  # every input at a noise level chosen for it
    settled: bool = False  # by a memory of regions
    frozen: bool = False  # which no longer changes, and answered without draws

    @property
    def kind(self) -> tuple[tuple[float, ...] | None, bool, bool]:
        """Equal for runs whose ACR compare. Following the leader is another way, not another question."""
        return self.radii, self.against == "labels", self.own_levels and not self.settled

    @property
    def words(self) -> tuple[str, ...]:
        """What a reader has to know before the figures; nothing for the usual question."""
        said = [*self._radii_words(), *self._level_words()]
        if self.counted:
            said.append("every case of the noise was counted: certificates are exact, without alpha")
        if self.against == "labels":
            said.append(
                "another question was answered, whether the true label is certified: "
                "the true label was tested, wrong labels are never reported"
            )
        elif self.against == "leader" and not self.counted:
            said.append("the leading class was tested: no draws were spent on choosing the class")
        return tuple(said)

    def tried(self, radius: float) -> bool:
        """Whether the run can say anything about this radius."""
        return self.radii is None or radius <= self.radii[-1]

    def exact(self, radius: float) -> bool:
        """Whether this radius itself was tested, not only a larger one."""
        return self.radii is None or radius in self.radii

    def _level_words(self) -> list[str]:
        if self.frozen:
            return [
                "answered by a memory that no longer changes, without a draw, where an input lies in one of its "
                "regions: inside them it is a fixed function"
            ]
        if self.settled:
            return [
                "a radius is the promise of a memory: every later query inside it gets this label from this memory; "
                "that depends on the order in which inputs came, and says nothing of the classifier without the memory"
            ]
        if self.own_levels:
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


def asked(record: Run) -> Asked:
    """The question of a record; that of a log is the usual one."""
    procedure, sampling = part(record, "procedure"), part(record, "sampling")
    radii = sampling.get("radii")
    return Asked(
        tuple(float(radius) for radius in radii) if radii else None,
        str(procedure.get("against", "guess")),
        sampling.get("name") == "exhaustive",
        bool(part(record, "preparation")),
        any(row.settled is not None for row in record.rows),
        "regions" in record.settings.get("memory", {}),
    )


def part(record: Run, name: str) -> Mapping[str, Any]:
    """One part of the question as it was stored; empty where there is none, as in a log."""
    question = record.settings.get("question")
    found = question.get(name) if isinstance(question, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def warning(questions: Sequence[Asked]) -> str | None:
    """One line, if the questions of certify runs side by side are not the same."""
    return WARNING if len({question.kind for question in questions}) > 1 else None
