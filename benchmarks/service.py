"""The service against the command on the same inputs, its latencies, and what it does under too much load.

    python benchmarks/service.py [--part throughput,latency,overload,growth] [--inputs 32] [--n 10000] [--rounds 3]

Everything is on the loopback address, bounded in number and time; clients are threads of this process with binary
requests. Each part starts services of its own, as processes from the command line, with caches of their own.

    throughput   draws a second with 1, 8 and 32 certifying clients ÷ those of `smoothcert certify` on the same inputs,
                 in turns; the command's time is that of its draws alone, the service's is the clients' clock. Beside it
                 the same by processor seconds of either process, which other load on the machine disturbs less
    latency      p50, p95, p99 in ms of answers from a memory and of known radii, and one certification at n = 100,000
    overload     requests at four times the measured capacity for some seconds: those accepted keep their deadlines, the
                 rest get 503, and the memory of the process does not grow
    growth       the median of memory hits with 100,000 regions ÷ with 1,000
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from smoothcert.classifiers import digest
from smoothcert.memory import Memory
from smoothcert.runs.store import read

MODEL, SHAPE, SIGMA = "cifar10-resnet8-gaussian-0", (3, 32, 32), 0.25
PARTS = ("throughput", "latency", "overload", "growth")
CLIENTS = (1, 8, 32)
KNOWN = 0.05  # radius that most random inputs have
SECONDS, DEADLINE = 12.0, 2.0  # of the overload, and of its requests
GRACE = 0.5 + 0.1  # in which the service may still answer after a deadline, and the way back
NEAR = 1 / 255  # how far a query is from the centre of a region


class Client:
    """One connection, kept."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, pixels: np.ndarray, **parameters: object) -> tuple[int, dict]:
        """Status and answer for inputs uint8 [batch, …]."""
        tensor = {"name": "x", "shape": list(pixels.shape), "datatype": "UINT8"}
        tensor["parameters"] = {"binary_data_size": pixels.nbytes}
        head = json.dumps({"inputs": [tensor], "parameters": parameters}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
        self.connection.request("POST", f"/v2/models/{MODEL}/infer", head + pixels.tobytes(), headers)
        response = self.connection.getresponse()
        return response.status, json.loads(response.read())

    def fetch(self, path: str) -> bytes:
        self.connection.request("GET", path)
        return self.connection.getresponse().read()


def output(answer: dict, name: str) -> list:
    return next(one["data"] for one in answer["outputs"] if one["name"] == name)


@contextlib.contextmanager
def served(place: Path, *options: str):
    """A service from the command line: its port and its process."""
    line = [sys.executable, "-m", "smoothcert", "serve", MODEL, "--sigma", str(SIGMA), "--port", "0", *options]
    env = {**os.environ, "SMOOTHCERT_CACHE": str(place / "cache"), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(line, cwd=place, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = int(process.stdout.readline().split(":")[2].split("/")[0])
        yield port, process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def images(number: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (number, *SHAPE)).astype(np.uint8)


def certified(place: Path, number: int, n: int) -> tuple[float, float]:
    """Draws a second of the command while it draws, and draws a processor second beyond those of a run with few."""
    np.savez(place / "inputs.npz", x=images(number), y=np.zeros(number, dtype=np.int64))
    (few, few_seconds, _), (many, seconds, speed) = (_command(place, draws) for draws in (100, n))
    return speed, (many - few) / (seconds - few_seconds)


def _command(place: Path, n: int) -> tuple[int, float, float]:
    """Draws of a run, processor seconds of its process, and draws a second while it drew."""
    out = place / f"run-{time.monotonic_ns()}"
    line = ["certify", MODEL, "--data", "inputs.npz", "--sigma", str(SIGMA), "--n", str(n), "--out", str(out)]
    env = {**os.environ, "SMOOTHCERT_CACHE": str(place / "cache")}
    before = _children()
    subprocess.run([sys.executable, "-m", "smoothcert", *line], cwd=place, env=env, check=True, capture_output=True)
    seconds, run = _children() - before, read(out)
    draws, workers = sum(row.draws or 0 for row in run.rows), run.means.workers if run.means else 1
    return draws, seconds, draws / sum((row.seconds or 0.0) / workers for row in run.rows)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _processor(pid: int) -> float:
    """Seconds that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def by_clients(port: int, pid: int, clients: int, pixels: np.ndarray, n: int) -> tuple[float, float]:
    """Draws a second, and a processor second, of so many clients, each asking as soon as it is answered."""
    left, draws, lock = iter(range(len(pixels))), [], threading.Lock()

    def work() -> None:
        client = Client(port)
        while True:
            with lock:
                if (one := next(left, None)) is None:
                    return
            status, answer = client.ask(pixels[one : one + 1], mode="certify", n=n)
            assert status == 200, answer
            draws.append(output(answer, "draws")[0])

    begun, used = time.perf_counter(), _processor(pid)
    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(draws) / (time.perf_counter() - begun), sum(draws) / (_processor(pid) - used)


def throughput(place: Path, number: int, n: int, rounds: int) -> None:
    pixels, ratios = images(number), {clients: [] for clients in CLIENTS}
    commands = []
    for turn in range(rounds):
        before = certified(place, number, n)
        with served(place, "--state", f"state-{turn}") as (port, process):
            by_clients(port, process.pid, 8, pixels[:16], 1000)  # warm
            found = {clients: by_clients(port, process.pid, clients, pixels, n) for clients in CLIENTS}
        command = np.mean([before, certified(place, number, n)], axis=0)
        commands.append(command)
        for clients, speeds in found.items():
            ratios[clients].append(np.array(speeds) / command)
    told = "{:,.0f} draws/s, {:,.0f} a processor second".format(*np.median(commands, axis=0))
    print(f"throughput: {number} inputs, n = {n}, {rounds} rounds in turns; command {told}")
    for clients, values in ratios.items():
        middle, low, high = (form(values, axis=0) for form in (np.median, np.min, np.max))
        words = [f"{a:.3f} ({b:.3f} to {c:.3f})" for a, b, c in zip(middle, low, high, strict=True)]
        print(f"  {clients} clients ÷ command: {words[0]}; by processor seconds {words[1]}")


def latency(place: Path, number: int = 300) -> None:
    pixels = images(32)
    with served(place, "--state", "latency", "--memory", "latency.sqlite") as (port, _):
        client = Client(port)
        known = [_timed(client, images(1, seed), mode="certify", radius=KNOWN) for seed in range(1000, 1000 + number)]
        drawn = [one for one in known if output(one[1], "draws")[0] > 0]
        once = [_timed(client, pixels[one : one + 1], mode="certify", radius=KNOWN) for one in range(len(pixels))]
        home = [one for one, found in enumerate(once) if output(found[1], "radius")[0] > 2 * NEAR]
        hits = []
        for one in itertools.islice(itertools.cycle(home), number):
            near = pixels[one : one + 1].copy()
            near[0, 0, 0, len(hits) % 32] ^= 1  # another input, one step away
            hits.append(_timed(client, near, mode="certify", radius=KNOWN))
        assert all(output(answer, "draws") == [0] for _, answer in hits)
    with served(place, "--state", "largest") as (port, _):
        largest = _timed(Client(port), pixels[:1], mode="certify", n=100_000)
    draws = _median([output(answer, "draws")[0] for _, answer in drawn])
    print("latency in ms with one client, p50, p95, p99:")
    print(f"  {len(hits)} memory hits: {_percentiles(hits)}")
    print(f"  {len(drawn)} answers at a known radius of {KNOWN}: {_percentiles(drawn)}; median {draws:.0f} draws")
    print(f"  one certification at n = 100,000: {1000 * largest[0]:,.0f}")


def overload(place: Path, n: int) -> None:
    with served(place, "--state", "overload", "--waiting", "32") as (port, process):
        capacity = by_clients(port, process.pid, 8, images(32), n)[0] / (n + 100)
        rate, statuses, late, slowest = 4 * capacity, Counter(), 0, 0.0
        before, peak, lock = _rss(process.pid), 0, threading.Lock()
        local = threading.local()

        def one(number: int, due: float) -> None:
            nonlocal late, slowest, peak
            time.sleep(max(0.0, due - time.perf_counter()))
            client = getattr(local, "client", None) or Client(port)
            local.client = client
            begun = time.perf_counter()
            status, answer = client.ask(images(1, number), mode="certify", n=n, deadline_ms=int(1000 * DEADLINE))
            seconds = time.perf_counter() - begun
            with lock:
                statuses[status] += 1
                if status == 200:
                    statuses["abstained for their deadline"] += "deadline" in output(answer, "reason")[0]
                    late += seconds > DEADLINE + GRACE
                    slowest = max(slowest, seconds)
                if number % 50 == 0:
                    peak = max(peak, _rss(process.pid))

        begun = time.perf_counter() + 0.2
        with ThreadPoolExecutor(64) as pool:
            list(pool.map(one, range(int(rate * SECONDS)), [begun + i / rate for i in range(int(rate * SECONDS))]))
        told = ", ".join(f"{number} × {status}" for status, number in statuses.items())
        sizes = ", ".join(f"{size / 2**20:.0f} MB {when}" for size, when in (
            (before, "before"), (peak, "at most"), (_rss(process.pid), "after")))  # fmt: skip
        print(f"overload at n = {n}: {rate:.1f} requests/s for {SECONDS:.0f} s, four times the capacity: {told}")
        print(f"  {late} accepted ones later than {DEADLINE:.0f} s + {GRACE:.1f} s (slowest {slowest:.2f} s)")
        print(f"  memory {sizes}")


def growth(place: Path, number: int = 300) -> None:
    medians = {}
    for regions in (1_000, 100_000):
        file = place / f"growth-{regions}.sqlite"
        rng = np.random.default_rng(7)
        with Memory.create(file, digest(MODEL).hex, "l2", SHAPE) as memory:
            for _ in range(0, regions, 1000):
                some = rng.integers(0, 256, (1000, *SHAPE)).astype(np.uint8)
                memory._admit_all([((x / 255).astype(np.float32), 3, 0.25) for x in some])
        homes = np.random.default_rng(7).integers(0, 256, (1000, *SHAPE)).astype(np.uint8)
        with served(place, "--state", f"growth-{regions}", "--memory", str(file)) as (port, _):
            client = Client(port)
            hits = []
            for one in range(number + 20):
                near = homes[one : one + 1].copy()
                near[0, 0, 0, 0] ^= 1
                hits.append(_timed(client, near, mode="certify"))
            assert all(output(answer, "draws") == [0] for _, answer in hits)
        medians[regions] = _median([seconds for seconds, _ in hits[20:]])
    few, many = medians.values()
    print(f"growth: median of {number} memory hits, in ms: {1000 * few:.2f} with 1,000 regions, {1000 * many:.2f} with")
    print(f"  100,000; ratio {many / few:.2f}")


def _timed(client: Client, pixels: np.ndarray, **parameters: object) -> tuple[float, dict]:
    begun = time.perf_counter()
    status, answer = client.ask(pixels, **parameters)
    assert status == 200, answer
    return time.perf_counter() - begun, answer


def _percentiles(timed: list[tuple[float, dict]]) -> str:
    return ", ".join(f"{1000 * value:.1f}" for value in np.percentile([seconds for seconds, _ in timed], (50, 95, 99)))


def _median(values: list) -> float:
    return float(statistics.median(values))


def _rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", default=",".join(PARTS))
    parser.add_argument("--inputs", type=int, default=32)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="smoothcert-service-") as name:
        place = Path(name)
        calls = {
            "throughput": lambda: throughput(place, asked.inputs, asked.n, asked.rounds),
            "latency": lambda: latency(place),
            "overload": lambda: overload(place, 1000),
            "growth": lambda: growth(place),
        }
        for part in asked.part.split(","):
            calls[part]()


if __name__ == "__main__":
    main()
