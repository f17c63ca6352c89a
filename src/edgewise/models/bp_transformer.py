"""BP-Transformer: attention to near tokens and to spans of a binary partition of the text.

Formula: z = norm(u + attention(u)); u' = norm(z + FFN(z)), for tokens and spans; the initial state
    of a span is the zero vector
Graph: spans attend to their tokens; tokens attend to k or k + 1 nodes of each level on either side
Score: ``Dot`` (scaled dot product) plus a learned bias per head and edge type
Encoding: the bias by edge type, which is the level, side and rank of the attended node
Normalisation: softmax over the neighbourhood; layer norm after each sublayer
Update: residual connections around attention and around the feed-forward network
Paper: Ye et al., BP-Transformer: modelling long-range context via binary partitioning, 2019
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import index

import torch
from torch import Tensor, nn

from edgewise import TableBias
from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import segment_index
from edgewise.graphs import Graph, Pattern, batch, edges
from edgewise.graphs.graph import call_for_graph
from edgewise.layers import (
    LanguageModelHead,
    TextEmbedding,
    TextModel,
    TransformerLayer,
    init_normal,
)
from edgewise.layers.single_text import SingleTextBackbone, refuse_cache
from edgewise.layers.text import SequenceBatch, with_padding
from edgewise.models.text import TextConfig, text_model

MOST_LEVELS = 40
"""Max number of levels L of a binary partition; texts have at most 2^L tokens."""


@dataclass(frozen=True, kw_only=True)
class BPTransformerConfig(TextConfig):
    """Arguments of :func:`bp_transformer`.

    Args:
        near: number k of nodes of each level that a token attends to on either side.
        causal: whether tokens attend only to themselves and earlier tokens.
        max_length: max length of a text in tokens, which determines the number of edge types.
    """

    near: int = 4
    causal: bool = False
    max_length: int = 8192
    act: str = "relu"
    init_std: float = 0.02


@text_model(BPTransformerConfig, depth=0)
def bp_transformer(config: BPTransformerConfig) -> TextModel:
    """Build a BP-Transformer language model.

    Each token attends, on either side, to ``near`` tokens, then to ``near`` spans of two tokens, of
    four tokens, and so on to the ends of the text; on a level where the next level would start in
    the middle of a span, to one node more. With ``causal``, a cache stores completed spans, so a
    new token attends to O(k log(n / k)) nodes in a text of n tokens.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.bp_transformer(1000)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    width, heads, dropout = config.width, config.heads, config.dropout
    embedding = TextEmbedding(config.vocab_size, width, dropout=dropout)
    layers = [
        TransformerLayer(width, heads, config.ffn_dim, act=config.act, dropout=dropout)
        for _ in range(config.depth)
    ]
    backbone = SpanBackbone(layers, heads, config.near, config.max_length, causal=config.causal)
    head = LanguageModelHead(config.vocab_size, width)
    return init_normal(TextModel(embedding, backbone, head), std=config.init_std)


def nodes_per_level(tokens: int) -> list[int]:
    """Return the number of nodes on each level: tokens, spans of two tokens, spans of four, ..."""
    counts = [tokens]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // 2))
    return counts


@lru_cache(maxsize=64)
def partition_graph(tokens: int, near: int, causal: bool) -> tuple[Graph, Tensor]:
    """Return the graph of tokens, spans of two, of four, and so on, and the type of each edge: 0 is
    a self-loop; then from a token to its span, by level; then to a token, by level, side and
    rank.
    """
    counts = nodes_per_level(tokens)
    first = [sum(counts[:level]) for level in range(len(counts))]
    all_tokens = torch.arange(tokens)
    nodes = torch.arange(sum(counts))
    edge_lists = [(nodes, nodes, torch.zeros_like(nodes))]
    for level in range(1, len(counts)):
        span = first[level] + (all_tokens >> level)
        edge_lists.append((all_tokens, span, torch.full_like(all_tokens, level)))
    for level, node, token, kind in _neighbour_edges(all_tokens, counts, near, causal):
        edge_lists.append((first[level] + node, token, kind))
    source, target, kind = (torch.cat(column) for column in zip(*edge_lists, strict=True))
    return edges(torch.stack([source, target]), len(nodes)), kind


def packed_partitions(
    sizes: tuple[int, ...], near: int, causal: bool
) -> tuple[Graph, Tensor, Tensor]:
    """Return the graph of packed texts of these sizes, the types of its edges, and the indices of
    the tokens among its nodes. The nodes of each text are its tokens, then its spans.
    """
    partitions = [partition_graph(size, near, causal) for size in sizes if size]
    members, edge_types = zip(*partitions, strict=True) if partitions else ((), ())
    graph = members[0] if len(members) == 1 else batch(members)
    kind = torch.cat([torch.zeros(0, dtype=torch.long), *edge_types])
    counts = [[size, sum(nodes_per_level(size)) - size] for size in sizes if size]
    is_token = segment_index(torch.tensor(counts, dtype=torch.long).flatten()) % 2 == 0
    return graph, kind, is_token.nonzero().flatten()


def _neighbour_edges(
    tokens: Tensor, counts: Sequence[int], near: int, causal: bool
) -> Iterator[tuple[int, Tensor, Tensor, Tensor]]:
    """Yield by side and level the level and the source, target and type of the edges to tokens."""
    rank = torch.arange(near + 1)
    for side in (-1, 1) if not causal else (-1,):
        # Nearest node of this level that is not covered by lower levels.
        next_node = tokens + side
        for level, count in enumerate(counts):
            # Add a node if the next level would otherwise start in the middle of a span.
            odd = (next_node + side * near) % 2 == (1 if side > 0 else 0)
            node = next_node[:, None] + side * rank
            is_edge = (node >= 0) & (node < count) & ((rank < near) | odd[:, None])
            row, column = is_edge.nonzero(as_tuple=True)
            first_kind = 1 + MOST_LEVELS + (level * 2 + (side > 0)) * (near + 1)
            yield level, node[row, column], tokens[row], first_kind + column
            covered = near + odd.long()
            next_node = torch.div(next_node + side * covered, 2, rounding_mode="floor")


def growth_graph(past: int, tokens: int, near: int) -> tuple[Graph, Tensor]:
    """Return the edges (and types) to the nodes that new tokens add to a causal text, where each
    token is followed by the spans that end with it, so that older nodes never change.
    """
    counts, edge_lists = nodes_per_level(tokens), []
    for level in range(len(counts)):
        node = torch.arange(past >> level, tokens >> level)
        target = completion_rank(node, level)
        edge_lists.append((target, target, torch.zeros_like(target)))
        if level:
            members = (node[:, None] << level) + torch.arange(1 << level)
            span = target[:, None].expand_as(members)
            edge_lists.append((completion_rank(members), span, torch.full_like(members, level)))
    new_tokens = torch.arange(past, tokens)
    for level, node, token, kind in _neighbour_edges(new_tokens, counts, near, causal=True):
        edge_lists.append((completion_rank(node, level), completion_rank(token), kind))
    source, target, kind = (
        torch.cat([x.flatten() for x in column]) for column in zip(*edge_lists, strict=True)
    )
    num_old, num_nodes = completion_rank(torch.tensor([past, tokens])).tolist()
    return edges(torch.stack([source, target - num_old]), (num_nodes, num_nodes - num_old)), kind


def completion_rank(node: Tensor, level: int = 0) -> Tensor:
    """Return the index of a node in the order of completion; see :func:`growth_graph`."""
    last = ((node + 1) << level) - 1  # last token of the span
    return last + sum(last >> other for other in range(1, MOST_LEVELS)) + level


def kinds(max_length: int, near: int) -> int:
    """Return the number of edge types in texts of up to ``max_length`` tokens."""
    return 1 + MOST_LEVELS + len(nodes_per_level(max_length)) * 2 * (near + 1)


class SpanBackbone(SingleTextBackbone):
    """Stack of layers over tokens and the spans of their binary partition."""

    name = "bp_transformer"

    def __init__(
        self, layers: Sequence[nn.Module], heads: int, near: int, max_length: int, *, causal: bool
    ) -> None:
        super().__init__()
        self.layers, self.near, self.length = nn.ModuleList(layers), near, max_length
        self.causal = self.caches = causal
        self.table = nn.Parameter(torch.randn(kinds(max_length, near), heads) * 0.02)

    def run(self, x: Tensor, sequences: SequenceBatch, _graph: Pattern | None) -> Tensor:
        if sequences.has_padding:
            why = "counts spans from the first token, which padding would shift"
            refuse_cache(self.name, sequences, why=why)
        if sequences.cache is not None:
            return self._continue(x, sequences)
        if sequences.sizes is None and not sequences.has_padding:
            return self._run(x, [index(sequences.count)])
        rows, sizes = sequences.packed()
        if rows is None:
            return self._run(x, sizes)
        states = self._run(x.flatten(0, 1)[rows], sizes)
        return with_padding(states, rows, x)

    def _continue(self, x: Tensor, sequences: SequenceBatch) -> Tensor:
        """Return the states of new tokens; the cache holds all completed nodes."""
        past, tokens = sequences.past, sequences.past + sequences.count
        self._check_length(tokens)
        graph, kind = growth_graph(past, tokens, self.near)
        graph, bias = graph.to(x.device), TableBias(kind.to(x.device), self.table)
        rank = completion_rank(torch.arange(past, tokens, device=x.device))
        rank = rank - (graph.num_sources - graph.num_targets)
        nodes = x.new_zeros(*x.shape[:-2], graph.num_targets, x.shape[-1])
        nodes = nodes.index_copy(-2, rank, x)
        for layer in self.layers:
            nodes = layer(nodes, graph, bias=bias, cache=sequences.cache)
        sequences.advance()
        return nodes.index_select(-2, rank)

    def _check_length(self, tokens: int) -> None:
        if tokens > self.length:
            raise ArgumentError(
                "x",
                expected=f"at most {self.length} tokens per text, the model's max_length",
                got=f"{tokens} tokens",
                remedy="build the model with a larger max_length",
            )

    def _run(self, x: Tensor, sizes: Sequence[int]) -> Tensor:
        """Apply the layers to packed texts of these sizes."""
        self._check_length(max(sizes, default=0))
        graph, kind, tokens = call_for_graph(
            packed_partitions, tuple(sizes), self.near, self.causal
        )
        graph, bias = graph.to(x.device), TableBias(kind.to(x.device), self.table)
        tokens = tokens.to(x.device)
        nodes = x.new_zeros(*x.shape[:-2], graph.num_targets, x.shape[-1])
        nodes = nodes.index_copy(-2, tokens, x)
        for layer in self.layers:
            nodes = layer(nodes, graph, bias=bias)
        return nodes.index_select(-2, tokens)
