"""The pictures in docs/img: the report, light, dark and on a phone; its curves and gallery; a run on a terminal.

    python tests/browser/screenshots.py --out docs/img

The runs they show are certified first (two networks of the zoo, every 100th test image of CIFAR-10, 1 000 draws) and
kept in --work; a second call only takes the pictures.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

HERE = Path(__file__).parent
SMOOTHCERT = str(Path(sys.executable).with_name("smoothcert"))
NETWORKS = ("gaussian-0", "consistency")
ROWS, COLUMNS = 3, 112
MOMENT = 0.6  # of its time: when a run's progress is shown
LARGEST = 300_000  # bytes of a picture


def certify(network: str, out: Path, skip: int, n: int) -> list[str]:
    """The command that certifies a network of the zoo."""
    words = f"certify cifar10-resnet8-{network} --data cifar10 --sigma 0.25 --skip {skip} --n {n}"
    return [SMOOTHCERT, *words.split(), "--out", str(out)]


def recorded(command: list[str]) -> list[tuple[float, bytes]]:
    """What a command writes to a terminal, and when."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    child = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm-256color"}
    )
    os.close(slave)
    start, written = time.monotonic(), []
    while True:
        try:
            written.append((time.monotonic() - start, os.read(master, 65536)))
        except OSError:  # the other end is closed
            break
    os.close(master)
    if child.wait():
        raise SystemExit(f"{' '.join(command)} failed")
    return written


def terminal(work: Path) -> None:
    """A run in its course, as the bytes a terminal had received by then."""
    out = work / "shown"
    shutil.rmtree(out, ignore_errors=True)
    written = recorded(certify(NETWORKS[0], out, skip=250, n=2000))
    first = next((at for at, text in written if b"%" in text), 0.0)
    moment = first + MOMENT * (written[-1][0] - first)
    shown = b"".join(text for at, text in written if at <= moment).decode(errors="ignore")
    words = " ".join(["$ smoothcert", *certify(NETWORKS[0], Path("runs/a"), skip=250, n=2000)[1:]])
    screen = {"text": f"{words}\r\n{shown}", "rows": ROWS, "columns": COLUMNS}
    (work / "terminal.json").write_text(json.dumps(screen))


def main() -> None:
    """Certify what is missing, then take the pictures."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--out", type=Path, default=Path("docs/img"))
    asked.add_argument("--work", type=Path, default=Path("study/screenshots"))
    asked.add_argument("--skip", type=int, default=100)
    asked.add_argument("--n", type=int, default=1000)
    options = asked.parse_args()
    runs = [options.work / network for network in NETWORKS]
    for network, run in zip(NETWORKS, runs, strict=True):
        subprocess.run(certify(network, run, options.skip, options.n), check=True)
    page = options.work / "report.html"
    subprocess.run([SMOOTHCERT, "report", *map(str, runs), "--html", str(page)], check=True)
    terminal(options.work)
    options.out.mkdir(parents=True, exist_ok=True)
    places = [str(path.resolve()) for path in (page, options.work / "terminal.json", options.out)]
    subprocess.run(["node", str(HERE / "screenshots.mjs"), *places], check=True)
    large = [path.name for path in options.out.glob("*.png") if path.stat().st_size > LARGEST]
    if large:
        raise SystemExit(f"pictures must be below {LARGEST} bytes; got more in {', '.join(large)}")


if __name__ == "__main__":
    main()
