"""An ensemble, or a denoised classifier, as one torch network, to be exported as one graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from smoothcert.classifiers.composed import DenoisedClassifier
from smoothcert.classifiers.module import Module
from smoothcert.classifiers.onnx import Onnx
from smoothcert.contracts import Classifier
from smoothcert.ensembles._partial import Partial
from smoothcert.ensembles._vote import Vote
from smoothcert.errors import ModelError


class Together(nn.Module):
    """All members on the same batch, then their vote: [batch, ...] → scores [batch, classes]."""

    def __init__(self, networks: Sequence[nn.Module], vote: Vote) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.vote = vote

    def forward(self, x: Tensor) -> Tensor:
        return self.vote.combine([network(x).to(torch.float32) for network in self.networks])


def as_network(classifier: Classifier) -> nn.Module:
    """The network that this classifier is, in eval mode; ModelError with the reason where it is none."""
    if isinstance(classifier, Module):
        return classifier.network
    if isinstance(classifier, Partial):
        raise ModelError(
            f"a model to export must always ask all of its members; got {classifier.name}, which asks some of them "
            "about some rows only, and one graph would ask all about all (export the plain vote, and certify that)"
        )
    if isinstance(classifier, Vote):
        return Together([as_network(member) for member in classifier.members], classifier).eval()
    if isinstance(classifier, DenoisedClassifier):
        return nn.Sequential(as_network(classifier.denoiser), as_network(classifier.classifier)).eval()
    kind = "an ONNX file already" if isinstance(classifier, Onnx) else "a callable"
    raise ModelError(f"a model to export must be made of torch networks; got {kind}")
