"""Two training methods, the same network and inputs: who certifies more, and is the difference more than chance?

Everything is an ordinary command, printed before it runs. Give a folder for networks and runs, or take
smoothcert-compare.
"""

import sys
from pathlib import Path

from smoothcert.cli.main import run

SIGMA = "0.25"
METHODS = ("gaussian", "consistency")
TRAIN = f"train --data digits --arch digits_cnn --sigma {SIGMA} --epochs 6 --batch 64 --schedule one_cycle --threads 1"
CERTIFY = f"--data digits --skip 10 --sigma {SIGMA} --n 2000"


def step(line: str) -> None:
    """Show a command, run it, stop if it fails."""
    print(f"\n$ smoothcert {line}", flush=True)
    if code := run(line.split()):
        sys.exit(code)


def main(folder: Path) -> None:
    for method in METHODS:
        step(f"{TRAIN} --objective {method} --out {folder}/{method}")
        step(f"certify {folder}/{method} {CERTIFY} --out {folder}/run-{method}")
    first, second = (f"{folder}/run-{method}" for method in METHODS)
    step(f"report {first} {second} --html {folder}/report.html")
    step(f"compare {first} {second}")  # paired, input by input, with intervals


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "smoothcert-compare"))
