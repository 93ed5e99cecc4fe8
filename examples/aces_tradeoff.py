"""Accuracy against robustness: ACES puts an accurate core beside a certified network, with a threshold between them."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import smoothcert
from smoothcert.data import load

SIGMA, N = 0.5, 1000


def trained(sigma: float, width: int, epochs: int) -> nn.Module:
    """A small network, under noise of this level."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * width, 10)
    )
    data = load("digits", split="train")
    x, y = data.tensors(), torch.from_numpy(data.labels)
    optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            loss = cross_entropy(net(x[rows] + sigma * torch.randn_like(x[rows])), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return net.eval()


def main() -> None:
    torch.set_num_threads(1)
    robust, accurate = trained(SIGMA, 6, 6), trained(0.0, 16, 6)
    inputs = load("digits", max=40)
    x, y = list(inputs.tensors()), inputs.labels
    print("theta  right  ACR    (0: the core everywhere; 1: the certified network everywhere)")
    for theta in (0.0, 0.6, 1.0):
        aces = smoothcert.Aces(robust, core=accurate, noise=smoothcert.Gaussian(SIGMA), theta=theta)
        found = aces.certify_all(x, n=N)
        right = [c.radius for c, label in zip(found, y, strict=True) if c.label == label]
        print(f"{theta:5}  {len(right) / len(x):.3f}  {sum(right) / len(x):.3f}")


if __name__ == "__main__":
    main()
