"""A service on the loopback address."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fake_core import FakeCore
from live import running

from smoothcert.server.app import application


@pytest.fixture(scope="module")
def core() -> FakeCore:
    return FakeCore()


@pytest.fixture(scope="module")
def port(core: FakeCore) -> Iterator[int]:
    with running(application(core, None)) as found:
        yield found
