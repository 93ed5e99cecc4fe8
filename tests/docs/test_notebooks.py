"""The notebooks as they are kept: small, executed in order, without errors, with links that lead somewhere.

`make test` executes them (nbmake), `make notebooks` keeps what they show.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from test_style import refused

ROOT = Path(__file__).parents[2]
BOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
every_book = pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def test_there_are_notebooks_and_make_test_executes_them():
    assert len(BOOKS) >= 2
    assert "--nbmake tests notebooks" in (ROOT / "Makefile").read_text()


@every_book
def test_it_was_executed_from_top_to_bottom_without_an_error(path):
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    kinds = [output.output_type for cell in cells for output in cell.outputs]
    assert "error" not in kinds
    pictures = [output for cell in cells for output in cell.outputs if "image/png" in output.get("data", {})]
    assert pictures and path.stat().st_size < 150_000


@every_book
def test_its_words_and_links_are_those_of_the_pages(path):
    text = "\n\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    assert refused(text) == []
    targets = [target.partition("#") for target in re.findall(r"\]\(([^)]+)\)", text)]
    assert targets and [name for name, _, _ in targets if not (path.parent / name).is_file()] == []
    for name, _, anchor in targets:
        titles = re.findall(r"^#+ (.+)$", (path.parent / name).read_text(), re.MULTILINE)
        assert not anchor or anchor in {title.lower().replace(" ", "-") for title in titles}


@every_book
def test_it_shows_no_place_of_the_machine_that_made_it(path):
    text = path.read_text()
    assert not re.search(r"/(work|root|home|tmp)/", text)
