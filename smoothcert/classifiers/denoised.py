"""A classifier behind a denoiser (Salman et al. 2020, "Denoised Smoothing"): classifier ∘ denoiser is a classifier.

The classifier may be anybody's and need not know noise; a callable will do. Several denoisers before one classifier are
an ensemble of so many denoised classifiers. On disk it is a folder with `denoised.json`, which loads like a model:

    denoisers    where each is (a path from the folder, or a name), and the hash of what it was
    classifier   the same of the classifier
    vote         the part of `ensembles/` that combines them, where there are several denoisers

A part that has changed is refused. The hash of the whole is of the vote and the parts' hashes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcert.classifiers import ensemble
from smoothcert.classifiers.digests import ModelDigest
from smoothcert.contracts import Classifier
from smoothcert.errors import ModelError, OutputError, SmoothcertError
from smoothcert.files import write_whole, writing

if TYPE_CHECKING:
    from torch import Tensor

FILE = "denoised.json"
FORMAT = 1


@dataclass(frozen=True, eq=False)
class Behind:
    """A classifier that sees what a denoiser makes of its inputs."""

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

    def prepared(self, members: tuple[Classifier, ...], probe: Tensor) -> Behind:
        """The same of these two."""
        return Behind(*members)

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

    return Behind(wrap(denoiser), wrap(model))


@dataclass(frozen=True)
class Description:
    """Everything that denoised.json says."""

    denoisers: tuple[ensemble.Member, ...]
    classifier: ensemble.Member
    vote: ensemble.Part | None = None

    @property
    def digest(self) -> ModelDigest:
        """A hash of the function it is; where its parts lie is no part of that."""
        parts = {"denoisers": [part.digest for part in self.denoisers], "classifier": self.classifier.digest}
        return ensemble.combined({**parts, "vote": self.vote}, [*self.denoisers, self.classifier])


def is_denoised(path: Path) -> bool:
    """Whether this is the folder of one."""
    return (path / FILE).is_file()


def compose(denoisers: Sequence[Classifier], classifier: Classifier, vote: ensemble.Part | None) -> Classifier:
    """The classifier that these parts make; without a vote there is one denoiser."""
    pairs = [Behind(denoiser, classifier) for denoiser in denoisers]
    return pairs[0] if vote is None else ensemble.compose(pairs, vote, None)


def read(folder: Path) -> Description:
    """What the folder says; ModelError when it is damaged."""
    path = folder / FILE
    try:
        table = json.loads(path.read_bytes())
        if table["format"] != FORMAT:
            raise ModelError(f"format of '{path}' must be {FORMAT}; got {table['format']}")
        denoisers, vote = tuple(ensemble.member_of(part) for part in table["denoisers"]), table["vote"]
        if not denoisers or (vote is None) != (len(denoisers) == 1):
            raise ValueError(f"{len(denoisers)} denoisers and vote {vote}")
        return Description(denoisers, ensemble.member_of(table["classifier"]), vote)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"'{path}' must describe a denoised classifier; it cannot be read ({error})") from error


def load(folder: Path) -> Classifier:
    """The denoised classifier, if its parts are still what they were."""
    description = read(folder)
    denoisers = [ensemble.load_member(folder, part) for part in description.denoisers]
    classifier = ensemble.load_member(folder, description.classifier)
    try:
        return compose(denoisers, classifier, description.vote)
    except (SmoothcertError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"'{folder / FILE}' must describe a denoised classifier: {error}") from error


def write(folder: Path, description: Description) -> None:
    """Write denoised.json, whole or not at all, into a new folder or over an earlier one of its kind."""
    refuse_strangers(folder)
    table = {
        "format": FORMAT,
        "denoisers": [part._asdict() for part in description.denoisers],
        "classifier": description.classifier._asdict(),
        "vote": description.vote,
    }
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / FILE, json.dumps(table, indent=2, allow_nan=False).encode() + b"\n")


def refuse_strangers(folder: Path) -> None:
    """A folder that holds something else is not written into."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"out of a denoised classifier must be a folder; got the file '{folder}'")
    others = [path.name for path in folder.iterdir() if path.name != FILE] if folder.is_dir() else []
    if others:
        raise OutputError(f"out of a denoised classifier must be a new folder or one; got '{folder}' with {others[0]}")
