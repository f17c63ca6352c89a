"""Compressive Transformer: Transformer-XL that keeps means of older inputs as compressed memory.

Formula: as Transformer-XL; sources are x, the memory, and older inputs averaged in groups of c;
    memories get no gradients
Graph: ``causal()`` with more sources than targets: compressed memory, memory, then the segment
Score: ``Dot`` of concatenated content and position features; all layers share the biases u and v
Encoding: sinusoids of the relative position; a compressed memory takes one position
Normalisation: softmax over the neighbourhood; layer norm after or before each sublayer
Update: residual connections around attention and around the feed-forward network
Paper: Rae et al., Compressive Transformers for long-range sequence modelling, 2019
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise.layers import Cache, TextModel
from edgewise.models.text import text_model
from edgewise.models.transformer_xl import Recent, TransformerXLConfig, segment_model


@dataclass(frozen=True, kw_only=True)
class CompressiveConfig(TransformerXLConfig):
    """Arguments of :func:`compressive`.

    Args:
        memory: number of past inputs that each layer keeps uncompressed (0 = none).
        compressed: number of compressed memories that each layer keeps (0 = none).
        rate: compression rate: number of inputs averaged into one compressed memory.
    """

    compressed: int = 128
    rate: int = 4


@text_model(CompressiveConfig, depth=0, memory=0, compressed=0)
def compressive(config: CompressiveConfig) -> TextModel:
    """Build a Compressive Transformer language model.

    With ``cache=`` a call continues the text of the previous call. Each layer attends to its last
    ``memory`` inputs and to ``compressed`` means of ``rate`` older inputs. Memories are empty at
    the start of a text; in the paper, they start as zeros.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.compressive(1000, memory=64, compressed=32)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    memory = Compressed(config.memory, config.compressed, config.rate)
    return segment_model("compressive", config, memory)


class Compressed(Recent):
    """Memory of the last inputs and of means of ``rate`` older inputs, for any division into
    segments: up to ``length + rate - 1`` inputs are uncompressed.
    """

    def __init__(self, length: int, compressed: int, rate: int) -> None:
        super().__init__(length)
        self.compressed, self.rate = compressed, rate

    def num_memories(self, past: int) -> int:
        """Return the number of stored vectors after ``past`` inputs, means included."""
        means = self._means(past)
        return past - means * self.rate + min(means, self.compressed)

    def update(self, layer: nn.Module, source: Tensor, cache: Cache) -> None:
        """Store the last inputs and the means of older inputs in the cache, without gradients."""
        state = cache.state(layer)
        means = source[..., :0, :] if state is None else state[0]
        inputs = source[..., means.shape[-2] :, :].detach()
        new_means = self._means(inputs.shape[-2])
        old, inputs = inputs.tensor_split([new_means * self.rate], dim=-2)
        means = torch.cat([means, old.unflatten(-2, (new_means, self.rate)).mean(-2)], -2)
        first = max(means.shape[-2] - self.compressed, 0)
        cache.keep_state(layer, (means[..., first:, :].detach(), inputs))

    def mask(self, mask: Tensor, past: int, count: int) -> Tensor:
        """Return the padding mask ``[B, sources]`` of the memory and the new tokens."""
        if self._means(past):
            raise ArgumentError(
                "attention_mask",
                expected="no padding in texts with compressed memories",
                got="padding",
                remedy="pass texts of equal length, or one text at a time, or use transformer_xl",
            )
        return super().mask(mask, past, count)

    def _means(self, inputs: int) -> int:
        """Return the number of means formed from the first ``inputs`` inputs."""
        return max(inputs - self.length, 0) // self.rate
