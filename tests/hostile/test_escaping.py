"""Names from outside stay words: in CSV, logs, LaTeX, Markdown, HTML, pictures, YAML, JSON and on a terminal.

Whoever makes a run chooses what it, its model and its data are called, and what its command and notes say.
"""

from __future__ import annotations

import csv
import html.parser
import io
import itertools
import json
import re
import tempfile
import unicodedata
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from made_runs import ABSTAINED, WRONG, rows, run_of, stored

from smoothcert.cli.main import run
from smoothcert.report import plots, render
from smoothcert.report.exports import model_index
from smoothcert.report.html import page
from smoothcert.report.metrics import figures
from smoothcert.report.section import Section, Table, plain
from smoothcert.report.tables import table
from smoothcert.runs.exchange import no_formula, read_log, write_cohen, write_csv
from smoothcert.runs.run import Run

EVIL = (
    "=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1+1", "\r=1", " =1", "＝1+1", '"=1', "a\nb", "a\r\n=1",
    "x\n\\end{tabular}\\input{/etc/passwd}", "\\", "\\\\", "% x", "$\\frac$ a $", "$$", "#1 & _2 ^3 ~4 {5", "}{",
    "[1cm]", "*", "|a|b|", "`|`", "**a** [x](javascript:1)", "<script>alert(1)</script>", "<!-- ", "-->",
    '"><img src=x onerror=alert(1)>', "' onclick='x", "]]>", "&amp;", "{{ 7 * 7 }}", "{% raw %}", "</style><b>",
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\u202etxt.exe", "[red]x[/red]", "[/]", "_hidden", "```", "---", ": x",
    "- x", "!!python/object:os.system", "\x00", "\x85", "\u2028", "\ud800", "\x7f", "é", "漢字", "a b", ".",
)  # fmt: skip
MARKS = "".join(dict.fromkeys("".join(EVIL))) + "abc 01\ufeff\u200b"
NASTY = st.one_of(
    st.sampled_from(EVIL),
    st.text(st.sampled_from(MARKS), min_size=1, max_size=12),
    st.lists(st.sampled_from(EVIL), min_size=2, max_size=3).map("".join),
    st.text(min_size=1, max_size=8),
)
RADII = [0.1, 0.6, WRONG, ABSTAINED]
BOUNDED = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
# A page takes a second: what fails is shown as it was found.
FEW = settings(
    max_examples=2, phases=[Phase.explicit, Phase.generate], deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def called(name: str, seed: int = 0) -> Run:
    """A run in which everything that has a name has this one."""
    means = {"command": name, "notes": [name], "versions": {"torch": name}}
    return run_of(rows(RADII), name, means=means, model=name, data=name, seed=seed)


def grid(name: str) -> Table:
    """A table with the name at every place."""
    columns = (replace(plain(name, [name, "−0.5"], name), best=(True, False)), plain("ACR", ["0.1", name]))
    return Table(name, (name, "b"), columns, (name, "a note"))


def controls(text: str) -> set[str]:
    return {mark for mark in text if unicodedata.category(mark) in ("Cc", "Cs") and mark != "\n"} | set(
        re.findall("[\u202a-\u202e\u2066-\u2069]", text)
    )


def written(made: Run, write: Any) -> str:
    with tempfile.TemporaryDirectory() as place:
        write(made, Path(place) / "out")
        return (Path(place) / "out").read_bytes().decode()


@BOUNDED
@given(NASTY)
def test_no_text_is_a_formula(name: str) -> None:
    cell = no_formula(name)
    assert not re.match("[=+\\-@＝＋－＠\t\r]", cell) or float(cell) is not None
    assert not controls(cell) and "\n" not in cell
    sink = io.StringIO()
    csv.writer(sink).writerow([cell, "x"])
    assert list(csv.reader(io.StringIO(sink.getvalue()))) == [[cell, "x"]]


def test_numbers_stay_numbers() -> None:
    assert [no_formula(text) for text in ("-1", "+0.5", "-1e-05", "0.25,0.5")] == ["-1", "+0.5", "-1e-05", "0.25,0.5"]
    lines = list(csv.DictReader(io.StringIO(written(called("=x"), write_csv))))
    assert [line["predicted"] for line in lines] == ["0", "0", "1", "-1"]


@BOUNDED
@given(NASTY)
def test_tables_for_spreadsheets_keep_their_cells_and_carry_nothing_out(name: str) -> None:
    """The claim is the text of a row: whatever a log said of it would come in here."""
    made = called(name)
    made = replace(made, claim=replace(made.claim, norm=name, test_class=name))  # type: ignore[arg-type]
    for write, mark in ((write_csv, ","), (write_cohen, "\t")):
        lines = list(csv.reader(io.StringIO(written(made, write)), delimiter=mark, quoting=0 if mark == "," else 3))
        assert len(lines) == 1 + len(RADII) and len({len(line) for line in lines}) == 1
        for cell in itertools.chain(*lines):
            assert not re.match("[=+\\-@＝＋－＠\t\r]", cell) or float(cell) is not None


@BOUNDED
@given(NASTY)
def test_a_log_is_read_back_whatever_the_run_was_called(name: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        write_cohen(called(name), Path(place) / "log")
        assert [row.radius for row in read_log(Path(place) / "log").rows] == [0.1, 0.6, 1.0, 0.0]


COMMANDS = {
    "textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater", "textbar", "ldots", "pm", "times",
    "neq", "leq", "geq", "infty", "ell", "cdot", "alpha", "beta", "sigma", "theta", "textbf", "multicolumn",
    "linewidth", "footnotesize", "cmidrule", "toprule", "midrule", "bottomrule", "begin", "end",
}  # fmt: skip
TOKEN = re.compile(r"\\([a-zA-Z]+)|\\(.)|(.)", re.DOTALL)


def check_latex(text: str, columns: int) -> None:
    """Commands are ours, groups and formulas close in each line, each row has its cells."""
    first, *lines = text.splitlines()
    assert first.startswith("% ") and lines[0].startswith("\\begin{tabular}") and lines[-1] == "\\end{tabular}"
    for line in lines:
        depth, formula, cells = 0, False, 1
        for command, escaped, mark in TOKEN.findall(line):
            assert command in COMMANDS or not command, command
            assert not escaped or escaped in "&%$#_{}\\", escaped
            depth += {"{": 1, "}": -1}.get(mark, 0)
            formula ^= mark == "$"
            cells += mark == "&"
            assert depth >= 0 and not (mark and mark in "%#~^")
            assert mark != "_" or formula
        assert depth == 0 and not formula
        if line.endswith("\\\\") and "\\multicolumn" not in line:
            assert cells == columns + 1
            assert not line.startswith(("[", "*"))
    assert sum(line == "\\end{tabular}" for line in lines) == 1


@BOUNDED
@given(NASTY)
@example("x\n\\end{tabular}")
@example("[1cm]")
def test_latex_holds_words_only(name: str) -> None:
    made = grid(name)
    text = render.latex(made)
    check_latex(text, 2)
    assert len(text.splitlines()) == 13
    assert not controls(text)
    check_latex(render.latex(table([figures(called(name), [0.0])])), 7)


@BOUNDED
@given(NASTY)
def test_a_comment_of_latex_stays_one(name: str) -> None:
    for layout in ("text", "md", "latex"):
        line = render.remark(name, layout)
        assert len(line.splitlines()) <= 1 and not controls(line)
    assert render.remark(name, "latex").startswith("% ")


@BOUNDED
@given(NASTY)
@example("`|`")
@example("\\|")
def test_markdown_keeps_its_columns(name: str) -> None:
    head, rule, *body = [
        line for line in render.markdown(replace(grid(name), notes=())).split("\n") if line.startswith("| ")
    ]
    for line in (head, rule, *body):
        bare = re.sub(r"\\.", "", line)
        assert bare.count("|") == 4 and not re.search("[<>`]", bare), line
    assert len(body) == 2 and not controls(head)
    whole = render.markdown(Section("s", name, (grid(name),), notes=(name,)))
    assert not re.search(r"(?<!\\)[<>`]", re.sub(r"\\\\", "", whole))


@BOUNDED
@given(NASTY)
def test_a_terminal_gets_no_commands_and_no_markup(name: str) -> None:
    shown = render.plain_text(Section("s", name, (grid(name),), notes=(name,)), 4000)
    assert not controls(shown)
    text = render.plain_text(Table("run", (name,), (plain("a", ["1"]),)), 4000)
    assert render.one_line(name) in text.replace("\n", "")


def test_markup_is_shown_as_it_stands() -> None:
    shown = render.plain_text(grid("[red]x[/red]"), 400)
    assert shown.count("[red]x[/red]") >= 5
    render.plain_text(grid("[/]"), 400)


class Structure(html.parser.HTMLParser):
    """Elements with the names of their attributes, pictures left out; and what stands in an element of a picture."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.drawn: set[tuple[str, str]] = set()
        self.inside = 0
        self.policy: list[str | None] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside += tag == "svg"
        if self.inside:
            self.drawn |= {(tag, name) for name, _ in attrs}
        else:
            self.found.append((tag, tuple(name for name, _ in attrs)))
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy.append(dict(attrs)["content"])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.inside -= tag == "svg"

    def handle_endtag(self, tag: str) -> None:
        self.inside -= tag == "svg"


@pytest.fixture(scope="module")
def plain_page() -> Structure:
    return Structure(page([called("plain"), called("other", 1)], [0.0, 0.5]))


@FEW
@given(name=NASTY)
@example(name='"><img src=x onerror=alert(1)>')
@example(name="</style></title><script>alert(1)</script>-->")
@example(name="{{ 7 * 7 }}\u202e\x1b[31m$\\frac$")
def test_a_page_has_no_element_more(name: str, plain_page: Structure) -> None:
    made = replace(called(name), name=render.one_line(name) or "x")  # as every command calls it
    text = page([made, called("other", 1)], [0.0, 0.5])
    shown = Structure(text)
    assert shown.found == plain_page.found
    assert {tag for tag, _ in shown.drawn} <= {tag for tag, _ in plain_page.drawn} | {"tspan"}
    assert not any(name.startswith("on") for _, name in shown.drawn)
    (policy,) = shown.policy
    assert policy is not None and policy.startswith(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha"
    )
    assert shown.policy == plain_page.policy
    assert not controls(text.replace("\t", "")) and text.encode()


@FEW
@given(name=NASTY)
@example(name="$\\frac$ a $")
@example(name="\x00\x1b--><b>")
def test_a_picture_shows_words(name: str) -> None:
    figure = plots.curve_figure([called(name), called("other", 1)])
    for words in (False, True):
        root = ElementTree.fromstring(plots.svg(figure, words))
        if words:
            assert "".join(render.one_line(name).split()) in "".join("".join(root.itertext()).split())
    assert plots.png(figure).startswith(b"\x89PNG")


@BOUNDED
@given(NASTY)
@example("\x7f\x85\u2028: - #")
def test_a_model_card_is_one_document_with_the_name_in_its_place(name: str) -> None:
    yaml = pytest.importorskip("yaml")
    text = model_index(called(name), [0.5])
    assert text.startswith("---\nmodel-index:\n") and text.split("\n").count("---") == 2
    (model,) = yaml.safe_load(text[4:-4])["model-index"]
    assert model["name"] == render.harmless(Path(name).name)
    assert set(model) == {"name", "results"} and text.encode()


def test_small_numbers_are_numbers_in_a_card() -> None:
    """FOUND: YAML 1.1 reads 1e-05 as text."""
    yaml = pytest.importorskip("yaml")
    made = run_of(rows(RADII), "a", sampling={"name": "fixed", "n": 90, "alpha": 1e-5})
    (model,) = yaml.safe_load(model_index(made, [0.5])[4:-4])["model-index"]
    assert model["results"][0]["metrics"][0]["args"]["alpha"] == 1e-5


FOLDERS = (b"=1+1 \x1b[31m$\\frac$\xff\xfe<img src=x onerror=y>[/red]|`_&%#", b"-x\n\\input{y}")


@pytest.mark.parametrize("folder", FOLDERS, ids=map(repr, FOLDERS))
def test_every_command_says_the_name_of_a_folder_as_words(
    folder: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    monkeypatch.chdir(tmp_path)
    place = Path("runs") / os.fsdecode(folder)
    stored(place, RADII, data="a\n\\input{b} \x1b[31m %x")
    stored(Path("runs") / "other", RADII, seed=1, data="a\n\\input{b} \x1b[31m %x")
    first, other = str(place), "runs/other"
    for words in (
        ["report", first, other], ["report", first, "--tables", "md"], ["report", first, other, "--tables", "latex"],
        ["report", first, other, "--json"], ["report", first, other, "--html", "page.html", "--plot", "curve.svg"],
        ["report", first, "--paper", "esb"], ["compare", first, other], ["compare", first, other, "--json"],
        ["history", "runs"], ["history", "runs", "--tables", "latex"], ["history", "runs", "--plot", "history.svg"],
        ["export", first, "--out", "a.tsv"], ["export", first, "--to", "csv", "--out", "a.csv"],
        ["export", first, "--to", "hf", "--out", "card.md"],
    ):  # fmt: skip
        code, shown = run(words), capsys.readouterr()
        out = shown.out
        assert not controls(out + shown.err)
        if "\udcff" in first and first in words:  # no recipe could keep such a name
            assert code == 2 and "must be UTF-8 text" in shown.err
            continue
        assert code == 0, words
        if "latex" in words:
            assert "\n\\input" not in out
            lines = [line for line in out.splitlines() if line]
            assert all(line.startswith(("%", "\\", "{}")) or " & " in line for line in lines), out
        if "--json" in words:
            json.loads(out)
    for picture in ("curve.svg", "history.svg") if "\udcff" not in first else ("history.svg",):
        ElementTree.fromstring(Path(picture).read_bytes())
