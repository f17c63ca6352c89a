"""BigBird, BERT for long texts: blocks that read their neighbours, the ends and random blocks.

Formula: as BERT, x = norm(token + position); x = norm(x + attention(x)); x = norm(x + FFN(x))
Graph: ``expand(window(1) | hubs([0, -1]) | random blocks, size)``, others for each layer and head
Score: Dot (scaled), full projections
Encoding: learned absolute positions
Normalisation: softmax over the neighbourhood; layer norm after each sublayer
Update: residual connection, then a feed-forward network (GELU) with its own
Paper: Zaheer et al., Big Bird: transformers for longer sequences, 2020
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from edgewise import attend, attend_with_lse, merge_attention
from edgewise.arguments import check_choice, checked
from edgewise.checks import bind_graph
from edgewise.encodings import Learned
from edgewise.errors import ArgumentError
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
from edgewise.layers import (
    AttentionBlock,
    FeedForward,
    LanguageModelHead,
    MultiHeadAttention,
    TextEmbedding,
    TextModel,
    init_normal,
)
from edgewise.layers.sequences import Memory, SequenceBatch, refuse_cache, with_padding

Draws = Literal["always", "training"]

PAPER_LENGTHS, PAPER_REACH = (1024, 3072, 4096), 1024
"""Of texts of these lengths random blocks are among the first so many tokens."""


@checked(padding=0, types=0, depth=0, random_blocks=0)
def bigbird(
    vocabulary: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    feed_forward: int = 512,
    block: int = 64,
    random_blocks: int = 3,
    draws: Draws = "always",
    length: int = 4096,
    types: int = 2,
    act: str = "gelu_tanh",
    epsilon: float = 1e-12,
    dropout: float = 0.1,
    token_scale: float = 1.0,
    graph: Pattern | None = None,
) -> TextModel:
    """Build a BigBird encoder with a masked-language-model head.

    ``model.logits(states)`` gives the logits of the masked language model. Each block attends to
    itself, its two neighbours, the first and last blocks and ``random_blocks`` sampled blocks; the
    first and last blocks attend to all. Texts of at most ``5 + 2 * random_blocks`` blocks use full
    attention. With ``draws="training"`` evaluation uses the first block in place of sampled ones,
    as in Hugging Face Transformers.

    Args:
        vocabulary: vocab size: number of token ids.
        width: hidden size.
        depth: number of layers.
        heads: number of attention heads per layer.
        feed_forward: FFN dimension: hidden size of the feed-forward networks.
        block: block size in tokens.
        random_blocks: number of sampled blocks that each block attends to (0 = none).
        draws: when sampled blocks are used: "always", or in "training" only.
        length: max length of a text in tokens: number of learned positions.
        types: number of token types, such as BERT's sentences A and B (0 = none).
        act: activation function of the feed-forward networks, by name.
        epsilon: epsilon of the layer norms.
        dropout: dropout probability.
        token_scale: factor of the token vectors.
        graph: attention graph of all layers, in place of block-sparse attention (None = off).
    """
    check_choice("draws", draws, get_args(Draws))
    norm = partial(nn.LayerNorm, eps=epsilon)
    embedding = TextEmbedding(
        vocabulary,
        width,
        positions=Learned(length, width),
        types=types,
        norm=norm(width),
        dropout=dropout,
        scale=token_scale,
    )
    layers = [
        AttentionBlock(  # norm(x + attention(x)), then norm(x + FFN(x))
            BlockAttention(width, heads, dropout=dropout),
            FeedForward(width, feed_forward, act=act, dropout=dropout),
            width,
            norm=norm,
            dropout=dropout,
        )
        for _ in range(depth)
    ]
    graphs = [BlockSparse(block, random_blocks, heads, layer, length) for layer in range(depth)]
    reader = BigBirdReader(layers, graphs, draws, graph)
    head = LanguageModelHead.for_masked_tokens(vocabulary, width, act=act, norm=norm)
    return init_normal(TextModel(embedding, reader, head))


@lru_cache(maxsize=256)
def draw_blocks(
    blocks: int, heads: int, number: int, *, seed: int, size: int, length: int
) -> Tensor:
    """Which random blocks each block but the first and the last reads, ``[heads, blocks - 2, r]``.

    They are drawn as the authors draw them, from NumPy's generator with this seed: of a text of
    one of ``PAPER_LENGTHS`` among the first 1,024 tokens, of others among the first ``5 + 2 r``
    blocks; block by block and head by head, and none that the block reads already. Of the paper's
    lengths some are drawn that it does read: those then count twice.

    Args:
        blocks: of the text.
        heads: each draws its own.
        number: r.
        seed: of the layer.
        size: of a block.
        length: of the longest text, in tokens.
    """
    generator = np.random.RandomState(seed)
    of_paper = blocks * size in PAPER_LENGTHS
    chosen = np.zeros((heads, blocks - 2, number), dtype=np.int64)
    if of_paper:
        all_blocks = max(length // size, blocks)
        inner = np.arange(1, all_blocks - 1)
        last = PAPER_REACH // size - 1 if 2 * size < PAPER_REACH else all_blocks - 1
        for head in range(heads):
            for row in range(1, all_blocks - 1):
                legal = inner[inner <= last]
                if row < all_blocks - 3:  # the last two may draw what is in their window
                    legal = legal[abs(legal - row) > 1]
                drawn = generator.permutation(legal)[:number]
                if len(drawn) < number:
                    raise ArgumentError(
                        "random_blocks",
                        expected=f"at most {len(drawn)}, for {blocks} blocks of {size} tokens",
                        got=str(number),
                        remedy="choose fewer, or smaller blocks",
                    )
                if row <= blocks - 2:
                    chosen[head, row - 1] = drawn
        return torch.from_numpy(chosen)
    among = 5 + 2 * number
    for row in range(1, blocks):  # the last block draws, too, and reads all
        taken = {0, row - 1, row, row + 1, among - 1}
        taken |= {among - 2} if row == 1 else {1} if row == among - 2 else set()
        for head in range(heads):
            order = generator.permutation(among)
            legal = order[~np.isin(order, list(taken))]
            if row <= blocks - 2:
                chosen[head, row - 1] = legal[:number]
    return torch.from_numpy(chosen)


@dataclass(frozen=True, repr=False)
class BlockSparse(Pattern):
    """BigBird's graph of one layer: of n tokens, or of ``heads`` times n, where heads differ.

    Args:
        size: of a block.
        number: of random blocks that a block reads.
        heads: how many graphs one after the other, one for each head.
        seed: of the layer; ``None`` reads the first block in place of every random one.
        length: of the longest text.
        copy: a block that is drawn twice, or read already, is read twice: this is the graph of
            what is read so many times or more, of which :meth:`copies` gives all.
    """

    size: int
    number: int
    heads: int
    seed: int | None
    length: int
    copy: int = 1

    def is_whole(self, tokens: int) -> bool:
        """Whether a text of so many tokens is read whole."""
        return tokens <= (5 + 2 * self.number) * self.size

    def copies(self, lengths: Iterable[int]) -> list[tuple[BlockSparse, int]]:
        """What is read of texts of so many tokens: patterns, and how many times more each counts.

        The first is of all that is read, once.
        """
        counts = sorted({1}.union(*(self._counts(tokens) for tokens in lengths)))
        more = (count - before for before, count in pairwise([0, *counts]))
        return [
            (replace(self, copy=count), times) for count, times in zip(counts, more, strict=True)
        ]

    def _counts(self, tokens: int) -> list[int]:
        """How many times blocks read others, in a text of so many tokens."""
        if self.is_whole(tokens):
            return [1]
        pairs = self._pairs(-(-tokens // self.size))
        found: list[int] = torch.cat([counts for _, counts in pairs]).unique().tolist()
        return found

    def head_graphs(self, tokens: int, real: int) -> list[Graph]:
        """The graph of each head, of the first ``real`` of so many tokens; the rest is padding."""
        if self.is_whole(tokens):
            whole = complete() if self.copy == 1 else expand(edges(torch.empty(2, 0).long(), 0), 1)
            return [whole.bind(real)] * self.heads
        blocks, kept = -(-tokens // self.size), -(-real // self.size)
        graphs = []
        for keys, counts in self._pairs(blocks):
            chosen = keys[counts >= self.copy]
            pairs = torch.stack([chosen % blocks, chosen // blocks])
            pairs = pairs[:, (pairs < kept).all(0)]
            graphs.append(expand(edges(pairs, kept), self.size).bind(real))
        return graphs

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        if num_targets != num_sources or num_targets % self.heads:
            self._refuse(f"{self.heads} times as many nodes as tokens", num_targets, num_sources)
        tokens = num_targets // self.heads
        heads = self.head_graphs(tokens, tokens)
        return heads[0] if self.heads == 1 else batch(heads)

    def _pairs(self, blocks: int) -> list[tuple[Tensor, Tensor]]:
        """Of each head the pairs of blocks as ``target * blocks + source``, and how often."""
        all_read = (window(1) | hubs([0, -1])).bind(blocks)
        fixed = all_read.target * blocks + all_read.source
        if self.seed is None:
            drawn = torch.zeros(self.heads, blocks - 2, self.number, dtype=torch.long)
        else:
            sizes = {"seed": self.seed, "size": self.size, "length": self.length}
            drawn = draw_blocks(blocks, self.heads, self.number, **sizes)
        keys = drawn + blocks * torch.arange(1, blocks - 1)[:, None]
        return [torch.cat([fixed, own.flatten()]).unique(return_counts=True) for own in keys]


class BlockAttention(MultiHeadAttention):
    """Multi-head attention over a graph, or over one for each head.

    A graph of N nodes is read by every head; one of H · N nodes has a graph for each head, one
    after the other.
    """

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        graph: Graph,
        *,
        repeats: Sequence[tuple[Graph, int]] = (),
        bias: Tensor | None = None,
    ) -> Tensor:
        """``[..., N, width]`` from x of that shape.

        Args:
            x: features.
            graph: who reads whom.
            repeats: what is read so many times more, by the merge law; N or H · N nodes, as
                ``graph``.
            bias: for the edges of ``graph``.
        """
        dropout = self.dropout if self.training else 0.0
        query, key, value, _ = self._project(x, None, None, None)
        by_head = graph.num_targets != x.shape[-2]
        if by_head:
            query, key, value = (_head_after_head(nodes) for nodes in (query, key, value))
        if repeats:
            parts = []
            for part, times in ((graph, 1), *repeats):
                out, lse = attend_with_lse(query, key, value, part, dropout=dropout)
                parts.append((out, lse + math.log(times)))
            out = merge_attention(parts)[0]
        else:
            out = attend(query, key, value, graph, bias=bias, dropout=dropout, layout="NHD")
        if by_head:
            out = out.reshape(*x.shape[:-2], self.heads, x.shape[-2], -1).transpose(-3, -2)
        projected: Tensor = self.output(out.flatten(-2))
        return projected


def _head_after_head(nodes: Tensor) -> Tensor:
    """``[..., H * N, 1, D]`` from ``[..., N, H, D]``."""
    return nodes.transpose(-3, -2).flatten(-3, -2).unsqueeze(-2)


class BigBirdReader(nn.Module):
    """The layers, each on a graph of its own.

    Args:
        layers: called ``layer(x, graph, repeats=)``.
        graphs: of each layer.
        draws: when random blocks are read.
        graph: who reads whom, in place of every layer's own, where a call gives no other.
    """

    caches = False

    def __init__(
        self,
        layers: Sequence[nn.Module],
        graphs: Sequence[BlockSparse],
        draws: Draws,
        graph: Pattern | None = None,
    ) -> None:
        super().__init__()
        self.layers, self.graphs, self.draws = nn.ModuleList(layers), list(graphs), draws
        self.graph = graph if graph is None else check_graph(graph)

    def forward(
        self,
        x: Tensor,
        sequences: SequenceBatch | None = None,
        *,
        graph: Pattern | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """States of x, of its shape; those of padding are 0, or count for nothing.

        A padded text has the blocks of the length that it is padded to, as in transformers; one of
        a packed batch has its own.

        Args:
            x: features ``[B, T, width]``, or ``[N, width]`` of a packed batch.
            sequences: padding, packing and positions.
            graph: who reads whom, in place of every layer's own.
            memory: none.
        """
        sequences = sequences or SequenceBatch.of_features(x)
        refuse_cache("bigbird", sequences, memory)
        graph = self.graph if graph is None else graph
        if graph is not None:
            x, sequences, back = sequences.without_padding(x, graph)
            own = sequences.bind(graph)
            bias = sequences.padding_bias(own, x)
            for layer in self.layers:
                x = layer(x, own, bias=bias)
            return back(x)
        if sequences.sizes is None and not sequences.has_padding:
            return self._run(x, None)
        rows, sizes = sequences.packed()
        if rows is None:
            return self._run(x, [(size, size) for size in sizes])
        _check_padding_is_last(sequences)
        states = self._run(x.flatten(0, 1)[rows], [(sequences.count, size) for size in sizes])
        return with_padding(states, rows, x)

    def _run(self, x: Tensor, texts: list[tuple[int, int]] | None) -> Tensor:
        """Of a packed batch ``texts`` are the length of each, with padding and without."""
        count = x.shape[-2]
        for layer, graph in zip(self.layers, self.graphs, strict=True):
            if self.draws == "training" and not self.training:
                graph = replace(graph, heads=1, seed=None)  # noqa: PLW2901 - the same for all heads
            lengths = {count} if texts is None else {tokens for tokens, _ in texts}
            if all(graph.is_whole(tokens) for tokens in lengths):
                graph = replace(graph, heads=1)  # noqa: PLW2901
            copies, nodes = graph.copies(lengths), graph.heads * count
            if texts is None:
                reads = [(bind_graph(one, nodes, nodes, x.device), times) for one, times in copies]
            else:
                reads = [(_of_texts(one, texts).to(x.device), times) for one, times in copies]
            x = layer(x, reads[0][0], repeats=reads[1:])
        return x


def _of_texts(pattern: BlockSparse, texts: list[tuple[int, int]]) -> Graph:
    """The graphs of all texts, head by head."""
    of_text = [pattern.head_graphs(tokens, real) for tokens, real in texts]
    return batch([heads[head] for head in range(pattern.heads) for heads in of_text])


def _check_padding_is_last(sequences: SequenceBatch) -> None:
    if any(extent.size and extent.first for extent in sequences.extents):
        raise ArgumentError(
            "attention_mask",
            expected="padding after the tokens of a text, as its blocks are counted from the start",
            got="padding before them",
            remedy="pad the texts on the right",
        )
