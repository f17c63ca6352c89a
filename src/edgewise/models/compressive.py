"""Compressive Transformer: Transformer-XL whose older memories are kept as means of a few.

Formula: as Transformer-XL, of x, SG(memory) and SG(compressed), each of c memories a mean
Graph: ``causal()`` with more sources than targets: compressed memory, memory, then the segment
Score: Dot on the two sums side by side, as R_{i-j} is R_j turned by i; u and v for all layers
Encoding: sinusoidal, of distances alone, where a compressed memory takes one place
Normalisation: softmax over the neighbourhood; layer norm, post or pre
Update: residual, then a feed-forward network with a residual of its own
Paper: Rae et al., Compressive Transformers for long-range sequence modelling, 2019
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.arguments import checked
from edgewise.errors import ArgumentError
from edgewise.graphs import Pattern, causal
from edgewise.layers import Cache, TextModel
from edgewise.layers.transformer import Order
from edgewise.models.transformer_xl import Recent, SegmentReader, transformer_xl


@checked(depth=0, memory=0, compressed=0)
def compressive(
    vocabulary: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    feed_forward: int = 512,
    memory: int = 128,
    compressed: int = 128,
    rate: int = 4,
    act: str = "relu",
    order: Order = "post",
    dropout: float = 0.1,
    graph: Pattern = causal(),  # noqa: B008 - patterns are immutable
) -> TextModel:
    """Build a Compressive Transformer language model.

    ``model.logits(states)`` gives the logits of the next token at each position. With ``cache=`` a
    call continues the text of the call before. Each layer attends to its last ``memory`` inputs
    and, for older ones, to the last ``compressed`` means of ``rate`` inputs. Mean pooling is the
    paper's compression without weights: no gradient flows into memories, so the others need a loss
    of their own.

    Args:
        vocabulary: vocab size: number of token ids.
        width: hidden size.
        depth: number of layers.
        heads: number of attention heads per layer.
        feed_forward: FFN dimension: hidden size of the feed-forward networks.
        memory: number of past inputs that each layer keeps uncompressed (0 = none).
        compressed: number of compressed memories that each layer keeps (0 = none).
        rate: compression rate: number of inputs averaged into one compressed memory.
        act: activation function of the feed-forward networks, by name.
        order: position of the norms: "post" after each sublayer, "pre" before it.
        dropout: dropout probability.
        graph: attention graph: which tokens each token attends to.
    """
    model = transformer_xl(
        vocabulary,
        width=width,
        depth=depth,
        heads=heads,
        feed_forward=feed_forward,
        memory=memory,
        act=act,
        order=order,
        dropout=dropout,
        graph=graph,
    )
    xl = model.reader
    assert isinstance(xl, SegmentReader)
    remembering = Compressed(memory, compressed, rate)
    model.reader = SegmentReader("compressive", xl.stack, xl.preferences, remembering)
    return model


class Compressed(Recent):
    """The last nodes that a layer was given, and means of those before them, as a memory.

    Up to ``rate - 1`` nodes more than ``length`` are kept as they are until a mean is full; so what
    is kept after n nodes does not depend on the segments that they came in.

    Args:
        length: nodes that are kept as they are.
        compressed: means that are kept.
        rate: nodes of a mean.
    """

    def __init__(self, length: int, compressed: int, rate: int) -> None:
        super().__init__(length)
        self.compressed, self.rate = compressed, rate

    def held(self, past: int) -> int:
        """How many nodes and means are remembered of so many nodes."""
        means = self._means(past)
        return past - means * self.rate + min(means, self.compressed)

    def keep(self, layer: nn.Module, source: Tensor, cache: Cache) -> None:
        """Remember the last of these, and the means of those before."""
        kept = cache.state(layer)
        means = source[..., :0, :] if kept is None else kept[0]
        nodes = source[..., means.shape[-2] :, :].detach()
        full = self._means(nodes.shape[-2])
        old, nodes = nodes.tensor_split([full * self.rate], dim=-2)
        means = torch.cat([means, old.unflatten(-2, (full, self.rate)).mean(-2)], -2)
        first = max(means.shape[-2] - self.compressed, 0)
        cache.keep_state(layer, (means[..., first:, :].detach(), nodes))

    def mask(self, mask: Tensor, past: int, count: int) -> Tensor:
        """``[B, sources]`` of ``[B, past + count]``.

        Raises:
            ArgumentError: padding among nodes of which means were made.
        """
        if self._means(past):
            raise ArgumentError(
                "attention_mask",
                expected="no padding in texts of which something is compressed",
                got="padding",
                remedy="give the texts one by one, or use transformer_xl",
            )
        return super().mask(mask, past, count)

    def _means(self, nodes: int) -> int:
        """How many means are made of so many nodes."""
        return max(nodes - self.length, 0) // self.rate
