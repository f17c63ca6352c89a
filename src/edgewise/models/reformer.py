"""Reformer, which reads what has a similar hash: tokens are sorted by bucket and read in chunks.

Formula: y1 = x1 + attention(norm(x2)); y2 = x2 + FFN(norm(y1)); x1 = x2 = token + position
Graph: chunks of the tokens sorted by bucket, h(q) = argmax([q R; -q R]), one order a round
Score: Dot without a scale, key = query / |query|; local layers: Dot (scaled)
Encoding: learned, or axial: a vector for the row beside one for the column
Normalisation: softmax over all rounds (the merge law); layer norm, pre
Update: two streams, each the residual of the other, so that a layer could be undone
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
from edgewise.arguments import check_choice, check_count, check_given, checked
from edgewise.encodings import Learned
from edgewise.engines.merge import softmax_with_lse
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, Pattern, Permuted, Runs, batch, causal, complete, edges, expand
from edgewise.layers import (
    FeedForward,
    LanguageModelHead,
    MultiHeadAttention,
    TextEmbedding,
    TextModel,
    init_normal,
)
from edgewise.layers.sequences import (
    Memory,
    SequenceBatch,
    refuse_cache,
    refuse_graph,
    with_padding,
)
from edgewise.ragged import runs_and_positions, starts

KINDS = ("local", "lsh")


@checked(depth=0, before=0, after=0, hash_seed=0)
def reformer(
    vocabulary: int,
    *,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    head_width: int | None = None,
    feed_forward: int = 512,
    kinds: tuple[str, ...] = KINDS,
    chunk: int = 64,
    local_chunk: int = 64,
    before: int = 1,
    after: int = 0,
    buckets: int | tuple[int, ...] | None = None,
    hashes: int = 4,
    hash_seed: int | None = None,
    one_way: bool = True,
    length: int = 4096,
    axial: tuple[int, ...] | None = None,
    axial_widths: tuple[int, ...] | None = None,
    act: str = "relu",
    epsilon: float = 1e-12,
    dropout: float = 0.05,
    init_std: float = 0.02,
) -> TextModel:
    """States of tokens ``[..., 2 * width]``; ``model.logits(states)`` are the logits of tokens.

    Layers are of the ``kinds`` in turn: ``"lsh"`` sorts by bucket, in ``hashes`` rounds, and
    ``"local"`` does not. A token reads its chunk of ``chunk`` (``local_chunk``) tokens, ``before``
    chunks before that and ``after`` after it, on a ring; a text of one chunk is read whole. There
    are ``buckets``, or the product of several numbers, all even; by default twice as many as
    chunks. Without a ``hash_seed`` each training step draws its hashes, and evaluation takes 0.
    With ``one_way`` nobody reads a later token. ``axial`` are rows and columns of positions, with
    ``axial_widths`` that sum to the width, in place of ``length`` rows. ``init_std`` is how
    wide the weights begin.
    """
    check_given("kinds", tuple(kinds), "lsh and local, in any order", 'choose ("local", "lsh")')
    for kind in kinds:
        check_choice("kinds", kind, KINDS)
    if axial is not None:
        positions: nn.Module = Axial(axial, axial_widths or (width // 2, width - width // 2), width)
    else:
        positions = Learned(length, width)
    embedding = TextEmbedding(vocabulary, width, positions=positions, dropout=dropout)
    norm = partial(nn.LayerNorm, eps=epsilon)
    chosen = [kinds[layer % len(kinds)] for layer in range(depth)]
    of_chunks = {
        kind: Chunks(local_chunk if kind == "local" else chunk, before, after, one_way)
        for kind in KINDS
    }
    hashing = Hashing(buckets, hashes, hash_seed, length)
    layers = [
        ReversibleLayer(
            LSHAttention(width, heads, head_width, of_chunks["lsh"], hashing, dropout=dropout)
            if kind == "lsh"
            else LocalAttention(width, heads, head_width, of_chunks["local"], dropout=dropout),
            FeedForward(width, feed_forward, act=act, dropout=dropout),
            norm(width),
            norm(width),
            dropout=dropout,
        )
        for kind in chosen
    ]
    last = nn.Sequential(norm(2 * width), nn.Dropout(dropout))
    sizes = {of_chunks[kind].size for kind in chosen} or {1}
    reader = ReformerReader(layers, last, sizes)
    head = LanguageModelHead(vocabulary, 2 * width, tied=False)
    return init_normal(TextModel(embedding, reader, head, width=2 * width), std=init_std)


class Axial(nn.Module):
    """Add a vector for the row of a position, beside one for its column.

    Args:
        shape: rows and columns; position p is in row ``p // columns``.
        widths: of the two vectors.
        width: of both together.
    """

    def __init__(self, shape: Sequence[int], widths: Sequence[int], width: int) -> None:
        super().__init__()
        if len(shape) != 2 or len(widths) != 2 or sum(widths) != width:
            raise ArgumentError(
                "axial_widths",
                expected=f"two, for rows and columns, that sum to the width {width}",
                got=f"{tuple(widths)} for {tuple(shape)} rows and columns",
                remedy="choose for example axial=(64, 64) and half of the width for each",
            )
        self.row = nn.Parameter(torch.randn(shape[0], widths[0]) * 0.02)
        self.column = nn.Parameter(torch.randn(shape[1], widths[1]) * 0.02)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """``[..., T, width]`` from x of that shape."""
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)
        rows, columns = len(self.row), len(self.column)
        if positions.numel() and int(positions.max()) >= rows * columns:
            raise ArgumentError(
                "x",
                expected=f"at most {rows * columns} nodes, as many as there are positions",
                got=f"{int(positions.max()) + 1} nodes",
                remedy="make the model with a larger axial",
            )
        row = torch.div(positions, columns, rounding_mode="floor")
        return x + torch.cat([self.row[row], self.column[positions % columns]], -1)


@dataclass(frozen=True)
class Chunks:
    """Which chunks a chunk reads: itself, and so many before and after it, on a ring."""

    size: int
    before: int
    after: int
    one_way: bool

    def read(self, count: int) -> list[int]:
        """How far from a chunk those that it reads are, of so many on the ring, each once."""
        return sorted({step % count for step in range(-self.before, self.after + 1)})


@dataclass(frozen=True)
class Texts:
    """The texts of a call.

    Attributes:
        lengths: with the padding that makes whole chunks, ``[B]``.
        sizes: tokens, ``[B]``.
        packed: whether the tokens of all are on one axis, without padding.
    """

    lengths: list[int]
    sizes: list[int]
    packed: bool


@dataclass(frozen=True)
class Hashing:
    """How tokens are hashed; see :func:`reformer`.

    Raises:
        ArgumentError: an odd number of buckets, or none.
    """

    buckets: int | tuple[int, ...] | None
    rounds: int
    seed: int | None
    most: int

    def __post_init__(self) -> None:
        for factor in self.factors(1, 1) if self.buckets is not None else ():
            check_count("buckets", factor, 2, "two are the fewest: a side each of one plane")
            if factor % 2:
                raise ArgumentError(
                    "buckets",
                    expected="an even number, as each direction has an opposite",
                    got=str(factor),
                    remedy="add one",
                )

    def factors(self, length: int, chunk: int) -> tuple[int, ...]:
        """The numbers of buckets whose product there are, for a text of this length."""
        if isinstance(self.buckets, int):
            return (self.buckets,)
        if self.buckets is not None:
            return tuple(self.buckets)
        power = (2 * (length // chunk)).bit_length() - 1
        if 2**power > 2 * max(math.isqrt(self.most // chunk), chunk):
            return 2 ** (power // 2), 2 ** (power - power // 2)
        return (2**power,)

    def rotations(self, heads: int, factors: Sequence[int], like: Tensor, training: bool) -> Tensor:
        """R of each head and round, ``[H, D, rounds, sum of factors / 2]``."""
        shape = (heads, like.shape[-1], self.rounds, sum(factors) // 2)
        if self.seed is None and training:
            return torch.randn(shape, dtype=like.dtype, device=like.device)
        generator = torch.Generator().manual_seed(self.seed or 0)
        return torch.randn(shape, dtype=like.dtype, generator=generator).to(like.device)


def hash_buckets(x: Tensor, rotation: Tensor, factors: Sequence[int]) -> Tensor:
    r"""The bucket of each vector, :math:`h(x) = \mathrm{argmax}([x R; -x R])`.

    Args:
        x: ``[..., D]``.
        rotation: R, ``[D, sum of factors / 2]``.
        factors: how many buckets; of several, each with its part of R, the product.

    Returns:
        Whole numbers of the leading shape.
    """
    bucket = torch.zeros(x.shape[:-1], dtype=torch.long, device=x.device)
    product = 1
    halves = [factor // 2 for factor in factors]
    for factor, turned in zip(factors, (x @ rotation).split(halves, -1), strict=True):
        greatest = turned.abs().argmax(-1, keepdim=True)  # of [x R; -x R], in half of it
        opposite = turned.gather(-1, greatest) < 0
        bucket = bucket + product * (greatest + factor // 2 * opposite).squeeze(-1)
        product *= factor
    return bucket


class Places:
    """The places of each round, which are ranks in its order: texts and chunks have the same.

    Args:
        texts: of each how many tokens it has, how many chunks, and how many tokens one of them
            has; the last chunks may be short, or empty. Chunks of all rounds are one ring.
        rounds: of hashes.
        chunks: which chunks read which.
        device: of the numbers.

    Attributes:
        size, first: how many places each text has, and the first of these.
        text, rank, chunk: of each place its text, and its rank and chunk in this.
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
        """What each place reads where chunks of a round lie in a row."""
        place = torch.arange(len(self.text), device=self.text.device)
        last = self.chunk_count[self.text] - 1
        low = (self.chunk + self.steps[0]).clamp(min=0)
        high = torch.minimum(self.chunk + self.steps[-1], last)
        return place, self._ends(low, self.text)[0], self._ends(high, self.text)[1]

    def over_ends(self) -> tuple[Tensor, Ends]:
        """What places at the ends of a row read of other rounds, and around the ring.

        Returns:
            Places as ``round * N + place``, and of each the stretches of such, by their rank.
        """
        count, chunk_count = len(self.text), self.chunk_count[self.text]
        near, far = self.chunk + self.steps[0] < 0, self.chunk + self.steps[-1] >= chunk_count
        number = torch.arange(self.rounds * count, device=near.device).view(self.rounds, count)
        reader = number[:, near | far].flatten()
        text, chunk = self.text[reader % count], self.chunk[reader % count]
        ahead, ring = reader // count * self.chunk_count[text], self.rounds * self.chunk_count[text]
        there = chunk[:, None] + self.steps
        over = (there < 0) | (there >= self.chunk_count[text][:, None])
        # Each chunk is read once, and those in the row are read as such.
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
        """The first place of a chunk, and the one behind its last."""
        begin = torch.minimum(chunk * self.chunk_size[text], self.size[text])
        end = torch.minimum(begin + self.chunk_size[text], self.size[text])
        return self.first[text] + begin, self.first[text] + end


@dataclass(frozen=True, repr=False)
class OthersInLine(Pattern):
    """Each place reads the others of its chunks, of a round that is by itself; see :class:`Places`.

    It is the same in every round, and in every call with texts of these sizes.
    """

    texts: tuple[tuple[int, int, int], ...]
    chunks: Chunks

    def __repr__(self) -> str:
        return f"OthersInLine({len(self.texts)} texts, {self.chunks})"

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        places = Places(self.texts, 1, self.chunks, torch.device("cpu"))
        ends = _joined(_to_others(places.in_line(), torch.arange(num_targets)))
        return Runs(*ends, num_targets, num_sources, segments=(places.size, places.size))


@dataclass(frozen=True)
class SortedGraphs:
    """Who reads whom, by places.

    Attributes:
        node: the token at each place, ``[rounds, N]``.
        within: of each round, its places that read one another.
        across: who reads whom in other rounds, or around the ring: its targets and its sources
            are the places ``reader`` and ``read``, each as ``round * N + place``.
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
    """The tokens sorted by bucket, and who reads whom then.

    Nobody reads itself, but for a token that would read nothing in any round.

    Args:
        bucket: ``[rounds, N]``, of the tokens of all texts, one text after the other.
        texts: as of :class:`Places`.
        chunks: which chunks read which.

    Returns:
        Sorting takes ``n log n``, and the graphs a few runs a token.
    """
    (rounds, count), device = bucket.shape, bucket.device
    places = Places(texts, rounds, chunks, device)
    most = int(bucket.max()) + 1 if bucket.numel() else 1
    key = places.text * most + bucket
    node = torch.stack([of_round.argsort(stable=True) for of_round in key])
    reader, stretches = places.over_ends()
    place = torch.arange(count, device=device)
    place_of = torch.empty_like(node).scatter_(1, node, place.expand_as(node))
    within: Sequence[Graph]
    if chunks.one_way:
        line, sizes = places.in_line(), (places.size, places.size)
        token, bucket = places.rank[node], bucket.gather(1, node)
        pieces = torch.ones_like(node, dtype=torch.bool)
        pieces[:, 1:] = bucket[:, 1:] != bucket[:, :-1]
        pieces[:, 1:] |= places.chunk[1:] != places.chunk[:-1]
        pieces[:, places.first[places.size > 0]] = True
        found = [_to_earlier(line, *each, each[1]) for each in zip(pieces, token, strict=True)]
        within = [Runs(*_joined(each), count, count, segments=sizes) for each in found]
        token = token.flatten()
        ends = _to_earlier(stretches, pieces.flatten(), token, token[reader])
    else:
        within = [OthersInLine(tuple(texts), chunks).bind(count).to(device)] * rounds
        row, begin, _ = stretches
        in_round = begin // max(count, 1)
        itself = place_of[in_round, node.flatten()[reader[row]]]
        ends = _to_others(stretches, in_round * count + itself)

    row, begin, end = _joined(ends)
    reads = torch.zeros(count, dtype=torch.bool, device=device)
    reads[node.flatten()[reader[row]]] = True
    for each, graph in zip(node, within, strict=True):
        reads[each] |= graph.in_degree() > 0
    alone = place_of[0, ~reads]
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
"""The rows of runs, where these start and where they stop; sorted."""


def _to_others(stretches: Ends, itself: Tensor) -> Ends:
    """Each row reads its stretches but for ``itself``, where its own token stands there."""
    row, begin, end = stretches
    cut = itself.where((begin <= itself) & (itself < end), end)
    start, stop = torch.stack([begin, cut + 1], 1), torch.stack([cut, end], 1)
    return row.repeat_interleave(2), start.flatten(), stop.flatten()


def _to_earlier(stretches: Ends, pieces: Tensor, token: Tensor, own: Tensor) -> Ends:
    """Each row reads those of its stretches that stand earlier in the text than its ``own`` token.

    A piece, where the tokens of one bucket and chunk stand in the text's order, has a run of them.
    """
    row, begin, end = stretches
    piece_start = pieces.nonzero().flatten()
    number, most = pieces.cumsum(0) - 1, len(token) + 1
    line = number * most + token  # ascends from place to place
    stretch, rank = runs_and_positions(number[end - 1] - number[begin] + 1)
    row, piece = row[stretch], number[begin][stretch] + rank
    return row, piece_start[piece], torch.searchsorted(line, piece * most + own[row])


def _joined(ends: Ends) -> Ends:
    """Runs that are not empty, neighbours as one."""
    row, start, stop = ends
    some = start < stop
    row, start, stop = row[some], start[some], stop[some]
    first = torch.ones_like(some[some])
    first[1:] = (row[1:] != row[:-1]) | (start[1:] != stop[:-1])
    last = torch.ones_like(first)
    last[:-1] = first[1:]
    return row[first], start[first], stop[last]


class LSHAttention(nn.Module):
    r"""Attention of tokens whose queries have similar hashes; key and query are one.

    .. math:: o_i = \sum_r \mathrm{attend}_r(q_i,\; q_j / |q_j|,\; v_j), \quad j \ne i

    over the rounds r, by the merge law; a token that nobody else is there for reads itself.

    Args:
        width, heads, head_width: as in :class:`edgewise.layers.MultiHeadAttention`.
        chunks: who reads whom, in the order of the buckets.
        hashing: how tokens are hashed.
        dropout: on the attention weights, in training.
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
        """``[B, T, width]``, or ``[N, width]`` of a packed batch, from x of that shape."""
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        # A head lies in one piece, of which caches hold more than of rows that are apart.
        query, value = (
            each(x).unflatten(-1, (self.heads, self.head_width)).transpose(0, 1).contiguous()
            for each in (self.query_key, self.value)
        )
        key = F.rms_norm(query, (self.head_width,), eps=1e-6)  # whose products are scaled
        out = self._read(query, key, value, texts)
        projected: Tensor = self.output(out.transpose(0, 1).flatten(1))
        return projected.view(shape)

    def _read(self, query: Tensor, key: Tensor, value: Tensor, texts: Texts) -> Tensor:
        """``[H, N, D]``, from such."""
        count, size = query.shape[1], self.chunks.size
        whole = [length <= size for length in texts.lengths]
        rounds = 1 if all(whole) else self.hashing.rounds
        # A head is as many texts again: tokens of head after head on one axis.
        described = []
        bucket = torch.zeros(rounds, self.heads, count, dtype=torch.long, device=query.device)
        if not all(whole):
            bucket = self._buckets(query, texts)
        for length, tokens in zip(texts.lengths, texts.sizes, strict=True):
            chunk_count = 1 if length <= size else -(-length // size)
            described.append((tokens, chunk_count, length if chunk_count == 1 else size))
        graphs = sorted_graphs(bucket.flatten(1), described * self.heads, self.chunks)
        query, key, value = (x.flatten(0, 1)[:, None] for x in (query, key, value))
        dropout = self.dropout if self.training else 0.0
        parts = [
            attend_with_lse(query, key, value, Permuted(graph, node, node), dropout=dropout)
            for graph, node in zip(graphs.within, graphs.node, strict=True)
        ]
        # index_select and its gradient take less time than brackets
        reader, read = (graphs.node.flatten()[place] for place in (graphs.reader, graphs.read))
        some = query.index_select(0, reader), key.index_select(0, read), value.index_select(0, read)
        out, lse = attend_with_lse(*some, graphs.across, dropout=dropout)
        in_round = graphs.reader // (self.heads * count)
        nothing = lse.new_full((rounds, len(query)), -torch.inf)
        across = nothing.index_put((in_round, reader), lse[:, 0])
        lses = torch.cat([torch.stack([lse[:, 0] for _, lse in parts]), across])
        weight = softmax_with_lse(lses, 0)[0][:, :, None, None]
        merged = weight[0] * parts[0][0]
        for by, (each, _) in zip(weight[1:], parts[1:], strict=False):
            merged.addcmul_(by, each)  # in place, which gradients allow here
        merged.index_add_(0, reader, weight[rounds:][in_round, reader] * out)
        return merged.to(value.dtype).view(self.heads, count, self.head_width)

    @torch.no_grad()
    def _buckets(self, query: Tensor, texts: Texts) -> Tensor:
        """``[rounds, H, N]``; a text that is read whole has one bucket."""
        parts, drawn, rounds = [], {}, self.hashing.rounds
        for part, length in zip(query.split(texts.sizes, 1), texts.lengths, strict=True):
            if length <= self.chunks.size:
                parts.append(part.new_zeros(rounds, *part.shape[:2], dtype=torch.long))
                continue
            factors = self.hashing.factors(length, self.chunks.size)
            if factors not in drawn:
                turns = self.hashing.rotations(self.heads, factors, query, self.training)
                drawn[factors] = turns.permute(0, 2, 1, 3).contiguous()  # by head, then by round
            # A head at a time: memory for all of them takes longer to get than to fill.
            of_heads = zip(part, drawn[factors], strict=True)
            each = [hash_buckets(x, turns, factors) for x, turns in of_heads]
            parts.append(torch.stack(each, 1))
        return torch.cat(parts, -1)


class LocalAttention(MultiHeadAttention):
    """Multi-head attention over chunks of the text as it stands.

    The arguments are those of :class:`LSHAttention`.
    """

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
        """``[B, T, width]``, or ``[N, width]`` of a packed batch, from x of that shape."""
        members = [self._graph(*sizes) for sizes in zip(texts.lengths, texts.sizes, strict=True)]
        graph: Pattern = batch(members) if texts.packed else members[0] if members else complete()
        if self.chunks.one_way:
            graph = graph & (batch(causal(), texts.sizes) if texts.packed else causal())
        return super().forward(x, graph)

    def _graph(self, length: int, tokens: int) -> Graph:
        """The chunks of a text of this length of which so many tokens are no padding."""
        if length <= self.chunks.size:
            return complete().bind(tokens)
        count, kept = -(-length // self.chunks.size), -(-tokens // self.chunks.size)
        here = torch.arange(kept)
        pairs = [torch.stack([(here + step) % count, here]) for step in self.chunks.read(count)]
        joined = torch.cat(pairs, 1)
        joined = joined[:, joined[0] < kept]
        return expand(edges(joined, kept), self.chunks.size).bind(tokens)


class ReversibleLayer(nn.Module):
    """Attention and a feed-forward network, each on the other's stream of features.

    The two streams can be computed back from the two that come out, so that nothing need be kept
    for the backward pass (Gomez et al., 2017). Here PyTorch keeps what it needs: dropout would
    have to be drawn again, and the hashes.

    Args:
        attention, feed_forward: f and g.
        attention_norm, feed_forward_norm: before them.
        dropout: after them.
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
        """Both streams after the layer."""
        first = first + self.dropout(self.attention(self.attention_norm(second), texts))
        second = second + self.dropout(self.feed_forward(self.feed_forward_norm(first)))
        return first, second


class ReformerReader(nn.Module):
    """The layers on two streams, both of which begin with x, and a norm of both.

    Args:
        layers: called ``layer(first, second, texts)``.
        norm: of both streams side by side.
        sizes: of the chunks; a text longer than the smallest has whole chunks of all.
    """

    caches = False

    def __init__(self, layers: Sequence[nn.Module], norm: nn.Module, sizes: set[int]) -> None:
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), norm
        self.least, self.common = min(sizes), math.lcm(*sizes)

    def forward(
        self,
        x: Tensor,
        sequences: SequenceBatch | None = None,
        *,
        graph: Pattern | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """States of x, ``[..., 2 * width]``; those of padding are 0.

        A padded text has the chunks of the length that it is padded to, as in transformers; one of
        a packed batch has its own.

        Args:
            x: features ``[B, T, width]``, or ``[N, width]`` of a packed batch.
            sequences: padding, packing and positions.
            graph: none, as the graph is computed from x.
            memory: none.

        Raises:
            ArgumentError: a graph, a memory, or a cache: a token more may move any of those before
                it to another chunk, so that what these have read changes.
        """
        refuse_graph("reformer", graph)
        sequences = sequences or SequenceBatch.of_features(x)
        refuse_cache("reformer", sequences, memory, why="sorts all tokens anew for each one more")
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
