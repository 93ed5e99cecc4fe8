"""The harness of the pages finds what is wrong with a page: otherwise its silence would mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_blocks import blocks, commands
from page_shell import carry_out, parse


def page(folder: Path, text: str) -> Path:
    (folder / "page.md").write_text(text)
    return folder / "page.md"


def test_blocks_are_read_with_language_title_and_line(tmp_path):
    text = (
        'a\n```python\nx = 1\n```\n\n- b:\n\n  ```bash title="not run: slow"\n  smoothcert zoo\n  ```\n```\nout\n```\n'
    )
    first, second, third = blocks(page(tmp_path, text))
    assert (first.language, first.body, first.line, first.shown, first.file) == ("python", "x = 1\n", 3, False, None)
    assert (second.language, second.body, second.shown, second.file) == ("bash", "smoothcert zoo\n", True, None)
    assert (third.language, third.shown) == ("", True)
    (file,) = blocks(page(tmp_path, '```python title="a/b.py"\n```\n'))
    assert file.file == "a/b.py" and not file.shown


def test_a_block_that_is_never_closed_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="never closed"):
        blocks(page(tmp_path, "```bash\nsmoothcert zoo\n"))


def test_lines_that_go_on_are_one_command(tmp_path):
    (block,) = blocks(
        page(tmp_path, "```bash\n# first\nsmoothcert certify a \\\n    --sigma 1\n\nsmoothcert zoo\n```\n")
    )
    assert [(line, " ".join(text.split())) for line, text in commands(block)] == [
        (3, "smoothcert certify a --sigma 1"), (6, "smoothcert zoo"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "smoothcert certify m --data digits --sigma 0.25 --out r   # a comment",
        "smoothcert certify … --ray local",
        "smoothcert ensemble a b --out c",
        "smoothcert ensemble forecast a b --data digits --sigma 0.25",
        "torchrun --nproc-per-node 2 -m smoothcert train --out a",
        "python benchmarks/draws.py --paths 10",
        "make demo",
        "pip install 'smoothcert[ray]'",
    ],
)
def test_commands_that_can_be_given_are_accepted(line):
    parse(line)


@pytest.mark.parametrize(
    "line",
    [
        "smoothcert certfy m --data digits --sigma 0.25 --out r",
        "smoothcert certify m --data digits --sgima 0.25 --out r",
        "smoothcert certify m --data digits --sigma much --out r",
        "smoothcert certify m --sigma 0.25",
        "smoothcert ensemble forecast a b --data digits --sigma 0.25 --no-such",
        "torchrun --nproc-per-node 2 -m smoothcert train --no-such",
        "python benchmarks/draws.py --no-such-option",
        "make nothing",
        "pip install 'smoothcert[nothing]'",
        "rm -rf everything",
    ],
)
def test_commands_that_cannot_be_given_are_refused(line):
    with pytest.raises(Exception, match=r"."):
        parse(line)


def test_a_command_must_exit_as_announced(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    carry_out("smoothcert verify nothing  # exits 2: there is no such run", monkeypatch)
    for line in ("smoothcert verify nothing", "smoothcert --version  # exits 2", "cat nothing"):
        with pytest.raises(AssertionError, match="exit code must be"):
            carry_out(line, monkeypatch)


def test_a_script_imports_the_pages_files_afresh(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("counted_once.py").write_text("from pathlib import Path\nseen = Path('done').exists()\n")
    Path("script.py").write_text("import counted_once\nfrom pathlib import Path\nPath('done').touch()\n")
    carry_out("python script.py", monkeypatch)
    Path("script.py").write_text("import counted_once\nassert counted_once.seen\n")
    carry_out("python script.py", monkeypatch)
