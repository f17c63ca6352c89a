"""An image, and a text that is written while reading it."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.layers.reader import Memory
from edgewise.layers.text import TextModel


class Captioner(nn.Module):
    """``eyes`` make a memory of an image, and the text model ``writes`` reads it."""

    def __init__(self, eyes: nn.Module, writes: TextModel) -> None:
        super().__init__()
        self.eyes, self.writes = eyes, writes

    def forward(self, images: Tensor, ids: Tensor) -> Tensor:
        """Scores of each next word, ``[B · T, vocabulary]`` for ids ``[B, T]``."""
        states = self.writes(ids, memory=self.memory(images))
        return self.writes.logits(states).flatten(0, 1)

    def memory(self, images: Tensor) -> Memory:
        """What the decoder reads of images ``[B, C, height, width]``."""
        return Memory(self.eyes(images))
