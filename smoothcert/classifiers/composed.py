"""Classifiers made of classifiers: how to reach what is inside, and how to put something faster in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from smoothcert.contracts import Classifier, batch_rows

if TYPE_CHECKING:
    from torch import Tensor


@runtime_checkable
class Composition(Protocol):
    """What an ensemble must have to be made fast; its members may be compositions again."""

    @property
    def members(self) -> tuple[Classifier, ...]: ...

    def prepared(self, members: tuple[Classifier, ...], probe: Tensor) -> Classifier:
        """The same composition of these members, which may be looked at on a noisy probe [≥ batch_rows, ...]."""

    def __call__(self, x: Tensor) -> Tensor: ...


def leaves(classifier: Classifier) -> list[Classifier]:
    """The classifiers inside that are no compositions, each once, in the order in which they are met."""
    if not isinstance(classifier, Composition):
        return [classifier]
    return list(dict.fromkeys(leaf for member in classifier.members for leaf in leaves(member)))


def rebuilt(classifier: Classifier, other: Callable[[Classifier], Classifier], example: Tensor) -> Classifier:
    """The same composition with another classifier in the place of each leaf."""
    import torch

    if not isinstance(classifier, Composition):
        return other(classifier)
    members = tuple(rebuilt(member, other, example) for member in classifier.members)
    generator = torch.Generator().manual_seed(0)
    probe = example + 0.25 * torch.randn(batch_rows(example.shape), *example.shape, generator=generator)
    return classifier.prepared(members, probe)
