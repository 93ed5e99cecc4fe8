"""What docs/hugging_face.md calls of `transformers`, with the same call shape, for machines without the real one."""

from __future__ import annotations

from types import SimpleNamespace

from torch import Tensor, nn


class ViTConfig:
    def __init__(self, **options: int) -> None:
        self.__dict__.update(options)


class ViTForImageClassification(nn.Module):
    """Patches, one block of attention, and scores behind `.logits`, as the real one returns them."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        size = config.patch_size
        self.patches = nn.Conv2d(3, config.hidden_size, kernel_size=size, stride=size)
        self.block = nn.TransformerEncoderLayer(
            config.hidden_size, config.num_attention_heads, config.intermediate_size, batch_first=True
        )
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, pixel_values: Tensor) -> SimpleNamespace:
        tokens = self.patches(pixel_values).flatten(2).transpose(1, 2)
        hidden = self.block(tokens)
        return SimpleNamespace(loss=None, logits=self.classifier(hidden.mean(dim=1)))
