"""② Several classifiers → one classifier: one file for each way to vote. Here is what they share.

    soft_vote weighted_vote hard_vote max_margin     how scores become scores
    k_consensus early_exit                           cascades around a vote: not every member is always asked
    spec                                             an ensemble as it is asked for, and what hold-out inputs decide
    weights/                                         hold-out inputs → weights
    holdout variance forecast                        what members do under noise, and what more of them would do

A certificate of an ensemble is for exactly this vote of exactly these members in this order.
"""

from __future__ import annotations

import math
import numbers
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from smoothcert.classifiers.composed import DenoisedClassifier
from smoothcert.classifiers.module import Module
from smoothcert.classifiers.onnx import Onnx
from smoothcert.contracts import Classifier
from smoothcert.engine.batch_check import FixedShape, check_batches, check_shape
from smoothcert.errors import ModelError, OptionError

EXACT = 1e-6  # how far the sum of weights may be from 1
ROWS = 16  # of a call to a later member of a cascade: few are wasted on filling up, many enough to be fast


class CallTally:
    """Rows that came, members asked about them in all, and rows that did without some; threads may share it."""

    def __init__(self) -> None:
        self.rows = self.asked = self.early = 0
        self._lock = threading.Lock()

    def add(self, rows: int, asked: int, early: int = 0) -> None:
        with self._lock:
            self.rows += rows
            self.asked += asked
            self.early += early


@dataclass(frozen=True, eq=False)
class Vote(ABC):
    """Several classifiers that answer together; a classifier again. All are asked about every row."""

    members: tuple[Classifier, ...]
    tally: CallTally = field(init=False, repr=False, default_factory=CallTally)

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        if not self.members:
            raise OptionError("members of an ensemble must be at least one; got none")

    @abstractmethod
    def combine(self, scores: Sequence[Tensor]) -> Tensor:
        """Scores of the first members, [batch, classes] each → scores of their vote, float32 [batch, classes].

        Each row by itself, in operations that give a row the same bits wherever it stands in the batch.
        """

    @property
    def name(self) -> str:
        return type(self).__module__.rsplit(".", 1)[-1]

    @property
    def shares(self) -> tuple[float, ...] | None:
        """What each member counts for, up to a factor; None where the vote is no mean."""
        return None

    def __call__(self, x: Tensor) -> Tensor:
        """Noisy inputs [batch, ...] → scores [batch, classes]."""
        scores = together([ask(member, x) for member in self.members])
        self.tally.add(len(x), len(x) * len(self.members))
        return self.answer(scores)

    def answer(self, scores: Sequence[Tensor]) -> Tensor:
        """The vote of these members, in rows where all of them gave numbers; NaN elsewhere, whatever the vote."""
        no_numbers = torch.stack([part.isnan().any(1) for part in scores]).any(0)
        return self.combine(scores).masked_fill(no_numbers.unsqueeze(1), torch.nan)

    def prepared(self, members: tuple[Classifier, ...], probe: Tensor) -> Self:
        """The same vote of these members."""
        return replace(self, members=members)


@dataclass(frozen=True, eq=False)
class Cascade:
    """A vote whose members are asked in order, and for each row only as many as it needs.

    Which rows are left after the first members is known row by row, and only those go to the others. A member may then
    be called with any number of rows. Where that number can be seen in the last bits of its scores, it would make a
    row's answer depend on its batch mates; so members are called with a fixed number of rows, unless `prepared` has
    seen that the number does not matter to any of them.

    Which rows are left has to be known here before the next member is asked: on a device every batch is waited for.
    """

    vote: Vote
    rows_a_call: int | None = field(default=ROWS, kw_only=True)  # of later members; None: it does not matter to them
    tally: CallTally = field(init=False, repr=False, default_factory=CallTally)

    def __post_init__(self) -> None:
        if not isinstance(self.vote, Vote):
            raise OptionError(f"vote inside {self.name} must be a plain vote; got {type(self.vote).__name__}")
        if min(self.vote.shares or (0.0,)) < 0:
            raise OptionError(f"weights inside {self.name} must be 0 or more; got {min(self.vote.shares or ()):g}")

    @property
    def name(self) -> str:
        return type(self).__module__.rsplit(".", 1)[-1]

    @property
    def members(self) -> tuple[Classifier, ...]:
        return self.vote.members

    def prepared(self, members: tuple[Classifier, ...], probe: Tensor) -> Self:
        """The same of these members, looked at on a noisy probe [≥ batch_rows, ...]: does the number of rows matter?"""
        bound = any(
            isinstance(check_batches(member, probe, len(probe)).call, FixedShape)
            for member in dict.fromkeys(members[1:])
            if getattr(member, "rows", None) is None  # one with a frozen batch is called in its own way
        )
        return replace(self, vote=self.vote.prepared(members, probe), rows_a_call=ROWS if bound else None)


def ask(member: Classifier, x: Tensor, rows: int | None = None) -> Tensor:
    """A member's scores; in calls of so many rows where that is asked for, or all that the network takes.

    Their shape is checked, their values are not: a device would have to be waited for.
    """
    rows = getattr(member, "rows", None) or rows
    return check_shape((FixedShape(member, rows) if rows is not None else member)(x), len(x))


def together(scores: list[Tensor]) -> list[Tensor]:
    """Refuse members that do not tell the same classes apart."""
    classes = sorted({part.shape[1] for part in scores})
    if len(classes) > 1:
        raise ModelError(f"members of an ensemble must have the same classes; got {classes} of them")
    return scores


def mean(scores: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    """Σ share·scores ÷ Σ share over as many members as there are scores, in double precision: float64 [batch, classes].

    In double precision the mean of equal members is the member, to the last bit of its float32.
    """
    total = scores[0].double() * shares[0]
    for part, share in zip(scores[1:], shares[1:], strict=False):
        total = total + part.double() * share
    return total / math.fsum(shares[: len(scores)])


def probabilities(scores: Tensor) -> Tensor:
    """Softmax in double precision: float64 [batch, classes]."""
    return scores.double().softmax(dim=-1)


def checked_weights(weights: Any, members: int, values: str) -> tuple[float, ...]:
    """Weights as numbers, one for each member, with sum 1; of probabilities none negative. Else refused."""
    signed = values == "scores"
    listed = weights.tolist() if hasattr(weights, "tolist") else weights
    if not isinstance(listed, list | tuple) or any(
        isinstance(w, bool) or not isinstance(w, numbers.Real) for w in listed
    ):
        raise OptionError(
            "weights of an ensemble must be one number a member, the same for every input; got another thing (weights "
            "chosen at a test input and held while its noise is drawn make another classifier of every input, which no "
            "certificate covers; weights that are a function of the noisy input itself belong in a callable model)"
        )
    if len(listed) != members:
        raise OptionError(f"weights of an ensemble must be one for each of its {members} members; got {len(listed)}")
    if any(not math.isfinite(w) or (w < 0 and not signed) for w in listed) or abs(math.fsum(listed) - 1) > EXACT:
        must = "finite" if signed else "0 or more"
        raise OptionError(f"weights of an ensemble must be {must}, with sum 1; got {', '.join(map(str, listed))}")
    return tuple(float(w) for w in listed)


class EnsembleModule(nn.Module):
    """All members on the same batch, then their vote, as one torch network: [batch, ...] → scores [batch, classes]."""

    def __init__(self, networks: Sequence[nn.Module], vote: Vote) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.vote = vote

    def forward(self, x: Tensor) -> Tensor:
        return self.vote.combine([network(x).to(torch.float32) for network in self.networks])


def as_network(classifier: Classifier) -> nn.Module:
    """The network that this classifier is, to be exported as one graph; ModelError with the reason where it is none."""
    if isinstance(classifier, Module):
        return classifier.exportable
    if isinstance(classifier, Cascade):
        raise ModelError(
            f"a model to export must always ask all of its members; got {classifier.name}, which asks some of them "
            "about some rows only, and one graph would ask all about all (export the plain vote, and certify that)"
        )
    if isinstance(classifier, Vote):
        return EnsembleModule([as_network(member) for member in classifier.members], classifier).eval()
    if isinstance(classifier, DenoisedClassifier):
        return nn.Sequential(as_network(classifier.denoiser), as_network(classifier.classifier)).eval()
    kind = "an ONNX file already" if isinstance(classifier, Onnx) else "a callable"
    raise ModelError(f"a model to export must be made of torch networks; got {kind}")
