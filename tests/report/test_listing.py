"""The list of inputs: what is shown at once, and what the page's script is given."""

from __future__ import annotations

import json
from dataclasses import replace

from made_runs import log_of, run_of

from smoothcert.report import inputs as module
from smoothcert.report.inputs import as_data, item, listing
from smoothcert.runs.run import Row

ROWS = (Row(0, 1, 1, 0.51239, 1100), Row(5, 2, 3, 0.3), Row(9, 7, -1, 0.0, 1100))
RECORD = run_of(ROWS, "a", data="cifar10")


def test_lines_name_classes_and_round_radii_down() -> None:
    shown = [
        (one.outcome, one.label, one.predicted, one.radius, one.draws)
        for one in (item(RECORD, row) for row in RECORD.rows)
    ]
    assert shown == [
        ("correct", "automobile", "automobile", "0.512", "1,100"),
        ("wrong", "bird", "cat", "0.300", "–"),
        ("abstained", "horse", "none", "–", "1,100"),
    ]
    assert item(log_of(ROWS, norm="l0"), Row(0, 1, 1, 3.0)).radius == "3"
    assert item(replace(RECORD, kind="predict"), ROWS[0]).radius == "–"
    assert item(log_of(ROWS), ROWS[0]).label == "1"


def test_columns_hold_what_is_shown() -> None:
    found = json.loads(listing(RECORD).columns)
    assert found["columns"] == {
        "index": [0, 5, 9], "label": [1, 2, 7], "predicted": [1, 3, -1],
        "radius": [512, 300, 0], "draws": [1100, None, 1100],
    }  # fmt: skip
    assert found["names"][1] == "automobile" and found["radii"] and not found["whole"]


def test_radii_are_never_lifted_by_their_last_bit() -> None:
    for thousandths in range(0, 3000, 7):
        run = replace(RECORD, rows=(Row(0, 1, 1, thousandths / 1000),))
        assert json.loads(listing(run).columns)["columns"]["radius"] == [thousandths]


def test_a_page_holds_so_many_and_says_how_many_there_are(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    monkeypatch.setattr(module, "PAGE", 1)
    found = listing(RECORD)
    assert (len(found.lines), found.held, found.total) == (1, 2, 3)
    assert len(json.loads(found.columns)["columns"]["index"]) == 2


def test_data_cannot_end_its_script() -> None:
    text = as_data({"name": "</script><script>alert(1)</script>"})
    assert "<" not in text and json.loads(text)["name"].startswith("</script>")
