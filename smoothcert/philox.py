"""The words of `streams` on a torch device, bit for bit, and how noise is made from them there.

Philox 4×64-10 in 64-bit integers that wrap: torch has no unsigned ones and no upper half of a product, so that one is
put together from 32-bit halves. Nothing here waits for the device. What a noise does with its words is a function of
tensors: it runs as it is, or compiled (`Compiled`), which is many times faster. Seeds, purposes, levels and draw
numbers are tensors too, so that one compilation serves them all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from smoothcert.contracts import StreamRows, Tensor
from smoothcert.streams import WORDS_PER_BLOCK, purpose_number

HALF = 2**32 - 1  # the lower 32 bits; a shift of signed numbers drags the sign along, and this takes it off
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
BUMPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)  # of the key, after each round
ROUNDS = 10
APART = 2.0**-20  # of the largest number: what compiling may do to floats, and far less than a wrong word does


class Names(NamedTuple):
    """`StreamRows` in tensors alone."""

    key: Tensor  # int64 [2]: seed and purpose
    inputs: Tensor  # int64 [rows]
    numbers: Tensor  # int64 [rows]


def names(rows: StreamRows, purpose: str = "") -> Names:
    """The names of these rows, or of the rows with the same numbers of another purpose."""
    key = tensor(_key, (rows.seed, purpose or rows.purpose), rows.inputs)
    return Names(key, rows.inputs, rows.numbers)


def words(of: Names, per_draw: int) -> Tensor:
    """`streams.words` of each row: int32 [rows, per_draw], the bits of 32-bit words."""
    import torch

    blocks = whole_blocks(per_draw) // WORDS_PER_BLOCK
    # A Philox generator of numpy counts before its first block.
    counter = (of.numbers * blocks + 1).unsqueeze(1) + torch.arange(blocks, device=of.numbers.device)
    # One stack, viewed: compiled, it is written once, and assignments to its parts are not always compiled right.
    made = torch.stack(block(of.key, of.inputs.unsqueeze(1), counter), dim=-1)
    return made.view(torch.int32).flatten(1).narrow(1, 0, per_draw)


def words_at(of: Names, per_draw: int, row: Tensor, column: Tensor) -> Tensor:
    """Single words: those of these rows and columns, int64 from 0 to 2³² − 1."""
    import torch

    blocks = whole_blocks(per_draw) // WORDS_PER_BLOCK
    counter = of.numbers.index_select(0, row) * blocks + column // WORDS_PER_BLOCK + 1
    made = torch.stack(block(of.key, of.inputs.index_select(0, row), counter), dim=-1)
    place = column % WORDS_PER_BLOCK
    return (made.gather(-1, (place // 2).unsqueeze(-1)).squeeze(-1) >> (place % 2 * 32)) & HALF


def whole_blocks(per_draw: int) -> int:
    """Words of one draw with those that are left over."""
    return -(-per_draw // WORDS_PER_BLOCK) * WORDS_PER_BLOCK


def block(key: Tensor, inputs: Tensor, counter: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The four 64-bit numbers of the counters (counter, 0, 0, purpose) under the keys (seed, input).

    What does not depend on the counter yet, in the first rounds, is computed once a row or once.
    """
    (first, purpose), second = key.unbind(), inputs
    high, d = product(MULTIPLIERS[0], counter)
    a, b, c = first, first ^ first, high ^ (purpose ^ second)
    for _ in range(ROUNDS - 1):
        first, second = first + signed(BUMPS[0]), second + signed(BUMPS[1])
        (high, low), (other_high, other_low) = product(MULTIPLIERS[0], a), product(MULTIPLIERS[1], c)
        a, b, c, d = other_high ^ (b ^ first), other_low, (high ^ second) ^ d, low
    return a, b, c, d


def product(multiplier: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """Upper and lower 64 bits of the product of unsigned 64-bit numbers."""
    upper, lower = multiplier >> 32, multiplier & HALF
    high, low = (x >> 32) & HALF, x & HALF
    first = upper * low + ((lower * low >> 32) & HALF)
    second = lower * high + (first & HALF)
    return upper * high + ((first >> 32) & HALF) + ((second >> 32) & HALF), signed(multiplier) * x


def signed(number: int) -> int:
    """The signed number with these 64 bits."""
    return (number + 2**63) % 2**64 - 2**63


def unsigned(bits: Tensor) -> Tensor:
    """Words from their bits: int64 from 0 to 2³² − 1."""
    return bits.long() & HALF


def tensor(make: Callable[..., Any], options: tuple[Hashable, ...], like: Tensor) -> Tensor:
    """What `make(*options)` returns, a number or an array, as a tensor on the device of `like`; made once."""
    return _tensor(make, options, like.device, getattr(like, "fake_mode", None))  # fake ones must not meet real ones


@lru_cache(maxsize=128)
def _tensor(make: Callable[..., Any], options: tuple[Hashable, ...], device: Any, mode: object) -> Tensor:
    import torch

    with torch.inference_mode(False):  # kept for all: made inside that mode it would be compiled for a second time
        return torch.tensor(np.asarray(make(*options)), device=device)


def _key(seed: int, purpose: str) -> Sequence[int]:
    return signed(seed), signed(purpose_number(purpose))


class Compiled:
    """Runs functions of tensors compiled, as `StreamRows.run`: whatever does not compile, or not right, runs as it is.

    A function writes into its first argument. At the first call for given shapes its result is held against the one
    without compiler; that call waits for the device, later ones do not.
    """

    def __init__(self, backend: str = "inductor") -> None:
        self.backend = backend
        self.notes: list[str] = []
        self._trusted: dict[Hashable, Callable[..., None]] = {}
        self._lock = threading.Lock()

    def __call__(self, function: Callable[..., None], out: Tensor, *arguments: Any) -> None:
        import torch

        met = (function, *_signature((out, *arguments)))
        with torch.no_grad():
            if (trusted := self._trusted.get(met)) is not None:
                trusted(out, *arguments)
                return
            with self._lock:
                self._trusted[met] = self._first(function, out, *arguments)

    def _first(self, function: Callable[..., None], out: Tensor, *arguments: Any) -> Callable[..., None]:
        """Run it, compiled if that works; whichever is to be used from now on."""
        import torch

        right = torch.empty_like(out)
        function(right, *arguments)
        compiled = torch.compile(function, backend=self.backend, dynamic=False)
        problem = "it gives other numbers"
        try:
            compiled(out, *arguments)
            if torch.allclose(out, right, rtol=0.0, atol=APART * float(right.nan_to_num().abs().max()), equal_nan=True):
                return compiled
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # compilers fail in any way
            problem = (str(error).strip() or type(error).__name__).splitlines()[0]
        out.copy_(right)
        note = f"noise is not compiled on {out.device.type}, and slower for it: {problem}"
        if note not in self.notes:
            self.notes.append(note)
        return function


def _signature(arguments: Sequence[Any]) -> list[Hashable]:
    """What a compilation depends on: of tensors their layout, of anything else its value."""
    found: list[Hashable] = []
    for argument in arguments:
        if isinstance(argument, tuple):
            found.extend(_signature(argument))
        elif hasattr(argument, "stride"):
            found.append((argument.shape, argument.stride(), argument.dtype, argument.device))
        else:
            found.append(argument)
    return found
