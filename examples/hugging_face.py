"""A Hugging Face classifier, saved to a folder with its processor and certified from there; a tiny one, made here."""

import torch
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

import smoothcert
from smoothcert.data import load

SIGMA, FOLDER = 0.25, "tiny-vit"


def saved() -> None:
    """Yours comes from `AutoModelForImageClassification.from_pretrained("name")`, and is saved in the same way."""
    torch.manual_seed(0)
    names = {number: f"digit {number}" for number in range(10)}
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = ViTConfig(image_size=8, patch_size=2, num_channels=1, id2label=names, **size)
    model = ViTForImageClassification(config)
    data = load("digits", split="train")
    x, y = data.tensors(), torch.from_numpy(data.labels)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(400):
        rows = torch.randint(len(x), (128,))
        noisy = x[rows] + SIGMA * torch.randn(128, 1, 8, 8)
        loss = model(pixel_values=(noisy - 0.5) / 0.5, labels=y[rows]).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.save_pretrained(FOLDER)
    ViTImageProcessor(size={"height": 8, "width": 8}, image_mean=[0.5], image_std=[0.5]).save_pretrained(FOLDER)


def main() -> None:
    torch.set_num_threads(1)
    saved()
    run = smoothcert.certify(f"hf:{FOLDER}", "digits", sigma=SIGMA, n=1000, max=20, progress=False)
    share = run.figures([0.25]).certified_accuracy[0.25]
    print(f"certified accuracy at 0.25: {share.hits} of {share.of}")
    print(f"verified: {'all as recorded' if not run.verify().problems else 'NOT as recorded'}")


if __name__ == "__main__":
    main()
