"""What passes between the network side of the service (protocol, keys, pages) and the side that draws.

    bytes ─▶ protocol ─▶ InferRequest ─▶ ServiceCore.answer ─▶ CertifiedAnswer ─▶ protocol ─▶ bytes

The two sides know nothing else of each other, so that either is tested without the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from smoothcert.contracts import Norm, Tensor

Mode: TypeAlias = Literal["predict", "certify"]


class RequestError(Exception):
    """A request that is not answered: an HTTP status, one sentence, and when to come again where that helps."""

    def __init__(self, status: int, text: str, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.retry_after = status, text, retry_after


@dataclass(frozen=True)
class ServiceLimits:
    """What the operator allows one request, and how much may wait."""

    inputs: int = 64  # of one request
    draws: int = 1_000_000  # that one input may ask for (n)
    least_alpha: float = 1e-9
    most_alpha: float = 0.05
    deadline: float = 60.0  # seconds, where a request does not say
    longest: float = 600.0  # seconds that a request may say
    waiting: int = 256  # inputs that may wait or be under way; beyond it requests are refused with 503
    body: int = 2**25  # bytes of a request's body


@dataclass(frozen=True, eq=False)
class InferRequest:
    """One request, parsed: every value is of its kind, and inputs fit the model. None: as the operator has it."""

    id: str  # the client's, or one made here; it is echoed and logged, and is no secret
    inputs: Tensor  # float32 [batch, *shape] in [0,1]; 8-bit ones as multiples of 1/255
    mode: Mode = "certify"
    radius: float | None = None
    alpha: float | None = None
    n: int | None = None
    deadline: float | None = None  # seconds from now
    key: str = ""  # the name of the key it came with; "": the service asks for none


class CertifiedAnswer(NamedTuple):
    """What is answered for one input."""

    label: int  # −1: abstains
    radius: float
    abstained: bool
    draws: int
    guarantee: str  # "smoothing", "memory", "deterministic", or "none"
    certificate: str = ""  # the id under which its evidence is kept; "": there is none
    reason: str = ""  # why it abstains, in words
    votes: tuple[int, ...] = ()  # of every class, in the draws that tested it; empty where a memory answered


@dataclass(frozen=True)
class ServedModel:
    """The model, and all that an answer stands under."""

    name: str
    version: str  # its digest, sha256
    shape: tuple[int, ...]  # of one input
    classes: int
    class_names: tuple[str, ...] | None
    norm: Norm
    noise: str  # in words: `Gaussian noise, σ = 0.25`
    sigma: float | None  # None: every input has its own
    alpha: float
    radius: float | None  # that is certified unless a request asks for another; None: the largest
    n: int
    commitment: str  # hash of the secret that keys all noise
    memory: str = ""  # the identity of the memory, where there is one

    def parameters(self) -> dict[str, str | float | bool]:
        """As the protocol's `parameters` hold them."""
        found: dict[str, str | float | bool | None] = {
            "model_digest": self.version,
            "norm": self.norm,
            "noise": self.noise,
            "sigma": self.sigma,
            "alpha": self.alpha,
            "radius": self.radius,
            "n": self.n,
            "commitment": self.commitment,
            "memory": self.memory or None,
        }
        return {name: value for name, value in found.items() if value is not None}


class QueueState(NamedTuple):
    """How busy the service is."""

    waiting: int  # inputs accepted and not yet answered
    draws: int  # carried out since the start
    rows: int  # rows of batches that were passed through the network, those that nobody asked for included
    regions: int  # in the memory; 0 without one


class ServiceCore(Protocol):
    """The side that draws."""

    model: ServedModel
    limits: ServiceLimits
    examples: Sequence[tuple[str, Tensor]]  # named inputs of a data set for the page, if the operator gave one

    @property
    def ready(self) -> bool:
        """Whether the model is warm and requests are taken."""

    def cost(self, request: InferRequest) -> int:
        """Draws that a request may take at most."""

    async def answer(self, request: InferRequest) -> list[CertifiedAnswer]:
        """One answer an input, in order. RequestError where it cannot be taken: 400, or 503 when too much waits."""

    def document(self, certificate: str, key: str) -> Mapping[str, Any] | None:
        """The certificate document under this id, if this key may read it. RequestError(503): nobody can now."""

    def page(self, certificate: str, key: str) -> str | None:
        """The same for people, as HTML."""

    def state(self) -> QueueState: ...

    async def close(self) -> None:
        """Take nothing more; return when everything that was accepted has been answered."""
