"""Is the radius at least 0.25? Draws of a fixed n and of exact spending, on the same inputs."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import smoothcert
from smoothcert.data import load

SIGMA, RADIUS, N = 0.25, 0.25, 20_000


def trained() -> nn.Module:
    """A small network under noise."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10))
    data = load("digits", split="train")
    x, y = data.tensors(), torch.from_numpy(data.labels)
    optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(8):
        for rows in torch.randperm(len(x)).split(64):
            loss = cross_entropy(net(x[rows] + SIGMA * torch.randn_like(x[rows])), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return net.eval()


def main() -> None:
    torch.set_num_threads(1)
    inputs = list(load("digits", max=30).tensors())
    smoothed = smoothcert.Smoothed(trained(), smoothcert.Gaussian(SIGMA), num_classes=10)

    largest = smoothed.certify_all(inputs, n=N)  # the largest radius of each
    asked = smoothed.certify_all(inputs, radius=RADIUS)  # only whether it is at least RADIUS

    for name, found in (("fixed n", largest), ("known radius", asked)):
        proven = sum(certificate.radius >= RADIUS for certificate in found)
        draws = sum(certificate.evidence.draws for certificate in found) / len(found)
        print(f"{name:12}  {proven} of {len(found)} certified at {RADIUS}, {draws:8,.0f} draws an input on average")
    differ = sum((a.radius >= RADIUS) != (b.radius >= RADIUS) for a, b in zip(largest, asked, strict=True))
    print(f"they disagree about {differ}")


if __name__ == "__main__":
    main()
