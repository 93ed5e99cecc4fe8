"""A network of one's own, trained under noise, certified: a label and a proven radius for each of 20 digits."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import smoothcert
from smoothcert.data import load

SIGMA = 0.25


class Net(nn.Module):
    """Inputs [batch, 1, 8, 8] in [0,1] → scores [batch, 10]; normalisation is inside."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers((x - 0.5) / 0.5)


def train(net: nn.Module, sigma: float, epochs: int = 10) -> None:
    """Cross-entropy at noisy inputs."""
    data = load("digits", split="train")
    x, y = data.tensors(), torch.from_numpy(data.labels)
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            loss = cross_entropy(net(x[rows] + sigma * torch.randn_like(x[rows])), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # a network this small is not worth more
    net = Net()
    train(net, SIGMA)
    smoothed = smoothcert.Smoothed(net.eval(), smoothcert.Gaussian(SIGMA), num_classes=10)
    inputs = load("digits", max=20)
    found = smoothed.certify_all(list(inputs.tensors()), n=2000)
    for label, certificate in zip(inputs.labels, found, strict=True):
        said = "abstains" if certificate.abstained else f"{certificate.label}, within {certificate.radius:.3f}"
        print(f"a {label}: {said}")
    right = [c.radius for label, c in zip(inputs.labels, found, strict=True) if c.label == label]
    print(f"{len(right)} of {len(inputs)} rightly certified, average certified radius {sum(right) / len(inputs):.3f}")


if __name__ == "__main__":
    main()
