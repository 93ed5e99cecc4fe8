"""What every noise, sampling scheme and procedure must keep. A broken promise is an AssertionError in one sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from smoothcert.contracts import (
    Certificate,
    Counts,
    Draw,
    Noise,
    Norm,
    Procedure,
    Sampling,
    Source,
    Stream,
    StreamRows,
)
from smoothcert.noise import HIDDEN
from smoothcert.procedures.certify import Certify
from smoothcert.smoothed import Smoothed
from smoothcert.testing.fakes import answer

SHAPE = (3, 4, 4)
DIM = 48
STREAM = Stream(1, 2, "test")
RARE = 1e-6  # a check that leaves something to chance is wrong this often


def check_part(part: type) -> None:
    """A part is a frozen dataclass that says what it is."""
    frozen = dataclasses.is_dataclass(part) and part.__dataclass_params__.frozen  # type: ignore[attr-defined]
    _hold(frozen, f"{part.__name__} must be a frozen dataclass")
    said = part.__doc__ or ""
    _hold(bool(said) and not said.startswith(f"{part.__name__}("), f"{part.__name__} must have a docstring")


def check_noise(noise: Noise, step: float = 1e-9, shape: Sequence[int] = SHAPE) -> None:
    """Draws depend on nothing but their stream and number, and `radius` and `p_needed` are inverse.

    `step`: where radii are multiples of something, of what. `shape`: of inputs, for which it must have a thousand cases
    or more. Whether the theorem is right no such check can know: hold it against a classifier whose radius you know.
    """
    check_part(type(noise))
    _check_options(noise)
    _check_words(noise)
    noise, x = noise.fitted(shape), torch.full(tuple(shape), 0.5)
    _hold(noise.complete and noise.fitted(shape) == noise, f"{noise.kind} must stay as it was fitted to its inputs")
    _check_moments(noise, x)
    _check_batching(noise, x)
    _check_streams(noise, x)
    _check_rows(noise, x)
    _check_inverse(noise, step, x.numel())
    _check_use(noise, x)


def check_sampling(sampling: Sampling, noise: Noise, dim: int = DIM) -> None:
    """A scheme finds the class that has probability 0.97, in no more draws than it says, with no more than is true."""
    check_part(type(sampling))
    name = type(sampling).__name__
    _hold(0 <= sampling.alpha < 1 and sampling.cap > 0, f"alpha of {name} must be in [0, 1), its cap positive")
    _hold(bool(sampling.check(noise, dim)), f"check of {name} must say what its draws can show")
    if sampling.counts_all:
        return  # its draws are every case of the noise: probabilities cannot answer them
    certificate = check_procedure(Certify(50, sampling), Source(_brightness, noise), (0.97, 0.03), dim)
    p = torch.tensor(0.97, dtype=torch.float64)
    true = float(noise.radius(p, 1 - p, dim))
    _hold(certificate.label == 0, f"{name} must certify a class of probability 0.97; got label {certificate.label}")
    got = certificate.radius
    _hold(0 < got <= true, f"radius of {name} must be positive and at most the true {true:g}; got {got:g}")


def check_procedure(
    procedure: Procedure,
    source: Source,
    answers: Sequence[float] | Callable[[Draw], Counts],
    dim: int = DIM,
    truth: int | None = None,
) -> Certificate:
    """A procedure keeps to its cap and its alpha, and the same answers give the same certificate, which is returned."""
    check_part(type(procedure))
    name = type(procedure).__name__
    kinds = ("certify", "predict", "select")
    _hold(procedure.kind in kinds, f"kind of {name} must be one of {', '.join(kinds)}; got {procedure.kind!r}")
    kept: list[tuple[Draw, Counts]] = []

    def first(draw: Draw) -> Counts:
        _hold(draw.draws > 0, f"{name} must ask for draws; got {draw.draws} for {draw.purpose}")
        kept.append((draw, _counts(draw, answers, len(kept))))
        return kept[-1][1]

    certificate = answer(procedure(source, dim, truth), first)
    drawn = sum(draw.draws for draw, _ in kept if draw.purpose not in ("core", "clean"))
    _hold(drawn <= procedure.cap, f"{name} must take at most {procedure.cap} draws, its cap; it took {drawn}")
    again = iter(kept)
    _hold(
        answer(procedure(source, dim, truth), lambda draw: next(again)[1]) == certificate,
        f"{name} must give the same certificate for the same answers",
    )
    _hold(certificate.alpha <= procedure.alpha, f"a certificate of {name} must hold at its alpha, {procedure.alpha:g}")
    _hold(certificate.norm == source.noise.norm, f"a certificate of {name} must be in the norm of its noise")
    _hold(certificate.radius == 0 or not certificate.abstained, f"an abstention of {name} must have radius 0")
    return certificate


def check_error_rate(
    procedure: Procedure,
    source: Source,
    probabilities: Sequence[float],
    radius: float,
    truth: int = 0,
    inputs: int = 1000,
    dim: int = DIM,
) -> list[Certificate]:
    """Of inputs with these class probabilities, true label and true radius, at most alpha get more than is true."""
    from scipy.stats import binom

    rng = np.random.default_rng(0)
    found = [answer(procedure(source, dim, truth), probabilities, rng) for _ in range(inputs)]
    wrong = sum(not c.abstained and (c.label != truth or c.radius > radius) for c in found)
    most = int(binom.isf(RARE, inputs, procedure.alpha))
    name = type(procedure).__name__
    _hold(wrong <= most, f"{name} must be wrong at most {procedure.alpha:g} of the time; got {wrong} of {inputs}")
    return found


def _check_options(noise: Noise) -> None:
    name = type(noise).__name__
    options = {field.name: getattr(noise, field.name) for field in dataclasses.fields(noise)}  # type: ignore[arg-type]
    _hold(type(noise)(**options) == noise, f"{name} must be made again by its options: {options}")
    norms = get_args(Norm)
    _hold(noise.norm in norms, f"norm of {name} must be one of {', '.join(norms)}; got {noise.norm!r}")


def _check_words(noise: Noise) -> None:
    said = ", ".join(words for words in (noise.kind, noise.level) if words)
    plain = noise.words == said and noise.kind.endswith("noise")
    _hold(plain or noise.grid is not None, f"words of a noise must be its kind and its level; got {noise.words!r}")
    exact = noise.from_table or noise.grid is not None
    _hold(noise.exact == exact, f"{noise.kind} is exact if and only if it has a table or a grid; got {noise.exact}")


def _check_moments(noise: Noise, x: Tensor) -> None:
    """Means over all coordinates: six standard deviations of each, the fourth moment's own taken for at most 100."""
    steps = noise.grid or 255
    x = (torch.linspace(0, 1, x.numel()) * steps).round().view(x.shape) / steps  # where pixels are hidden, they differ
    known = noise.moments(x)
    if known is None:
        return
    drawn = _filled(noise, x, 4000).flatten(1).double().numpy()
    off = ((drawn.mean(axis=1, keepdims=True) if known.single else drawn) - known.centre) / known.spread
    wide = 6 / off.size**0.5
    _hold(abs(off.mean()) < wide, f"draws of {noise.kind} must have the mean that its moments tell")
    spread = abs((off**2).mean() - 1) < wide * (known.fourth.max() - 1) ** 0.5
    _hold(spread, f"draws of {noise.kind} must have the standard deviation that its moments tell")
    fourth = abs((off**4).mean() - known.fourth.mean()) < 10 * wide
    _hold(fourth, f"draws of {noise.kind} must have the fourth moment that its moments tell")


def _check_batching(noise: Noise, x: Tensor) -> None:
    whole = _filled(noise, x, 100)
    _hold(bool(torch.isfinite(whole).all()), f"fill of {noise.kind} must write every number; some are not finite")
    for size in (1, 7, 64):
        pieces = torch.cat([_filled(noise, x, min(size, 100 - at), at) for at in range(0, 100, size)])
        _hold(torch.equal(pieces, whole), f"draws of {noise.kind} must not depend on batching; batches of {size} do")


def _check_streams(noise: Noise, x: Tensor) -> None:
    base = _filled(noise, x, 8)
    different = {tuple(row.ravel().tolist()) for row in base}
    _hold(len(different) == 8, f"draws of {noise.kind} must differ from one another; of 8 only {len(different)} do")
    others = {"seed": Stream(2, 2, "test"), "input": Stream(1, 3, "test"), "purpose": Stream(1, 2, "guess")}
    for what, stream in others.items():
        same = (_filled(noise, x, 8, stream=stream) == base).flatten(1).all(1).any()
        _hold(not bool(same), f"draws of {noise.kind} must differ where the {what} of the stream does")


def _check_rows(noise: Noise, x: Tensor) -> None:
    """Rows of two inputs in turns, with keys that fill 64 bits: equal where nothing is rounded, close elsewhere."""
    inputs = torch.stack([torch.zeros(x.shape), x])
    keys, numbers, which = (5, 2**64 - 7), torch.tensor([9, 9, 2**32, 0, 1, 2]), torch.tensor([0, 1, 0, 1, 1, 1])
    names = torch.tensor([key - 2**64 * (key >= 2**63) for key in keys])[which]
    made, wanted = torch.full((2, 6, *x.shape), float("nan"))
    noise.fill_rows(made, inputs[which], StreamRows(2**64 - 1, "test", names, numbers))
    for row, (number, one) in enumerate(zip(numbers.tolist(), which.tolist(), strict=True)):
        noise.fill(wanted[row : row + 1], inputs[one], Stream(2**64 - 1, keys[one], "test"), number)
    near = 0.0 if noise.exact else 1e-5 * (1 + float(wanted.abs().max()))
    said = f"fill_rows of {noise.kind} must write the draws of fill, row by row"
    _hold(torch.allclose(made, wanted, rtol=0.0, atol=near), said)


def _check_inverse(noise: Noise, step: float, dim: int) -> None:
    half = torch.tensor(0.5, dtype=torch.float64)
    nothing, least = float(noise.radius(half, half, dim)), noise.p_needed(0.0, dim)
    _hold(abs(nothing) <= 1e-12, f"radius of {noise.kind} must be 0 at one half; got {nothing:g}")
    _hold(abs(least - 0.5) <= 5e-7, f"p_needed of {noise.kind} must be one half at radius 0; got {least:g}")
    last = 0.0
    for p in (0.55, 0.7, 0.9, 0.99):
        top = torch.tensor(p, dtype=torch.float64)
        radius = float(noise.radius(top, 1 - top, dim))
        _hold(radius > last, f"radius of {noise.kind} must rise with p; {radius:g} at {p:g} after {last:g}")
        below, above = noise.p_needed(radius - step / 2, dim), noise.p_needed(radius + step, dim)
        said = f"p_needed of {noise.kind} must undo radius; {radius:g}, of {p:g}, needs {below:g} to {above:g}"
        _hold(below <= p <= above, said)
        last = radius


def _check_use(noise: Noise, x: Tensor) -> None:
    smoothed = Smoothed(_brightness, noise)
    certificate = smoothed.certify(x, n=2000)
    right = certificate.label == smoothed.predict(x) == 1 and certificate.radius > 0
    _hold(right, f"{noise.kind} must certify that an input of 0.5 is brighter than 0.4")
    batched = smoothed.certify(x, n=2000, batch=7)
    _hold(certificate == batched, f"certificates under {noise.kind} must not depend on batching")


def _brightness(x: Tensor) -> Tensor:
    """Class 1 where the mean of all that is not hidden is above 0.4."""
    shown = x.flatten(1) != HIDDEN
    mean = (x.flatten(1) * shown).sum(1) / shown.sum(1)
    return torch.stack([0.4 - mean, mean - 0.4], dim=1)


def _filled(noise: Noise, x: Tensor, rows: int, first: int = 0, stream: Stream = STREAM) -> Tensor:
    out = torch.full((rows, *x.shape), float("nan"))
    noise.fill(out, x, stream, first)
    return out


def _counts(draw: Draw, answers: Sequence[float] | Callable[[Draw], Counts], number: int) -> Counts:
    if callable(answers):
        return np.asarray(answers(draw), dtype=np.int64)
    return np.random.default_rng(number).multinomial(draw.draws, answers)[None, :].astype(np.int64)


def _hold(true: bool, sentence: str) -> None:
    if not true:
        raise AssertionError(sentence)
