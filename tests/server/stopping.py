"""A service in a process of its own, whose answers come when a line is written to its stdin."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from fake_core import FakeCore

from smoothcert.server.app import application
from smoothcert.server.run import serve
from smoothcert.server.values import CertifiedAnswer, InferRequest


class Held(FakeCore):
    async def answer(self, request: InferRequest) -> list[CertifiedAnswer]:
        self.waiting += 1
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        self.waiting -= 1
        return await super().answer(request)


if __name__ == "__main__":
    core = Held()
    serve(application(core, None), "127.0.0.1", 0, begun=lambda port: print(port, flush=True))
    print("closed" if core.closed else "left open", flush=True)
