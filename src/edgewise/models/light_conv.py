"""Lightweight convolution: one learned kernel for all tokens instead of self-attention.

Formula: y = O conv(GLU(W x)), conv(x)_i = Σ_k softmax(f)_k x_{i+k}; x = norm(x + y), then FFN
Graph: encoder ``window(K // 2)``; decoder ``causal() & window(K - 1)``; kernel size K per layer
Score: none; one logit per offset in the window, the same for all nodes
Encoding: sinusoidal positions in encoder and decoder
Normalisation: softmax over the kernel, zero padding; layer norm after (default) or before sublayers
Update: residual connections around the convolution and around the feed-forward network
Paper: Wu et al., Pay less attention with lightweight and dynamic convolutions, 2019
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise import TableBias, aggregate
from edgewise._utils.arguments import check_divides, check_given, check_range
from edgewise._utils.errors import ArgumentError
from edgewise.attention.biases import EdgeTerm
from edgewise.encodings import Sinusoidal, offsets
from edgewise.graphs import Graph, Pattern, causal, window
from edgewise.layers import (
    AttentionBlock,
    Cache,
    CrossBlock,
    EncoderDecoder,
    EncoderDecoderModel,
    FeedForward,
    GraphLayer,
    LanguageModelHead,
    Memory,
    MultiHeadAttention,
    SequenceBatch,
    TextEmbedding,
    init_xavier,
)
from edgewise.layers.single_text import refuse_graph
from edgewise.layers.transformer import Order
from edgewise.models.arguments import model_factory

Taps = Callable[[int, int, int], nn.Module]
"""Type of functions ``f(width, heads, kernel)`` that build a module. The module maps x
``[..., N, width]`` to kernel logits: ``[K, H]`` for all nodes, or ``[..., N, K, H]`` per node."""


class FixedTaps(nn.Module):
    """Learned kernel logits, the same for all nodes."""

    def __init__(self, width: int, heads: int, kernel: int) -> None:  # noqa: ARG002
        super().__init__()
        self.kernel = nn.Parameter(torch.empty(kernel, heads))
        nn.init.xavier_uniform_(self.kernel)

    def forward(self, x: Tensor) -> Tensor:  # noqa: ARG002
        """Return the kernel logits ``[K, H]``, which do not depend on x."""
        return self.kernel


class SoftmaxConvolution(GraphLayer):
    r"""Gated convolution with softmax kernels, :math:`O\,\mathrm{conv}(\mathrm{GLU}(Wx))`.

    .. math:: \mathrm{conv}(x)_{i,c} = \sum_{k=1}^{K} w_{h(c),k}\; x_{i+k-(K+1)/2,\,c},
              \qquad w_h = \mathrm{softmax}(f_h)

    where channel c belongs to head h(c). Positions outside the text and padding contribute 0, but
    the softmax is over the whole kernel. With ``is_causal`` the last position is the node.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kernel: int,
        taps: Taps,
        *,
        is_causal: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.heads, self.kernel, self.is_causal = heads, kernel, is_causal
        self.gate = nn.Linear(width, 2 * width)
        self.taps = taps(width, heads, kernel)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, width)

    @property
    def graph(self) -> Pattern:
        """Edges from the nodes under the kernel to each node."""
        if self.is_causal:
            return causal() & window(self.kernel - 1)
        return window(self.kernel // 2)

    def forward(
        self,
        x: Tensor,
        graph: Graph,
        *,
        cache: Cache | None = None,
        bias: EdgeTerm | None = None,
        **_: Any,
    ) -> Tensor:
        """Return features ``[..., N, width]`` from x of the same shape."""
        x = F.glu(self.gate(x))
        weight = self._edge_weights(self.dropout(self.taps(x).softmax(-2)), graph)
        if bias is not None:
            bias = bias.expand() if isinstance(bias, TableBias) else bias
            weight = weight * bias.exp()
        value = x.reshape(*x.shape[:-1], self.heads, x.shape[-1] // self.heads)
        if cache is not None:
            value, _empty = cache.extended(self, (value, value[..., :0]))
        out: Tensor = self.output(aggregate(value, graph, weight=weight).flatten(-2))
        return out

    def _edge_weights(self, weight: Tensor, graph: Graph) -> Tensor:
        """Return the kernel entry at the offset of each edge, ``[..., E, H]``."""
        # Distance of the node from the first kernel position.
        first = self.kernel - 1 if self.is_causal else self.kernel // 2
        tap = graph.cached(("tap", first), lambda: first - offsets(graph))
        if weight.dim() == 2:
            return weight.index_select(0, tap)
        key = ("tap of target", first, self.kernel)
        index = graph.cached(key, lambda: graph.target * self.kernel + tap)
        return weight.flatten(-3, -2).index_select(-2, index)


class ConvolutionBackbone(nn.Module):
    """Stack of convolution layers with one window per layer."""

    def __init__(
        self, name: str, layers: Sequence[nn.Module], graphs: Sequence[Pattern], norm: nn.Module
    ) -> None:
        super().__init__()
        self.name, self.graphs = name, list(graphs)
        self.layers, self.norm = nn.ModuleList(layers), norm

    def forward(
        self,
        x: Tensor,
        sequences: SequenceBatch | None = None,
        *,
        graph: Pattern | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """Return the output features, of the shape of x."""
        refuse_graph(self.name, graph)
        sequences = sequences or SequenceBatch.of_features(x)
        terms: dict[str, Any] = {} if memory is None else memory.terms(sequences)
        for layer, pattern in zip(self.layers, self.graphs, strict=True):
            bound = sequences.bind(pattern)
            bias = sequences.padding_bias(bound, x)
            x = layer(x, bound, bias=bias, cache=sequences.cache, **terms)
        sequences.advance()
        out: Tensor = self.norm(x)
        return out


class LightConv(EncoderDecoderModel):
    """Encoder-decoder with lightweight convolutions instead of self-attention.

    As in the Transformer, the decoder attends to the output of the encoder.

    Args:
        depth: number of layers, in the encoder and in the decoder.
        heads: number of heads of the convolutions (the channels of a head share a kernel) and of
            the cross-attention.
        kernels: odd kernel size of each layer; layers without a size use the last size.

    Raises:
        ArgumentError: ``kernels`` is empty or not a sequence, or a size is even or below 1.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.light_conv(1000)
        >>> source, target = torch.randint(1000, (2, 10)), torch.randint(1000, (2, 8))
        >>> model(source, None, target).shape
        torch.Size([2, 8, 128])
    """

    name = "light_conv"
    taps: type[nn.Module] = FixedTaps

    def __init__(
        self,
        vocab_size: int,
        *,
        target_vocab_size: int | None = None,
        width: int = 128,
        depth: int = 4,
        heads: int = 4,
        kernels: tuple[int, ...] = (3, 7, 15, 31),
        ffn_dim: int = 512,
        dropout: float = 0.1,
        act: str = "relu",
        order: Order = "post",
    ) -> None:
        if not isinstance(kernels, Sequence):
            raise ArgumentError(
                "kernels",
                expected="a sequence with a kernel size for each layer",
                got=repr(kernels),
                remedy=f"write ({kernels},) to use this kernel size in all layers",
            )
        check_given("kernels", tuple(kernels), "a kernel size for each layer", "try (3, 7, 15, 31)")
        for kernel in kernels:
            check_range("kernels", kernel, "choose 3 or another odd number", least=1, integer=True)
            if kernel % 2 == 0:
                raise ArgumentError(
                    "kernels",
                    expected="odd kernel sizes, so that windows are symmetric",
                    got=repr(kernel),
                    remedy="add 1 to this kernel size",
                )
        sizes = [kernels[min(layer, len(kernels) - 1)] for layer in range(depth)]
        convolution = partial(SoftmaxConvolution, width, heads, taps=self.taps, dropout=dropout)

        def network() -> nn.Module:
            return FeedForward(width, ffn_dim, act=act, dropout=dropout)

        def stack(layers: Sequence[nn.Module], convs: Sequence[SoftmaxConvolution]) -> nn.Module:
            norm = nn.LayerNorm(width) if order == "pre" else nn.Identity()
            return ConvolutionBackbone(self.name, layers, [conv.graph for conv in convs], norm)

        encoder_convs = [convolution(kernel=kernel) for kernel in sizes]
        encoder = [
            AttentionBlock(conv, network(), width, order=order, dropout=dropout)
            for conv in encoder_convs
        ]
        decoder_convs = [convolution(kernel=kernel, is_causal=True) for kernel in sizes]
        decoder = [
            CrossBlock(
                conv,
                MultiHeadAttention(width, heads, source_width=width, dropout=dropout),
                network(),
                width,
                order=order,
                dropout=dropout,
            )
            for conv in decoder_convs
        ]
        core = init_xavier(
            EncoderDecoder(stack(encoder, encoder_convs), stack(decoder, decoder_convs))
        )

        embedding = partial(TextEmbedding, width=width, dropout=dropout, scale=width**0.5)
        source = embedding(vocab_size, positions=Sinusoidal(width))
        target = None
        if target_vocab_size is not None:
            target = embedding(target_vocab_size, positions=Sinusoidal(width))
        head = LanguageModelHead(target_vocab_size or vocab_size, width)
        super().__init__(source, core, head, target_embedding=target)


light_conv = model_factory(LightConv, depth=0)
