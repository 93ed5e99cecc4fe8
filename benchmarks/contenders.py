"""Who is compared in peers.py, and on which networks. A contender: network → function (x, n, seed) → label, votes.

smoothcert   its engine as `smoothcert certify` sets it up, batch 64
ART      PyTorchRandomizedSmoothing.certify of the Adversarial Robustness Toolbox at its default batch (32)
eager    `_sample_noise` of locuslab/smoothing, on the CPU, batch 1000 (all draws at once where n is smaller)
"""

from __future__ import annotations

from math import ceil, isclose

import numpy as np
import torch
from torch import nn

from smoothcert import catalog

SIGMA, ALPHA, N0 = 0.25, 0.001, 100
SHAPES = {"lenet": (1, 28, 28), "resnet50": (3, 224, 224)}
CLASSES = {"resnet50": 1000}
INPUTS = 2


def smoothcert(network, example):
    from smoothcert.classifiers import ready, wrap
    from smoothcert.contracts import Job, Source
    from smoothcert.engine.engine import Engine
    from smoothcert.engine.threads import Threads
    from smoothcert.noise.gaussian import Gaussian
    from smoothcert.procedures.certify import Certify
    from smoothcert.sampling.fixed import Fixed

    prepared = ready(wrap(network), example)
    source = Source(prepared.classifier, Gaussian(SIGMA))
    engine = Engine(Threads(workers=prepared.workers))

    def certify(x, n, seed):
        engine.seed = seed
        (outcome,) = engine.run([Job(0, x, Certify(N0, Fixed(n, ALPHA))(source, x.numel()))])
        evidence = outcome.result.evidence
        return evidence.label, evidence.counts[0][evidence.label]

    return certify


def art(network, example):
    from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing

    with torch.no_grad():
        classes = network(example.unsqueeze(0)).shape[1]
    smoothed = PyTorchRandomizedSmoothing(
        network, nn.CrossEntropyLoss(), tuple(example.shape), classes,
        device_type="cpu", sample_size=N0, scale=SIGMA, alpha=ALPHA,
    )  # fmt: skip

    def certify(x, n, seed):
        np.random.seed(seed)  # it draws from numpy's global generator
        labels, radii = smoothed.certify(x.unsqueeze(0).numpy(), n)
        return int(labels[0]), votes_behind(float(radii[0]), n) if labels[0] != -1 else None

    return certify


def votes_behind(radius, n):
    """ART tells the radius only; it rises with the votes, so that they can be had back from it."""
    from smoothcert.bounds import lower_bound

    low = float(torch.special.ndtr(torch.tensor(radius / SIGMA, dtype=torch.float64)))
    least, most = 0, n
    while least < most:
        middle = (least + most) // 2
        least, most = (middle + 1, most) if lower_bound(middle, n, ALPHA) < low * (1 - 1e-7) else (least, middle)
    if not isclose(lower_bound(least, n, ALPHA), low, rel_tol=1e-5):
        raise SystemExit(f"ART's bound must be Clopper and Pearson's; got {low} where {least} of {n} is nearest")
    return least


def eager(network, example):
    def sample(x, num, batch_size=1000):
        """As in core.py of locuslab/smoothing."""
        with torch.no_grad():
            counts = np.zeros(1000, dtype=int)
            for _ in range(ceil(num / batch_size)):
                this_batch_size = min(batch_size, num)
                num -= this_batch_size
                batch = x.repeat((this_batch_size, 1, 1, 1))
                noise = torch.randn_like(batch) * SIGMA
                predictions = network(batch + noise).argmax(1)
                for index in predictions.numpy():
                    counts[index] += 1
            return counts

    def certify(x, n, seed):
        torch.manual_seed(seed)
        label = int(sample(x, N0).argmax())
        return label, int(sample(x, n)[label])

    return certify


CONTENDERS = {"smoothcert": smoothcert, "ART": art, "eager": eager}


def shape_of(name):
    return SHAPES.get(name, (3, 32, 32))


def build(name):
    """An untrained network in eval mode."""
    torch.manual_seed(0)
    return catalog.build("architectures", name).build(shape_of(name), CLASSES.get(name, 10)).eval()


def questions(name):
    """A network with its last bias set so that class 0 leads with a probability that is no 0 and no 1; and inputs."""
    network, generator = build(name), torch.Generator().manual_seed(0)
    x = torch.rand(shape_of(name), generator=generator)
    last = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    with torch.no_grad():
        scores = network(x + SIGMA * torch.randn(32, *x.shape, generator=generator))
        last.bias -= scores.mean(0)
        # With the others at most `rest` above their means, class 0 wins most draws by this lead.
        rest = (scores - scores.mean(0))[:, 1:].amax(1)
        last.bias[0] += rest.mean() + scores.std(0)[0] + rest.std()
    nearby = [x + 0.002 * number * torch.rand(x.shape, generator=generator) for number in range(INPUTS)]
    return network, torch.stack(nearby).clamp(0, 1)
