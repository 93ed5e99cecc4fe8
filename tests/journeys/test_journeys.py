"""A stranger's first hour: three scripts, each in an empty folder, with the package as it is installed from the wheel."""

from __future__ import annotations

import re
from pathlib import Path

import installed
import pytest

HERE = Path(__file__).parent
EXITS = re.compile(r"^(smoothcert [^#\n]*?)\s*# exits (\d+)\b.*$", re.MULTILINE)
SHOWN = {
    "engineer": ["certified accuracy", "sigma", "modell.onnx"],
    "researcher": [r"\toprule", "ACR", "nothing was drawn"],
    "auditor": ["signed by alice.key", "nothing found", "not as it was written", "it has been changed"],
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    _, wheel = installed.build(tmp_path_factory.mktemp("build"))
    return installed.install(wheel, tmp_path_factory.mktemp("environment") / "venv")


def script(text: str) -> str:
    """The commands, which stop at the first that fails, or that does not exit as its comment says."""
    strict = EXITS.sub(r'code=0; \1 || code=$?; [ "$code" = \2 ] || { echo "exit $code, not \2: \1"; exit 99; }', text)
    return f"set -eu\n{strict}"


@pytest.mark.parametrize("who", SHOWN)
def test_a_stranger_reaches_the_end(who, programs, tmp_path):
    empty, home = tmp_path / "empty", tmp_path / "home"
    empty.mkdir()
    home.mkdir()
    commands = script((HERE / f"{who}.sh").read_text())
    done = installed.run(["bash", "-c", commands], empty, programs, HOME=str(home))
    told = done.stdout + done.stderr
    assert done.returncode == 0, told[-3000:]
    assert "Traceback" not in told
    missing = [words for words in SHOWN[who] if words not in told]
    assert not missing, told


def test_a_command_that_should_have_been_refused_ends_the_journey(programs, tmp_path):
    done = installed.run(["bash", "-c", script("smoothcert --version  # exits 2: no\ntouch on")], tmp_path, programs)
    assert done.returncode == 99 and not (tmp_path / "on").exists()
