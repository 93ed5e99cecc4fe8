"""One word for one thing: what the pages must not say, and what they say instead. codespell finds the misspellings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]

INSTEAD = {
    r"certified (share|rate)": "certified accuracy",
    r"confidence level": "significance α",
    r"error probability": "significance α",
    r"noise (scale|strength|magnitude)": "noise level σ",
    r"(Monte Carlo|noise) samples": "draws",
    r"data-?sets?": "data set",
    r"randomised smoothing": "randomized smoothing",
    r"base model": "base classifier",
    r"CIFAR ?10": "CIFAR-10",
    r"Imagenet": "ImageNet",
    r"Pytorch|Numpy|Sqlite|Postgres|Github|Huggingface|Onnx": "the name as its project writes it",
    r"allows? to|permits? to": "lets one, or makes possible",
    r"informations|softwares|evidences": "the singular",
    r"obviously|trivially|it is easy to see|in order to|so-called": "nothing",
    r"/work|/root": "a path that every reader has",
}
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`|\]\([^)\s]*\)|https?://\S+")


def prose(text: str) -> str:
    """A page without its code, addresses and formulas in backticks; lines keep their numbers."""
    return CODE.sub("", FENCE.sub(lambda found: "\n" * found[0].count("\n"), text))


def refused(text: str) -> list[str]:
    lines = enumerate(prose(text).splitlines(), 1)
    return [
        f"line {number}: {found[0]!r}; say {better}"
        for number, line in lines
        for word, better in INSTEAD.items()
        for found in re.finditer(rf"(?<!\w)(?:{word})(?!\w)", line)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_each_thing_by_its_one_word(page):
    assert not refused(page.read_text(encoding="utf-8"))


def test_code_is_not_read_and_prose_is():
    assert refused("The certified share\nof a dataset.") == [
        "line 1: 'certified share'; say certified accuracy",
        "line 2: 'dataset'; say data set",
    ]
    assert not refused("The `dataset` of\n```python\nimport datasets\ndataset = 1\n```\n[here](/a/dataset)")


def test_every_word_of_the_list_can_be_refused():
    said = "certified rate, confidence level, error probability, noise scale, noise samples, datasets"
    more = "randomised smoothing, base model, CIFAR10, Imagenet, Pytorch, allows to, informations, obviously"
    assert len(refused(f"{said}, {more}, in /work/x")) == len(INSTEAD)
