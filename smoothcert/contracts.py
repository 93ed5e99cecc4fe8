"""Every value and every protocol of smoothcert, on one page.

    input ─▶ procedure ─▶ Draw ─▶ engine ─▶ noise ─▶ classifier ─▶ Counts ─▶ procedure ─▶ Certificate

A procedure is a generator: it *asks* for draws by yielding a `Draw` and *receives* the counts of their outcomes.
It never sees a network, a device or a batch; the engine never sees a statistic.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import torch

T = TypeVar("T")

Norm: TypeAlias = Literal["l0", "l1", "l2", "linf", "patch"]
TestClass: TypeAlias = Literal["guess", "leader", "labels"]
Tensor: TypeAlias = "torch.Tensor"  # named here, so that nobody needs torch for its name alone
TorchGenerator: TypeAlias = "torch.Generator"
Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
Counts: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"  # [columns, outcomes], votes of one answer
Classifier: TypeAlias = "Callable[[Tensor], Tensor]"  # [batch, ...] in [0,1] → scores [batch, classes]

ABSTAIN = -1
WHOLE = frozenset[str]({"l0", "patch"})  # norms whose radii are whole numbers, of coordinates or of pixels
EVERY = "every"  # the purpose of a stream that holds each case of a noise once: draw i is case i
PROBE = "probe"  # the purpose under which an engine looks at a network before its first draw


def batch_rows(shape: Sequence[int]) -> int:
    """Rows of a batch unless said otherwise.

    64 keep the cores busy. Small images take 256, or handing batches to workers would cost as much as their network;
    large ones 8, for the memory's sake.
    """
    size = math.prod(shape)
    return 256 if size <= 2**10 else 64 if size <= 2**16 else 8


class Stream(NamedTuple):
    """Names a stream of noise. Two draws are independent unless stream and draw number are both equal."""

    seed: int
    input: int  # the key of its content (`input_key`): the same in a run, in Python and in any subset
    purpose: str  # "guess", "test", "predict", … never share noise


def as_it_is(function: Callable[..., None], *arguments: Any) -> None:
    """Run a function of tensors without a compiler."""
    function(*arguments)


class StreamRows(NamedTuple):
    """Draws of one purpose on a device: row i is draw `numbers[i]` of the input `inputs[i]`."""

    seed: int
    purpose: str
    inputs: Tensor  # int64 [rows], keys of inputs with the bits of their 64
    numbers: Tensor  # int64 [rows]
    run: Callable[..., None] = as_it_is  # how a noise runs its function of tensors: so, or by a `philox.Compiled`


def input_key(x: Tensor) -> int:
    """A 64-bit name for an input, from its shape and values (float32): it keys the input's noise.

    Inputs that differ have unrelated noise, whatever their place in a data set. Equal inputs have equal noise, and so
    one certificate between them: each statement is as sure as α says, and both are the same statement.
    """
    content = hashlib.sha256(repr(tuple(x.shape)).encode())
    content.update(x.numpy().tobytes())
    return int.from_bytes(content.digest()[:8], "little")


class Moments(NamedTuple):
    """Of the noisy copies of one input: independent numbers, one a coordinate.

    `single`: one random number moves all coordinates, and these are the moments of their mean.
    """

    centre: Floats  # [m]
    spread: Floats  # [m], standard deviation; 0 where nothing moves
    fourth: Floats  # [m], E((v − centre)/spread)⁴
    single: bool = False


class Noise(Protocol):
    """A distribution, and the certificate its theorem buys.

    A new noise is a frozen dataclass in a file of its own that names this class as its base: it writes what is
    abstract here and `level`, and has the rest by default.
    """

    @property
    @abstractmethod
    def norm(self) -> Norm: ...

    @abstractmethod
    def fill(self, out: Tensor, x: Tensor, stream: Stream, first: int) -> None:
        """Write noisy copies number first, first+1, … of x into out [rows, *x.shape], however they are batched."""

    def fill_rows(self, out: Tensor, x: Tensor, rows: StreamRows) -> None:
        """`fill` on any device: copies of x [rows, *shape], each of its own row, into out, by the words of those rows.

        Without this method copies are made on the CPU and carried over.
        """
        import torch

        keys, numbers = rows.inputs.tolist(), rows.numbers.tolist()
        made = torch.empty(out.shape)
        first = 0
        for end in range(1, len(keys) + 1):
            if end < len(keys) and (keys[end], numbers[end]) == (keys[first], numbers[first] + end - first):
                continue  # consecutive draws of one input are made together
            stream = Stream(rows.seed, keys[first] % 2**64, rows.purpose)
            self.fill(made[first:end], x[first].cpu(), stream, numbers[first])
            first = end
        out.copy_(made)

    @abstractmethod
    def radius(self, p_top: Tensor, p_next: Tensor, dim: int) -> Tensor:
        """Radius proven by p_top ≤ P(top class) and p_next ≥ P(any other class); differentiable."""

    @abstractmethod
    def p_needed(self, radius: float, dim: int) -> float:
        """The P(top class) that a radius needs, rounded up."""

    @property
    def whole(self) -> bool:
        """Whether its radii are whole numbers."""
        return self.norm in WHOLE

    @property
    def kind(self) -> str:
        """What it is called in a report: the name of its file, unless it says otherwise."""
        return f"{type(self).__module__.rsplit('.', 1)[-1].replace('_', ' ')} noise"

    @property
    def level(self) -> str:
        """How strong it is, in words: σ = 0.25."""
        sigma = getattr(self, "sigma", None)
        return "" if sigma is None else f"σ = {sigma:g}"

    @property
    def words(self) -> str:
        """`Gaussian noise, σ = 0.25`."""
        return ", ".join(words for words in (self.kind, self.level) if words)

    @property
    def grid(self) -> int | None:
        """Steps from 0 to 1: inputs, and what is certified, are multiples of 1/grid. None: any numbers."""
        return None

    @property
    def from_table(self) -> bool:
        """Whether noisy values come from a fixed table, so that nothing is ever rounded."""
        return False

    @property
    def exact(self) -> bool:
        """Whether nothing is rounded that a network could read: x + ε in floats keeps traces of x in its last bits."""
        return self.from_table or self.grid is not None

    @property
    def cases(self) -> int | None:
        """How many different draws there are, where they can be counted instead of sampled."""
        return None

    @property
    def counted(self) -> bool:
        """Whether it has so few cases that they are counted unless draws are asked for, once `cases` is known."""
        return False

    @property
    def complete(self) -> bool:
        """Whether it knows all that its theorem needs; else it is `fitted` to the inputs first."""
        return True

    def fitted(self, shape: Sequence[int]) -> Noise:
        """The same for inputs of this shape; refused where it has nothing to say of them."""
        return self

    @property
    def patch(self) -> tuple[int, int] | None:
        """Rows and columns of pixels that a radius of 1 stands for; None where a radius is no size of a patch."""
        return None

    def moments(self, x: Tensor) -> Moments | None:
        """What an audit holds its draws against, from the law alone; None: it looks for repeats only."""
        return None


class Readout(Protocol):
    """What is counted: scores → outcome numbers."""

    def outcomes(self, classes: int) -> int: ...

    def __call__(self, scores: Tensor) -> Tensor:
        """Scores [batch, classes] → int64 outcome numbers [batch, columns]."""

    def close(self, scores: Tensor, error: float) -> Tensor:
        """Whether an outcome [batch, columns] may change when every score does, by at most this."""


@dataclass(frozen=True)
class TopClass:
    """The plain readout: one vote for the class with the highest score."""

    def outcomes(self, classes: int) -> int:
        return classes

    def __call__(self, scores: Tensor) -> Tensor:
        return scores.argmax(dim=1, keepdim=True)

    def close(self, scores: Tensor, error: float) -> Tensor:
        first, second = scores.topk(2, dim=1).values.unbind(dim=1)
        return (first - second <= 2 * error).unsqueeze(1)  # one falls, the other rises


@dataclass(frozen=True)
class Source:
    """What is sampled: a classifier under a noise, seen through a readout."""

    classifier: Classifier
    noise: Noise
    readout: Readout = field(default_factory=TopClass)


class Draw(NamedTuple):
    """A request for fresh noisy copies of the input; answered by Counts [columns, outcomes]."""

    source: Source
    draws: int
    purpose: str = "test"
    ahead: Sequence[int] | Integers = ()  # draws of the requests that will follow, unless their answers decide before


Steps: TypeAlias = Generator[Draw, Counts, T]  # an algorithm for one input


@dataclass(frozen=True)
class Evidence:
    """What a test saw and what follows from it; a radius can be recomputed from it without the network."""

    label: int  # the class under test
    counts: tuple[tuple[int, ...], ...]  # votes of every class, look by look
    draws: int
    low: float  # lower confidence bound on the probability of `label`
    next_high: float  # upper confidence bound on the probability of any other class
    alpha: float  # both bounds hold together with probability 1 − alpha
    question: tuple[float, ...] | None = None  # the radii asked about; None asks for the largest

    def certificate(self, noise: Noise, dim: int) -> Certificate:
        """The label with the radius these bounds prove, or an abstention."""
        import numpy as np

        from smoothcert.bounds import UNPROVEN, radii_between

        exact = self.alpha == 0.0  # every case was counted: nothing was left to chance
        if self.question is None or exact:
            radius = float(radii_between(np.array(self.low), np.array(self.next_high), noise, dim, exact))
        if self.question is not None:
            reached = [r for r in self.question if (r <= radius if exact else noise.p_needed(r, dim) <= self.low)]
            radius = max(reached, default=UNPROVEN)
        if radius == UNPROVEN:
            return Certificate(ABSTAIN, 0.0, noise.norm, self.alpha, "none", self)
        return Certificate(self.label, radius, noise.norm, self.alpha, "deterministic" if exact else "smoothing", self)


@dataclass(frozen=True)
class Certificate:
    """The label is constant in the open ball of this radius, or ABSTAIN with radius 0.

    In l0, and where every case was counted, it is the closed ball (of inputs on the grid of that noise). Of a patch the
    radius is the side in pixels: no change inside one square of this side, wherever it is, moves the label.
    """

    label: int
    radius: float
    norm: Norm
    alpha: float  # probability that this certificate is wrong
    guarantee: Literal["smoothing", "memory", "deterministic", "none"]
    evidence: Evidence
    parts: tuple[Certificate, ...] = ()

    @property
    def abstained(self) -> bool:
        return self.label == ABSTAIN

    def _repr_html_(self) -> str:
        """What a notebook shows: the answer, and all that it stands under."""
        ball = f"cannot change within {self.norm} radius <b>{self.radius:.4g}</b>"
        said = "<b>abstains</b>" if self.abstained else f"label <b>{self.label}</b> {ball}"
        sure = "exactly" if self.alpha == 0.0 else f"except with probability {self.alpha:g}"
        how = f"guarantee: {self.guarantee}; {self.evidence.draws:,} draws"
        return f"<p>{said}{'' if self.abstained else f', {sure}'}<br><small>{how}</small></p>"


class Sampling(Protocol):
    """How many draws, and what they prove; its parameters are the fields of a frozen dataclass with this base."""

    radii: tuple[float, ...] | None = None  # those that are tested, rising; None: the largest proven is looked for
    counts_all: ClassVar[bool] = False  # whether every case of the noise is counted, and nothing is left to chance
    follows_leader: ClassVar[bool] = False  # whether `test` may be asked for the leading class

    @property
    @abstractmethod
    def alpha(self) -> float:
        """The probability of a wrong certificate; 0 where every case is counted."""

    @property
    @abstractmethod
    def cap(self) -> int:
        """The most draws one test can take."""

    @abstractmethod
    def check(self, noise: Noise, dim: int) -> str:
        """Refuse what these draws can never show; otherwise what they can, in one line."""

    @abstractmethod
    def test(self, source: Source, label: int | None, dim: int) -> Steps[Evidence]:
        """Test a class; None: whichever leads, for schemes that can."""

    @property
    def readout(self) -> Readout:
        """How a copy votes in these tests."""
        return TopClass()

    def votes(self, counts: Counts | Sequence[Sequence[int]]) -> tuple[int, ...]:
        """Votes of each class, from the counts [columns, outcomes] of such a readout."""
        return tuple(int(count) for count in counts[0])


class Procedure(Protocol):
    """An algorithm for one input; its parameters are the fields of a frozen dataclass with this base."""

    kind: ClassVar[Literal["certify", "predict", "select"]]  # labels with radii, labels alone, or a selection
    labelled: ClassVar[bool] = True  # whether answers are classes, to be compared with the labels of the data
    sampling: Sampling | None = None  # how the test is drawn; None: the procedure counts for itself
    # Which class is tested: "guess", as draws of its own chose; "leader", whichever leads; "labels", the truth.
    test_class: TestClass = "guess"

    @property
    @abstractmethod
    def alpha(self) -> float:
        """The probability that one answer is wrong."""

    @property
    @abstractmethod
    def cap(self) -> int:
        """The most draws one input can take."""

    @abstractmethod
    def __call__(self, source: Source, dim: int, truth: int | None = None) -> Steps[Certificate]:
        """Ask for draws of an input with `dim` coordinates; `truth` is its label, where it is known."""


class Batch(NamedTuple):
    """A batch of clean inputs on their way into a training loss, and the noise to be added to them."""

    x: Tensor  # [batch, ...] in [0,1]
    y: Tensor  # int64 [batch]
    sigma: Tensor  # [batch], the noise level of each example; 1 for a noise that has no such level
    generator: torch.Generator  # the source of every random number of a loss, so that training can be repeated
    epoch: float  # epochs done so far, with the fraction of the present one: warm-ups are told in epochs
    noise: Noise


class Answer(NamedTuple):
    """One answered draw, as a run keeps it."""

    purpose: str
    draws: int
    counts: tuple[tuple[int, ...], ...]  # [columns, outcomes]


@dataclass(frozen=True, eq=False)
class Job:
    """One input on its way through the engine."""

    index: int
    x: Tensor
    steps: Steps[Any]
    seed: int | None = None  # of its own; None: that of all jobs of its engine

    @cached_property
    def key(self) -> int:
        """Keys the input's noise."""
        return input_key(self.x)


@dataclass(frozen=True, eq=False)
class Outcome:
    """A finished job: its result and every answer it was given."""

    index: int
    result: Any
    answers: tuple[Answer, ...]
    seconds: float  # its share of the time its batches took


class Segment(NamedTuple):
    """Consecutive draws of one input, to be counted together."""

    source: Source
    job: Job
    stream: Stream
    first: int
    rows: int


class Done(NamedTuple):
    """A parcel carried out: the counts of each of its segments, and the seconds they took, by kind of work."""

    parcel: int
    counts: Sequence[Counts]
    seconds: Mapping[str, float]
    rows: int = 0  # that went through the network, those included that only fill up a batch; 0: nobody counted


class Executor(Protocol):
    """Carries out segments, wherever it is; noise is keyed by draw, so it does not matter who draws.

    Segments come in parcels: of one classifier, readout and shape, so that they can share batches.
    """

    notes: list[str]  # what the record should say of how it was done

    def room(self, source: Source, job: Job, left: int | None = None) -> int:
        """Rows of the parcel that it could take now, of such segments; 0 where it has enough to do.

        left: rows that wait, where there will be no other inputs; executors may share them out.
        """

    def submit(self, parcel: int, segments: Sequence[Segment]) -> None:
        """Take a parcel; its number comes back with its counts."""

    def collect(self) -> Sequence[Done]:
        """What has been carried out since; waits for one, and raises what went wrong."""

    def close(self) -> None:
        """Let go of threads, memory and workers; parcels that are under way are forgotten."""
