"""What a training reports as it goes, as a bar on the terminal and, where it is installed, in TensorBoard."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smoothcert import progress


def watch(stack: contextlib.ExitStack, out: Path) -> Any:
    """The loop's reports as a bar: time left, loss by term at each step, accuracy under noise after each epoch."""
    from smoothcert.training.loop import Watch

    class TrainingBar(Watch):
        def started(self, done: int, epochs: int, steps: int) -> None:
            # The bar opens here and not before, so that bad settings leave one line and nothing else.
            self.update = stack.enter_context(progress.bar("training", "epochs"))
            self.done, self.epochs, self.steps, self.found = done * steps, epochs, steps, ""
            self.log: Any = None

        def stepped(self, terms: Mapping[str, float]) -> None:
            self.done += 1
            self._show(terms)

        def finished(self, epoch: int, terms: Mapping[str, float], found: Mapping[str, float]) -> None:
            self.done = epoch * self.steps
            self.found = "".join(f", {name.replace('_', ' ')} {value:.3g}" for name, value in found.items())
            self._show(terms)
            self.log = self.log or _event_log(stack, out)
            for name, value in {**terms, **found}.items() if self.log is not None else ():
                self.log.add_scalar(name, value, epoch)

        def _show(self, terms: Mapping[str, float]) -> None:
            told = ", ".join(f"{name} {value:.3g}" for name, value in terms.items())
            epoch = math.ceil(self.done / self.steps)
            self.update(self.done, self.epochs * self.steps, f"epoch {epoch}/{self.epochs}, {told}{self.found}")

    return TrainingBar()


def _event_log(stack: contextlib.ExitStack, out: Path) -> Any:
    """TensorBoard's, in the checkpoint folder, where TensorBoard is installed."""
    import importlib.util

    if importlib.util.find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    log = SummaryWriter(str(out / "tensorboard"))
    stack.callback(log.close)
    return log
