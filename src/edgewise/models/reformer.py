"""Reformer: locality-sensitive hashing (LSH) attention over chunks of tokens sorted by bucket.

Formula: y1 = x1 + attention(norm(x2)); y2 = x2 + FFN(norm(y1)); first x1 = x2 = token + position
Graph: chunks and their neighbours, with tokens sorted by bucket argmax([q R; -q R]), R random
Score: ``Dot`` without scale, key = query / |query|; in local layers ``Dot`` (scaled)
Encoding: learned, or axial (a vector of the row and a vector of the column, concatenated)
Normalisation: one softmax over the sources of all hash rounds; layer norm before each sublayer
Update: two residual streams, as in reversible networks
Paper: Kitaev et al., Reformer: the efficient Transformer, 2020
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise import attend_with_lse
from edgewise._utils.arguments import check_choice, check_given, check_range
from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import runs_and_positions, starts
from edgewise.attention.hooks import Nodes, intercepted, is_intercepted, nodes_are
from edgewise.encodings import Learned
from edgewise.engines.merge import softmax_with_lse
from edgewise.graphs import Graph, Pattern, Permuted, Runs, batch, causal, complete, edges, expand
from edgewise.layers import (
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

KINDS = ("local", "lsh")


@dataclass(frozen=True, kw_only=True)
class ReformerConfig(TextConfig):
    """Arguments of :func:`reformer`.

    Args:
        width: hidden size of each of the two streams.
        kinds: attention types, assigned to the layers in turn: "lsh" (chunks of tokens sorted by
            bucket) or "local" (chunks of tokens in text order).
        chunk: chunk size of LSH attention in tokens. A text of up to one chunk has full attention.
        local_chunk: chunk size of local attention in tokens.
        num_chunks_before: number of preceding chunks that a token attends to, with wrap-around.
        num_chunks_after: number of following chunks that a token attends to, with wrap-around.
        num_buckets: even number of hash buckets, or a tuple of even numbers whose product is this
            number (None = the largest power of two up to twice the number of chunks).
        num_hashes: number of hash rounds.
        hash_seed: random seed of the hashes (None = sampled anew in each training step, and seed 0
            in evaluation).
        causal: whether later tokens are masked.
        axial: numbers of rows and columns of axial positions (None = learned positions).
        axial_widths: sizes of the axial embeddings, which sum to ``width`` (None = equal halves).
    """

    head_width: int | None = None
    kinds: tuple[str, ...] = KINDS
    chunk: int = 64
    local_chunk: int = 64
    num_chunks_before: int = 1
    num_chunks_after: int = 0
    num_buckets: int | tuple[int, ...] | None = None
    num_hashes: int = 4
    hash_seed: int | None = None
    causal: bool = True
    max_length: int = 4096
    axial: tuple[int, ...] | None = None
    axial_widths: tuple[int, ...] | None = None
    act: str = "relu"
    epsilon: float = 1e-12
    dropout: float = 0.05
    init_std: float = 0.02


@text_model(ReformerConfig, depth=0, num_chunks_before=0, num_chunks_after=0, hash_seed=0)
def reformer(config: ReformerConfig) -> TextModel:
    """Build a Reformer language model with states ``[..., 2 * width]``.

    If padding adds a chunk to a text, its result changes, as in Hugging Face Transformers: the
    first chunk of a hash round attends to the last chunk of the previous round, which then holds
    padding, and the number of buckets may change. If padding adds no chunk, or texts are
    concatenated without padding (``sizes=``), results agree.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.reformer(1000)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 256])
    """
    width, heads, dropout, max_length = (
        config.width,
        config.heads,
        config.dropout,
        config.max_length,
    )
    kinds = config.kinds
    check_given("kinds", tuple(kinds), 'one or more of "lsh" and "local"', 'use ("local", "lsh")')
    for kind in kinds:
        check_choice("kinds", kind, KINDS)
    if config.axial is not None:
        axial_widths = config.axial_widths or (width // 2, width - width // 2)
        positions: nn.Module = Axial(config.axial, axial_widths, width)
    else:
        positions = Learned(max_length, width)
    embedding = TextEmbedding(config.vocab_size, width, positions=positions, dropout=dropout)
    norm = partial(nn.LayerNorm, eps=config.epsilon)
    layer_kinds = [kinds[layer % len(kinds)] for layer in range(config.depth)]
    neighbours = config.num_chunks_before, config.num_chunks_after, config.causal
    chunks = {
        "local": Chunks(config.local_chunk, *neighbours),
        "lsh": Chunks(config.chunk, *neighbours),
    }
    hashing = Hashing(config.num_buckets, config.num_hashes, config.hash_seed, max_length)
    head_width = config.head_width
    layers = [
        ReversibleLayer(
            LSHAttention(width, heads, head_width, chunks["lsh"], hashing, dropout=dropout)
            if kind == "lsh"
            else LocalAttention(width, heads, head_width, chunks["local"], dropout=dropout),
            FeedForward(width, config.ffn_dim, act=config.act, dropout=dropout),
            norm(width),
            norm(width),
            dropout=dropout,
        )
        for kind in layer_kinds
    ]
    last_norm = nn.Sequential(norm(2 * width), nn.Dropout(dropout))
    sizes = {chunks[kind].size for kind in layer_kinds} or {1}
    backbone = ReformerBackbone(layers, last_norm, sizes)
    head = LanguageModelHead(config.vocab_size, 2 * width, tied=False)
    model = TextModel(embedding, backbone, head, width=2 * width)
    return init_normal(model, std=config.init_std)


class Axial(nn.Module):
    r"""Add axial position embeddings, :math:`x_p + [R_{p \div c}; C_{p \bmod c}]` (c columns)."""

    def __init__(self, shape: Sequence[int], widths: Sequence[int], width: int) -> None:
        super().__init__()
        if len(shape) != 2 or len(widths) != 2 or sum(widths) != width:
            raise ArgumentError(
                "axial_widths",
                expected="the sizes of the row vectors and of the column vectors, which sum to the "
                f"width {width}, and two numbers in axial",
                got=f"axial_widths={tuple(widths)} and axial={tuple(shape)}",
                remedy="choose for example axial=(64, 64) and axial_widths="
                f"{(width // 2, width - width // 2)}",
            )
        self.row = nn.Parameter(torch.randn(shape[0], widths[0]) * 0.02)
        self.column = nn.Parameter(torch.randn(shape[1], widths[1]) * 0.02)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return x ``[..., T, width]`` plus embeddings of positions, by default 0 … T - 1."""
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)
        rows, columns = len(self.row), len(self.column)
        if positions.numel() and int(positions.max()) >= rows * columns:
            raise ArgumentError(
                "x",
                expected=f"at most {rows * columns} tokens, the product of the numbers in axial",
                got=f"{int(positions.max()) + 1} tokens",
                remedy="build the model with larger numbers in axial",
            )
        row = torch.div(positions, columns, rounding_mode="floor")
        return x + torch.cat([self.row[row], self.column[positions % columns]], -1)


@dataclass(frozen=True)
class Chunks:
    """Chunk size in tokens, and number of chunks attended to before and after, with wrap-around."""

    size: int
    before: int
    after: int
    causal: bool

    def read(self, count: int) -> list[int]:
        """Return offsets, modulo ``count`` chunks, from a chunk to the chunks it attends to."""
        return sorted({step % count for step in range(-self.before, self.after + 1)})


@dataclass(frozen=True)
class Texts:
    """Lengths with padding, in whole chunks if long, and without; and whether texts are packed."""

    lengths: list[int]
    sizes: list[int]
    packed: bool


@dataclass(frozen=True)
class Hashing:
    """Parameters of the hash functions; ``max_length`` decides if buckets are factorised."""

    num_buckets: int | tuple[int, ...] | None
    rounds: int
    seed: int | None
    max_length: int

    def __post_init__(self) -> None:
        for factor in self.factors(1, 1) if self.num_buckets is not None else ():
            check_range(
                "num_buckets",
                factor,
                "choose at least 2, the two sides of one hyperplane",
                least=2,
                integer=True,
            )
            if factor % 2:
                raise ArgumentError(
                    "num_buckets",
                    expected="an even number, because each direction is used with its opposite",
                    got=str(factor),
                    remedy="make each number in num_buckets even",
                )

    def factors(self, max_length: int, chunk: int) -> tuple[int, ...]:
        """Return the factors of the number of buckets."""
        if isinstance(self.num_buckets, int):
            return (self.num_buckets,)
        if self.num_buckets is not None:
            return tuple(self.num_buckets)
        power = (2 * (max_length // chunk)).bit_length() - 1
        if 2**power > 2 * max(math.isqrt(self.max_length // chunk), chunk):
            return 2 ** (power // 2), 2 ** (power - power // 2)
        return (2**power,)

    def rotations(self, heads: int, factors: Sequence[int], like: Tensor, training: bool) -> Tensor:
        """Return the random matrices R of the hash functions."""
        shape = (heads, like.shape[-1], self.rounds, sum(factors) // 2)
        if self.seed is None and training:
            return torch.randn(shape, dtype=like.dtype, device=like.device)
        generator = torch.Generator().manual_seed(self.seed or 0)
        return torch.randn(shape, dtype=like.dtype, generator=generator).to(like.device)


def hash_buckets(x: Tensor, rotation: Tensor, factors: Sequence[int]) -> Tensor:
    r"""Return the bucket of each vector, :math:`h(x) = \mathrm{argmax}([x R; -x R])`."""
    bucket = torch.zeros(x.shape[:-1], dtype=torch.long, device=x.device)
    product = 1
    halves = [factor // 2 for factor in factors]
    for factor, turned in zip(factors, (x @ rotation).split(halves, -1), strict=True):
        # The argmax of [x R; -x R] follows from the argmax of |x R| and the sign of that entry.
        greatest = turned.abs().argmax(-1, keepdim=True)
        opposite = turned.gather(-1, greatest) < 0
        bucket = bucket + product * (greatest + factor // 2 * opposite).squeeze(-1)
        product *= factor
    return bucket


class SortedSlots:
    """Slots sorted by text, then by bucket. The chunks of all rounds of a text form one ring. For
    each text: size and first slot; for each slot: text, rank and chunk.
    """

    def __init__(
        self,
        texts: Sequence[tuple[int, int, int]],
        rounds: int,
        chunks: Chunks,
        device: torch.device,
    ) -> None:
        described = torch.tensor(texts, dtype=torch.long, device=device).view(-1, 3)
        self.size, self.chunk_count, self.chunk_size = described.unbind(1)
        self.rounds, self.chunks, self.first = rounds, chunks, starts(self.size)
        total = sum(size for size, _, _ in texts)
        self.text, self.rank = runs_and_positions(self.size, total)
        self.chunk = torch.div(self.rank, self.chunk_size[self.text], rounding_mode="floor")
        self.steps = torch.arange(-chunks.before, chunks.after + 1, device=device)

    def in_line(self) -> Ends:
        """Return the range of slots that each slot attends to in its round, without wrap-around."""
        slot = torch.arange(len(self.text), device=self.text.device)
        last = self.chunk_count[self.text] - 1
        low = (self.chunk + self.steps[0]).clamp(min=0)
        high = torch.minimum(self.chunk + self.steps[-1], last)
        return slot, self._ends(low, self.text)[0], self._ends(high, self.text)[1]

    def over_ends(self) -> tuple[Tensor, Ends]:
        """Return the attended slots beyond the ends of a round: other rounds and wrap-around."""
        count, chunk_count = len(self.text), self.chunk_count[self.text]
        near, far = self.chunk + self.steps[0] < 0, self.chunk + self.steps[-1] >= chunk_count
        number = torch.arange(self.rounds * count, device=near.device).view(self.rounds, count)
        reader = number[:, near | far].flatten()
        text, chunk = self.text[reader % count], self.chunk[reader % count]
        ahead, ring = reader // count * self.chunk_count[text], self.rounds * self.chunk_count[text]
        there = chunk[:, None] + self.steps
        over = (there < 0) | (there >= self.chunk_count[text][:, None])
        # Attend to each chunk once; chunks of the same round are in ``in_line``.
        there = (2 * ((ahead[:, None] + there) % ring[:, None]) + over).sort(1).values
        new = there % 2 == 1
        new[:, 1:] &= there[:, 1:] // 2 != there[:, :-1] // 2
        row, column = new.nonzero(as_tuple=True)
        there, text = there[row, column] // 2, text[row]
        begin, end = self._ends(there % self.chunk_count[text], text)
        ahead = there // self.chunk_count[text] * count
        some = begin < end
        return reader, (row[some], (ahead + begin)[some], (ahead + end)[some])

    def _ends(self, chunk: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first slot of each chunk, and the slot after its last slot."""
        begin = torch.minimum(chunk * self.chunk_size[text], self.size[text])
        end = torch.minimum(begin + self.chunk_size[text], self.size[text])
        return self.first[text] + begin, self.first[text] + end


@dataclass(frozen=True, repr=False)
class OthersInLine(Pattern):
    r"""Pattern within a hash round, the same in all: slot i attends to j ≠ i in near chunks."""

    texts: tuple[tuple[int, int, int], ...]
    chunks: Chunks

    def __repr__(self) -> str:
        return f"OthersInLine({len(self.texts)} texts, {self.chunks})"

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        slots = SortedSlots(self.texts, 1, self.chunks, torch.device("cpu"))
        ends = _joined(_to_others(slots.in_line(), torch.arange(num_targets)))
        return Runs(*ends, num_targets, num_sources, segments=(slots.size, slots.size))


@dataclass(frozen=True)
class SortedGraphs:
    """Tokens in the slots ``[rounds, N]``; the edges within each round; and the edges across
    rounds, from slots ``read`` to slots ``reader`` (``round * N + slot``).
    """

    node: Tensor
    within: Sequence[Graph]
    across: Graph
    reader: Tensor
    read: Tensor


@torch.no_grad()
def sorted_graphs(
    bucket: Tensor, texts: Sequence[tuple[int, int, int]], chunks: Chunks
) -> SortedGraphs:
    """Sort tokens by bucket ``[rounds, N]`` and return their graphs, in O(n log n) time. A token
    attends to itself only if it has no other source in any round.
    """
    (rounds, count), device = bucket.shape, bucket.device
    slots = SortedSlots(texts, rounds, chunks, device)
    most = int(bucket.max()) + 1 if bucket.numel() else 1
    key = slots.text * most + bucket
    node = torch.stack([of_round.argsort(stable=True) for of_round in key])
    reader, stretches = slots.over_ends()
    slot = torch.arange(count, device=device)
    slot_of = torch.empty_like(node).scatter_(1, node, slot.expand_as(node))
    within: Sequence[Graph]
    if chunks.causal:
        line, sizes = slots.in_line(), (slots.size, slots.size)
        token, bucket = slots.rank[node], bucket.gather(1, node)
        pieces = torch.ones_like(node, dtype=torch.bool)
        pieces[:, 1:] = bucket[:, 1:] != bucket[:, :-1]
        pieces[:, 1:] |= slots.chunk[1:] != slots.chunk[:-1]
        pieces[:, slots.first[slots.size > 0]] = True
        ranges = [
            _to_earlier(line, round_pieces, round_token, round_token)
            for round_pieces, round_token in zip(pieces, token, strict=True)
        ]
        within = [Runs(*_joined(ends), count, count, segments=sizes) for ends in ranges]
        token = token.flatten()
        ends = _to_earlier(stretches, pieces.flatten(), token, token[reader])
    else:
        within = [OthersInLine(tuple(texts), chunks).bind(count).to(device)] * rounds
        row, begin, _ = stretches
        in_round = begin // max(count, 1)
        itself = slot_of[in_round, node.flatten()[reader[row]]]
        ends = _to_others(stretches, in_round * count + itself)

    row, begin, end = _joined(ends)
    reads = torch.zeros(count, dtype=torch.bool, device=device)
    reads[node.flatten()[reader[row]]] = True
    for round_node, graph in zip(node, within, strict=True):
        reads[round_node] |= graph.in_degree() > 0
    alone = slot_of[0, ~reads]
    row = torch.cat([row, len(reader) + torch.arange(len(alone), device=device)])
    begin, end = torch.cat([begin, alone]), torch.cat([end, alone + 1])
    reader = torch.cat([reader, alone])
    row_at, row = row.unique_consecutive(return_inverse=True)
    step = torch.zeros(rounds * count + 1, dtype=torch.long, device=device)
    step.index_add_(0, begin, torch.ones_like(begin)).index_add_(0, end, -torch.ones_like(end))
    is_read = step.cumsum(0)[:-1] > 0
    number = is_read.cumsum(0) - 1
    reader, read = reader[row_at], is_read.nonzero().flatten()
    across = Runs(row, number[begin], number[end - 1] + 1, len(reader), len(read))
    return SortedGraphs(node, within, across, reader, read)


Ends = tuple[Tensor, Tensor, Tensor]
"""Index ranges of sources, sorted by target: the target row, start and end of each range."""


def _to_others(stretches: Ends, itself: Tensor) -> Ends:
    """Remove each target's own slot, ``itself``, from its ranges of source slots."""
    row, begin, end = stretches
    cut = itself.where((begin <= itself) & (itself < end), end)
    start, stop = torch.stack([begin, cut + 1], 1), torch.stack([cut, end], 1)
    return row.repeat_interleave(2), start.flatten(), stop.flatten()


def _to_earlier(stretches: Ends, pieces: Tensor, token: Tensor, target_token: Tensor) -> Ends:
    """Restrict source slots to earlier tokens: one range for each piece (bucket within a chunk)."""
    row, begin, end = stretches
    piece_start = pieces.nonzero().flatten()
    number, most = pieces.cumsum(0) - 1, len(token) + 1
    # The values increase along the sequence, as torch.searchsorted requires.
    line = number * most + token
    stretch, rank = runs_and_positions(number[end - 1] - number[begin] + 1)
    row, piece = row[stretch], number[begin][stretch] + rank
    return row, piece_start[piece], torch.searchsorted(line, piece * most + target_token[row])


def _joined(ends: Ends) -> Ends:
    """Drop empty ranges, and join adjacent ranges of the same target row."""
    row, start, stop = ends
    some = start < stop
    row, start, stop = row[some], start[some], stop[some]
    first = torch.ones_like(some[some])
    first[1:] = (row[1:] != row[:-1]) | (start[1:] != stop[:-1])
    last = torch.ones_like(first)
    last[:-1] = first[1:]
    return row[first], start[first], stop[last]


class LSHAttention(nn.Module):
    r"""LSH attention with shared queries and keys.

    .. math:: o_i = \sum_r w_{ir} \, \mathrm{attend}_r(q_i,\; q_j / |q_j|,\; v_j), \quad j \ne i

    The weights :math:`w_{ir}` of the hash rounds r are those of one softmax over the sources of all
    rounds. A token without other sources attends to itself. Each round is a separate call over a
    :class:`~edgewise.graphs.Permuted` graph; one call for all rounds takes 1.6 to 2.1 times as
    long.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int | None,
        chunks: Chunks,
        hashing: Hashing,
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.heads, self.head_width = heads, head_width or width // heads
        self.chunks, self.hashing, self.dropout = chunks, hashing, dropout
        inner = heads * self.head_width
        self.query_key = nn.Linear(width, inner, bias=False)
        self.value = nn.Linear(width, inner, bias=False)
        self.output = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, texts: Texts) -> Tensor:
        """Return features of the same shape as x, ``[B, T, width]`` or packed ``[N, width]``."""
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        # Contiguous heads use CPU caches better than strided rows.
        query, value = (
            projection(x).unflatten(-1, (self.heads, self.head_width)).transpose(0, 1).contiguous()
            for projection in (self.query_key, self.value)
        )
        # The product with √D in the norm also scales the scores by 1 / √D.
        key = F.rms_norm(query, (self.head_width,), eps=1e-6)
        out = self._read(query, key, value, texts)
        projected: Tensor = self.output(out.transpose(0, 1).flatten(1))
        return projected.view(shape)

    def _read(self, query: Tensor, key: Tensor, value: Tensor, texts: Texts) -> Tensor:
        """Return the attention output ``[H, N, D]`` of queries, keys and values ``[H, N, D]``."""
        count, size = query.shape[1], self.chunks.size
        is_single_chunk = [length <= size for length in texts.lengths]
        rounds = 1 if all(is_single_chunk) else self.hashing.rounds
        bucket = torch.zeros(rounds, self.heads, count, dtype=torch.long, device=query.device)
        if not all(is_single_chunk):
            bucket = self._buckets(query, texts)
        dropout = self.dropout if self.training else 0.0
        return attend_in_buckets(
            query, key, value, bucket, texts=texts, chunks=self.chunks, dropout=dropout
        )

    @torch.no_grad()
    def _buckets(self, query: Tensor, texts: Texts) -> Tensor:
        """Return the bucket of each token, ``[rounds, H, N]``; it is 0 in texts of one chunk."""
        buckets, rotations, rounds = [], {}, self.hashing.rounds
        for text_query, length in zip(query.split(texts.sizes, 1), texts.lengths, strict=True):
            if length <= self.chunks.size:
                buckets.append(
                    text_query.new_zeros(rounds, *text_query.shape[:2], dtype=torch.long)
                )
                continue
            factors = self.hashing.factors(length, self.chunks.size)
            if factors not in rotations:
                turns = self.hashing.rotations(self.heads, factors, query, self.training)
                rotations[factors] = turns.permute(0, 2, 1, 3).contiguous()  # [H, rounds, D, ...]
            # One head at a time, because allocating memory for all heads is slow.
            of_heads = zip(text_query, rotations[factors], strict=True)
            head_buckets = [hash_buckets(x, turns, factors) for x, turns in of_heads]
            buckets.append(torch.stack(head_buckets, 1))
        return torch.cat(buckets, -1)


def attend_in_buckets(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bucket: Tensor,
    *,
    texts: Texts,
    chunks: Chunks,
    dropout: float,
) -> Tensor:
    """Return the attention output ``[H, N, D]``, for buckets ``[rounds, H, N]`` of the tokens."""
    heads, count = query.shape[:2]
    # Heads are stacked as additional texts on the node axis.
    text_chunks = []
    for length, tokens in zip(texts.lengths, texts.sizes, strict=True):
        chunk_count = 1 if length <= chunks.size else -(-length // chunks.size)
        text_chunks.append((tokens, chunk_count, length if chunk_count == 1 else chunks.size))
    graphs = sorted_graphs(bucket.flatten(1), text_chunks * heads, chunks)
    query, key, value = (x.flatten(0, 1)[:, None] for x in (query, key, value))
    with nodes_are(lambda: Nodes.of_heads(heads, count, query.device)):
        outputs = [
            attend_with_lse(query, key, value, Permuted(graph, node, node), dropout=dropout)
            for graph, node in zip(graphs.within, graphs.node, strict=True)
        ]
    # index_select and its gradient are faster than indexing with brackets.
    reader, read = (graphs.node.flatten()[slot] for slot in (graphs.reader, graphs.read))
    qkv = query.index_select(0, reader), key.index_select(0, read), value.index_select(0, read)
    with nodes_are(lambda: Nodes.of_heads(heads, count, query.device)[reader, read]):
        outputs.append(attend_with_lse(*qkv, graphs.across, dropout=dropout))
    in_round = graphs.reader // (heads * count)
    merge = partial(_merge_rounds, in_round=in_round, reader=reader)
    # The rounds are merged as by merge_attention, though the last output is of some nodes only.
    merged, _ = (
        intercepted("merge_attention", merge, outputs) if is_intercepted() else merge(outputs)
    )
    return merged.to(value.dtype).view(heads, count, merged.shape[1:].numel())


def _merge_rounds(
    outputs: Sequence[tuple[Tensor, Tensor]], *, in_round: Tensor, reader: Tensor
) -> tuple[Tensor, Tensor]:
    """Merge the outputs of all rounds, and that across rounds, of the nodes ``reader``."""
    *round_outputs, (out, lse) = outputs
    rounds, nodes = len(round_outputs), len(round_outputs[0][0])
    across = lse.new_full((rounds, nodes), -torch.inf).index_put((in_round, reader), lse[:, 0])
    lses = torch.cat([torch.stack([lse[:, 0] for _, lse in round_outputs]), across])
    weight, total = softmax_with_lse(lses, 0)
    weight = weight[:, :, None, None]
    merged = weight[0] * round_outputs[0][0]
    for by, (round_output, _) in zip(weight[1:], round_outputs[1:], strict=False):
        # In place; autograd allows this because it has not saved ``merged``.
        merged.addcmul_(by, round_output)
    merged.index_add_(0, reader, weight[rounds:][in_round, reader] * out)
    return merged, total[:, None]


class LocalAttention(MultiHeadAttention):
    """Multi-head attention over chunks of a text in its original order."""

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int | None,
        chunks: Chunks,
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(width, heads, head_width=head_width, dropout=dropout, bias=False)
        self.chunks = chunks

    def forward(self, x: Tensor, texts: Texts) -> Tensor:  # type: ignore[override]
        """Return features of the same shape as x, ``[B, T, width]`` or packed ``[N, width]``."""
        return super().forward(x, local_graph(texts, self.chunks))


def local_graph(texts: Texts, chunks: Chunks) -> Pattern:
    """Return the graph of all tokens in neighbouring chunks, of packed texts or of each text."""
    sizes = zip(texts.lengths, texts.sizes, strict=True)
    members = [_graph_of_chunks(chunks, *text_sizes) for text_sizes in sizes]
    graph: Pattern = batch(members) if texts.packed else members[0] if members else complete()
    if chunks.causal:
        graph = graph & (batch(causal(), texts.sizes) if texts.packed else causal())
    return graph


def _graph_of_chunks(chunks: Chunks, max_length: int, tokens: int) -> Graph:
    """Return the graph of all tokens in neighbouring chunks of a text, without padding."""
    if max_length <= chunks.size:
        return complete().bind(tokens)
    count, num_chunks = -(-max_length // chunks.size), -(-tokens // chunks.size)
    here = torch.arange(num_chunks)
    pairs = [torch.stack([(here + step) % count, here]) for step in chunks.read(count)]
    joined = torch.cat(pairs, 1)
    joined = joined[:, joined[0] < num_chunks]
    return expand(edges(joined, num_chunks), chunks.size).bind(tokens)


class ReversibleLayer(nn.Module):
    r"""Reversible layer, y₁ = x₁ + f(x₂), y₂ = x₂ + g(y₁), which stores activations: recomputing
    them, as in the paper, would have to repeat the sampled dropout and hashes.
    """

    def __init__(
        self,
        attention: nn.Module,
        feed_forward: nn.Module,
        attention_norm: nn.Module,
        feed_forward_norm: nn.Module,
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.attention_norm, self.feed_forward_norm = attention_norm, feed_forward_norm
        self.dropout = nn.Dropout(dropout)

    def forward(self, first: Tensor, second: Tensor, texts: Texts) -> tuple[Tensor, Tensor]:
        """Return both streams x1 and x2, of unchanged shape, after the layer."""
        first = first + self.dropout(self.attention(self.attention_norm(second), texts))
        second = second + self.dropout(self.feed_forward(self.feed_forward_norm(first)))
        return first, second


class ReformerBackbone(SingleTextBackbone):
    """Reformer layers on two streams, both initialised with x, and a final norm."""

    name, why_no_cache = "reformer", "sorts all tokens again when a token is added"

    def __init__(self, layers: Sequence[nn.Module], norm: nn.Module, sizes: set[int]) -> None:
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), norm
        self.least, self.common = min(sizes), math.lcm(*sizes)

    def run(self, x: Tensor, sequences: SequenceBatch, _graph: Pattern | None) -> Tensor:
        """Return the states ``[..., 2 * width]`` of x; states of padding are 0. There is no cache,
        because a new token can move earlier tokens to other chunks.
        """
        if sequences.sizes is None and not sequences.has_padding:
            members = x.shape[:-2].numel()
            lengths = [self._whole(sequences.count)] * members
            texts = Texts(lengths, [sequences.count] * members, packed=False)
            return self._run(x, texts)
        rows, sizes = sequences.packed()
        if rows is None:
            return self._run(x, Texts([self._whole(size) for size in sizes], sizes, packed=True))
        texts = Texts([self._whole(sequences.count)] * len(sizes), sizes, packed=True)
        return with_padding(self._run(x.flatten(0, 1)[rows], texts), rows, x)

    def _whole(self, count: int) -> int:
        return count if count <= self.least else -(-count // self.common) * self.common

    def _run(self, x: Tensor, texts: Texts) -> Tensor:
        first = second = x
        for layer in self.layers:
            first, second = layer(first, second, texts)
        states: Tensor = self.norm(torch.cat([first, second], -1))
        return states
