"""The page: whole, self-contained, escaped, honest."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_runs import log_of, run_of

from smoothcert.errors import OutputError
from smoothcert.report.html import page, save
from smoothcert.report.metrics import Interval
from smoothcert.report.tables import span
from smoothcert.runs.run import Row, Run

EVIL = '<script>alert("x")</script>'
SETTINGS = {
    "model": EVIL,
    "model_digest": "ab" * 32,
    "sampling": {"name": "fixed", "n": 1000, "alpha": 0.001},
    "means": {
        "command": "smoothcert certify 'm & n' --sigma 0.25", "versions": {"torch": "2.13.0"}, "notes": ("a", "b"),
    },
}  # fmt: skip
PREDICT = {**SETTINGS, "sampling": None, "procedure": {"name": "predict", "n": 1000, "alpha": 0.001}}
ROWS = (
    Row(0, 1, 1, 0.51239, 1100, 1.0, 1, 0.97),
    Row(1, 2, 5, 0.3, 1100, 1.0, 2, 0.9),
    Row(2, 7, -1, 0.0, 1100, 1.0, 0, 0.4),
)
RECORD = run_of(ROWS, "first", **SETTINGS)
LOG = log_of([Row(i, 1, 1, i / 1000) for i in range(700)])
VOID = {"meta", "input", "br", "link", "img"}


class Shape(HTMLParser):
    """Checks that tags close in order, and gathers ids, references and words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.refs: list[str] = []
        self.words: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            self.attributes.append((name, value or ""))
            if name == "id":
                self.ids.append(value or "")
            if name in ("for", "aria-labelledby"):
                self.refs.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.mark.parametrize("records", [[RECORD], [RECORD, LOG], [LOG], [run_of(ROWS, "p", **PREDICT)]])
def test_the_page_is_well_formed_and_fetches_nothing(records: list[Run]) -> None:
    text = page(records)
    shape = Shape(text)
    assert len(shape.ids) == len(set(shape.ids))
    assert set(shape.refs) <= set(shape.ids)
    assert text.startswith('<!doctype html>\n<html lang="en">')
    outside = [value for name, value in shape.attributes if name in ("src", "href", "xlink:href", "action")]
    assert all(value.startswith(("#", "data:image/png;base64,")) for value in outside)
    assert "url(http" not in text and "@import" not in text
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)


def test_the_page_allows_its_own_script_and_nothing_else() -> None:
    import base64
    import hashlib

    text = page([RECORD, LOG])
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.replace("&#39;", "'") == (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{allowed}'"
    )
    assert all(kind == ' type="application/json"' for kind in re.findall(r"<script([^>]+)>", text))
    assert not re.search(r'\son\w+="', text)  # no handler in an attribute, which the policy would refuse


def test_the_page_says_what_the_figures_are() -> None:
    words = Shape(page([RECORD], [0.0, 0.5])).text
    assert "Certified accuracy at radius 0 33.3 % 95 % exact interval 0.8 – 90.6" in words
    assert "Average certified radius 0.170" in words
    assert "Clean accuracy, no noise 66.6" in words
    assert "correct 1 (33.3 %) wrong 1 (33.3 %) abstained 1 (33.3 %)" in words
    assert "0.5 33.3 0.8 – 90.6" in words  # the table of radii


def test_the_page_says_what_the_certificate_does_not() -> None:
    words = Shape(page([RECORD])).text
    for phrase in (
        "does not say",
        "α is per input",
        "α = 0.001",
        "σ = 0.25",
        "ℓ₂ norm",
        "smoothed classifier only",
        "Floating point",
    ):
        assert phrase in words
    assert "read from a log" not in words
    assert "read from a log" in Shape(page([LOG])).text


def test_settings_hashes_versions_and_the_command_are_there_and_escaped() -> None:
    text = page([RECORD])
    words = Shape(text).text
    for value in ("ab" * 32, "gaussian", "1000", "2.13.0", "a, b", "smoothcert certify 'm & n' --sigma 0.25", EVIL):
        assert value in words
    assert EVIL not in text


def test_names_are_escaped_in_words_and_in_pictures() -> None:
    from dataclasses import replace

    text = page([replace(RECORD, name=EVIL), LOG])
    assert EVIL not in text
    assert text.count("&lt;script&gt;") >= 5


def test_inputs_are_listed_with_wrong_ones_and_abstentions() -> None:
    words = Shape(page([RECORD])).text
    assert "0 1 1 correct 0.512 1,100" in words
    assert "1 2 5 wrong 0.300 1,100" in words
    assert "2 7 none abstained – 1,100" in words
    assert "wrong (1)" in words and "abstained (1)" in words


def test_long_runs_show_their_first_inputs_and_hold_the_others() -> None:
    text = page([LOG])
    assert "all 700 inputs" in Shape(text).text
    assert text.count('<tr class="one correct">') == 100


def test_what_runs_share_is_said_once_and_what_they_do_not_beside_each() -> None:
    other = run_of(ROWS, "second", **SETTINGS, noise={"name": "gaussian", "sigma": 0.5})
    words = Shape(page([RECORD, other])).text
    assert words.count("α = 0.001 an input") == 1
    assert "first Gaussian noise, σ = 0.25" in words and "second Gaussian noise, σ = 0.5" in words


def test_several_runs_have_their_best_marked() -> None:
    from dataclasses import replace

    better = replace(RECORD, name="second", rows=(replace(ROWS[0], radius=0.7), *ROWS[1:]))
    text = page([RECORD, better], [0.0, 0.6])
    # Both at radius 0 and without noise; the second alone at 0.6, and in ACR.
    assert text.count('class="best"') == 2 + 2 + 1 + 1
    assert "2 runs side by side" in text


def test_norms_have_curves_radii_and_tables_of_their_own() -> None:
    from dataclasses import replace

    whole = tuple(replace(row, radius=float(i)) for i, row in enumerate(RECORD.rows))
    text = page([RECORD, LOG, run_of(whole, "third", noise={"name": "discrete", "keep": 0.8}, **SETTINGS)])
    words = Shape(text).text
    assert words.index("against ℓ₂ radius") < words.index("against ℓ₀ radius")
    assert "ℓ₂ radius run 0 0.25 0.5 ACR clean % abstained % inputs draws time first" in words
    assert "ℓ₀ radius run 0 1 2 ACR clean % abstained % inputs draws time third" in words
    ranked = text[text.index('id="figures-2"') :]
    assert 'class="best"' not in ranked[: ranked.index("</table>")]  # nothing to be better than


def test_an_unfinished_run_is_said_to_be() -> None:
    assert "half is unfinished: 3 of 9 inputs" in Shape(page([run_of(ROWS, "half", **SETTINGS, inputs=9)])).text
    assert "unfinished" not in Shape(page([RECORD])).text


def test_intervals_round_outwards() -> None:
    assert span(Interval(0.70799, 0.78501)) == "70.7 – 78.6"
    assert span(Interval(0.0, 1.0)) == "0.0 – 100.0"
    assert span(Interval(0.3961, 0.4621), percent=False) == "0.396 – 0.463"


def test_the_page_is_the_same_each_time_and_written_whole(tmp_path: Path) -> None:
    assert page([RECORD, LOG]) == page([RECORD, LOG])
    save(page([RECORD]), tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text() == page([RECORD])
    with pytest.raises(OutputError):
        save("x", tmp_path / "no" / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
