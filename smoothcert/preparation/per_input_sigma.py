"""A noise level of its own for every input (Alfarra, Bibi, Torr, Ghanem, UAI 2022).

`ascent`: from the given σ, steps uphill on the radius as a function of σ, the noise drawn anew in every step, at the
level of that step. `grid`: the best of evenly spaced levels, for comparison and for classifiers without gradients; as
published, of n/200, 2n/200, … 1 with n draws each (App. B): low 0, high 1.
Both go by mean softmax, as published, which is not what certification counts: of a network that is never quite sure
they think too little, and take too large a level. `votes` (ours): the best of levels in even ratio, by votes and the
radius that certification would give for them; it takes more copies a level, and no gradients.

The class is the one at the given σ and stays (`follow`: the leading one at each level).

These draws choose and prove nothing: they have streams of their own, and the certificate at the chosen level takes
fresh ones. With a level that depends on x the smoothed classifier is no fixed function, so radii found so are promises
only of a memory (`smoothcert.memory`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from smoothcert.contracts import Stream, StreamRows, Tensor
from smoothcert.errors import OptionError, require_count, require_number, unknown
from smoothcert.noise import ScalableNoise, at_level, check_level, described
from smoothcert.preparation import estimate, slope

SEARCHES = ("ascent", "grid", "votes")
UNITS = ("sigma", "lam")  # the first goes without saying, and is not kept
FEWEST = 20  # votes a level; fewer cannot tell levels apart
PURPOSE = "sigma"
_WIDEST = 4.0  # without bounds of the user's, a level stays within this factor of the given one


@dataclass(frozen=True)
class PerInputSigma:
    """Published: 900 steps of 1e-4 with 1 draw for CIFAR-10, 400 for ImageNet, 8 draws for networks of MACER."""

    steps: int = 900
    step_size: float = 1e-4
    draws: int = 1
    low: float | None = None
    high: float | None = None
    search: str = "ascent"
    follow: bool = False
    evaluations: int = 200  # of grid and votes, in all: levels × draws
    steps_in: str | None = None  # lam: an ascent steps in the half-width of uniform noise (App. G); None: in σ

    def __post_init__(self) -> None:
        if self.search not in SEARCHES:
            raise unknown("search of per_input_sigma", str(self.search), SEARCHES)
        if self.steps_in not in (None, *UNITS):
            raise unknown("steps_in of per_input_sigma", str(self.steps_in), UNITS)
        if self.steps_in == UNITS[0]:
            object.__setattr__(self, "steps_in", None)
        require_count("per_input_sigma", steps=self.steps, draws=self.draws, evaluations=self.evaluations)
        require_number("per_input_sigma", least=math.ulp(0.0), step_size=self.step_size)
        if self.search == "votes" and self.draws < FEWEST:
            raise OptionError(f"draws of per_input_sigma must be at least {FEWEST} to count votes; got {self.draws}")
        for name in ("low", "high"):
            value = getattr(self, name)
            if value is not None and (value != 0 or name == "high" or self.search != "grid"):
                check_level(value, name, "per_input_sigma")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise OptionError(f"low of per_input_sigma must be below high; got {self.low} and {self.high}")

    def bounds(self, sigma: float) -> tuple[float, float]:
        """Lowest and highest level, for a search that starts at this one."""
        low = sigma / _WIDEST if self.low is None else self.low
        high = sigma * _WIDEST if self.high is None else self.high
        if not low <= sigma <= high:
            raise OptionError(f"sigma must be within the bounds of per_input_sigma, {low:g} to {high:g}; got {sigma:g}")
        return low, high

    @property
    def copies(self) -> int:
        """Noisy copies of an input that a search looks at."""
        return self.draws * (self.steps if self.search == "ascent" else 1 + self._levels)

    @property
    def _levels(self) -> int:
        return max(2, self.evaluations // self.draws)

    def check(self, noise: Any) -> None:
        """Only noises that a level stretches can be searched."""
        if not isinstance(noise, ScalableNoise):
            raise OptionError(f"noise of per_input_sigma must be gaussian or uniform; got {described(noise)['name']}")
        if self.steps_in == "lam" and not hasattr(noise, "lam"):
            raise OptionError(
                f"steps_in of per_input_sigma must be sigma for {described(noise)['name']} noise; got lam"
            )
        self.bounds(noise.sigma)

    def __call__(
        self,
        network: Callable[[Tensor], Tensor],
        noise: Any,
        x: Tensor,
        streams: Sequence[Stream],
        device: str = "cpu",
    ) -> list[Any]:
        """The noise of each input x [batch, ...] at its own level; one stream an input.

        `device`: where the network wants its inputs. Copies are made there (`device_of` finds it).
        """
        self.check(noise)
        unit, x = at_level(noise, 1.0), x.to(device)
        draw = (copies_here if x.device.type == "cpu" else copies_there)(unit, self.draws, x, streams)
        levels = (self._ascend if self.search == "ascent" else self._best)(network, noise, unit, x, draw)
        return [at_level(noise, float(level)) for level in levels]

    def _ascend(self, network: Any, noise: Any, unit: Any, x: Tensor, draw: Callable[[int], Tensor]) -> Tensor:
        low, high = self.bounds(noise.sigma)
        # A step of a·dr/dλ in λ = cσ is one of a/c²·dr/dσ in σ.
        length = self.step_size * ((noise.sigma / noise.lam) ** 2 if self.steps_in == "lam" else 1.0)
        sigma, label = torch.full((len(x),), float(noise.sigma), dtype=torch.float64, device=x.device), None
        for number in range(self.steps):
            gradient, _, found = slope(network, unit, x, sigma.to(x.dtype), draw(number), label)
            label = None if self.follow else found
            sigma = (sigma + length * gradient.double()).clamp(low, high)
        return sigma

    def _best(self, network: Any, noise: Any, unit: Any, x: Tensor, draw: Callable[[int], Tensor]) -> Tensor:
        low, high = self.bounds(noise.sigma)
        by_votes, told = self.search == "votes", _by_votes if self.search == "votes" else estimate
        steps = torch.linspace(0.0, 1.0, self._levels, dtype=torch.float64, device=x.device)
        if low == 0:  # at which there is no noise and no radius: the published grid's first level is one step above
            steps = torch.arange(1, self._levels + 1, dtype=torch.float64, device=x.device) / self._levels
        levels = (low * (high / low) ** steps if by_votes else low + (high - low) * steps).clamp(low, high)

        def radius(level: Tensor, number: int, label: Tensor | None) -> tuple[Tensor, Tensor]:
            return told(network, unit, x, level.expand(len(x)).to(x.dtype), draw(number), label)

        _, label = radius(torch.tensor(float(noise.sigma), device=x.device), len(levels), None)
        chosen = None if self.follow else label
        return levels[torch.stack([radius(level, i, chosen)[0] for i, level in enumerate(levels)]).argmax(0)]


def copies_here(unit: Any, draws: int, x: Tensor, streams: Sequence[Stream]) -> Callable[[int], Tensor]:
    """Noise at level 1 on the CPU by its number: draws number·draws, … of each stream [draws, batch, ...]."""
    buffer, nothing = torch.empty(draws, *x.shape), torch.zeros(x.shape[1:])

    def draw(number: int) -> Tensor:
        for position, stream in enumerate(streams):
            rows = torch.empty(draws, *x.shape[1:])
            unit.fill(rows, nothing, stream._replace(purpose=PURPOSE), number * draws)
            buffer[:, position] = rows
        return buffer

    return draw


def copies_there(unit: Any, draws: int, x: Tensor, streams: Sequence[Stream]) -> Callable[[int], Tensor]:
    """The same draws, made on the device of x."""
    keys = torch.tensor([_signed(stream.input) for stream in streams], device=x.device).repeat(draws)
    numbers = torch.arange(draws, device=x.device).repeat_interleave(len(streams))
    nothing = torch.zeros_like(x).repeat(draws, *(1 for _ in x.shape[1:]))

    def draw(number: int) -> Tensor:
        out = torch.empty_like(nothing)
        unit.fill_rows(out, nothing, StreamRows(streams[0].seed, PURPOSE, keys, numbers + number * draws))
        return out.view(draws, *x.shape)

    return draw


def _signed(key: int) -> int:
    """The signed number with the bits of a key."""
    return key - 2**64 if key >= 2**63 else key


def _by_votes(
    network: Callable[[Tensor], Tensor], unit: Any, x: Tensor, sigma: Tensor, draws: Tensor, label: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The radius [batch] by votes of copies x+σε, and the class [batch] it is about; arguments as of `estimate`."""
    with torch.no_grad():
        copies = x + sigma.view(1, -1, *(1 for _ in x.shape[1:])) * draws
        scores = network(copies.flatten(0, 1))
    votes = scores.argmax(-1).view(len(draws), len(x))
    label = votes.mode(0).values if label is None else label
    half = 0.5 / len(draws)  # all votes, or none, tell no more than half a vote
    share = (votes == label).double().mean(0).clamp(half, 1 - half)
    return sigma.double() * unit.radius(share, 1 - share, x[0].numel()), label
