"""Whether Gaussian noise is added in whole steps of 8-bit images ("exact") or in floating point ("float").

In floats x + noise keeps traces of x in its last bits, and a network could read them: a certificate could then be false
(`smoothcert/noise/gaussian_grid.py`). Whole steps cost next to nothing (`benchmarks/arithmetic.py`), so they are what
8-bit data get unless floats are asked for, in Python as on the command line. Which of them it was is the noise of the
record, `gaussian_grid` or `gaussian`.

Where noise is added in floats, `probe` tries whether the network reads those bits: the same noisy copies are asked for
once more with fresh last bits. What is then asked tells nothing of x by its bits, so the share of votes that differ
bounds how much the bits can have added to any class. A network that does not read them changes its mind on a share of
copies like the share that the fresh bits are of the noise, some 10⁻⁵: it is only ever at the boundary that it can.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from smoothcert.contracts import Classifier, Noise, Stream, batch_rows, input_key
from smoothcert.errors import DataError, ModelError, OptionError, unknown
from smoothcert.noise import ScalableNoise, described, on_grid

if TYPE_CHECKING:
    from torch import Tensor

CHOICES = ("exact", "float")
GRID = 255
ROWS = 256  # noisy copies that a probe asks for, twice
INPUTS = 8  # that a probe looks at, if there are so many
LAST = 2.0**-19  # of the largest value: what is replaced by fresh bits; float32 keeps 2⁻²⁴, and no sum of two more
SPARED = 0.01  # share of votes that may change beside that: in 8-bit networks 0.006 did, in others next to none
ERROR = 1e-6  # probability that a network with no larger share is accused


class ChosenNoise(NamedTuple):
    """Noises in the arithmetic they will have, and why it is not the exact one (empty where nothing was chosen)."""

    noise: Noise
    others: list[Noise | None]
    reason: str = ""


def check(arithmetic: str | None, noise: Noise, option: str = "arithmetic") -> None:
    """Refuse an arithmetic that this noise cannot have."""
    name = str(described(noise)["name"])
    if arithmetic is not None and arithmetic not in CHOICES:
        raise unknown(option, arithmetic, CHOICES)
    if arithmetic == "float" and noise.exact:
        raise OptionError(f"{option} of {name} noise must be exact, as it always is; got float")
    if arithmetic == "exact" and not noise.exact and name != "gaussian":
        raise OptionError(f"{option} of {name} noise must be float (exact in l1: splitting); got exact")


def choose(
    noise: Noise,
    arithmetic: str | None,
    inputs: Iterable[tuple[int, Tensor]],
    others: Sequence[Noise | None] = (),
    option: str = "arithmetic",
) -> ChosenNoise:
    """Gaussian noise, and others beside it, in whole steps where all (numbered) inputs allow it, else in floats."""
    from smoothcert.noise.gaussian import Gaussian
    from smoothcert.noise.gaussian_grid import LARGEST, GaussianGrid

    plain = ChosenNoise(noise, list(others))
    if arithmetic == "float" or not isinstance(noise, Gaussian):
        return plain
    widest = max(one.sigma for one in (noise, *others) if isinstance(one, Gaussian))
    reason = f"sigma {widest:g} is above {LARGEST / GRID:g}, the most that steps of 1/{GRID} allow"
    if arithmetic == "exact" or widest <= LARGEST / GRID:
        reason = _off_grid(inputs)
    if not reason:
        beside = [GaussianGrid(one.sigma, GRID) if isinstance(one, Gaussian) else one for one in others]
        return ChosenNoise(GaussianGrid(noise.sigma, GRID), beside)
    if arithmetic == "exact":
        raise DataError(
            f"inputs with {option} exact must be multiples of 1/{GRID}, as those of 8-bit images are; {reason} "
            "(for other steps: gaussian_grid noise with another grid)"
        )
    return plain._replace(reason=f"noise is added in floating point to all inputs: {reason}")


def _off_grid(inputs: Iterable[tuple[int, Tensor]]) -> str:
    """The first input that has no place on the grid, in words; empty where all have."""
    for number, x in inputs:
        if not on_grid(x, GRID):
            steps = x.reshape(-1).double() * GRID
            value = float(x.reshape(-1)[(steps - steps.round()).abs().argmax()])
            return f"input {number} has the value {value:g}, which is no multiple of 1/{GRID}"
    return ""


class LowBits(NamedTuple):
    """Of so many noisy copies, how many change their class when nothing but their last bits does."""

    rows: int = 0
    changed: int = 0
    share: float = 0.0  # that an honest network may change

    @property
    def suspicious(self) -> bool:
        """Whether that are more than chance and the boundary explain, by an exact binomial test."""
        from scipy.stats import binom

        return self.changed > 0 and float(binom.sf(self.changed - 1, self.rows, self.share)) < ERROR


def probe(
    classifier: Classifier, noise: Noise | None, inputs: Sequence[Tensor], seed: int = 0, rows: int = ROWS
) -> LowBits:
    """Ask about noisy copies of some inputs, spread over all of them, and again with fresh last bits.

    Nothing to ask where noise is exact, or none. A classifier that answers twice about one batch in two ways is left
    to the check of batches, which says so.
    """
    import torch

    if noise is None or noise.exact or not isinstance(noise, ScalableNoise) or len(inputs) == 0:
        return LowBits()
    few = min(INPUTS, len(inputs))
    chosen = [inputs[number * len(inputs) // few] for number in range(few)]
    found = LowBits()
    for x in chosen:
        noisy, fresh, share = _copies(noise, x, seed, -(-rows // few))
        before, after = (_top_classes(classifier, copies) for copies in (noisy, fresh))
        changed = int((before != after).sum())
        if changed and not torch.equal(before, _top_classes(classifier, noisy)):
            return LowBits()
        found = LowBits(found.rows + len(noisy), found.changed + changed, max(found.share, share))
    return found


def refuse_low_bits(
    classifier: Classifier, noise: Noise | None, inputs: Sequence[Tensor], seed: int = 0, rows: int = ROWS
) -> LowBits:
    """What a probe found; ModelError where the network reads its input from the last bits of float noise."""
    found = probe(classifier, noise, inputs, seed, rows)
    if found.suspicious:
        raise ModelError(
            f"the network must not read the last bits of noise that is added in floats, or certificates are false; "
            f"{found.changed} of {found.rows} noisy copies change class with those bits alone (certify inputs on a "
            f"grid: --arithmetic exact for multiples of 1/{GRID}, gaussian_grid noise with another grid for others)"
        )
    return found


def _copies(noise: Noise, x: Tensor, seed: int, rows: int) -> tuple[Tensor, Tensor, float]:
    """Noisy copies [rows, ...], the same with fresh last bits, and what share of votes that may cost."""
    import numpy as np
    import torch

    noisy = torch.empty(rows, *x.shape)
    noise.fill(noisy, x, Stream(seed, input_key(x), "last bits"), 0)
    wide = noisy.double()
    # A power of two holds every grid of float32 a whole number of times: afterwards each value below is as likely.
    width = 2.0 ** math.ceil(math.log2(LAST * max(1.0, float(wide.abs().max()))))
    fresh = np.random.default_rng([seed, 255]).uniform(-width, width, tuple(noisy.shape))
    share = width / max(float((wide - x.double()).std(correction=0)), 1e-300)
    return noisy, (wide + torch.from_numpy(fresh)).float(), min(0.5, SPARED + share)


def _top_classes(classifier: Classifier, copies: Tensor) -> Tensor:
    """The class of each copy, asked for in batches as the network takes them."""
    import torch

    size = getattr(classifier, "rows", None) or batch_rows(copies.shape[1:])
    found = []
    for part in torch.split(copies, size):
        padded = torch.cat([part, part[-1:].expand(size - len(part), *part.shape[1:])]) if len(part) < size else part
        with torch.no_grad():
            scores = classifier(padded)
        if not (isinstance(scores, torch.Tensor) and scores.ndim == 2 and len(scores) == size):
            return torch.zeros(len(copies))  # no scores: whoever counts them says so
        found.append(scores.argmax(dim=1)[: len(part)])
    return torch.cat(found)
