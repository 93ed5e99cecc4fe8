"""The page's section on ACES: what `combine` prints, beside single networks, with thresholds of hold-out inputs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import small_run

from smoothcert.cli.main import run
from smoothcert.report import aces, render
from smoothcert.report.metrics import default_radii
from smoothcert.report.sections import aces as sections_aces
from smoothcert.runs.components import components
from smoothcert.runs.store import read

DATA = "--n 400 --n0 20 --alpha 0.05"
NETWORKS = "--certify switches:steep --core switches:core --sigma 0.25 --look 100"
RADII = [0.0, 0.25, 0.5]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("section")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        small_run.write_data(folder / "few.npz", number=40)
        small_run.write_data(folder / "others.npz", number=30, seed=1)
        for line in (
            f"aces certify {NETWORKS} {DATA} --data few.npz --theta 0.37 --out entropy",
            f"aces certify {NETWORKS} {DATA} --data few.npz --select switches:select --out network",
            f"aces certify {NETWORKS} {DATA} --data others.npz --out other",
            f"certify switches:steep --sigma 0.12 {DATA} --data few.npz --out narrow",
            f"certify switches:steep --sigma 0.25 {DATA} --data few.npz --out own",
            f"certify switches:steep --sigma 0.12 {DATA} --data others.npz --out elsewhere",
            "certify switches:steep --sigma 0.25 --radius 0.1 --alpha 0.05 --data few.npz --out asked",
        ):
            assert run(line.split()) == 0
    return folder


def section(runs, radii):
    return render.html(sections_aces.section(runs, radii))


def records(place, *names):
    return [read(place / name) for name in names]


def cells(html):
    """Rows of the first table's body as text."""
    body = html[html.index("<tbody>") : html.index("</tbody>")]
    rows = re.findall(r"<tr>(.*?)</tr>", body, flags=re.DOTALL)
    return [
        [re.sub(r"<[^>]*>", " ", cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in rows
    ]


def test_runs_without_a_composition_have_no_section(place):
    assert sections_aces.section(records(place, "narrow", "own"), RADII) is None


def test_the_table_is_that_of_combine_and_marks_the_runs_own_threshold(place):
    html = section(records(place, "entropy"), RADII)
    found = components(place / "entropy", None).at(sorted({*aces.TENTHS, 0.37}))
    expected = aces.table(aces.by_threshold(found, RADII))
    shown = cells(html)
    assert shown[4][0] == "0.37  this run’s rows" and sum("this run" in row[0] for row in shown) == 1
    assert [row[0].split()[0] for row in shown] == list(expected.names)
    assert list(zip(*(row[1:] for row in shown), strict=True)) == [column.cells for column in expected.columns]
    assert "Natural accuracy (NAC): prediction with 100 draws" in html
    reached = section(records(place, "entropy"), [*RADII, 40.0])
    assert cells(reached) == shown and ">40</th>" not in reached  # other runs of a page may go further
    assert ">40</th>" in section(records(place, "entropy"), [40.0])
    assert html.count("<figure>") == 4 and html.count("<svg") == 4
    ids = re.findall(r'\bid="([^"]*)"', html)
    assert len(ids) == len(set(ids))


def test_single_networks_are_those_on_the_same_inputs(place):
    names = ("entropy", "narrow", "own", "elsewhere", "asked")
    html = section(records(place, *names), default_radii(records(place, *names)))
    # One network at two levels is one group, its points named by them; alone it has the name of its run.
    assert html.count("switches:steep at noise levels</text>") == 2 and ">σ = 0.12</text>" in html
    assert "narrow</text>" in section(records(place, "entropy", "narrow", "elsewhere", "asked"), RADII)
    assert "elsewhere</text>" not in html and "asked</text>" not in html
    # Its own network is theta 1 but for alpha: it says nothing about the composition.
    verdict = re.search(r"(For the single network|No threshold is as good|More ACR)[^<]*", html)[0]
    assert "own" not in verdict
    assert "certified by 400 and predicted by 100, the others by 400" in html
    alone = section(records(place, "entropy", "own"), RADII)
    assert "single network some threshold" not in alone and "No threshold is as good" not in alone


def test_a_selection_network_stands_beside_entropy(place):
    html = section(records(place, "network"), RADII)
    assert html.count("network selects</text>") == 2 and html.count("entropy selects</text>") == 2
    assert "entropy selects" not in section(records(place, "entropy"), RADII)


def test_the_same_networks_on_other_inputs_are_hold_out(place):
    html = section(records(place, "entropy", "other"), RADII)
    assert html.count("<h3") == 2 and "30 inputs of other" in html
    last = html[html.index("Thresholds for a demand") :]
    found = [cell for row in cells(last) for cell in row]
    assert found[0].endswith("%") and len(found) % 6 == 0
    by_demand = {row[0]: row for row in cells(last)}
    from smoothcert.report.aces import theta_for

    held = components(place / "other", None)
    for demand, row in by_demand.items():
        theta, there = theta_for(held, f"natural-accuracy={float(demand.removesuffix(' %')) / 100}")
        assert float(row[1]) == theta and there.natural.value >= float(demand.removesuffix(" %")) / 100
    # The other way round the other run is hold-out; the same inputs twice are two compositions.
    assert "40 inputs of entropy" in section(records(place, "other", "entropy"), RADII)
    twice = section(records(place, "entropy", "network"), RADII)
    assert "Thresholds for a demand" not in twice and twice.count("<h3") == 2


def test_a_run_that_was_moved_has_its_section(place, tmp_path):
    shutil.copytree(place / "entropy", tmp_path / "moved")
    model = Path(read(place / "entropy").asked.model)
    hidden = model.with_name("hidden")
    model.rename(hidden)
    try:
        html = section([read(tmp_path / "moved")], RADII)
    finally:
        hidden.rename(model)
    assert cells(html) == cells(section(records(place, "entropy"), RADII))


def test_the_page_holds_it(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    assert run(["report", "entropy", "other", "narrow", "--html", "page.html"]) == 0
    text = (place / "page.html").read_text()
    assert text.count('<section aria-labelledby="aces">') == 1
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    capsys.readouterr()
