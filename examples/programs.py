"""One network as TorchScript, `torch.export`, ONNX and a function on NumPy arrays: one certificate."""

import numpy as np
import torch
from torch import nn

import smoothcert
from smoothcert.data import load

SIGMA = 0.25


def network() -> nn.Module:
    torch.manual_seed(0)
    data = load("digits", split="train")
    x, y = data.tensors(), torch.from_numpy(data.labels)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(200):
        rows = torch.randint(len(x), (128,))
        loss = nn.functional.cross_entropy(net(x[rows] + SIGMA * torch.randn(128, 1, 8, 8)), y[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net.eval()


def main() -> None:
    torch.set_num_threads(1)
    net, x = network(), load("digits").tensor(3)
    torch.jit.trace(net, x[None]).save("net.torchscript")
    free = ({0: torch.export.Dim("batch")},)
    torch.export.save(torch.export.export(net, (x.repeat(2, 1, 1, 1),), dynamic_shapes=free), "net.pt2")
    torch.onnx.export(net, (x.repeat(2, 1, 1, 1),), "net.onnx", dynamo=True, dynamic_shapes=free, external_data=False)
    weight, bias = (value.detach().numpy() for value in net[1].parameters())

    def scores(images: np.ndarray) -> np.ndarray:
        return np.reshape(images, (len(images), -1)) @ weight.T + bias

    with smoothcert.trusting():  # both kinds of program may execute code when they are loaded
        models = {name: smoothcert.load(name) for name in ("net.torchscript", "net.pt2", "net.onnx")}
    for name, model in {**models, "NumPy": scores}.items():
        found = smoothcert.Smoothed(model, SIGMA, num_classes=10).certify(x, n=1000)
        print(f"{name}: label {found.label}, radius {found.radius:.4f}")


if __name__ == "__main__":
    main()
