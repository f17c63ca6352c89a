"""BP-Transformer: spans of a binary partition are nodes, near tokens are read one by one.

Formula: z = norm(u + attention(u)); u' = norm(z + FFN(z)), of tokens and spans; a span begins as 0
Graph: a span reads its tokens; a token reads k nodes of each level on either side, farther = larger
Score: Dot (scaled), full projections, and a number a head for each kind of edge
Encoding: none but the kinds of edges: level, side and place beside the token
Normalisation: softmax over the neighbourhood; layer norm after each sublayer
Update: residual connection, then a feed-forward network with its own
Paper: Ye et al., BP-Transformer: modelling long-range context via binary partitioning, 2019
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor, nn

from edgewise import TableBias
from edgewise.arguments import checked
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, Pattern, batch, edges
from edgewise.layers import (
    LanguageModelHead,
    TextEmbedding,
    TextModel,
    TransformerLayer,
    init_normal,
)
from edgewise.layers.sequences import (
    Memory,
    SequenceBatch,
    refuse_cache,
    refuse_graph,
    refuse_memory,
    with_padding,
)
from edgewise.ragged import run_of_each

MOST_LEVELS = 40
"""No text is longer than 2 to this power."""


@checked(depth=0)
def bp_transformer(
    vocabulary: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    feed_forward: int = 512,
    near: int = 4,
    one_way: bool = False,
    length: int = 8192,
    act: str = "relu",
    dropout: float = 0.1,
    init_std: float = 0.02,
) -> TextModel:
    """Build a BP-Transformer language model.

    ``model.logits(states)`` gives the logits of the tokens. Each token attends, on either side, to
    ``near`` tokens, then to ``near`` spans of two tokens, of four, and so on to the ends of the
    text. With ``one_way`` a cache keeps completed spans, and one more token costs O(k log(n / k))
    pairs.

    Args:
        vocabulary: vocab size: number of token ids.
        width: hidden size.
        depth: number of layers.
        heads: number of attention heads per layer.
        feed_forward: FFN dimension: hidden size of the feed-forward networks.
        near: number of nodes of each level that a token attends to on either side, k.
        one_way: causal attention: tokens attend to the left only.
        length: max length of a text in tokens; it sets the number of edge types.
        act: activation function of the feed-forward networks, by name.
        dropout: dropout probability.
        init_std: standard deviation of the initial weights.
    """
    embedding = TextEmbedding(vocabulary, width, dropout=dropout)
    layers = [
        TransformerLayer(width, heads, feed_forward, act=act, dropout=dropout) for _ in range(depth)
    ]
    reader = SpanReader(layers, heads, near, length, one_way=one_way)
    head = LanguageModelHead(vocabulary, width)
    return init_normal(TextModel(embedding, reader, head), std=init_std)


def levels_of(tokens: int) -> list[int]:
    """How many nodes each level has: the tokens, spans of two of them, of four, up to the root."""
    counts = [tokens]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // 2))
    return counts


@lru_cache(maxsize=64)
def partition_graph(tokens: int, near: int, one_way: bool) -> tuple[Graph, Tensor]:
    """Who reads whom among tokens and spans, and the kind of each edge.

    Nodes are the tokens, then the spans of two tokens from left to right, then those of four, and
    so on. What a token reads, itself included, covers the text (or its left part, ``one_way``)
    once and without a gap, by O(k log(n / k)) nodes.

    Args:
        tokens: n.
        near: k.
        one_way: whether tokens read to the left alone.

    Returns:
        The graph, and for each of its edges a number from 0 on: itself; a token of a span, by its
        level; a node on the left or right of a token, by level and place. See :func:`kinds`.
    """
    counts = levels_of(tokens)
    first = [sum(counts[:level]) for level in range(len(counts))]
    every = torch.arange(tokens)
    nodes = torch.arange(sum(counts))
    found = [(nodes, nodes, torch.zeros_like(nodes))]
    for level in range(1, len(counts)):
        found.append((every, first[level] + (every >> level), torch.full_like(every, level)))
    for level, node, token, kind in _beside(every, counts, near, one_way):
        found.append((first[level] + node, token, kind))
    source, target, classes = (torch.cat(part) for part in zip(*found, strict=True))
    return edges(torch.stack([source, target]), len(nodes)), classes


def _beside(
    tokens: Tensor, counts: Sequence[int], near: int, one_way: bool
) -> Iterator[tuple[int, Tensor, Tensor, Tensor]]:
    """What these tokens read beside themselves: a level, its nodes, who reads each, and the kinds.

    ``counts`` are how many nodes each level has.
    """
    place = torch.arange(near + 1)
    for side in (-1, 1) if not one_way else (-1,):
        at = tokens + side  # the nearest node of the level that is not read yet
        for level, count in enumerate(counts):
            # One more where the rest of the level would begin in the middle of a span.
            odd = (at + side * near) % 2 == (1 if side > 0 else 0)
            node = at[:, None] + side * place
            reads = (node >= 0) & (node < count) & ((place < near) | odd[:, None])
            row, chosen = reads.nonzero(as_tuple=True)
            first_kind = 1 + MOST_LEVELS + (level * 2 + (side > 0)) * (near + 1)
            yield level, node[row, chosen], tokens[row], first_kind + chosen
            at = torch.div(at + side * (near + odd.long()), 2, rounding_mode="floor")


def growth_graph(past: int, tokens: int, near: int) -> tuple[Graph, Tensor]:
    """Who reads whom as a text grows from ``past`` tokens to ``tokens``, all reading to the left.

    Nodes are in the order in which they are whole: a token, then the spans that end with it. What
    a token reads to its left is whole, so that older nodes stay as they are, and nobody misses a
    span that has not ended.

    Args:
        past: tokens whose nodes are there already.
        tokens: n, with the new ones.
        near: k.

    Returns:
        The graph from all nodes to the new ones; and the kinds of its edges, as
        :func:`partition_graph` has them.
    """
    counts, found = levels_of(tokens), []
    for level in range(len(counts)):
        node = torch.arange(past >> level, tokens >> level)
        own = when_whole(node, level)
        found.append((own, own, torch.zeros_like(own)))
        if level:
            inside = (node[:, None] << level) + torch.arange(1 << level)
            reader = own[:, None].expand_as(inside)
            found.append((when_whole(inside), reader, torch.full_like(inside, level)))
    for level, node, token, kind in _beside(torch.arange(past, tokens), counts, near, True):
        found.append((when_whole(node, level), when_whole(token), kind))
    parts = ([x.flatten() for x in part] for part in zip(*found, strict=True))
    source, target, classes = (torch.cat(part) for part in parts)
    before, after = when_whole(torch.tensor([past, tokens])).tolist()
    return edges(torch.stack([source, target - before]), (after, after - before)), classes


def when_whole(node: Tensor, level: int = 0) -> Tensor:
    """The number of a level's node in the order in which nodes are whole."""
    last = ((node + 1) << level) - 1  # its last token
    return last + sum(last >> other for other in range(1, MOST_LEVELS)) + level


def kinds(length: int, near: int) -> int:
    """How many kinds of edges there are in texts of up to so many tokens."""
    return 1 + MOST_LEVELS + len(levels_of(length)) * 2 * (near + 1)


class SpanReader(nn.Module):
    """Tokens and the spans of their binary partition, read layer after layer.

    Args:
        layers: called ``layer(x, graph, bias=)``.
        heads: of the layers.
        near: k, the nodes of each level that a token reads on either side.
        length: the most tokens of a text.
        one_way: whether tokens read to the left alone.
    """

    def __init__(
        self, layers: Sequence[nn.Module], heads: int, near: int, length: int, *, one_way: bool
    ) -> None:
        super().__init__()
        self.layers, self.near, self.length = nn.ModuleList(layers), near, length
        self.one_way = self.caches = one_way
        self.table = nn.Parameter(torch.randn(kinds(length, near), heads) * 0.02)

    def forward(
        self,
        x: Tensor,
        sequences: SequenceBatch | None = None,
        *,
        graph: Pattern | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """States of the tokens, of the shape of x; those of padding are 0.

        Args:
            x: features ``[B, T, width]``, or ``[N, width]`` of a packed batch.
            sequences: padding and packing; where tokens read to the left, a cache.
            graph: none, as spans are not nodes of another.
            memory: none.
        """
        refuse_graph("bp_transformer", graph)
        sequences = sequences or SequenceBatch.of_features(x)
        refuse_memory("bp_transformer", memory)
        if not self.one_way:
            refuse_cache("bp_transformer", sequences, memory)
        elif sequences.has_padding:
            why = "counts spans from the first token, which padding would move"
            refuse_cache("bp_transformer", sequences, memory, why=why)
        if sequences.cache is not None:
            return self._continue(x, sequences)
        if sequences.sizes is None and not sequences.has_padding:
            return self._run(x, [sequences.count])
        rows, sizes = sequences.packed()
        if rows is None:
            return self._run(x, sizes)
        states = self._run(x.flatten(0, 1)[rows], sizes)
        return with_padding(states, rows, x)

    def _continue(self, x: Tensor, sequences: SequenceBatch) -> Tensor:
        """States of tokens after those of the cache, which keeps every node that is whole."""
        past, tokens = sequences.past, sequences.past + sequences.count
        self._check_length(tokens)
        graph, kind = growth_graph(past, tokens, self.near)
        graph, bias = graph.to(x.device), TableBias(kind.to(x.device), self.table)
        place = when_whole(torch.arange(past, tokens, device=x.device))
        place = place - (graph.num_sources - graph.num_targets)
        nodes = x.new_zeros(*x.shape[:-2], graph.num_targets, x.shape[-1])
        nodes = nodes.index_copy(-2, place, x)
        for layer in self.layers:
            nodes = layer(nodes, graph, bias=bias, cache=sequences.cache)
        sequences.advance()
        return nodes.index_select(-2, place)

    def _check_length(self, tokens: int) -> None:
        if tokens > self.length:
            raise ArgumentError(
                "x",
                expected=f"at most {self.length} nodes, as there are kinds of edges for",
                got=f"{tokens} nodes",
                remedy="make the model with a larger length",
            )

    def _run(self, x: Tensor, sizes: Sequence[int]) -> Tensor:
        self._check_length(max(sizes, default=0))
        of_texts = [partition_graph(size, self.near, self.one_way) for size in sizes if size]
        members = [graph for graph, _ in of_texts]
        graph = members[0] if len(members) == 1 else batch(members)
        kind = torch.cat([torch.zeros(0, dtype=torch.long), *(own for _, own in of_texts)])
        bias = TableBias(kind.to(x.device), self.table)
        counts = [[size, sum(levels_of(size)) - size] for size in sizes if size]
        is_token = run_of_each(torch.tensor(counts, dtype=torch.long).flatten()) % 2 == 0
        place = is_token.nonzero().flatten().to(x.device)
        nodes = x.new_zeros(*x.shape[:-2], len(is_token), x.shape[-1])
        nodes = nodes.index_copy(-2, place, x)
        for layer in self.layers:
            nodes = layer(nodes, graph.to(x.device), bias=bias)
        return nodes.index_select(-2, place)
