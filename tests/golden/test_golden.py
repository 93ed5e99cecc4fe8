"""What the commands print and write, held against files in expected/: text, JSON, logs, tables, a page's visible text.

To accept a deliberate change:  REGENERATE=1 pytest tests/golden && git diff tests/golden
"""

from __future__ import annotations

import contextlib
import html.parser
import io
import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import forging
import islands
import linear
import numpy as np
import pytest
import small_run
import stripes
import torch

from smoothcert.cli.main import run

pytestmark = pytest.mark.xdist_group("golden")

EXPECTED = Path(__file__).parent / "expected"
REGENERATE = bool(os.environ.get("REGENERATE"))
FEW = "--n 400 --n0 20 --alpha 0.05"
LEVELS = " ".join(islands.LEVELS)
FAMILY = "runs/ens runs/a runs/b runs/c"
FORECAST = "ensemble forecast lines:a lines:b lines:c --data few.npz --sigma 0.25 --draws 40 --n 400 --sizes 1,3"

# File in expected/ → command. A .json is printed JSON; .tsv, .csv and .page are the file that the command writes.
# First what the others need, in this order.
MADE = {
    "certify.txt": f"certify linear:score --data few.npz --sigma 0.25 {FEW} --out runs/fixed",
    "certify-radius.txt": "certify linear:score --data few.npz --sigma 0.25 --n0 20 --alpha 0.05 --radius 0.1"
    " --set cap=3000 --out runs/radius",
    "certify-runner_up.txt": f"certify linear:three --data few.npz --sigma 0.25 {FEW} --sampling runner_up"
    " --out other/runner_up",
    "certify-a.txt": f"certify lines:a --data few.npz --sigma 0.25 {FEW} --out runs/a",
    "certify-b.txt": f"certify lines:b --data few.npz --sigma 0.25 {FEW} --out runs/b",
    "certify-c.txt": f"certify lines:c --data few.npz --sigma 0.25 {FEW} --out runs/c",
    "ensemble-make.txt": "ensemble make lines:a lines:b lines:c --out models/ens",
    "certify-ens.txt": f"certify models/ens --data few.npz --sigma 0.25 {FEW} --out runs/ens",
    "aces-certify.txt": f"aces certify --certify switches:steep --core switches:core --data few.npz --sigma 0.25 {FEW}"
    " --look 100 --out other/aces",
    "aces-certify-l1.txt": "aces certify --certify switches:steep --core switches:core --data few.npz --noise uniform"
    f" --sigma 0.25 {FEW} --look 100 --out other/aces-l1",
    "route-certify.txt": "route certify --branch switches:core@0.12 --branch linear:score@0.5 --select switches:select"
    f" --data few.npz --sigma 0.25 {FEW} --out other/route",
    "certify-memory.txt": f"certify islands:score --data islands.npz {FEW} {LEVELS} --memory m --out other/memory",
    "certify-own-sigma.txt": f"certify islands:score --data islands.npz {FEW} {LEVELS} --out other/own-sigma",
    "certify-l1.txt": f"certify linear:score --data few.npz --noise uniform --sigma 0.25 {FEW} --out other/l1",
    "certify-l0.txt": "certify linear:score --data bytes.npz --noise discrete --set keep=0.6 --set values=9"
    f" {FEW} --out other/l0",
    "certify-grid.txt": f"certify linear:three --data bytes.npz --sigma 0.25 {FEW} --sampling runner_up"
    " --out other/grid",
    "certify-labels.txt": "certify linear:score --data few.npz --sigma 0.25 --n 400 --alpha 0.05 --against labels"
    " --out other/labels",
    "certify-patch.txt": "certify stripes:a --data images.npz --noise block --set side=2 --out other/patch",
    "certify-patch-asked.txt": "certify stripes:a --data images.npz --noise band --set width=2 --patch 3x2"
    " --out other/patch-asked",
    "predict.txt": "predict linear:score --data few.npz --sigma 0.25 --n 200 --alpha 0.05 --out other/predict",
}  # fmt: skip
OTHERS = (
    "runner_up",
    "aces",
    "route",
    "memory",
    "own-sigma",
    "l1",
    "l0",
    "grid",
    "labels",
    "patch",
    "patch-asked",
    "predict",
)
PRINTED = {
    "report.txt": "report runs/fixed",
    "report.json": "report runs/fixed --json",
    "report-radius.txt": "report runs/radius",
    "report-radius.json": "report runs/radius --json",
    **{f"report-{name}.txt": f"report other/{name}" for name in OTHERS},
    **{f"report-{name}.json": f"report other/{name} --json" for name in OTHERS},
    "report-family.txt": f"report {FAMILY}",
    "report-family.json": f"report {FAMILY} --json",
    "report-family.md": f"report {FAMILY} --tables md",
    "report-family.tex": f"report {FAMILY} --tables latex",
    "report-family-transposed.txt": f"report {FAMILY} --transpose --radii 0,0.1,0.2",
    "report-paper-ens.txt": f"report {FAMILY} --paper ens",
    "report.page": "report runs/fixed runs/radius --html page.html",
    "report-family.page": f"report {FAMILY} --html family.html",
    "report-aces.page": "report other/aces other/route --html aces.html",
    "report-memory.page": "report other/memory --html memory.html",
    "report-patch.page": "report other/patch --html patch.html",
    "aces-combine.txt": "aces combine --certify other/aces --theta 0.3,0.5",
    "aces-combine.json": "aces combine --certify other/aces --theta 0.3,0.5 --json",
    "aces-combine.tsv": "aces combine --certify other/aces --theta 0.5 --log aces.tsv",
    "aces-combine-l1.tsv": "aces combine --certify other/aces-l1 --theta 0.5 --log aces-l1.tsv",
    "route-show.txt": "route show other/route",
    "memory-stats.json": "memory stats m --json",
    "memory-check.txt": "memory check m",
    "memory-query.json": "memory query m --data islands.npz --max 4 --json",
    "compare.txt": "compare runs/a runs/b",
    "compare.json": "compare runs/a runs/b --json",
    "history.txt": "history runs",
    "history.json": "history runs --json",
    "verify.json": "verify runs/fixed --json",
    "verify-memory.json": "verify other/memory --json",
    "verify-aces.txt": "verify other/aces",
    "export-cohen.tsv": "export runs/fixed --to cohen --out cohen.tsv",
    "export-csv.csv": "export runs/fixed --to csv --out table.csv",
    "export-memory.tsv": "export other/memory --to cohen --out memory.tsv",
    "export-memory.csv": "export other/memory --to csv --out memory.csv",
    "export-l1.tsv": "export other/l1 --to cohen --full --out l1.tsv",
    "plan.txt": "plan --sigma 0.25 --radius 0.1 --like runs/fixed --rate 1000 --cap 3000 --n 2000",
    "plan.json": "plan --sigma 0.25 --radius 0.1 --like runs/fixed --rate 1000 --cap 3000 --n 2000 --json",
    "certificate.txt": "certificate runs/fixed 5",
    "certificate.json": "certificate runs/fixed 5 --json",
    "certificate.page": "certificate runs/fixed 5 --html certificate.html",
    "certificate-radius.json": "certificate runs/radius 5 --json",
    "certificate-ens.json": "certificate runs/ens 5 --json",
    **{f"certificate-{name}.json": f"certificate other/{name} 5 --json" for name in OTHERS if name != "predict"},
    "forecast.txt": FORECAST,
    "forecast.json": f"{FORECAST} --json",
}  # fmt: skip

# What differs from one machine, day or commit to another. Widths stay, so that tables stay in line.
VARYING = (
    (r"\b[0-9a-f]{64}\b", "SHA256"),
    (r"\b[0-9a-f]{32}\b", "IDENTITY"),
    (r"\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{8}\b|(?<![.\w])\d{8}(?![.\w])", "xxxxxxxx"),
    (r"\d{4}-\d\d-\d\d(.)\d\d:\d\d(:\d\d)?", r"YYYY-MM-DD\1hh:mm"),
    (r"\b\d:\d\d:\d\d(\.\d+)?", "h:mm:ss"),
    (r"\b\d+\.\d+ m?s\b|\b\d+(\.\d+)?e-\d+ s\b", r"#.# s"),
    (r"(× \| )\d+\.\d+ ×", r"\1#.## ×"),  # saved time, after saved draws
    (r"(?m)^(python|machine|smoothcert|torch|numpy|scipy|onnxruntime|workers) \|.*$", r"\1 | VARIES"),
)
VARYING_KEYS = {"seconds", "time", "when", "versions", "workers", "threads"}


class Visible(html.parser.HTMLParser):
    """The text of a page without its pictures, styles and scripts: a line for each block, a table's row on one."""

    HIDDEN = ("script", "style", "svg", "head")
    BLOCKS = ("p", "div", "section", "li", "tr", "h1", "h2", "h3", "h4", "summary", "figure", "caption", "label", "nav")

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self._inside = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._inside += tag in self.HIDDEN
        self.text += "\n" if tag in self.BLOCKS else ""

    def handle_endtag(self, tag: str) -> None:
        self._inside -= tag in self.HIDDEN
        self.text += " | " if tag in ("td", "th", "dt") else "\n" if tag in self.BLOCKS else ""

    def handle_data(self, data: str) -> None:
        self.text += "" if self._inside else re.sub(r"\s+", " ", f" {data} ")

    def lines(self) -> str:
        found = (re.sub(r"(^ | ?\| ?$| $)", "", re.sub(" +", " ", line)) for line in self.text.split("\n"))
        return "\n".join(line for line in found if line.strip())


def same_everywhere(value: Any, key: str = "") -> Any:
    """JSON without what varies, and numbers to nine digits: another processor may round the last ones otherwise."""
    if key in VARYING_KEYS and value is not None:
        return "VARIES"
    if isinstance(value, dict):
        return {name: same_everywhere(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [same_everywhere(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def readable(text: str) -> str:
    """JSON with plain lists on one line, and long runs of zeros counted."""
    value = json.dumps(same_everywhere(json.loads(text)), indent=1, ensure_ascii=False)
    value = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", value)
    return re.sub(r"(?:0, ){8,}", lambda found: f"0 × {len(found[0]) // 3}, ", value)


def masked(text: str) -> str:
    text = text.replace(str(Path.cwd()), "HERE")
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines()).strip("\n") + "\n"


def without_seconds(text: str) -> str:
    lines = [line.split(",") for line in text.splitlines()]
    place = lines[0].index("seconds")
    return "\n".join(",".join(line[:place] + line[place + 1 :]) for line in lines)


def outcome(name: str, line: str) -> str:
    """What a command prints, or the file that it writes, without what varies."""
    out, words = io.StringIO(), shlex.split(line)
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(io.StringIO()) as err,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "argv", ["smoothcert", *words])  # a run keeps the command that made it
        code = run(words)
    assert code == 0, f"{line}: exit code {code}: {err.getvalue()}"
    if name.endswith(".json"):
        return masked(readable(out.getvalue()))
    if name.endswith((".tsv", ".csv", ".page")):
        text = Path(re.search(r"--(?:out|log|html) (\S+)", line)[1]).read_text()
        if name.endswith(".page"):
            page = Visible()
            page.feed(text)
            text = page.lines()
        return masked(without_seconds(text) if name.endswith(".csv") else text)
    return masked(out.getvalue())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory):
    """All runs, made once; every command is given from their folder, so that no path is absolute."""
    place = tmp_path_factory.mktemp("golden")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(sys, "argv", [])
        patch.delenv("COLUMNS", raising=False)
        patch.setenv("SMOOTHCERT_CACHE", str(place / "cache"))
        small_run.write_data(place / "few.npz")
        islands.write_data(place / "islands.npz", number=16)
        x = np.random.default_rng(0).integers(0, 256, (10, 4)).astype(np.float32) / np.float32(255)
        np.savez("bytes.npz", x=x, y=(linear.margin(torch.from_numpy(x)).numpy() > 0).astype(np.int64))
        np.savez("images.npz", **dict(zip("xy", stripes.images(10), strict=True)))
        outcomes = {name: outcome(name, line) for name, line in MADE.items()}
        for number, folder in enumerate(sorted(place.glob("runs/*"))):  # history goes by the second
            begun = f"2026-01-01T00:00:0{number}+00:00"
            forging.recipe(folder, lambda table, begun=begun: table["means"].update(started=begun))
            forging.rechain(folder)
        yield outcomes


@pytest.mark.parametrize("name", [*MADE, *PRINTED])
def test_as_before(name: str, made: dict[str, str]) -> None:
    found = made[name] if name in MADE else outcome(name, PRINTED[name])
    file = EXPECTED / (f"{name}.txt" if name.endswith(".page") else name)
    if REGENERATE:
        file.write_text(found)
    command = {**MADE, **PRINTED}[name]
    assert found == file.read_text(), f"`smoothcert {command}`: deliberate? REGENERATE=1 pytest tests/golden"


def test_nothing_is_left_over() -> None:
    names = {f"{name}.txt" if name.endswith(".page") else name for name in (*MADE, *PRINTED)}
    assert {path.name for path in EXPECTED.iterdir()} == names
