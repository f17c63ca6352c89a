"""Longformer, BERT for long texts: a window, and hubs that read and are read by all.

Formula: as BERT; o_i = attend(Q x_i, K x_j, V x_j); of a hub o_i = attend(Q' x_i, K' x_j, V' x_j)
Graph: ``window(r)``, an r for each layer, and the hubs' columns; the hubs' rows are a second graph
Score: Dot (scaled), full projections; the hubs' rows have projections of their own
Encoding: learned, as RoBERTa: position p of a token that is not padding has row p + padding + 1
Normalisation: softmax over the neighbourhood; layer norm after each sublayer
Update: residual connection, then a feed-forward network (GELU) with its own
Paper: Beltagy et al., Longformer: the long-document Transformer, 2020
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from edgewise import Dot, attend
from edgewise.arguments import check_divides, checked
from edgewise.checks import bind_graph
from edgewise.encodings import Learned
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, Pattern, batch, check_graph, complete, hubs, window
from edgewise.graphs.batch import Sizes
from edgewise.layers import (
    AttentionBlock,
    FeedForward,
    GraphLayer,
    LanguageModelHead,
    TextEmbedding,
    TextModel,
    init_normal,
)
from edgewise.layers.attention import JointLinear, unbind_qkv
from edgewise.layers.sequences import Memory, SequenceBatch, refuse_cache, with_padding


@checked(padding=0, types=0, depth=0, radius=0)
def longformer(
    vocabulary: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    feed_forward: int = 512,
    radius: int | tuple[int, ...] = 256,
    hubs: tuple[int, ...] = (0,),
    length: int = 4098,
    types: int = 0,
    act: str = "gelu",
    epsilon: float = 1e-5,
    dropout: float = 0.1,
    padding: int = 1,
) -> LongformerModel:
    """Build a Longformer encoder with a masked-language-model head.

    ``model.logits(states)`` gives the logits of the masked language model.

    Args:
        vocabulary: vocab size: number of token ids.
        width: hidden size.
        depth: number of layers.
        heads: number of attention heads per layer.
        feed_forward: FFN dimension: hidden size of the feed-forward networks.
        radius: window radius in tokens on either side, one for all layers or one per layer.
        hubs: default positions with global attention; negative ones count from the end.
        length: number of rows of the position table; the first ``padding + 1`` are unused.
        types: number of token types (0 = none).
        act: activation function of the feed-forward networks, by name.
        epsilon: epsilon of the layer norms.
        dropout: dropout probability.
        padding: id of the padding token; positions skip padding and start at ``padding + 1``.
    """
    radii = [radius] * depth if isinstance(radius, int) else list(radius)
    if len(radii) != depth:
        raise ArgumentError(
            "radius",
            expected=f"one for all layers, or one for each of the {depth}",
            got=repr(radius),
            remedy="give as many radii as there are layers, or change depth",
        )
    norm = partial(nn.LayerNorm, eps=epsilon)
    embedding = TextEmbedding(
        vocabulary,
        width,
        positions=Learned(length, width),
        types=types,
        norm=norm(width),
        dropout=dropout,
        padding=padding,
    )
    layers = [
        AttentionBlock(  # norm(x + attention(x)), then norm(x + FFN(x))
            LongformerAttention(width, heads, dropout=dropout),
            FeedForward(width, feed_forward, act=act, dropout=dropout),
            width,
            norm=norm,
            dropout=dropout,
        )
        for _ in range(depth)
    ]
    reader = LongformerReader(layers, [window(one) for one in radii], hubs, heads)
    head = LanguageModelHead.for_masked_tokens(vocabulary, width, act=act, norm=norm)
    model = init_normal(LongformerModel(embedding, reader, head))
    for module in model.modules():
        if isinstance(module, LongformerAttention):
            module.init_hub_projections()  # as the paper begins
    return model


class LongformerAttention(GraphLayer):
    r"""Two attentions, one for tokens and one for hubs, whose outputs are put together.

    .. math::
        o_i = \mathrm{attend}(Q x_i, K x_j, V x_j), \; j \in \mathrm{window}(i) \cup \mathrm{hubs};
        \qquad o_g = \mathrm{attend}(Q' x_g, K' x_j, V' x_j), \; j \in \mathrm{text}

    A token compares the hubs with its window by the same K, under one softmax. Of a hub's own row
    only the second is kept.

    Args:
        width: of input and output.
        heads: a divisor of ``width``.
        dropout: on the attention weights, in training.
    """

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.heads, self.head_width, self.dropout = heads, width // heads, dropout
        self.qkv = JointLinear(width, (width, width, width))
        self.hub_query = nn.Linear(width, width)
        self.hub_key = nn.Linear(width, width)
        self.hub_value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    @torch.no_grad()
    def init_hub_projections(self) -> None:
        """Let the hubs' projections begin as copies of the tokens'."""
        hub_maps = (self.hub_query, self.hub_key, self.hub_value)
        biases = self.qkv.bias.split(self.qkv.widths)
        for own, weight, bias in zip(hub_maps, self.qkv.weights(), biases, strict=True):
            own.weight.copy_(weight)
            own.bias.copy_(bias)

    def forward(self, x: Tensor, graph: Pattern, *, hubs: Tensor, hub_graph: Pattern) -> Tensor:
        """``[..., N, width]`` from x of that shape.

        Args:
            x: features.
            graph: the window, and every token reads the hubs.
            hubs: the numbers of the hubs among the N nodes, ``[G]``.
            hub_graph: which nodes the hubs read, G targets; or G · H, each head of a hub by itself.
                Then no key and value of all nodes is made for them, which pays for few hubs.
        """
        dropout = self.dropout if self.training else 0.0
        query, key, value = unbind_qkv(self.qkv(x), self.heads)
        out = attend(query, key, value, graph, dropout=dropout, layout="NHD").flatten(-2)
        if len(hubs):
            rows = self._hub_rows(x, hubs, hub_graph, dropout)
            out = out.index_copy(-2, hubs, rows)
        projected: Tensor = self.output(out)
        return projected

    def _hub_rows(self, x: Tensor, hubs: Tensor, hub_graph: Pattern, dropout: float) -> Tensor:
        """What the hubs read, ``[..., G, width]``."""
        query = self._heads(self.hub_query(x.index_select(-2, hubs)))
        by_head = isinstance(hub_graph, Graph) and hub_graph.num_targets == len(hubs) * self.heads
        if not by_head:
            key, value = self._heads(self.hub_key(x)), self._heads(self.hub_value(x))
            return attend(query, key, value, hub_graph, dropout=dropout, layout="NHD").flatten(-2)
        # Few hubs read x itself: q·(K x + b) is (Kᵀ q)·x and a number that is the same for all x,
        # and Σ w (V x + b) is V (Σ w x) + b, which dropout leaves whole.
        shape = self.heads, self.head_width, x.shape[-1]
        key_map, value_map = (m.weight.view(shape) for m in (self.hub_key, self.hub_value))
        asked = torch.einsum("...ghd,hdw->...ghw", query, key_map).to(x.dtype)
        nodes, score = x.unsqueeze(-2), Dot(self.head_width**-0.5)
        read = attend(
            asked.flatten(-3, -2).unsqueeze(-2),
            nodes,
            nodes,
            hub_graph,
            score=score,
            dropout=dropout,
        )
        read = torch.einsum("...ghw,hdw->...ghd", read.view(asked.shape), value_map)
        return read.flatten(-2) + self.hub_value.bias

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:-1], self.heads, self.head_width)


class LongformerReader(nn.Module):
    """The layers, each on its window; padding is taken out before the first.

    Args:
        layers: called ``layer(x, graph, hubs=, hub_graph=)``.
        graphs: the local pattern of each layer.
        hubs: positions of the hubs in each text.
        heads: of the layers.
    """

    caches = False

    def __init__(
        self,
        layers: Sequence[nn.Module],
        graphs: Sequence[Pattern],
        hubs: Sequence[int],
        heads: int,
    ) -> None:
        super().__init__()
        self.layers, self.graphs, self.hubs = nn.ModuleList(layers), list(graphs), tuple(hubs)
        self.heads = heads

    def forward(
        self,
        x: Tensor,
        sequences: SequenceBatch | None = None,
        *,
        graph: Pattern | None = None,
        memory: Memory | None = None,
        global_attention_mask: Tensor | None = None,
    ) -> Tensor:
        """States of x, of its shape; those of padding are 0.

        Args:
            x: features ``[B, T, width]``, or ``[N, width]`` of a packed batch.
            sequences: padding, packing and positions.
            graph: who reads whom beside the hubs, in place of every layer's window.
            memory: none.
            global_attention_mask: 1 where a token is a hub, ``[B, T]`` or ``[N]``.
        """
        sequences = sequences or SequenceBatch.of_features(x)
        refuse_cache("longformer", sequences, memory)
        mask = global_attention_mask
        if mask is not None and mask.shape != x.shape[:-1]:
            raise ArgumentError(
                "global_attention_mask",
                expected=f"shape {list(x.shape[:-1])}, as the tokens have",
                got=f"shape {list(mask.shape)}",
                remedy="give 1 for every hub and 0 for the others",
            )
        patterns = self.graphs if graph is None else [check_graph(graph)] * len(self.graphs)
        if mask is not None:
            mask = mask.cpu()  # where the hubs' graphs are made
            mask = mask[None] if mask.dim() == 1 and sequences.sizes is None else mask
        shared = mask is None or bool((mask == mask[:1]).all())
        if sequences.sizes is None and shared and not sequences.has_padding:
            nodes = self.hubs if mask is None else _places(mask[0]) if len(mask) else ()
            nodes = nodes if x.shape[-2] else ()
            return self._run(x, patterns, [nodes], None)
        rows, sizes = sequences.packed()
        packed = x.flatten(0, -2)
        packed = packed if rows is None else packed[rows]
        if mask is None:
            hubs_of_texts = [list(self.hubs) if size else [] for size in sizes]
        else:
            hubs_of_texts = [_places(part) for part in _of_texts(mask, sequences)]
        states = self._run(packed, patterns, hubs_of_texts, sizes)
        if rows is None:
            return states.view_as(x)
        return with_padding(states, rows, x)

    def _run(
        self,
        x: Tensor,
        patterns: Sequence[Pattern],
        nodes: Sequence[Sequence[int]],
        sizes: list[int] | None,
    ) -> Tensor:
        lengths = [x.shape[-2]] if sizes is None else sizes
        firsts = itertools.accumulate(lengths, initial=0)
        hub_numbers, hub_counts = [], []
        for first, size, own in zip(firsts, lengths, nodes, strict=False):
            places = sorted({node % size for node in own})
            hub_numbers += [first + place for place in places]
            hub_counts.append(len(places))
        hubs = torch.tensor(hub_numbers, dtype=torch.long, device=x.device)
        # Of few hubs each head is a target, as wide as x: cheaper than K' x and V' x.
        each = self.heads if max(hub_counts, default=0) * self.heads < x.shape[-1] else 1
        targets = [each * count for count in hub_counts]
        everything = complete() if sizes is None else batch(complete(), targets, sizes)
        hub_graph = bind_graph(everything, each * len(hubs), x.shape[-2], x.device)
        local: dict[Pattern, Graph] = {}  # layers with one window share a graph
        for layer, pattern in zip(self.layers, patterns, strict=True):
            if pattern not in local:
                own_graph = _with_columns(pattern, nodes, sizes)
                local[pattern] = bind_graph(own_graph, x.shape[-2], x.shape[-2], x.device)
            x = layer(x, local[pattern], hubs=hubs, hub_graph=hub_graph)
        return x


def _of_texts(mask: Tensor, sequences: SequenceBatch) -> Sequence[Tensor]:
    """What a mask like the tokens says of the tokens of each text, without those of padding."""
    if sequences.sizes is not None:
        parts: Sequence[Tensor] = mask.split(sequences.packed()[1])
        return parts
    if not sequences.has_padding:
        return mask.unbind()
    rows = zip(mask, sequences.extents, strict=True)
    return [row[e.first : e.first + e.size] for row, e in rows]


def _places(mask: Tensor) -> list[int]:
    places: list[int] = mask.nonzero().flatten().tolist()
    return places


def _with_columns(
    pattern: Pattern, nodes: Sequence[Sequence[int]], sizes: list[int] | None
) -> Pattern:
    """The pattern, and every token of a text reads the hubs of that text."""
    if sizes is None:
        return pattern | hubs(nodes[0], reads=False)
    columns = [hubs(own, reads=False).bind(n) for own, n in zip(nodes, sizes, strict=True)]
    return (pattern if isinstance(pattern, Graph) else batch(pattern, sizes)) | batch(columns)


class LongformerModel(TextModel):
    """A text model whose call may say which tokens are hubs."""

    reader: LongformerReader

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        global_attention_mask: Tensor | None = None,
        sizes: Sizes | None = None,
        positions: Tensor | None = None,
        graph: Pattern | None = None,
        **other: Any,
    ) -> Tensor:
        """The last hidden state, ``[B, T, width]``, or ``[N, width]`` of a packed batch.

        Args:
            input_ids: ``[B, T]``, or ``[N]`` with ``sizes``.
            attention_mask: ``[B, T]``, 0 where a token is padding, at the ends of a text.
            token_type_ids: like ``input_ids``, where the model has types.
            global_attention_mask: like ``input_ids``, 1 where a token is a hub: all tokens of a
                question, say. By default hubs are where the model was made with them.
            sizes: how many of the N tokens each text of a packed batch has.
            positions: like ``input_ids``; by default 0, 1, ... in each text.
            graph: who reads whom beside the hubs, in place of every layer's window.
            other: ``memory`` and ``cache``, which it refuses.

        Raises:
            ArgumentError: as :class:`edgewise.layers.TextModel`; a mask of hubs of another shape,
                padding within a text, or a text that is shorter than its hubs' positions.
        """
        sequences = SequenceBatch(
            input_ids,
            attention_mask,
            sizes=sizes,
            positions=positions,
            cache=other.pop("cache", None),
        )
        x = self.embedding(input_ids, sequences.positions, token_type_ids)
        states: Tensor = self.reader(
            x, sequences, graph=graph, global_attention_mask=global_attention_mask, **other
        )
        return states
