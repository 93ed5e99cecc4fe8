"""Numbers from outside: lists of them are looked at as a whole, and refused as one by one."""

from __future__ import annotations

import json

import pytest

from smoothcert.errors import RunError
from smoothcert.foreign import parse_json, parse_toml

GOOD = ["[]", "[0, 1]", "[0.5, 1]", "[1e300, 0.5]", f"[{2**64 - 1}, {-(2**63)}]", "[true, 0.5]", '[[0.5], "a"]']
BAD = ["[1e999, 0.5]", "[0.5, -1e999]", f"[0.5, {2**64}]", f"[{-(2**63) - 1}]", f'["a", {2**64}]', "[[[1e999]]]"]


@pytest.mark.parametrize("text", GOOD)
def test_numbers_within_bounds_are_read(text: str) -> None:
    assert parse_json(text, "it") == json.loads(text)


@pytest.mark.parametrize("text", BAD)
def test_numbers_beyond_bounds_are_refused(text: str) -> None:
    with pytest.raises(RunError, match="it must be JSON"):
        parse_json(text, "it")


@pytest.mark.parametrize("values", ["nan, 0.5", "0.5, nan", "0.5, nan, 1", "inf, 1", "1, -inf", "inf, -inf"])
def test_what_is_no_number_is_found_wherever_it_stands(values: str) -> None:
    with pytest.raises(RunError, match="is no number"):
        parse_toml(f"a = [{values}]".encode(), "it")
