"""What K-consensus and early exit share: a vote that is often sure before all of its members were asked.

Which rows are left after the first members is known row by row, and only those go to the others. A member may then be
called with any number of rows. Where that number can be seen in the last bits of its scores, it would make a row's
answer depend on its batch mates; so members are called with a fixed number of rows, unless `prepared` has seen that the
number does not matter to any of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from smoothcert.contracts import Classifier
from smoothcert.engine.batch_check import FixedShape, check_batches
from smoothcert.ensembles._vote import Tally, Vote
from smoothcert.errors import OptionError

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 16  # of a call to a later member: few are wasted on filling up, many enough for the network to be fast


@dataclass(frozen=True, eq=False)
class Partial:
    """A vote whose members are asked in order, and for each row only as many as it needs."""

    vote: Vote
    rows_a_call: int | None = field(
        default=ROWS, kw_only=True
    )  # of the later members; None: it does not matter to them
    tally: Tally = field(init=False, repr=False, default_factory=Tally)

    def __post_init__(self) -> None:
        if not isinstance(self.vote, Vote):
            raise OptionError(f"vote inside {self.name} must be a plain vote; got {type(self.vote).__name__}")

    @property
    def name(self) -> str:
        return type(self).__module__.rsplit(".", 1)[-1]

    @property
    def members(self) -> tuple[Classifier, ...]:
        return self.vote.members

    def prepared(self, members: tuple[Classifier, ...], probe: Tensor) -> Self:
        """The same of these members, looked at on a noisy probe [≥ batch_rows, ...]: does the number of rows matter?"""
        whole = len(probe)
        bound = [
            isinstance(check_batches(member, probe, whole).call, FixedShape)
            for member in dict.fromkeys(members[1:])
            if getattr(member, "rows", None) is None  # one with a frozen batch is called in its own way
        ]
        vote = self.vote.prepared(members, probe)
        return replace(self, vote=vote, rows_a_call=ROWS if any(bound) else None)
