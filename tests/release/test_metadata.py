"""What the package says of itself: its version once, its Pythons, and no extra that nothing names."""

from __future__ import annotations

import re
import subprocess
import tomllib

import installed
import pytest

import smoothcert

ABOUT = tomllib.loads((installed.ROOT / "pyproject.toml").read_text())
PROJECT = ABOUT["project"]


def test_the_version_is_written_in_one_place():
    assert PROJECT["dynamic"] == ["version"] and "version" not in PROJECT
    assert ABOUT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "smoothcert.__version__"}
    told = subprocess.run(["git", "grep", "-lF", f'"{smoothcert.__version__}"', "--", "*.py", "*.toml", "*.cff"],
                          cwd=installed.ROOT, capture_output=True, text=True)  # fmt: skip
    if told.returncode > 1:
        pytest.skip("not a git checkout")
    assert told.stdout.split() == ["smoothcert/__init__.py"]


def test_the_classifiers_are_the_pythons_that_the_makefile_looks_for():
    told = {line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)}
    looked = set(re.findall(r"python(3\.\d+) ", (installed.ROOT / "Makefile").read_text()))
    assert told == {"3.11", "3.12", "3.13"} == looked
    assert PROJECT["requires-python"] == ">=3.11"


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"]))
def test_somebody_is_told_to_install_each_extra(extra):
    pages = [installed.ROOT / "Makefile", *(installed.ROOT / "docs").glob("*.md")]
    assert any(f"[{extra}]" in page.read_text() for page in pages)


def test_everything_that_is_installed_directly_is_pinned_for_the_tests():
    pins = [line.split("==")[0] for line in (installed.ROOT / "constraints.txt").read_text().splitlines()[1:]]
    assert pins == sorted(pins, key=str.lower)
    known = {_plain(name) for name in pins}
    extras = PROJECT["optional-dependencies"]
    wanted = {*PROJECT["dependencies"], *extras["test"], *extras["docs"], *extras["ray"], *extras["server"]}
    assert {_plain(re.split(r"[\[>]", name)[0]) for name in wanted} <= known


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
