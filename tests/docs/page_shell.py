"""Commands of a page: parsed against the programs they name, and carried out in this process.

In this process, because a fresh one would spend more time on importing torch than most commands take.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import typer
from page_blocks import Block

from smoothcert.cli.main import app, run

ROOT = Path(__file__).parents[2]
COMMAND = typer.main.get_command(app)
PLACEHOLDERS = ("…", "...")
EXIT = re.compile(r"# exits (\d+)")  # a command that is meant to be refused says so
ANYWHERE = ("--quiet", "-q", "--trust-code")  # options of no command
READING = ("ls", "cat", "head")
ELSEWHERE = ("cd", "curl", "export", "git", "ray", "source", "python3")  # other people's programs, never called


def words(line: str) -> list[str]:
    """A command line's words; comments are left out."""
    return shlex.split(line, comments=True)


def parse(line: str) -> None:
    """Refuse a command that could not be given: no such command, option, script or target."""
    program, *arguments = words(line)
    if program == "torchrun":
        program, arguments = "smoothcert", arguments[arguments.index("smoothcert") + 1 :]
    if program == "smoothcert":
        _parse_smoothcert(arguments)
    elif program == "python" and arguments[0] != "-m":
        _parse_script(*arguments)
    elif program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(arguments) <= set(targets), f"the Makefile must have the targets {arguments}; got {targets}"
    elif program == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        asked = {name for word in arguments for name in re.findall(r"\[(.*)\]", word)}
        assert asked <= set(extras), f"pyproject.toml must have the extras {asked}; got {set(extras)}"
    else:
        assert program in ("python", *READING, *ELSEWHERE), f"a page must call programs that are known; got {program}"


def _parse_smoothcert(arguments: list[str]) -> None:
    """Down to the command that is meant, and its options and values as they would be taken."""
    given = [word for word in arguments if word not in PLACEHOLDERS]
    command = COMMAND
    context = command.make_context("smoothcert", sorted(given, key=lambda word: word not in ANYWHERE))
    try:
        while isinstance(command, typer.core.TyperGroup) and (left := [*context._protected_args, *context.args]):
            name, command, left = command.resolve_command(context, left)
            context = command.make_context(name, left, parent=context)
    except Exception as error:  # typer does not give its name away
        if given == arguments or type(error).__name__ != "MissingParameter":
            raise


def _parse_script(script: str, *arguments: str) -> None:
    """A script of the repository exists and has the options; one of the page is met when it is run."""
    if (ROOT / script).exists():
        text = (ROOT / script).read_text()
        unknown = [word for word in arguments if word.startswith("--") and f'"{word}"' not in text]
        assert not unknown, f"{script} must have the options {unknown}"


def carry_out(line: str, monkeypatch) -> None:
    """Run one command of a page; anything but its announced exit code is a failure."""
    program, *arguments = words(line)
    expected = int(match[1]) if (match := EXIT.search(line)) else 0
    code = 0
    with like_a_process():
        if program == "smoothcert":
            monkeypatch.setattr(sys, "argv", [program, *arguments])
            code = run(arguments)
        elif program == "python":
            monkeypatch.setattr(sys, "argv", arguments)
            runpy.run_path(arguments[0], run_name="__main__")
        elif program in READING:
            code = subprocess.run([program, *arguments], check=False).returncode
    assert code == expected, f"exit code must be {expected}; got {code}"


@contextlib.contextmanager
def like_a_process() -> Iterator[None]:
    """A command imports the page's files afresh, and leaves nothing that it imported behind."""
    kept = _of_the_page()
    for name in kept:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in _of_the_page():
            del sys.modules[name]
        sys.modules.update(kept)


def _of_the_page() -> dict[str, ModuleType]:
    here = str(Path.cwd())
    files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
    return {
        name: sys.modules[name] for name, file in files.items() if file and str(Path(file).absolute()).startswith(here)
    }


def write(block: Block, folder: Path, monkeypatch) -> None:
    """A file of the page. One for a folder of smoothcert is found there, and yet that folder stays as it is."""
    target = folder / block.file
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(block.body)
    importlib.invalidate_caches()
    if block.file.startswith("smoothcert/"):
        package = importlib.import_module(".".join(Path(block.file).parent.parts))
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(target.parent)])
