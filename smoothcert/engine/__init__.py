"""⑤ Carries out draws: many procedures at once, packed into full parcels, wherever they are carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smoothcert.contracts import Executor


def executor(engine: str, batch: int | None = None, workers: int = 1) -> Executor:
    """What carries out draws of a classifier that runs on this engine (as `classifiers.ready` names it), here."""
    name, _, device = engine.partition(":")
    if name == "torch" and device:
        from smoothcert.engine.device import Device

        return Device(device, batch)
    from smoothcert.engine.threads import Threads

    return Threads(batch, workers)
