"""The side that draws, in small: answers follow from the inputs, at once or when they are let."""

from __future__ import annotations

import asyncio
import hashlib
import math

import torch

from smoothcert.server.values import (
    CertifiedAnswer,
    InferRequest,
    QueueState,
    RequestError,
    ServedModel,
    ServiceLimits,
)  # fmt: skip

DIGEST = hashlib.sha256(b"model").hexdigest()
SHAPE = (3, 4, 4)


class FakeCore:
    """Label: the tenth that the mean lies in. Dark inputs are abstained on, white ones are in the memory."""

    def __init__(self, limits: ServiceLimits | None = None, seconds: float = 0.0) -> None:
        self.model = ServedModel(
            "tiny", DIGEST, SHAPE, 10, tuple(f"class {i}" for i in range(10)), "l2", "Gaussian noise, σ = 0.25", 0.25,
            0.001, 0.5, 1000, "c0ffee",
        )  # fmt: skip
        self.limits = limits or ServiceLimits(inputs=8, draws=100_000)
        made = torch.linspace(0, 1, 48).reshape(SHAPE)
        self.examples = [("a ramp", made), ("a row", torch.zeros(5))]
        self.seconds, self.warm, self.refusal = seconds, True, None
        self.failure: Exception | None = None
        self.asked: list[InferRequest] = []
        self.evidence: dict[str, str] = {}
        self.waiting = self.drawn = 0
        self.closed = False

    @property
    def ready(self) -> bool:
        return self.warm

    def cost(self, request: InferRequest) -> int:
        return len(request.inputs) * (request.n or self.model.n)

    async def answer(self, request: InferRequest) -> list[CertifiedAnswer]:
        if self.refusal:
            raise self.refusal
        if self.failure:
            raise self.failure
        self.asked.append(request)
        self.waiting += len(request.inputs)
        await asyncio.sleep(self.seconds)
        self.waiting -= len(request.inputs)
        return [self._one(request, each) for each in request.inputs]

    def _one(self, request: InferRequest, values: torch.Tensor) -> CertifiedAnswer:
        mean = float(values.mean())
        if mean == 1.0:
            return CertifiedAnswer(9, 0.5, False, 0, "memory", "m" * 8)
        if mean < 0.1:
            return CertifiedAnswer(-1, 0.0, True, 100, "none", reason="the votes do not decide")
        draws = request.n or self.model.n
        self.drawn += draws
        label = min(9, math.floor(10 * mean))
        if request.mode == "predict":
            return CertifiedAnswer(label, 0.0, False, draws, "none")
        name = hashlib.sha256(values.numpy().tobytes()).hexdigest()[:16]
        self.evidence[name] = request.key
        votes = tuple(draws if i == label else 0 for i in range(10))
        return CertifiedAnswer(label, request.radius or 0.5, False, draws, "smoothing", name, votes=votes)

    def document(self, certificate: str, key: str) -> dict[str, str] | None:
        return {"certificate": certificate} if self.evidence.get(certificate) == key else None

    def page(self, certificate: str, key: str) -> str | None:
        return f"<!doctype html><title>{certificate}</title>" if self.document(certificate, key) else None

    def state(self) -> QueueState:
        return QueueState(self.waiting, self.drawn, 2 * self.drawn, 3)

    async def close(self) -> None:
        while self.waiting:
            await asyncio.sleep(0.01)
        self.closed = True


def busy(seconds: int) -> RequestError:
    return RequestError(503, "inputs that wait must be at most 256; got more", seconds)
