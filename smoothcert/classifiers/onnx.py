"""A network in ONNX format, run by ONNX Runtime; also how a torch network becomes one.

On a CPU it passes far more images a second than eager torch (benchmarks/peers.py), and its scores do not depend
on the batch size for the networks tried.
"""

from __future__ import annotations

import functools
import hashlib
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from smoothcert import foreign
from smoothcert.classifiers.adapted import Adaptation
from smoothcert.classifiers.graph import KINDS, LARGEST_GRAPH, Reading, read
from smoothcert.classifiers.undisturbed import interruptions_after, quiet
from smoothcert.errors import ModelError, reason

LARGEST = 2**31  # bytes of a file without its external data: no ONNX file can be larger


@dataclass(frozen=True, eq=False)
class Onnx:
    """One input [batch, ...] in [0,1] → scores [batch, classes], from the output that holds them (`graph.read`)."""

    path: Path
    threads: int | None = None
    content: bytes | None = field(default=None, repr=False)  # the network itself, where it is no file of the user's
    adaptation: Adaptation = field(default_factory=Adaptation)
    known: Reading | None = field(default=None, repr=False)  # what was read before, if it was
    reading: Reading = field(init=False, repr=False)
    _session: Any = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        found, session = self.known, None
        if found is None:
            session = _open(self.path, self.threads, self.content)
            opened = functools.partial(_open, self.path, self.threads)
            found = read(self.path, session, self.adaptation, self._graph, opened)
        object.__setattr__(self, "reading", found)
        object.__setattr__(self, "_session", session if found.content is None else None)
        self._opened()

    @property
    def rows(self) -> int | None:
        """The batch size that it must be called with; None: any."""
        return self.reading.rows

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the file says of itself."""
        return self.reading.metadata

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, where the file holds any."""
        return self.reading.class_names

    @property
    def note(self) -> str:
        """What was assumed or done to call it; what it was made of, where it says so."""
        return self.reading.note

    def with_threads(self, threads: int) -> Onnx:
        """The same network in a session of so many threads."""
        return replace(self, threads=threads, known=self.reading)

    def adapted(self, adaptation: Adaptation) -> Onnx:
        """The same file, called in another way."""
        if self.adaptation.options:
            raise ModelError(
                f"{self.path.name} must be adapted once; got a model that is: give all options for the file"
            )
        return replace(self, adaptation=adaptation, known=None)

    def rest(self) -> None:
        """Let go of the session's memory; the next call opens another."""
        object.__setattr__(self, "_session", None)

    @property
    def digest(self) -> str:
        """A hash of the network."""
        held = [self.content] if self.content is not None else [part.read_bytes() for part in parts(self.path)]
        return hashlib.sha256(b"".join(held)).hexdigest()

    def _opened(self) -> Any:
        if self._session is None:
            object.__setattr__(self, "_session", _open(self.path, self.threads, self.reading.content or self.content))
        return self._session

    def _graph(self) -> Any:
        """The graph, to be looked at and changed; None where it is large or its weights are in other files."""
        import onnx

        raw = self.content
        if raw is None and len(parts(self.path)) == 1:
            raw = self.path.read_bytes()
        return onnx.load_model_from_string(raw) if raw is not None and len(raw) <= LARGEST_GRAPH else None

    def __call__(self, x: Tensor) -> Tensor:
        session, values = self._opened(), self.fed(x)
        try:
            found = session.run(list(self.reading.outputs), {self.reading.entry.name: values})
        except Exception as error:
            # ONNX Runtime raises a family of its own where a graph does not fit what it is given.
            raise ModelError(
                f"{self.path.name} must accept inputs {list(values.shape)}; it raised: {reason(error)}"
            ) from error
        scores = torch.from_numpy(found[0] if len(found) == 1 else np.stack(found, axis=1)).float()
        if not self.adaptation.binary and scores.shape[1:] in ((), (1,)) and scores.shape != x.shape:
            raise ModelError(
                f"{self.path.name} must give scores of at least 2 classes; got one an input: say what it is, --binary "
                "logit (the second class above 0) or --binary probability (of the second class)"
            )
        return cast(Tensor, self.adaptation.after(scores))

    def fed(self, x: Tensor) -> Any:
        """Inputs [batch, ...] as an array of the kind and shape that the graph takes."""
        x = self._shaped(self.adaptation.before(x))
        if self.rows is not None and len(x) != self.rows:
            raise ModelError(f"{self.path.name} must be given exactly {self.rows} rows at a time; got {len(x)}")
        kind = KINDS[self.reading.entry.kind]
        if kind == "uint8":  # in steps of 1/255, unless a scale has brought inputs back to their own units
            x = (x if self.adaptation.width else 255 * x).round().clamp(0, 255)
        return x.contiguous().numpy().astype(kind, copy=False)

    def _shaped(self, x: Tensor) -> Tensor:
        """Images turned where only that fits, and flat where the graph takes rows of values."""
        want, got, layout = self.reading.entry.shape[1:], tuple(x.shape[1:]), self.adaptation.layout
        if _fits(want, got):
            return x
        if not layout and x.ndim == 4 and self.reading.entry.channels_last and _fits(want, (*got[1:], got[0])):
            return x.permute(0, 2, 3, 1)
        if len(want) == 1 and _fits(want, (math.prod(got),)):
            if len(got) == 3 and got[0] > 1 and not layout:
                raise ModelError(
                    f"{self.path.name} takes images as rows of {want[0]} values, in an order that no file says: give "
                    "--model-layout nchw (channel after channel) or --model-layout nhwc (pixel after pixel)"
                )
            return x.flatten(1)
        if len(want) == 2 and 1 in (got[0], got[-1]) and len(got) == 3 and _fits(want, without := _one_channel(got)):
            return x.reshape(len(x), *without)
        raise ModelError(f"{self.path.name} takes inputs of shape {list(want)}; got {list(got)}{_remedy(want, got)}")


def _fits(want: tuple[Any, ...], got: tuple[int, ...]) -> bool:
    return len(want) == len(got) and all(
        not isinstance(dim, int) or dim == size for dim, size in zip(want, got, strict=True)
    )


def _one_channel(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an image without its one channel, first or last."""
    return shape[1:] if shape[0] == 1 else shape[:-1]


def _remedy(want: tuple[Any, ...], got: tuple[int, ...]) -> str:
    """The option that would help, if any."""
    if len(want) != 3 or len(got) != 3:
        return " (the data must have the shape that the model takes)"
    if sorted(map(str, want)) == sorted(map(str, got)):
        return " (channels last: --model-layout nhwc where the model has them so, --layout where the data have)"
    return " (--image-size resizes the images of a folder; --model-layout nhwc where the model takes channels last)"


def _open(path: Path, threads: int | None, content: bytes | None) -> Any:
    import onnxruntime

    if content is None and not foreign.is_there(path):
        raise ModelError(f"{path} must be an ONNX file; there is no such file")
    if content is None:
        parts(path)  # refuses what must not be opened
    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4  # what goes wrong is said in our words, from what it raises
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(content or str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        # ONNX Runtime raises a family of its own for damaged and foreign files; its first line says enough.
        raise ModelError(f"{path} must be a network that ONNX Runtime can load; got: {reason(error)}") from error


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
