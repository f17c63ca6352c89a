"""BigBird: BERT for long texts, with attention to local, global and random blocks of tokens.

Formula: as BERT, x = norm(token + position); x = norm(x + attention(x)); x = norm(x + FFN(x))
Graph: ``expand(window(1) | hubs([0, -1]) | random blocks, size)``, sampled per layer and head
Score: ``Dot`` (scaled dot product); each head projects all features
Encoding: learned absolute positions
Normalisation: softmax over the neighbourhood; layer norm after each sublayer
Update: residual connections around attention and around the feed-forward network (GELU)
Paper: Zaheer et al., Big Bird: transformers for longer sequences, 2020
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from operator import index
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from edgewise import attend, attend_with_lse, merge_attention
from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError
from edgewise.attention.hooks import Nodes, nodes_are
from edgewise.encodings import Learned
from edgewise.graphs import (
    Graph,
    Pattern,
    batch,
    check_graph,
    complete,
    edges,
    expand,
    hubs,
    window,
)
from edgewise.graphs.graph import call_for_graph
from edgewise.layers import (
    AttentionBlock,
    FeedForward,
    LanguageModelHead,
    MultiHeadAttention,
    TextEmbedding,
    TextModel,
    init_normal,
)
from edgewise.layers.single_text import SingleTextBackbone
from edgewise.layers.text import SequenceBatch, with_padding
from edgewise.models.text import TextConfig, text_model

RandomAttention = Literal["always", "training"]

PAPER_LENGTHS, PAPER_REACH = (1024, 3072, 4096), 1024
"""Text lengths in tokens for which the authors' code samples random blocks from the first
``PAPER_REACH`` tokens."""


@dataclass(frozen=True, kw_only=True)
class BigBirdConfig(TextConfig):
    """Arguments of :func:`bigbird`.

    Args:
        block: block size in tokens.
        random_blocks: number of sampled blocks that each block attends to (0 = none).
        random_attention: when sampled blocks are used: "always", or in "training" only.
        token_scale: factor of the token embeddings, applied before positions are added.
        graph: attention graph of all layers (None = block-sparse attention).
    """

    block: int = 64
    random_blocks: int = 3
    random_attention: RandomAttention = "always"
    max_length: int = 4096
    types: int = 2
    act: str = "gelu_tanh"
    epsilon: float = 1e-12
    token_scale: float = 1.0
    graph: Pattern | None = None


@text_model(BigBirdConfig, padding=0, types=0, depth=0, random_blocks=0)
def bigbird(config: BigBirdConfig) -> TextModel:
    """Build a BigBird encoder with a masked-language-model head.

    Each block attends to itself, its two neighbours, the first and the last block, and
    ``random_blocks`` sampled blocks. The first and the last block attend to all blocks. Texts of at
    most ``5 + 2 * random_blocks`` blocks use full attention. With ``random_attention="training"``,
    evaluation replaces every sampled block by the first block, whose tokens then count
    ``random_blocks`` additional times in the softmax, as in Hugging Face Transformers.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.bigbird(1000, block=16)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    width, max_length = config.width, config.max_length
    check_choice("random_attention", config.random_attention, get_args(RandomAttention))
    norm = partial(nn.LayerNorm, eps=config.epsilon)
    embedding = TextEmbedding(
        config.vocab_size,
        width,
        positions=Learned(max_length, width),
        types=config.types,
        norm=norm(width),
        dropout=config.dropout,
        scale=config.token_scale,
    )
    layers = [
        AttentionBlock(  # norm(x + attention(x)), then norm(x + FFN(x))
            BlockAttention(width, config.heads, dropout=config.dropout),
            FeedForward(width, config.ffn_dim, act=config.act, dropout=config.dropout),
            width,
            norm=norm,
            dropout=config.dropout,
        )
        for _ in range(config.depth)
    ]
    graphs = [
        BlockSparse(config.block, config.random_blocks, config.heads, layer, max_length)
        for layer in range(config.depth)
    ]
    backbone = BigBirdBackbone(layers, graphs, config.random_attention, config.graph)
    head = LanguageModelHead.for_masked_tokens(config.vocab_size, width, act=config.act, norm=norm)
    return init_normal(TextModel(embedding, backbone, head))


@lru_cache(maxsize=256)
def sample_blocks(
    blocks: int, heads: int, num_random: int, *, seed: int, size: int, max_length: int
) -> Tensor:
    """Return the r random blocks of each inner block, ``[heads, blocks - 2, r]``, as in the
    authors' code: from the first 1,024 tokens for ``PAPER_LENGTHS``, where they may repeat
    blocks that are attended to anyway, else from the first ``5 + 2 r`` blocks.
    """
    generator = np.random.RandomState(seed)
    sampled = np.zeros((heads, blocks - 2, num_random), dtype=np.int64)
    if blocks * size in PAPER_LENGTHS:
        all_blocks = max(max_length // size, blocks)
        inner = np.arange(1, all_blocks - 1)
        last = PAPER_REACH // size - 1 if 2 * size < PAPER_REACH else all_blocks - 1
        for head in range(heads):
            for row in range(1, all_blocks - 1):
                candidates = inner[inner <= last]
                # As in the authors' code, the window is not excluded for the last two blocks.
                if row < all_blocks - 3:
                    candidates = candidates[abs(candidates - row) > 1]
                chosen = generator.permutation(candidates)[:num_random]
                if len(chosen) < num_random:
                    raise ArgumentError(
                        "random_blocks",
                        expected=f"at most {len(chosen)}, for {blocks} blocks of {size} tokens",
                        got=str(num_random),
                        remedy="choose fewer random blocks, or smaller blocks",
                    )
                if row <= blocks - 2:
                    sampled[head, row - 1] = chosen
        return torch.from_numpy(sampled)
    num_candidates = 5 + 2 * num_random
    # As in the authors' code, blocks are also sampled for the last block and discarded, which keeps
    # the random generator in the same state.
    for row in range(1, blocks):
        excluded = {0, row - 1, row, row + 1, num_candidates - 1}
        if row == 1:
            excluded.add(num_candidates - 2)
        elif row == num_candidates - 2:
            excluded.add(1)
        for head in range(heads):
            order = generator.permutation(num_candidates)
            candidates = order[~np.isin(order, list(excluded))]
            if row <= blocks - 2:
                sampled[head, row - 1] = candidates[:num_random]
    return torch.from_numpy(sampled)


@dataclass(frozen=True, repr=False)
class BlockSparse(Pattern):
    """Block-sparse pattern of one layer, on ``heads`` copies of the tokens; without ``seed``, of
    the first block instead of random ones. ``copy`` is how often an edge must have been sampled.
    """

    size: int
    num_random: int
    heads: int
    seed: int | None
    length: int
    copy: int = 1

    def is_whole(self, tokens: int) -> bool:
        """Return whether a text of ``tokens`` tokens uses full attention."""
        return tokens <= (5 + 2 * self.num_random) * self.size

    def copies(self, lengths: Iterable[int]) -> list[tuple[BlockSparse, int]]:
        """Return patterns and weights; pairs of blocks sampled c times have total weight c."""
        counts = sorted({1}.union(*(self._counts(tokens) for tokens in lengths)))
        return [
            (replace(self, copy=count), count - previous)
            for previous, count in pairwise([0, *counts])
        ]

    def _counts(self, tokens: int) -> list[int]:
        """Return the distinct numbers of times that pairs of blocks occur in a text."""
        if self.is_whole(tokens):
            return [1]
        pairs = self._pairs(-(-tokens // self.size))
        distinct: list[int] = torch.cat([counts for _, counts in pairs]).unique().tolist()
        return distinct

    def head_graphs(self, tokens: int, real: int) -> list[Graph]:
        """Return the graph of each head over the real tokens of a padded text."""
        if self.is_whole(tokens):
            full = complete() if self.copy == 1 else expand(edges(torch.empty(2, 0).long(), 0), 1)
            return [full.bind(real)] * self.heads
        blocks, real_blocks = -(-tokens // self.size), -(-real // self.size)
        graphs = []
        for keys, counts in self._pairs(blocks):
            repeated = keys[counts >= self.copy]
            pairs = torch.stack([repeated % blocks, repeated // blocks])
            pairs = pairs[:, (pairs < real_blocks).all(0)]
            graphs.append(expand(edges(pairs, real_blocks), self.size).bind(real))
        return graphs

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        if num_targets != num_sources or num_targets % self.heads:
            self._refuse(f"{self.heads} times as many nodes as tokens", num_targets, num_sources)
        tokens = num_targets // self.heads
        heads = self.head_graphs(tokens, tokens)
        return heads[0] if self.heads == 1 else batch(heads)

    def _pairs(self, blocks: int) -> list[tuple[Tensor, Tensor]]:
        """Return each head's pairs of blocks, as ``target * blocks + source``, and their counts."""
        local_and_global = (window(1) | hubs([0, -1])).bind(blocks)
        fixed = local_and_global.target * blocks + local_and_global.source
        if self.seed is None:
            sampled = torch.zeros(self.heads, blocks - 2, self.num_random, dtype=torch.long)
        else:
            options = {"seed": self.seed, "size": self.size, "max_length": self.length}
            sampled = sample_blocks(blocks, self.heads, self.num_random, **options)
        keys = sampled + blocks * torch.arange(1, blocks - 1)[:, None]
        return [torch.cat([fixed, head.flatten()]).unique(return_counts=True) for head in keys]


class BlockAttention(MultiHeadAttention):
    """Multi-head attention on block-sparse graphs, by :func:`attend_to_blocks`."""

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        graph: Graph,
        *,
        repeats: Sequence[tuple[Graph, int]] = (),
        bias: Tensor | None = None,
    ) -> Tensor:
        """Return features ``[..., N, width]`` from x of the same shape."""
        dropout = self.dropout if self.training else 0.0
        query, key, value, _ = self._project(x, None, None, None)
        out = attend_to_blocks(query, key, value, graph, repeats, bias=bias, dropout=dropout)
        projected: Tensor = self.output(out.flatten(-2))
        return projected


def attend_to_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    graph: Graph,
    repeats: Sequence[tuple[Graph, int]] = (),
    *,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Return attention ``[..., N, H, D]`` on a graph of N nodes, or of H · N nodes by head.

    The edges of each graph in ``repeats`` count that many times in the same softmax.
    """
    count, heads = query.shape[-3:-1]
    by_head = graph.num_targets != count
    if by_head:
        query, key, value = (_heads_to_nodes(nodes) for nodes in (query, key, value))
    described = nodes_are(lambda: Nodes.of_heads(heads, count, query.device))
    with described if by_head else nullcontext():
        if repeats:
            outputs = []
            for repeated, times in ((graph, 1), *repeats):
                out, lse = attend_with_lse(query, key, value, repeated, dropout=dropout)
                outputs.append((out, lse + math.log(times)))
            out = merge_attention(outputs)[0]
        else:
            out = attend(query, key, value, graph, bias=bias, dropout=dropout, layout="NHD")
    if by_head:
        out = out.reshape(*out.shape[:-3], heads, count, -1).transpose(-3, -2)
    return out


def _heads_to_nodes(nodes: Tensor) -> Tensor:
    """Reshape ``[..., N, H, D]`` to ``[..., H * N, 1, D]``."""
    return nodes.transpose(-3, -2).flatten(-3, -2).unsqueeze(-2)


class BigBirdBackbone(SingleTextBackbone):
    """Stack of layers with one block-sparse pattern per layer."""

    name, takes_graph = "bigbird", True

    def __init__(
        self,
        layers: Sequence[nn.Module],
        graphs: Sequence[BlockSparse],
        random_attention: RandomAttention,
        graph: Pattern | None = None,
    ) -> None:
        super().__init__()
        self.layers, self.graphs = nn.ModuleList(layers), list(graphs)
        # Without random blocks, all heads share one pattern.
        self.graphs_without_random = [replace(pattern, heads=1, seed=None) for pattern in graphs]
        self.random_attention = random_attention
        self.graph = graph if graph is None else check_graph(graph)

    def run(self, x: Tensor, sequences: SequenceBatch, graph: Pattern | None) -> Tensor:
        """Return the states of x; those of padding are meaningless. Blocks follow from the padded
        length, as in Hugging Face Transformers, or from the length of each packed text.
        """
        graph = self.graph if graph is None else graph
        if graph is not None:
            x, sequences, back = sequences.without_padding(x, graph)
            bound = sequences.bind(graph)
            bias = sequences.padding_bias(bound, x)
            for layer in self.layers:
                x = layer(x, bound, bias=bias)
            return back(x)
        if sequences.sizes is None and not sequences.has_padding:
            return self._run(x, None)
        rows, sizes = sequences.packed()
        if rows is None:
            return self._run(x, tuple((size, size) for size in sizes))
        _check_padding_is_last(sequences)
        texts = tuple((sequences.count, size) for size in sizes)
        states = self._run(x.flatten(0, 1)[rows], texts)
        return with_padding(states, rows, x)

    def _run(self, x: Tensor, texts: tuple[tuple[int, int], ...] | None) -> Tensor:
        """Apply the layers."""
        count = index(x.shape[-2])
        is_random = self.training or self.random_attention == "always"
        patterns = self.graphs if is_random else self.graphs_without_random
        for layer, pattern in zip(self.layers, patterns, strict=True):
            graphs = [
                (graph.to(x.device), times)
                for graph, times in call_for_graph(block_graphs, pattern, count, texts)
            ]
            x = layer(x, graphs[0][0], repeats=graphs[1:])
        return x


def block_graphs(
    pattern: BlockSparse, count: int, texts: tuple[tuple[int, int], ...] | None
) -> list[tuple[Graph, int]]:
    """Return a graph whose edges count once, and graphs whose edges count several more times.

    Each is the concatenation of the graphs of all heads, over all texts, given by their numbers of
    tokens with and without padding, or over one text of ``count`` tokens.
    """
    lengths = {count} if texts is None else {tokens for tokens, _ in texts}
    if all(pattern.is_whole(tokens) for tokens in lengths):
        pattern = replace(pattern, heads=1)
    graphs = []
    for copies, times in pattern.copies(lengths):
        if texts is None:
            graph = copies.bind(copies.heads * count)
        else:
            by_text = [copies.head_graphs(tokens, real) for tokens, real in texts]
            graph = batch([by_head[head] for head in range(copies.heads) for by_head in by_text])
        graphs.append((graph, times))
    return graphs


def _check_padding_is_last(sequences: SequenceBatch) -> None:
    if any(extent.size and extent.first for extent in sequences.extents):
        raise ArgumentError(
            "attention_mask",
            expected="padding at the end of a text, because blocks are counted from the start of a "
            "text",
            got="padding before the tokens",
            remedy="pad the texts on the right",
        )
