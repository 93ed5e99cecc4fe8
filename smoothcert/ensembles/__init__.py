"""② Several classifiers → one classifier: one file for each way to vote.

    soft_vote softmax_vote weighted_vote hard_vote max_margin     how scores become scores
    k_consensus early_exit                                        around a vote: not every member is always asked
    weights/                                                      hold-out inputs → weights
    holdout forecast                                              what members do under noise, and what more would do

A certificate of an ensemble is for exactly this vote of exactly these members in this order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smoothcert import catalog
from smoothcert.classifiers import wrap
from smoothcert.classifiers.composite import Part, compose
from smoothcert.contracts import Classifier
from smoothcert.errors import OptionError, unknown


def Ensemble(
    members: Sequence[Any],
    vote: str = "soft",
    weights: Sequence[float] | None = None,
    consensus: int | None = None,
    early_exit: bool | Mapping[str, float] | None = None,
) -> Classifier:
    """Several models as one classifier.

    members: torch networks in eval mode, callables, what `load` gives, ensembles; the same one may come twice.
    vote: soft (mean of scores), softmax (of probabilities), weighted, hard, max_margin.
    weights: one number a member with sum 1, for soft, softmax and weighted (which is of probabilities).
    consensus: where the first so many members agree they answer for all; put the most accurate first.
    early_exit: True, or its `threshold` and `level`; members are then asked in order of falling weight.
    """
    members = [wrap(model) for model in members]
    if early_exit and weights is not None:
        chosen = vote_part(vote, weights, len(members))["weights"]
        order = falling(chosen)
        members, weights = [members[number] for number in order], [chosen[number] for number in order]
    return compose(members, vote_part(vote, weights, len(members)), cascade_part(consensus, early_exit))


def vote_part(vote: str, weights: Any, members: int) -> dict[str, Any]:
    """The part that a vote's short name and weights stand for, weights checked."""
    from smoothcert.ensembles._vote import simplex

    known = catalog.names("ensembles")
    file = f"{vote}_vote" if f"{vote}_vote" in known else vote
    if file not in known or not _is_vote(file):
        raise unknown("vote of an ensemble", vote, [name.removesuffix("_vote") for name in known if _is_vote(name)])
    if weights is None and file == "weighted_vote":
        raise OptionError("weights of weighted_vote must be given; got none")
    if weights is None:
        return {"name": file}
    if file not in ("soft_vote", "softmax_vote", "weighted_vote"):
        raise OptionError(f"weights of an ensemble must go with soft, softmax or weighted; got {vote}")
    of = "scores" if file == "soft_vote" else "softmax"
    return {"name": "weighted_vote", "weights": list(simplex(weights, members)), "of": of}


def cascade_part(consensus: int | None, early_exit: bool | Mapping[str, float] | None) -> Part | None:
    """The part that decides how many members are asked; None: always all."""
    if consensus is not None and early_exit:
        raise OptionError("an ensemble must have one of consensus and early_exit; got both")
    if consensus is not None:
        return {"name": "k_consensus", "k": consensus}
    if not early_exit:
        return None
    return {"name": "early_exit", **(early_exit if isinstance(early_exit, Mapping) else {})}


def falling(values: Sequence[float]) -> list[int]:
    """Positions in order of falling value; equal ones stay as they are."""
    return sorted(range(len(values)), key=lambda number: -values[number])


def _is_vote(file: str) -> bool:
    """Whether the part of this file is a plain vote; some files of the folder are tools and hold no part."""
    from smoothcert.ensembles._vote import Vote

    try:
        return issubclass(catalog.find("ensembles", file)[0], Vote)
    except AttributeError:
        return False
