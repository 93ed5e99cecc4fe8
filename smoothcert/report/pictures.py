"""Inputs of a run as small pictures: as they are, and as the network saw them once, under noise.

A picture is shown only if the data are those that were certified: their hash is compared with the run's.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from smoothcert.catalog import rebuild as build
from smoothcert.contracts import EVERY, Noise, Stream, input_key
from smoothcert.data import Inputs, load
from smoothcert.errors import SmoothcertError
from smoothcert.noise import at_level
from smoothcert.runs.run import Row, Run

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

SIDE = 48  # pixels; larger inputs are shown by every k-th of theirs, so that noise keeps its strength
LARGEST = 2 * 10**8  # values of all inputs together that are hashed for the pictures' sake: seconds, not minutes
VOTING = ("test", "predict", EVERY)  # purposes of draws whose votes decided

NEEDED = {"data", "split", "skip", "max", "data_digest", "noise"}  # settings that say which inputs, and how noisy


@dataclass(frozen=True)
class Album:
    """The pictures of one run."""

    inputs: Inputs
    positions: dict[int, int]  # index of an input → where it lies
    noise: Noise
    seed: int

    def original(self, row: Row) -> str:
        """The input itself, as a data URI."""
        return uri(self._values(row))

    def noisy(self, row: Row) -> str | None:
        """The first of the noisy copies that voted, clipped to what a screen can show; None where none is known."""
        import torch

        purpose = next((answer.purpose for answer in row.answers if answer.purpose in VOTING), None)
        if purpose is None:
            return None
        x = torch.from_numpy(self._values(row))
        out = torch.empty(1, *x.shape)
        noise = self.noise if row.sigma is None else at_level(self.noise, row.sigma)
        noise.fill(out, x, Stream(self.seed, input_key(x), purpose), 0)
        return uri(out[0].numpy())

    def _values(self, row: Row) -> Array:
        import numpy as np

        values: Array = self.inputs.store.take(np.array([self.positions[row.index]]))[0]
        return values


def album(record: Run) -> Album | str:
    """The album of a run, or why there is none."""
    question = record.settings.get("question")
    if not isinstance(question, Mapping) or not question.keys() >= NEEDED:
        return "the run does not say what its inputs were"
    options = ("data", "split", "skip", "max", "value_range", "image_size", "start")
    values = [question.get(name) for name in options]
    try:
        inputs = _inputs(*values[:4], tuple(values[4]) if values[4] else None, values[5], values[6] or 0)
        noise: Noise = build("noise", question["noise"])
    except SmoothcertError as error:
        return f"the data are not at hand: {error}"
    if not _is_picture(inputs.shape):
        return f"inputs of shape {'×'.join(map(str, inputs.shape))} are no pictures"
    if len(inputs) * math.prod(inputs.shape) > LARGEST:
        return "there are too many inputs to check quickly that they are those that were certified"
    if inputs.digest != question["data_digest"]:
        return f"{question['data']} is no longer what was certified: its hash differs"
    positions = {int(index): position for position, index in enumerate(inputs.indices)}
    return Album(inputs, positions, noise, int(question.get("seed", 0)))


def uri(values: Array) -> str:
    """Values [1 or 3, height, width] in [0,1] as a PNG of at most SIDE pixels a side, inside a data URI."""
    import numpy as np
    from PIL import Image

    step = -(-max(values.shape[1:]) // SIDE)
    pixels = np.rint(values[:, ::step, ::step].clip(0.0, 1.0) * 255).astype(np.uint8)
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    sink = io.BytesIO()
    image.save(sink, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(sink.getvalue()).decode()


@lru_cache(maxsize=2)
def _inputs(*arguments: Any) -> Inputs:
    """Runs side by side mostly share their inputs: they are read, and hashed, once."""
    return load(*arguments)


def _is_picture(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) > 1
