"""The package as a stranger has it: built, installed from the wheel alone, and run from another folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt", "smoothcert")


def build(folder: Path) -> tuple[Path, Path]:
    """An sdist of a copy of the sources, and the wheel that is made of that sdist."""
    copy, dist = folder / "sources", folder / "dist"
    copy.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy)
    _call(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, copy)
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    return sdist, wheel


def install(wheel: Path, folder: Path) -> Path:
    """The wheel in a new environment, which finds the dependencies of this one but not its smoothcert; the `bin`."""
    _call(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    _call(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet", wheel)
    purelib = _call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    # A plain path: the .pth files beside the dependencies, the editable smoothcert's among them, are not followed.
    (Path(purelib) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def run(command: list[str | Path], folder: Path, programs: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A command in a folder, with the installed programs first on the path and nothing of this checkout."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COLUMNS")}
    env = {**clean, "PATH": f"{programs}{os.pathsep}{clean['PATH']}", "OMP_NUM_THREADS": "1", **more}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def _call(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=_without_path())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _without_path() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
