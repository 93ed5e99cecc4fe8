"""A Ray cluster: started here or joined, made quiet, and left again."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from smoothcert.bounds import check_draws
from smoothcert.errors import THREADS, OptionError, reason

LOCAL = "local"
PATIENCE = 5.0  # seconds in which a cluster must accept a connection
OBJECTS = 2**28  # bytes of shared memory of a local cluster: parcels are small
WORKERS = 10_000  # more than any cluster starts


@dataclass(frozen=True)
class Cluster:
    """Where the workers are: `local`, or HOST:PORT of a running cluster; as many workers as it has room for."""

    address: str = LOCAL
    workers: int | None = None
    threads: int = 1  # of one worker
    gpus: bool | None = None  # whether every worker has a GPU of its own; None: if the cluster has any

    def __post_init__(self) -> None:
        check_draws(self.threads, "threads", "a worker", THREADS)
        if self.workers is not None:
            check_draws(self.workers, "workers", "Ray", WORKERS)
        host, _, port = self.address.rpartition(":")
        if self.address != LOCAL and not (host and port.isdigit() and "/" not in host):
            raise OptionError(f"ray must be local or the HOST:PORT of a running cluster; got '{self.address}'")

    @contextlib.contextmanager
    def connected(self) -> Iterator[None]:
        """Start or join the cluster, and leave it again; one that this process already uses is left as it is."""
        ray = import_ray(self.address)
        if self.address != LOCAL:
            _refuse_unreachable(self.address)
        if ray.is_initialized():
            yield
            return
        try:
            self._join(ray)
            yield
        finally:
            ray.shutdown()

    def _join(self, ray: Any) -> None:
        options: dict[str, Any] = {"address": self.address}
        if self.address == LOCAL:
            room = self.workers * self.threads if self.workers else None
            options |= {"include_dashboard": False, "num_cpus": room, "object_store_memory": OBJECTS}
        with _own_signals(), _quiet():
            try:
                ray.init(**options, log_to_driver=False, configure_logging=False)
            except Exception as error:
                # Ray raises anything from ValueError to its own kinds here; the first line says what is the matter.
                hint = "" if self.address == LOCAL else "; a cluster with a token needs RAY_AUTH_MODE=token here too"
                raise OptionError(f"ray must be a cluster that can be used: {reason(error)}{hint}") from error

    def hands(self, ray: Any) -> Hands:
        """How many workers there will be, and what each of them has."""
        found = ray.cluster_resources()
        gpus = found.get("GPU", 0) >= 1 if self.gpus is None else self.gpus
        room = int(found.get("GPU", 0)) if gpus else int(found.get("CPU", 0)) // self.threads
        return Hands(self.workers or max(1, room), self.threads, gpus)


class Hands(NamedTuple):
    """The workers of a cluster."""

    number: int
    threads: int
    gpus: bool

    @property
    def words(self) -> str:
        return f"{self.number} Ray workers with {self.threads} threads each" + (" and a GPU" if self.gpus else "")


def import_ray(address: str) -> Any:
    """Ray, told to be quiet: by its environment, which it reads when it is imported, and by its logger after that."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address != LOCAL:
        # By default Ray asks an address that is not Ray's for a quarter of an hour.
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise OptionError("ray must be installed for --ray; pip install 'smoothcert[ray]'") from error
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    return ray


def _refuse_unreachable(address: str) -> None:
    """Ask the address ourselves, because Ray would try for many minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise OptionError(f"ray must be the address of a running cluster; nothing answers at {address}") from error


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself; here it goes on meaning what it meant."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Ray's compiled part writes its troubles straight to file descriptor 2; what matters of them is raised as well."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
