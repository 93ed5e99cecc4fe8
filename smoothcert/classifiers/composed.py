"""Classifiers made of classifiers: how to reach what is inside, and how to put something faster in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from smoothcert.contracts import Classifier, Noise, batch_rows
from smoothcert.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor


@runtime_checkable
class HasMembers(Protocol):
    """What a classifier of several must have to be made fast; its members may have members again."""

    @property
    def members(self) -> tuple[Classifier, ...]: ...

    def prepared(self, members: tuple[Classifier, ...], probe: Tensor) -> Classifier:
        """The same of these members, which may be looked at on a noisy probe [≥ batch_rows, ...]."""

    def __call__(self, x: Tensor) -> Tensor: ...


def parts(classifier: Classifier) -> list[Classifier]:
    """The classifier and all that it is made of, in an order that only depends on how it is made."""
    inside = classifier.members if isinstance(classifier, HasMembers) else ()
    return [classifier, *(part for member in inside for part in parts(member))]


def leaves(classifier: Classifier) -> list[Classifier]:
    """The classifiers inside that have no members, each once, in the order in which they are met."""
    if not isinstance(classifier, HasMembers):
        return [classifier]
    return list(dict.fromkeys(leaf for member in classifier.members for leaf in leaves(member)))


def rebuilt(classifier: Classifier, other: Callable[[Classifier], Classifier], example: Tensor) -> Classifier:
    """The same classifier with another in the place of each leaf."""
    import torch

    if not isinstance(classifier, HasMembers):
        return other(classifier)
    members = tuple(rebuilt(member, other, example) for member in classifier.members)
    generator = torch.Generator().manual_seed(0)
    probe = example + 0.25 * torch.randn(batch_rows(example.shape), *example.shape, generator=generator)
    return classifier.prepared(members, probe)


@dataclass(frozen=True, eq=False)
class DenoisedClassifier:
    """A classifier that sees what a denoiser makes of its inputs (Salman et al. 2020, "Denoised Smoothing").

    The classifier may be anybody's and need not know noise; a callable will do.
    """

    denoiser: Classifier
    classifier: Classifier

    def __post_init__(self) -> None:
        frozen = [rows for part in self.members if (rows := getattr(part, "rows", None)) is not None]
        if len(set(frozen)) > 1:
            raise ModelError(
                f"a denoiser and its classifier must take the same number of rows; got {frozen[0]} and {frozen[1]}"
            )

    @property
    def members(self) -> tuple[Classifier, ...]:
        return self.denoiser, self.classifier

    @property
    def rows(self) -> int | None:
        """The batch size that one of the two was exported with; None where any will do."""
        return next((rows for part in self.members if (rows := getattr(part, "rows", None)) is not None), None)

    def prepared(self, members: tuple[Classifier, ...], probe: Tensor) -> DenoisedClassifier:
        """The same of these two."""
        return DenoisedClassifier(*members)

    def __call__(self, x: Tensor) -> Tensor:
        """Noisy inputs [batch, ...] → scores [batch, classes]."""
        restored = self.denoiser(x)
        if getattr(restored, "shape", None) != x.shape:
            got = list(restored.shape) if hasattr(restored, "shape") else type(restored).__name__
            raise ModelError(f"a denoiser must give back inputs of the shape it was given, {list(x.shape)}; got {got}")
        return self.classifier(restored)


def Denoised(denoiser: Any, model: Any) -> Classifier:
    """A model behind a denoiser, each a torch network in eval mode, a callable, or what `load` gives.

    Several denoisers before one model: `Ensemble([Denoised(a, model), Denoised(b, model)])`.
    """
    from smoothcert.classifiers import wrap

    return DenoisedClassifier(wrap(denoiser), wrap(model))


@dataclass(frozen=True, eq=False)
class Bundle:
    """Networks that belong together without being one classifier (ACES, routing), by their roles.

    The one that answers with classes comes first. A core has no noise.
    """

    roles: tuple[str, ...]
    members: tuple[Classifier, ...]
    noises: tuple[Noise | None, ...]

    @property
    def base(self) -> Classifier:
        """The network that stands for the composition where one is asked about a clean input."""
        return self.members[0]

    def prepared(self, members: tuple[Classifier, ...], probe: Tensor) -> Bundle:
        return replace(self, members=members)

    def __call__(self, x: Tensor) -> Tensor:
        names = ", ".join(self.roles)
        raise ModelError(
            f"the model must be one network here; got a composition ({names}): see smoothcert aces and route"
        )
