"""Random words that depend on nothing but their name.

Philox 4×64 (Salmon et al., SC 2011) is a keyed function of a counter, so a draw's words can be had without drawing the
ones before it: the same under any batch size, packing, order, resume or number of workers. The key is (seed, input);
the counter is (block within the stream, 0, 0, purpose). Distinct names therefore never share a word.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np

from smoothcert.contracts import Stream
from smoothcert.errors import OptionError

WORDS_PER_BLOCK = 8  # 32-bit words from one counter value


def words(stream: Stream, first: int, draws: int, per_draw: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """The words of draws first … first+draws−1, uint32 [draws, ≥ per_draw], whole blocks for every draw."""
    blocks = -(-per_draw // WORDS_PER_BLOCK)
    key = np.array([stream.seed, stream.input], dtype=np.uint64)
    counter = np.array([first * blocks, 0, 0, purpose_number(stream.purpose)], dtype=np.uint64)
    generator = np.random.Philox(key=key, counter=counter)
    return generator.random_raw(draws * blocks * 4).view(np.uint32).reshape(draws, blocks * WORDS_PER_BLOCK)


def check_seed(seed: int) -> int:
    """A seed is any whole number that fits 64 bits; all of them are used."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
        raise OptionError(f"seed must be a whole number from 0 to 2^64 − 1; got {seed}")
    return seed


@lru_cache(maxsize=256)
def purpose_number(purpose: str) -> int:
    """The counter's last word: 64 bits of the purpose's hash."""
    return int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "little")
