"""Every code block of the README and of docs/ does what it says; a new page is picked up by being there.

A page is followed from top to bottom in an empty folder, as a reader would. `page_blocks.py` says which blocks are
carried out; what cannot be (hours, several machines, data not at hand) says so in its title, and is still parsed.
"""

from __future__ import annotations

import contextlib
import re
import sys
import types
from pathlib import Path

import pytest
from page_blocks import NOT_RUN, blocks, commands
from page_shell import ROOT, carry_out, parse, write

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
every_page = pytest.mark.parametrize("page", PAGES, ids=NAMES)


@contextlib.contextmanager
def told(page: Path, line: int):
    """Say where on the page something went wrong."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise AssertionError(f"{page.relative_to(ROOT)}:{line}: {type(error).__name__}: {error}") from error


@every_page
def test_commands_can_be_given_and_python_compiles(page):
    for block in blocks(page):
        if block.language == "python":
            with told(page, block.line):
                compile(block.body, str(page), "exec")
            continue
        for line, text in commands(block):
            if block.language == "bash" or text.startswith("smoothcert "):
                with told(page, line):
                    parse(text)


def test_links_and_pictures_of_the_readme_are_there():
    text = (ROOT / "README.md").read_text()
    targets = re.findall(r"\]\(([^)#]+)", text) + re.findall(r'src="([^"]+)"', text)
    assert len(targets) > 20 and [target for target in targets if not (ROOT / target).exists()] == []


@every_page
def test_what_is_not_run_says_why(page):
    for block in blocks(page):
        if block.language in ("python", "bash") and block.shown:
            assert re.fullmatch(r"\w.{9,}", block.title.removeprefix(NOT_RUN)), f"{page}:{block.line}"


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """An empty folder to follow a page in, with an empty cache; what the page imports is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path / "cache"))
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.mark.suspicious
@every_page
def test_blocks_do_what_they_say(page, desk, monkeypatch):
    to_do = [block for block in blocks(page) if not block.shown]
    if not to_do:
        pytest.skip("a page without blocks to carry out")
    if page.name == "README.md":
        readers_own(desk)
    module = types.ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in to_do:
        if block.file is not None:
            write(block, desk, monkeypatch)
        elif block.language == "python":
            with told(page, block.line):
                exec(compile("\n" * (block.line - 1) + block.body, str(page), "exec"), module.__dict__)
        else:
            for line, text in commands(block):
                with told(page, line):
                    carry_out(text, monkeypatch)


def readers_own(desk: Path) -> None:
    """What the README's reader has: a network as ONNX, and inputs with labels."""
    import numpy as np
    import torch

    from smoothcert.classifiers.onnx import from_network
    from smoothcert.data import load

    inputs = load("digits", max=20)
    x, y = inputs.tensors(), inputs.labels
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)).eval()
    (desk / "model.onnx").write_bytes(from_network(network, x[0]).content)
    np.savez(desk / "mine.npz", x=x.numpy(), y=y)
