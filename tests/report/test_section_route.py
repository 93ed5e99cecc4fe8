"""The page's section on routes: branches taken, which radius bound, and the same inputs by each branch alone."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import pytest
import small_run

from smoothcert.cli.main import run
from smoothcert.report import render
from smoothcert.report.metrics import certified_accuracy
from smoothcert.report.sections.route import binding_figure, routed, section, table
from smoothcert.report.tables import percent
from smoothcert.runs.recompute import composition
from smoothcert.runs.store import read

FEW = "--data few.npz --n 400 --n0 20 --alpha 0.05"
RADII = [0.0, 0.1, 0.25]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("routes")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        small_run.write_data(folder / "few.npz", number=60)
        branches = "--branch switches:core@0.12 --branch linear:score@0.5 --select switches:select --sigma 0.25"
        for line in (
            f"route certify {branches} {FEW} --out route",
            f"certify switches:core --sigma 0.12 {FEW} --out low",
            f"certify linear:score --sigma 0.5 {FEW} --out high",
            f"certify linear:score --sigma 0.25 {FEW} --out between",
            f"certify linear:score --sigma 0.5 {FEW} --max 30 --out short",
        ):
            assert run(line.split()) == 0
    return folder


def shown(place, *names):
    return render.html(section([read(place / name) for name in names], RADII))


def taken(run):
    return routed(composition(read(run), "route"))


def tables(html):
    """The rows of every table, as text."""
    bodies = re.findall(r"<tbody>(.*?)</tbody>", html, flags=re.DOTALL)
    return [
        [[re.sub(r"<[^>]*>", " ", cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
         for row in re.findall(r"<tr>(.*?)</tr>", body, flags=re.DOTALL)]
        for body in bodies
    ]  # fmt: skip


def test_runs_that_are_no_routes_have_no_section(place):
    assert section([read(place / name) for name in ("low", "high")], RADII) is None


def test_branches_taken_are_those_of_show(place):
    html = shown(place, "route")
    first, second = tables(html)
    expected = table(taken(place / "route"))
    assert [row[0] for row in first] == list(expected.names) and len(second) == 1
    assert list(zip(*(row[1:] for row in first), strict=True)) == [column.cells for column in expected.columns]
    assert "The selector was unsure, and so nothing was said, about" in html
    assert html.count("<svg") == 2
    dots = re.findall(r'<use [^>]*href="#route-1-figure-2-', html)
    assert len(dots) >= sum(branch.taken for branch in taken(place / "route").branches)


def test_of_many_dots_some_are_drawn_and_it_is_said(place, monkeypatch):
    monkeypatch.setattr("smoothcert.report.sections.route.MOST_DOTS", 7)
    found = composition(read(place / "route"), "route")
    lines = binding_figure(found).axes[0].get_lines()[1:]  # the first is the diagonal
    assert sum(len(line.get_xdata()) for line in lines) == 7
    sent = sum(branch.taken for branch in routed(found).branches)
    assert f"(7 of {sent}, evenly apart)" in shown(place, "route")


def test_branches_alone_and_their_envelope_stand_beside_the_route(place):
    names = ("between", "route", "high", "low", "short")
    html = shown(place, *names)
    side = {row[0].split("  ")[0]: row for row in tables(html)[1]}
    assert list(side) == ["route", "low", "high", "between", "upper envelope of the branches alone"]
    assert side["low"][0].endswith("branch 0 alone") and side["high"][0].endswith("branch 1 alone")
    shares = {name: [certified_accuracy(read(place / name), r) for r in RADII] for name in ("route", "low", "high")}
    for name in ("route", "low", "high"):
        assert side[name][1:4] == [percent(share) for share in shares[name]]
    best = [max(pair, key=lambda share: share.hits) for pair in zip(shares["low"], shares["high"], strict=True)]
    assert side["upper envelope of the branches alone"][1:4] == [percent(share) for share in best]
    words = re.search(r"against the best branch alone at each radius: ([^<]*)", html)[1]
    for radius, mine, other in zip(RADII, shares["route"], best, strict=True):
        word = "more" if mine.hits > other.hits else "fewer" if mine.hits < other.hits else "as many"
        part = next(part for part in words.rstrip(".").split("; ") if part.startswith(word))
        assert f"{radius:g}" in part.partition(" at ")[2].split(", ")


def test_noise_levels_of_inputs_say_whether_a_memory_stands_behind_them(place):
    other = read(place / "between")
    bare = replace(other, name="bare", claim=replace(other.claim, guarantee="none"))
    html = render.html(section([read(place / "route"), bare], RADII))
    assert "a noise level for every input, without a memory: no certificates" in html


def test_a_route_whose_branches_are_gone_says_so(place, tmp_path):
    shutil.copytree(place / "route", tmp_path / "route")
    shutil.rmtree(tmp_path / "route" / "model")
    html = render.html(section([read(tmp_path / "route"), read(place / "low")], RADII))
    assert f"{tmp_path / 'route'} does not hold the description of its branches" in html
    assert len(tables(html)) == 1 and html.count("<svg") == 1


def test_a_route_that_was_moved_keeps_its_branches(place, tmp_path):
    expected = shown(place, "route", "low", "high")
    moved = tmp_path / "elsewhere" / "moved"
    moved.parent.mkdir()
    (place / "route").rename(moved)
    try:
        runs = [replace(read(moved), name="route"), read(place / "low"), read(place / "high")]
        html = render.html(section(runs, RADII))
    finally:
        moved.rename(place / "route")
    assert "branch 0 alone" in html and tables(html) == tables(expected) and html.count("<svg") == 2


def test_the_page_holds_it(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    assert run(["report", "route", "low", "high", "--html", "page.html"]) == 0
    text = (place / "page.html").read_text()
    assert text.count('<section aria-labelledby="route">') == 1
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    capsys.readouterr()
