"""Where the time of a certification goes, as a table and as a picture.

    python benchmarks/time_spent.py [--network resnet20] [--draws 20000] [--out docs/img/profile.svg]

Upper bars: samples of the engine's threads by py-spy (100 a second, without stopping them; threads that wait are not
counted), sorted by what the thread was doing. Where py-spy cannot be run, the engine's own clocks stand instead, and
the picture says so. Lower bars: the inside of the forward pass, kernel by kernel, by ONNX Runtime's profiler on one
thread. Getting ready (export, choice of threads, the first look at the classifier) is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from shutil import which

import torch

from smoothcert import catalog
from smoothcert.classifiers import ready, wrap
from smoothcert.contracts import Job, Source
from smoothcert.engine.engine import Engine
from smoothcert.engine.threads import Threads
from smoothcert.noise.gaussian import Gaussian
from smoothcert.procedures.certify import Certify
from smoothcert.sampling.fixed import Fixed

# What a stack of calls is about: the first line with a word that occurs in it.
KINDS = (
    ("Threads._check", ""),  # the first look at the classifier: not part of what is shown
    ("onnxruntime", "network (ONNX Runtime)"),
    ("streams.py", "noise: random words (Philox)"),
    ("gaussian.py", "noise: to normal (Box–Muller), + x"),
    ("_fill", "noise: around it"),
    ("check_scores", "checking scores"),
    ("_count", "counting votes"),
    ("TopClass", "counting votes"),
    ("Threads._execute", "Python around the network"),
    ("Engine.run", "packing batches, answering procedures"),
)
CLOCKS = {"noise": "noise", "forward": "network and checking scores", "count": "counting votes"}


def prepare(name):
    torch.manual_seed(0)
    shape = {"lenet": (1, 28, 28)}.get(name, (3, 32, 32))
    network = catalog.build("architectures", name).build(shape, 10).eval()
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    return ready(wrap(network), x), x


def work(name, draws, out):
    """The certification that is watched; in a process of its own."""
    prepared, x = prepare(name)
    source, engine = Source(prepared.classifier, Gaussian(0.25)), Engine(Threads(workers=prepared.workers))
    list(engine.run([Job(9, x, Certify(64, Fixed(64, 0.05))(source, x.numel()))]))
    engine.executor.shares.update(dict.fromkeys(engine.executor.shares, 0.0))
    start = time.perf_counter()
    list(engine.run([Job(0, x, Certify(100, Fixed(draws))(source, x.numel()))]))
    found = {"seconds": time.perf_counter() - start, "workers": prepared.workers, "shares": engine.executor.shares}
    Path(out).write_text(json.dumps(found))


def watch(name, draws):
    """Samples by kind, who took them, and what the engine's own clocks said."""
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
    with tempfile.TemporaryDirectory() as folder:
        own, stacks = f"{folder}/own.json", Path(folder, "stacks")
        task = [sys.executable, __file__, "--network", name, "--draws", str(draws), "--work", own]
        spy = which("py-spy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        record = [spy, "record", "--nonblocking", "-t", "-r", "100", "-f", "raw", "-o", str(stacks), "--"]
        done = spy and subprocess.run([*record, *task], env=environment, capture_output=True, text=True)
        if done and done.returncode == 0 and stacks.exists():
            return sort(stacks.read_text()), "py-spy", json.loads(Path(own).read_text())
        subprocess.run(task, env=environment, check=True)
        clocks = json.loads(Path(own).read_text())
        return Counter({CLOCKS[key]: value for key, value in clocks["shares"].items()}), "engine's clocks", clocks


def sort(text):
    """Folded stacks (`a;b;c 12`) → samples of each kind, of the engine's threads only."""
    found = Counter()
    for line in text.splitlines():
        stack, _, number = line.rpartition(" ")
        if ("Threads." in stack or "Engine." in stack) and "smoothcert/engine/" in stack:
            kind = next((kind for word, kind in KINDS if word in stack), "other")
            found[kind] += int(number)
    found.pop("", None)
    return found


def kernels(name, rows=64, passes=20):
    """Time of the kernels of a forward pass by kind of layer."""
    import onnxruntime

    prepared, x = prepare(name)
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.enable_profiling, options.profile_file_prefix = True, f"{folder}/ort"
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        session = onnxruntime.InferenceSession(prepared.classifier.content, options)
        batch = {session.get_inputs()[0].name: x.unsqueeze(0).repeat(rows, 1, 1, 1).numpy()}
        for _ in range(passes):
            session.run(None, batch)
        events = json.loads(Path(session.end_profiling()).read_text())
    found = Counter()
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            found[event["args"]["op_name"]] += event["dur"]
    return found


def draw(panels, out):
    """Horizontal bars, one panel above the other, every bar with its share."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    heights = [len(shares) for _, shares in panels]
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(8, 1.4 + 0.34 * sum(heights)), height_ratios=heights, layout="constrained"
    )
    for axis, (title, shares), colour in zip(axes, panels, ("#1f5f8b", "#6b8e23"), strict=True):
        names, values = [name for name, _ in shares], [100 * value for _, value in shares]
        bars = axis.barh(names, values, color=colour)
        axis.bar_label(bars, [f"{value:.1f} %" if value >= 0.05 else "< 0.1 %" for value in values], padding=4)
        axis.set_xlim(0, 112)
        axis.set_xticks(range(0, 101, 20))
        axis.invert_yaxis()
        axis.set_title(title, loc="left", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("share of the time, %")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)


def shares_of(found):
    return [(name, value / found.total()) for name, value in found.most_common()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="resnet20")
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs/img/profile.svg")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options.network, options.draws, options.work)
    found, by, own = watch(options.network, options.draws)
    rate = (options.draws + 100) / own["seconds"]
    busy = sum(own["shares"].values()) / own["seconds"] / own["workers"]
    title = f"certifying with {options.network}, n={options.draws}: {own['workers']} workers, {rate:,.0f} draws/s"
    panels = [
        (f"{title}\n({by}, {found.total():.0f} samples; workers busy {busy:.1%} of the time)", shares_of(found)),
        ("inside the network, one thread (ONNX Runtime's profiler)", shares_of(kernels(options.network))),
    ]
    draw(panels, options.out)
    for words, shares in panels:
        print(words)
        for name, share in shares:
            print(f"  {name:<42}{share:>7.2%}")
    return None


if __name__ == "__main__":
    main()
