"""How the cores of this machine are best used: many threads on one batch, or many batches on one thread each.

Measured for a network in a second or so, once, and remembered. Small networks gain from several batches at once (no
thread waits for another inside a layer); scores are the same either way.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from smoothcert import foreign
from smoothcert.contracts import batch_rows
from smoothcert.errors import OutputError, SmoothcertError
from smoothcert.files import cache_folder, write_whole

if TYPE_CHECKING:
    from torch import Tensor

    from smoothcert.classifiers.onnx import Onnx

FILE = "threads.json"
SECONDS = 0.3  # of each measurement
ROUNDS = 2
# The bare network is measured, while noise and counting are made by one thread a worker: in a run several workers gain
# more than it shows. One is chosen only where it is faster by more than this.
WORKERS_GAIN = 1.1


class Arrangement(NamedTuple):
    """So many batches at once, each on so many threads."""

    workers: int
    threads: int


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fastest(network: Onnx, example: Tensor, total: int) -> Arrangement:
    """The fastest arrangement of `total` threads, from memory or measured."""
    if total == 1:
        return Arrangement(1, 1)
    key = _key(network, example, total)
    known = _remembered().get(key)
    if known is not None and known.workers * known.threads <= total:
        return known
    candidates = [Arrangement(1, total), Arrangement(total, 1)]
    if total >= 8:
        candidates.append(Arrangement(total // 4, 4))
    speeds = dict.fromkeys(candidates, 0.0)
    for _ in range(ROUNDS):
        for candidate in candidates:
            speeds[candidate] = max(speeds[candidate], speed(network, example, candidate))
    best = max(candidates, key=lambda candidate: speeds[candidate] * (WORKERS_GAIN if candidate.workers > 1 else 1.0))
    _remember(key, best)
    return best


def speed(network: Onnx, example: Tensor, arrangement: Arrangement, seconds: float = SECONDS) -> float:
    """Images a second of the bare network in this arrangement."""
    session = network.with_threads(arrangement.threads)
    batch = example.unsqueeze(0).repeat(network.rows or batch_rows(example.shape), *(1 for _ in example.shape))
    session(batch)
    end = time.perf_counter() + seconds

    def work(_: int) -> int:
        images = 0
        while images == 0 or time.perf_counter() < end:
            session(batch)
            images += len(batch)
        return images

    start = time.perf_counter()
    with ThreadPoolExecutor(arrangement.workers) as pool:
        images = sum(pool.map(work, range(arrangement.workers)))
    return images / (time.perf_counter() - start)


def _key(network: Onnx, example: Tensor, total: int) -> str:
    import onnxruntime

    machine = f"{os.cpu_count()} {_processor()} {onnxruntime.__version__}"
    words = f"{network.digest} {tuple(example.shape)} {total} {machine} {WORKERS_GAIN}"
    return hashlib.sha256(words.encode()).hexdigest()[:32]


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            return next((line.strip() for line in file if line.startswith("model name")), "")
    except OSError:
        return ""


def _remembered() -> dict[str, Arrangement]:
    """What was measured before; what is not whole, or not ours, was not."""
    path = cache_folder() / FILE
    try:
        found = foreign.parse_json(foreign.content(path, "cache"), "cache")
        known = foreign.typed(dict[str, tuple[int, int]], found)
    except (SmoothcertError, ValueError, TypeError):
        return {}
    return {key: Arrangement(*pair) for key, pair in known.items() if min(pair) > 0}


def _remember(key: str, best: Arrangement) -> None:
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        write_whole(cache_folder() / FILE, json.dumps({**_remembered(), key: best}).encode())
    except (OSError, OutputError):
        return  # a memory that cannot be written is only slower
