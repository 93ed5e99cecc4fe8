# An engineer has a network of her own, in an ONNX file, and inputs of her own. How far can an attacker move them?

# What she brings: a small torch network, trained under noise by a loop of hers, and 20 inputs with labels.
cat > my_model.py <<'END'
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
x = torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
y = torch.tensor(labels)
classifier = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimiser = torch.optim.Adam(classifier.parameters(), lr=3e-3)
for step in range(300):
    rows = torch.randint(0, 1500, (64,))
    loss = nn.functional.cross_entropy(classifier(x[rows] + 0.25 * torch.randn(64, 1, 8, 8)), y[rows])
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
classifier.eval()
np.savez("mine.npz", x=x[1500:1520].numpy(), y=labels[1500:1520])
END
smoothcert export-onnx my_model:classifier --shape 1,8,8 --out model.onnx

# What she asks: how far, for every input; then one radius only, with as few draws as possible.
smoothcert certify model.onnx --data mine.npz --sigma 0.25 --n 1000 --out runs/mine
smoothcert certify model.onnx --data mine.npz --sigma 0.25 --radius 0.25 --out runs/quarter

# What she shows: a run that was checked, and a page that opens anywhere.
smoothcert verify runs/mine
smoothcert report runs/mine --html report.html
ls report.html

# What she gets wrong at first: one line each, and nothing is drawn.
smoothcert certify model.onnx --data mine.npz --sigma 0 --out runs/no       # exits 2: sigma must be above 0
smoothcert certify modell.onnx --data mine.npz --sigma 0.25 --out runs/no   # exits 2: there is no such file
smoothcert certify model.onnx --data mine.npz --sigma 0.5 --out runs/mine   # exits 2: the run was asked something else
