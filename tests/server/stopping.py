"""A service whose answers take a while, in a process of its own: `python stopping.py SECONDS NOTICE`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from fake_core import FakeCore

from smoothcert.server.app import application
from smoothcert.server.run import serve

if __name__ == "__main__":
    core = FakeCore(seconds=float(sys.argv[1]))
    serve(
        application(core, None), "127.0.0.1", 0, notice=float(sys.argv[2]),
        begun=lambda port: print(port, flush=True),
    )  # fmt: skip
    print("closed" if core.closed else "left open", flush=True)
