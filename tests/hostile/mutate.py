"""Damages real files for a while and reads each in a process of its own, by readers and by commands: what went wrong.

    OMP_NUM_THREADS=1 PYTHONPATH=tests python tests/hostile/mutate.py SECONDS [SEED]

Every reading is a fork with a bound on memory, on processor time and on the clock. It may answer, or say one line. The
parent only ever makes files and forks: threads that were begun here would be lost in its children.
"""

from __future__ import annotations

import collections
import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import mutations
import numpy as np
import specimens

from smoothcert.cli.main import run
from smoothcert.errors import SmoothcertError

MEMORY = 3 * 2**30  # bytes beside what Python and torch take by themselves
PROCESSOR, CLOCK = 5, 30  # seconds for a reader; a command that also draws has four times as much
DRAWS = ["--sigma", "0.25", "--n", "20", "--n0", "5", "--engine", "torch", "--out", "out"]
RUN = [
    ["verify", "run"], ["report", "run"], ["report", "run", "--html", "out/r.html"], ["history", "run"],
    ["compare", "run", "run"], ["certificate", "run", "5", "--out", "out/c.json"], ["plan", "--like", "run"],
    ["export", "run", "--out", "out/r.csv"],
]  # fmt: skip
MODEL = [["certify", ".", "--data", "../squares.npz", *DRAWS]]
COMMANDS: dict[str, list[list[str]]] = {
    "recipe": RUN,
    "run": RUN,
    "document": [["verify", "c.json", "--model", "linear:score"]],
    "memory": [["memory", "stats", "m.sqlite"], ["memory", "check", "m.sqlite"], ["verify", "run"]],
    "npz": [["certify", "linear:score", "--data", "d.npz", *DRAWS]],
    "config": MODEL,
    "weights": MODEL,
    "ensemble": MODEL,
    "onnx": [["certify", "m.onnx", "--data", "../squares.npz", *DRAWS]],
    "log": [["report", "cohen.tsv"], ["compare", "cohen.tsv", "cohen.tsv"]],
}  # fmt: skip


def main(seconds: float, seed: int = 0) -> dict[str, object]:
    """Counts of what happened, and every reading that went wrong."""
    outcomes: collections.Counter[str] = collections.Counter()
    wrong: list[dict[str, str]] = []
    dice, end = random.Random(seed), time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="smoothcert-study-") as folder:
        root = Path(folder)
        os.environ.update(HOME=str(root / "home"), SMOOTHCERT_CACHE=str(root / "cache"))
        known = _made(root / "specimens")
        np.savez(root / "squares.npz", x=np.full((2, 1, 4, 4), 0.3001, dtype=np.float32), y=np.zeros(2, dtype=int))
        while time.monotonic() < end:
            name = dice.choice(sorted(known))
            made = _damaged(known[name], dice, root / "case")
            before = _listing(root)
            for words, asked in _asked(name, known[name], dice):
                found = _in_child(asked, root / "case", 1 if words == "reader" else 4)
                left = sorted(_listing(root) - before - {path for path in _listing(root) if _allowed(path)})
                if left:
                    found = f"left behind: {left[0]}"
                kind = found.split(":")[0] if found else "answered"
                outcomes[kind] += 1
                if kind not in ("answered", "one line"):
                    wrong.append({"specimen": name, "asked": words, "how": made, "found": found[-1500:]})
            shutil.rmtree(root / "case")
    return {"seconds": seconds, "outcomes": dict(outcomes), "wrong": wrong}


def _made(root: Path) -> dict[str, specimens.Specimen]:
    """Made by another process, whose threads go with it, and then known by their files alone."""
    child = os.fork()
    if child == 0:
        try:
            specimens.make(root)
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("no specimens")
    return specimens.known(root)


def _damaged(specimen: specimens.Specimen, dice: random.Random, case: Path) -> str:
    specimen.copied(case)
    seed, content = dice.random(), specimen.content
    restated = dice.random() < 0.5
    own = random.Random(seed)
    bad = mutations.restated(specimen.file, content, own) if restated else mutations.damaged(content, own)
    (case / specimen.file).write_bytes(bad)
    return f"{'restated' if restated else 'damaged'} by {seed!r}"


def _asked(name: str, specimen: specimens.Specimen, dice: random.Random) -> list[tuple[str, Callable[[], int]]]:
    """The reader, and at times a command."""

    def read() -> int:
        specimen.read(Path.cwd())
        return 0

    found: list[tuple[str, Callable[[], int]]] = [("reader", read)]
    if name in COMMANDS:
        words = dice.choice(COMMANDS[name])
        found.append((" ".join(words), lambda: run(words)))
    return found


def _in_child(asked: Callable[[], int], case: Path, patience: int) -> str:
    """What became of it: nothing where it answered, else one word, a colon and the rest."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        found, said = "", io.StringIO()
        try:  # nothing may leave this branch: the parent's files would be tidied away
            _begun(case, patience)
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
                code = asked()
            lines = said.getvalue().strip().splitlines()
            found = "" if code in (0, 1) else f"one line: {lines[-1]}" if lines else f"silent: {code}"
        except SmoothcertError as error:
            found = f"{'several lines' if chr(10) in str(error) else 'one line'}: {error}"
        except BaseException:
            found = f"traceback: {traceback.format_exc()}"
        os.write(theirs, found.encode(errors="replace")[-4000:])
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        found = pipe.read().decode(errors="replace")
    status = os.waitpid(child, 0)[1]
    return found if status == 0 else f"died: of signal {status}"


def _begun(case: Path, patience: int) -> None:
    os.chdir(case)
    Path("out").mkdir(exist_ok=True)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY + pages * resource.getpagesize(),) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR * patience,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(CLOCK * patience)


def _listing(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def _allowed(path: str) -> bool:
    """What was asked for, what is cached, matplotlib's own, and what SQLite keeps beside a database that is open."""
    return path.startswith(("case/out", "cache", "home/.c")) or path.endswith(("-wal", "-shm")) or path == "home"


if __name__ == "__main__":
    print(json.dumps(main(float(sys.argv[1]), *map(int, sys.argv[2:])), indent=1))
