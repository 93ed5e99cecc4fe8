"""Where memories of these tests are: a file, and a database that servers share."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def new(request, tmp_path):
    """Places where no memory is yet, by name."""
    if request.param == "sqlite":
        return lambda name: tmp_path / name
    server, found = request.getfixturevalue("postgres"), {}
    return lambda name: found.setdefault(name, server.url())


@pytest.fixture
def place(new):
    """A place where no memory is yet."""
    return new("m")
