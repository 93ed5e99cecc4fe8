"""Words depend on their name only, and no two names share any."""

from __future__ import annotations

import numpy as np
import pytest

from smoothcert.contracts import Stream
from smoothcert.errors import OptionError
from smoothcert.streams import check_seed, words


def test_words_do_not_depend_on_how_they_are_asked_for():
    stream = Stream(5, 17, "test")
    whole = words(stream, 0, 100, 20)
    for size in (1, 7, 64):
        pieces = [words(stream, at, min(size, 100 - at), 20) for at in range(0, 100, size)]
        assert np.array_equal(np.concatenate(pieces), whole)


def test_names_that_differ_in_anything_share_no_word():
    base = Stream(0, 0, "test")
    others = [
        Stream(1, 0, "test"),
        Stream(0, 1, "test"),
        Stream(0, 0, "guess"),
        Stream(2**32, 0, "test"),
        Stream(0, 2**63, "test"),
    ]
    # 2000 64-bit words each: two independent streams share one with probability 2e-13.
    seen = [set(words(stream, 0, 500, 8).view(np.uint64).ravel().tolist()) for stream in [base, *others]]
    assert all(len(one) == 2000 for one in seen)
    assert len(set().union(*seen)) == 2000 * len(seen)


def test_draws_of_a_stream_do_not_overlap_for_any_width():
    for width in (1, 8, 9, 3072):
        drawn = words(Stream(0, 3, "test"), 0, 50, width).view(np.uint64)
        assert len(np.unique(drawn)) == drawn.size


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True])
def test_seeds_outside_64_bits_are_refused(seed):
    with pytest.raises(OptionError, match="seed must be"):
        check_seed(seed)
