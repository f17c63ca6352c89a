"""Lightweight convolution: fixed weights for the neighbours, in the place of self-attention.

Formula: y = O conv(GLU(W x)), conv(x)_i = Σ_k softmax(f)_k x_{i+k}; x = norm(x + y), then FFN
Graph: ``window(K // 2)``, the decoder's ``causal() & window(K - 1)``, a K for each layer
Score: none; a number for each offset in the window, the same for all nodes, and a softmax over them
Encoding: sinusoidal, on both sides
Normalisation: over the kernel, whose parts beyond the text count as 0; layer norm, post or pre
Update: residual, then a feed-forward network with a residual of its own
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
from edgewise.arguments import check_count, check_divides, check_given, checked
from edgewise.biases import EdgeTerm
from edgewise.encodings import Sinusoidal, offsets
from edgewise.errors import ArgumentError
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
from edgewise.layers.sequences import refuse_graph
from edgewise.layers.transformer import Order

Taps = Callable[[int, int, int], nn.Module]
"""From width, heads and K a module that says of x ``[..., N, width]`` what is under the softmax:
``[K, H]`` for all nodes, or ``[..., N, K, H]`` for each."""


@checked(depth=0)
def light_conv(
    vocabulary: int,
    *,
    target_vocabulary: int | None = None,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    kernels: tuple[int, ...] = (3, 7, 15, 31),
    feed_forward: int = 512,
    dropout: float = 0.1,
    act: str = "relu",
    order: Order = "post",
) -> EncoderDecoderModel:
    """Build an encoder-decoder with lightweight convolutions in place of self-attention.

    ``model.logits(states)`` gives the logits of the next token at each position. The decoder
    attends to the encoder as the Transformer's does.

    Args:
        vocabulary: vocab size: number of token ids.
        target_vocabulary: vocab size of the target text (None = one vocabulary for both texts).
        width: hidden size.
        depth: number of layers, in the encoder and in the decoder.
        heads: number of convolution heads: channels of one head share a kernel.
        kernels: kernel size of each layer, odd; further layers use the last one.
        feed_forward: FFN dimension: hidden size of the feed-forward networks.
        dropout: dropout probability.
        act: activation function of the feed-forward networks, by name.
        order: position of the norms: "post" after each sublayer, "pre" before it.
    """
    return with_convolutions(
        "light_conv",
        FixedTaps,
        vocabulary,
        target_vocabulary=target_vocabulary,
        width=width,
        depth=depth,
        heads=heads,
        kernels=kernels,
        feed_forward=feed_forward,
        dropout=dropout,
        act=act,
        order=order,
    )


class FixedTaps(nn.Module):
    """A learned number for each place in the kernel of each head.

    Args:
        width: of the features, which do not matter.
        heads: H.
        kernel: K.
    """

    def __init__(self, width: int, heads: int, kernel: int) -> None:  # noqa: ARG002
        super().__init__()
        self.kernel = nn.Parameter(torch.empty(kernel, heads))
        nn.init.xavier_uniform_(self.kernel)

    def forward(self, x: Tensor) -> Tensor:  # noqa: ARG002
        """``[K, H]``."""
        return self.kernel


class SoftmaxConvolution(GraphLayer):
    r"""A gate, a depthwise convolution, a linear map: :math:`O\,\mathrm{conv}(\mathrm{GLU}(Wx))`.

    .. math:: \mathrm{conv}(x)_{i,c} = \sum_{k=1}^{K} w_{h(c),k}\; x_{i+k-(K+1)/2,\,c},
              \qquad w_h = \mathrm{softmax}(f_h)

    where channel c belongs to head h(c). Nodes beyond the ends of a text, and padding, count as 0
    and keep their share of the softmax. Where ``one_way``, the last of the K is the node itself.

    Args:
        width: of x and of the output.
        heads: H, a divisor of ``width``; as many kernels.
        kernel: K.
        taps: makes f.
        one_way: whether a node reads only what is before it.
        dropout: on the weights w, in training (the paper's DropConnect).
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kernel: int,
        taps: Taps,
        *,
        one_way: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.heads, self.kernel, self.one_way = heads, kernel, one_way
        self.gate = nn.Linear(width, 2 * width)
        self.taps = taps(width, heads, kernel)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, width)

    @property
    def graph(self) -> Pattern:
        """Who reads whom."""
        if self.one_way:
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
        """``[..., N, width]`` from x of that shape.

        Args:
            x: features.
            graph: :attr:`graph`, of the sizes at hand.
            cache: holds the gated features of nodes before x, and receives those of x.
            bias: its exponential multiplies the weights: -inf on the edges out of padding.
        """
        x = F.glu(self.gate(x))
        weight = self._of_edges(self.dropout(self.taps(x).softmax(-2)), graph)
        if bias is not None:
            bias = bias.expand() if isinstance(bias, TableBias) else bias
            weight = weight * bias.exp()
        value = x.reshape(*x.shape[:-1], self.heads, x.shape[-1] // self.heads)
        if cache is not None:
            value, _nothing = cache.extended(self, (value, value[..., :0]))
        out: Tensor = self.output(aggregate(value, graph, weight=weight).flatten(-2))
        return out

    def _of_edges(self, weight: Tensor, graph: Graph) -> Tensor:
        """``[..., E, H]``: the weight of each edge is that of the tap that its offset is."""
        first = self.kernel - 1 if self.one_way else self.kernel // 2  # how far back the first is
        tap = graph.cached(("tap", first), lambda: first - offsets(graph))
        if weight.dim() == 2:
            return weight.index_select(0, tap)
        key = ("place of tap", first, self.kernel)
        place = graph.cached(key, lambda: graph.target * self.kernel + tap)
        return weight.flatten(-3, -2).index_select(-2, place)


class ConvolutionReader(nn.Module):
    """Layers one after the other, each on a window of its own.

    Args:
        name: of the model.
        layers: called ``layer(x, graph, bias=, cache=)``.
        graphs: of the layers.
        norm: after the last.
    """

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
        """States of x, of its shape.

        Args:
            x: features ``[B, T, width]``, or ``[N, width]`` of a packed batch.
            sequences: padding, packing and cache.
            graph: none, as the kernels say who reads whom.
            memory: another sequence to read, for the decoder.
        """
        refuse_graph(self.name, graph)
        sequences = sequences or SequenceBatch.of_features(x)
        terms: dict[str, Any] = {} if memory is None else memory.terms(sequences)
        for layer, pattern in zip(self.layers, self.graphs, strict=True):
            own = sequences.bind(pattern)
            bias = sequences.padding_bias(own, x)
            x = layer(x, own, bias=bias, cache=sequences.cache, **terms)
        sequences.advance()
        out: Tensor = self.norm(x)
        return out


def with_convolutions(
    name: str,
    taps: Taps,
    vocabulary: int,
    *,
    target_vocabulary: int | None,
    width: int,
    depth: int,
    heads: int,
    kernels: Sequence[int],
    feed_forward: int,
    dropout: float,
    act: str,
    order: Order,
) -> EncoderDecoderModel:
    """The Transformer with convolutions, whose weights ``taps`` makes, for self-attention."""
    if not isinstance(kernels, Sequence):
        raise ArgumentError(
            "kernels",
            expected="a size for each layer",
            got=repr(kernels),
            remedy=f"write ({kernels},) for layers that all have this one",
        )
    check_given("kernels", tuple(kernels), "a size for each layer", "choose (3, 7, 15, 31)")
    for kernel in kernels:
        check_count("kernels", kernel, 1, "choose 3, say")
        if kernel % 2 == 0:
            raise ArgumentError(
                "kernels",
                expected="odd sizes, so that as many nodes are read on either side",
                got=repr(kernel),
                remedy="add one to it",
            )
    sizes = [kernels[min(layer, len(kernels) - 1)] for layer in range(depth)]
    convolution = partial(SoftmaxConvolution, width, heads, taps=taps, dropout=dropout)

    def network() -> nn.Module:
        return FeedForward(width, feed_forward, act=act, dropout=dropout)

    def reader(layers: Sequence[nn.Module], own: Sequence[SoftmaxConvolution]) -> nn.Module:
        last = nn.LayerNorm(width) if order == "pre" else nn.Identity()
        return ConvolutionReader(name, layers, [one.graph for one in own], last)

    both_ways = [convolution(kernel=kernel) for kernel in sizes]
    encoder = [
        AttentionBlock(own, network(), width, order=order, dropout=dropout) for own in both_ways
    ]
    backwards = [convolution(kernel=kernel, one_way=True) for kernel in sizes]
    decoder = [
        CrossBlock(
            own,
            MultiHeadAttention(width, heads, source_width=width, dropout=dropout),
            network(),
            width,
            order=order,
            dropout=dropout,
        )
        for own in backwards
    ]
    core = init_xavier(EncoderDecoder(reader(encoder, both_ways), reader(decoder, backwards)))

    embedding = partial(TextEmbedding, width=width, dropout=dropout, scale=width**0.5)
    source = embedding(vocabulary, positions=Sinusoidal(width))
    target = None
    if target_vocabulary is not None:
        target = embedding(target_vocabulary, positions=Sinusoidal(width))
    head = LanguageModelHead(target_vocabulary or vocabulary, width)
    return EncoderDecoderModel(source, core, head, target_embedding=target)
