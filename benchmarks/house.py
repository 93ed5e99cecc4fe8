"""How many files a command goes through: a line of code's walk through the house.

    python benchmarks/house.py [--files]

A run of three inputs is certified on a linear callable, verified and reported. Counted are the package's files that
calls enter, and the changes of file: `calls`, where a call enters another file than the call before; `steps`, where
returns are followed too, as by a reader with a debugger. Imports do not count, nor what runs outside the package.
`--files` names the files. At commit 6c2644c the text of the report took 22 files, 81 calls and 119 steps, the page 56
files, 1738 calls and 2405 steps.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import inspect
import io
import os
import sys
import tempfile
from pathlib import Path
from types import FrameType

import numpy as np
import torch

import smoothcert
from smoothcert.cli.main import run

PACKAGE = str(Path(smoothcert.__file__).parent)
COMMANDS = (
    "certify house:score --data three.npz --sigma 0.25 --n 400 --n0 20 --alpha 0.05 --out run",
    "verify run",
    "report run",
    "report run --json",
    "report run --html page.html",
)


def score(x: torch.Tensor) -> torch.Tensor:
    side = x @ torch.tensor([3.0, -2.0, 1.0, 0.5]) - 0.9
    return torch.stack([-side, side], dim=1)


class Walk:
    """Files entered, and changes of file, while a function runs."""

    def __init__(self) -> None:
        self.entered: collections.Counter[str] = collections.Counter()
        self.calls = self.steps = 0
        self._called = self._at = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and self._counts(frame):
            file = frame.f_code.co_filename
            self.entered[file] += 1
            self.calls += file != self._called
            self._called = file
            self._step(file)
        elif event == "return" and frame.f_back is not None and self._counts(frame.f_back):
            self._step(frame.f_back.f_code.co_filename)

    def _counts(self, frame: FrameType) -> bool:
        """Code of the package, and of a function: modules and class bodies run while they are imported."""
        code = frame.f_code
        return code.co_filename.startswith(PACKAGE) and bool(code.co_flags & inspect.CO_OPTIMIZED)

    def _step(self, file: str) -> None:
        self.steps += file != self._at
        self._at = file


def walked(line: str) -> Walk:
    walk = Walk()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        sys.setprofile(walk)
        try:
            code = run(line.split())
        finally:
            sys.setprofile(None)
    if code:
        raise SystemExit(f"smoothcert {line}: {said.getvalue()}")
    return walk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="Name the files, with the calls that entered each.")
    wanted = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parent))  # for house:score
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        x = np.random.default_rng(0).random((3, 4), dtype=np.float32)
        np.savez("three.npz", x=x, y=score(torch.from_numpy(x)).argmax(1).numpy())
        print(f"{'command':30}{'files':>7}{'calls':>7}{'steps':>7}")
        for line in COMMANDS:
            walk = walked(line)
            print(f"{line[:29]:30}{len(walk.entered):7}{walk.calls:7}{walk.steps:7}")
            for file, times in walk.entered.most_common() if wanted.files else ():
                print(f"{times:12} {Path(file).relative_to(PACKAGE)}")
        os.chdir("/")


if __name__ == "__main__":
    main()
