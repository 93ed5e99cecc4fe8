"""A network in ONNX format, run by ONNX Runtime; also how a torch network becomes one.

On a CPU it passes far more images a second than eager torch (benchmarks/peers.py), and its scores do not depend
on the batch size for the networks tried.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert import foreign
from smoothcert.classifiers.adapted import Adaptation
from smoothcert.errors import ModelError

STOPS = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 1.0  # seconds in which a second interruption is taken for the same
LARGEST = 2**31  # bytes of a file without its external data: no ONNX file can be larger
TYPES = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}


@dataclass(frozen=True, eq=False)
class Onnx:
    """One input [batch, ...] in [0,1], first output scores [batch, classes]."""

    path: Path
    threads: int | None = None
    content: bytes | None = field(default=None, repr=False)  # the network itself, where it is no file of the user's
    adaptation: Adaptation = field(default_factory=Adaptation)
    rows: int | None = field(init=False, default=None)  # a batch size frozen at export
    metadata: dict[str, str] = field(init=False, default_factory=dict, repr=False)  # what the file says of itself
    _session: Any = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        session = _open(self.path, self.threads, self.content)
        try:
            inputs = [(value.name, value.type, value.shape) for value in session.get_inputs()]
            metadata = dict(session.get_modelmeta().custom_metadata_map)
        except UnicodeDecodeError as error:
            raise ModelError(f"names in {self.path} must be UTF-8 text; got others ({error.reason})") from error
        if len(inputs) != 1:
            raise ModelError(f"{self.path} must have one input; got {[name for name, _, _ in inputs]}")
        _, kind, shape = inputs[0]
        if kind not in TYPES:
            raise ModelError(f"the input of {self.path} must be a float tensor; got {kind}")
        batch = shape[0] if shape else None
        object.__setattr__(self, "rows", batch if isinstance(batch, int) and batch > 0 else None)
        object.__setattr__(self, "metadata", metadata)
        object.__setattr__(self, "_session", session)

    def with_threads(self, threads: int) -> Onnx:
        """The same network in a session of so many threads."""
        return replace(self, threads=threads)

    def rest(self) -> None:
        """Let go of the session's memory; the next call opens another."""
        object.__setattr__(self, "_session", None)

    @property
    def digest(self) -> str:
        """A hash of the network."""
        held = [self.content] if self.content is not None else [part.read_bytes() for part in parts(self.path)]
        return hashlib.sha256(b"".join(held)).hexdigest()

    def __call__(self, x: Tensor) -> Tensor:
        if self._session is None:
            object.__setattr__(self, "_session", _open(self.path, self.threads, self.content))
        x = self.adaptation.before(x)
        declared = self._session.get_inputs()[0]
        if len(declared.shape) != x.ndim or any(
            isinstance(want, int) and want != got for want, got in zip(declared.shape[1:], x.shape[1:], strict=True)
        ):
            raise ModelError(f"{self.path.name} takes inputs of shape {declared.shape[1:]}; got {list(x.shape[1:])}")
        values = x.contiguous().numpy().astype(TYPES[declared.type], copy=False)
        output = self._session.get_outputs()[0].name
        scores = self._session.run([output], {declared.name: values})[0]
        return torch.from_numpy(scores).float()


def _open(path: Path, threads: int | None, content: bytes | None) -> Any:
    import onnxruntime

    if content is None and not foreign.is_there(path):
        raise ModelError(f"{path} must be an ONNX file; there is no such file")
    if content is None:
        parts(path)  # refuses what must not be opened
    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(content or str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        # ONNX Runtime raises a family of its own for damaged and foreign files; its first line says enough.
        reason = str(error).splitlines()[0]
        raise ModelError(f"{path} must be a network that ONNX Runtime can load; got: {reason}") from error


def parts(path: Path) -> list[Path]:
    """The file, and the files beside it that hold weights of its network, if there are any ("external data")."""
    content = foreign.content(path, "model", ModelError, LARGEST)
    if b"location" not in content:  # the key under which such a file is named
        return [path]
    import onnx
    from google.protobuf.message import DecodeError

    try:
        names = {*_external(onnx.load_model_from_string(content))}
    except DecodeError:
        return [path]  # whoever opens it says that it is damaged
    return [path, *(_beside(path, name) for name in sorted(names, key=repr))]


def _beside(path: Path, name: str) -> Path:
    """A file of weights in the folder of its network or below, wherever links lead; another is not opened."""
    if not isinstance(name, str):  # what is no UTF-8 stays bytes
        raise ModelError(f"weights of '{path}' must lie beside it, in a file with a name of text; got {name!r}")
    home, file = path.resolve().parent, path.parent / name
    try:
        inside = file.resolve().is_relative_to(home) and not Path(name).is_absolute()
    except (OSError, ValueError, RuntimeError):  # names that no file can have, links in a circle
        inside = False
    if not inside:
        raise ModelError(f"weights of '{path}' must lie beside it; got {name[:200]!r}")
    foreign.size_of(file, f"weights of '{path}',", ModelError)
    return file


def _external(message: Any) -> Iterator[str]:
    """Names of files that tensors somewhere in a message of ONNX's are kept in."""
    for field_, value in message.ListFields():
        if field_.name == "external_data":
            yield from (entry.value for entry in value if entry.key == "location")
        elif field_.message_type is not None:
            for part in value if isinstance(value, Sequence) else (value,):
                yield from _external(part)


def from_network(network: nn.Module, example: Tensor, threads: int | None = None) -> Onnx:
    """Export a torch network once, with a free batch size, and open it; ModelError with the reason if that fails.

    The example is one input [...]. Exported scores are compared with the network's own before they are believed.
    """
    with interruptions_after():
        return _exported(network, example, threads)


def _exported(network: nn.Module, example: Tensor, threads: int | None) -> Onnx:
    batch = torch.stack([example] * 3)
    with tempfile.TemporaryDirectory(prefix="smoothcert-") as folder, quiet():
        path = Path(folder) / "network.onnx"
        try:
            torch.onnx.export(
                network.eval(),
                (batch,),
                str(path),
                dynamo=True,
                input_names=["x"],
                output_names=["scores"],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                external_data=False,
            )
        except Exception as error:
            # The exporter wraps whatever went wrong in errors of many kinds, and a stranger's network may raise any.
            raise ModelError(f"not exportable to ONNX ({_reason(error)})") from error
        exported = Onnx(Path("exported.onnx"), threads, path.read_bytes())
    _compare(network, exported, example)
    exported.rest()  # sessions with the best number of threads come next: a large network should not be held twice
    return exported


def _compare(network: nn.Module, exported: Onnx, example: Tensor) -> None:
    noisy = example + 0.25 * torch.randn(16, *example.shape, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = network(noisy)
    scores = exported(noisy)
    if exported.rows is not None or scores.shape != expected.shape:
        raise ModelError("not exportable to ONNX (the batch size would be frozen)")
    difference, size = float((scores - expected).abs().max()), float(expected.abs().max())
    if not difference <= 1e-3 * max(size, 1e-6):
        raise ModelError(f"not exportable to ONNX (scores differ by {difference:.3g})")


def _reason(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip()[:120]}" if lines else type(error).__name__


@contextlib.contextmanager
def interruptions_after() -> Iterator[None]:
    """A signal to stop that comes inside is handled at the end; if another one follows a while later, that at once.

    The exporter cannot bear an exception out of nowhere: it calls back from places where one is dropped (finalisers)
    or turned into another, and one while it imports libraries has ended in a crash. An interruption must neither be
    lost nor be taken for a network that cannot be exported.
    """
    if threading.current_thread() is not threading.main_thread():  # handlers run in the main thread only
        yield
        return
    came: list[tuple[signal.Signals, float]] = []
    usual = {number: handler for number in STOPS if callable(handler := signal.getsignal(number))}

    def noted(number: int, frame: FrameType | None) -> None:
        if came and time.monotonic() - came[0][1] > PATIENCE:
            usual[signal.Signals(number)](number, frame)
        came.append((signal.Signals(number), time.monotonic()))

    for number in usual:
        signal.signal(number, noted)
    try:
        yield
    finally:
        for number, handler in usual.items():
            if signal.getsignal(number) is noted:  # a handler may have put another in its place
                signal.signal(number, handler)
        if came:
            usual[came[0][0]](came[0][0], None)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Exporter and quantiser tell their progress on stdout, in logs and in warnings; none of it is for our user."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(level)
