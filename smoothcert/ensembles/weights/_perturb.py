"""Copies of a member with some parameters moved a little: a cheap stand-in for training it again with another seed."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import torch

from smoothcert.classifiers.module import Module
from smoothcert.contracts import Classifier, Stream
from smoothcert.ensembles._partial import Partial
from smoothcert.ensembles._scores import generator
from smoothcert.ensembles._vote import Vote


def has_parameters(member: Classifier) -> bool:
    """Whether a member is a torch network, or a vote with one among its members; others have nothing to move."""
    inner = member.members if isinstance(member, Vote | Partial) else ()
    return isinstance(member, Module) or any(map(has_parameters, inner))


def perturbed(member: Classifier, share: float, size: float, stream: Stream, number: int) -> Classifier:
    """Copy `number` of a member: each parameter is moved with probability `share`, by N(0, size²).

    The member itself is left as it is; one without parameters is returned.
    """
    if isinstance(member, Module):
        return Module(_moved(member.network, share, size, stream, number), member.device)
    if isinstance(member, Vote):
        inner = [stream._replace(purpose=f"{stream.purpose} {place}") for place in range(len(member.members))]
        parts = zip(member.members, inner, strict=True)
        return replace(member, members=tuple(perturbed(part, share, size, own, number) for part, own in parts))
    if isinstance(member, Partial):
        vote = perturbed(member.vote, share, size, stream, number)
        return replace(member, vote=vote)
    return member


def _moved(network: torch.nn.Module, share: float, size: float, stream: Stream, number: int) -> torch.nn.Module:
    rng, moved = generator(stream.seed, stream.input, stream.purpose, number), copy.deepcopy(network)
    with torch.no_grad():
        for parameter in moved.parameters():
            chosen = rng.random(tuple(parameter.shape)) < share
            steps = np.where(chosen, size * rng.standard_normal(tuple(parameter.shape)), 0.0)
            parameter.add_(torch.from_numpy(steps).to(parameter))
    return moved
