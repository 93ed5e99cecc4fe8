"""The picture of docs/audit.md: CIFAR-10 images, and the weakest points an attack finds in their certified balls.

    python studies/edge_picture.py [--out docs/img/edge.png]

Every 400th test image is certified with a network of the zoo (1 000 draws), and nine of the certificates are attacked:
minutes on a core. Three are shown, spread over their radii.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from smoothcert.audit import AuditPlan, audit
from smoothcert.cli.main import run as command
from smoothcert.files import write_whole
from smoothcert.report import plots
from smoothcert.report.edge import edge_figure
from smoothcert.runs.store import read
from smoothcert.runs.verify import Places

QUESTION = "certify cifar10-resnet8-consistency --data cifar10 --sigma 0.25 --skip 400 --n 1000 --threads 1 --out"
PLAN = AuditPlan(inputs=9, n=100, steps=20, redraw=0, seed=1, threads=1, kept=3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/img/edge.png"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if command([*QUESTION.split(), f"{folder}/run"]):
            raise SystemExit("the images could not be certified")
        run = read(Path(folder) / "run")
        found = audit(run, PLAN, Places(None, None, None))
        write_whole(options.out, plots.png(edge_figure(run, found.attacked)))
    print(f"wrote {options.out}; {len(found.violations)} violations")


if __name__ == "__main__":
    main()
