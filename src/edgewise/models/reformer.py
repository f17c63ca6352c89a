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
from torch import Tensor, nn

from edgewise import attend_with_lse, merge_attention
from edgewise.arguments import check_choice, check_count, check_given, checked
from edgewise.encodings import Learned
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, Pattern, Runs, batch, causal, complete, edges, expand
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
    SequenceLayout,
    refuse_cache,
    refuse_graph,
    with_padding,
)
from edgewise.ragged import runs_and_positions, starts
from edgewise.scores import Dot

KINDS = ("local", "lsh")
ALONE = -1e5
"""The score of a token with itself, which counts where it has nothing else to read."""


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


@torch.no_grad()
def sorted_graph(
    bucket: Tensor, texts: Sequence[tuple[int, int, int]], chunks: Chunks
) -> tuple[Tensor, Graph]:
    """The order of the tokens by bucket, and who reads whom in that order, without itself.

    Args:
        bucket: ``[rounds, N]``, of the tokens of all texts, one text after the other.
        texts: of each how many tokens it has, how many chunks, and how many tokens one of them
            has; the last chunks may be short, or empty. Chunks of all rounds are one ring.
        chunks: which chunks read which.

    Returns:
        Of each place of the order the token, as ``round * N + token``, ``[rounds * N]``; and the
        graph of these places. Sorting takes ``n log n``, and the graph a few runs a token.
    """
    (rounds, count), device = bucket.shape, bucket.device
    described = torch.tensor(texts, dtype=torch.long, device=device).view(-1, 3)
    size, chunk_count, chunk_size = described.unbind(1)
    text, position = runs_and_positions(size)
    # Round after round lies in a text, so that a text is one ring.
    group = text * rounds + torch.arange(rounds, device=device)[:, None]
    most = int(bucket.max()) + 1 if bucket.numel() else 1
    order = (group * most + bucket).flatten().argsort(stable=True)
    group, bucket = group.flatten()[order], bucket.flatten()[order]
    token, text = position.repeat(rounds)[order], text.repeat(rounds)[order]
    first = starts(size.repeat_interleave(rounds))
    rank = torch.arange(len(order), device=device) - first[group]
    chunk = torch.div(rank, chunk_size[text], rounding_mode="floor")

    ring = (rounds * chunk_count)[text]
    here = (group % rounds) * chunk_count[text] + chunk
    steps = torch.arange(-chunks.before, chunks.after + 1, device=device)
    row, there = _each_once((here[:, None] + steps) % ring[:, None])
    owner = text[row]
    begin = there % chunk_count[owner] * chunk_size[owner]
    end = torch.minimum(begin + chunk_size[owner], size[owner])
    in_round = torch.div(there, chunk_count[owner], rounding_mode="floor")
    ahead = first[owner * rounds + in_round]
    full = begin < end
    stretches = row[full], (begin + ahead)[full], (end + ahead)[full]
    if chunks.one_way:
        pieces = torch.ones_like(order, dtype=torch.bool)
        pieces[1:] = (here[1:] != here[:-1]) | (text[1:] != text[:-1]) | (bucket[1:] != bucket[:-1])
        return order, _runs(*_to_earlier(stretches, pieces, token), places=len(order))
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=device)
    itself = place[(in_round * count + order[row] % count)[full]]
    return order, _runs(*_to_others(stretches, itself), places=len(order))


def _each_once(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """The rows and values of a matrix, each value once a row."""
    numbers = numbers.sort(1).values
    new = torch.ones_like(numbers, dtype=torch.bool)
    new[:, 1:] = numbers[:, 1:] != numbers[:, :-1]
    row, column = new.nonzero(as_tuple=True)
    return row, numbers[row, column]


Ends = tuple[Tensor, Tensor, Tensor]
"""The rows of runs, where these start and where they stop."""


def _to_others(stretches: Ends, itself: Tensor) -> Ends:
    """Each place reads its stretches but for ``itself``, where its own token stands there."""
    row, begin, end = stretches
    inside = (begin <= itself) & (itself < end)
    before = torch.where(inside, itself, end)
    row = torch.cat([row, row[inside]])
    return row, torch.cat([begin, itself[inside] + 1]), torch.cat([before, end[inside]])


def _to_earlier(stretches: Ends, pieces: Tensor, token: Tensor) -> Ends:
    """The same, of tokens that stand earlier in the text.

    A piece, where the tokens of one bucket and chunk stand in the text's order, has a run of them.
    """
    row, begin, end = stretches
    places = len(token)
    piece_start = pieces.nonzero().flatten()
    number = pieces.cumsum(0) - 1
    line = number * (places + 1) + token  # ascends from place to place
    stretch, rank = runs_and_positions(number[end - 1] - number[begin] + 1)
    row, piece = row[stretch], number[begin][stretch] + rank
    return row, piece_start[piece], torch.searchsorted(line, piece * (places + 1) + token[row])


def _runs(row: Tensor, start: Tensor, stop: Tensor, *, places: int) -> Graph:
    """The graph of these runs, neighbours as one."""
    some = start < stop
    row, start, stop = row[some], start[some], stop[some]
    sort = (row * (places + 1) + start).argsort()
    row, start, stop = row[sort], start[sort], stop[sort]
    first = torch.ones_like(row, dtype=torch.bool)
    first[1:] = (row[1:] != row[:-1]) | (start[1:] != stop[:-1])
    last = torch.ones_like(first)
    last[:-1] = first[1:]
    return Runs(row[first], start[first], stop[last], places, places)


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
        query = self._heads(self.query_key(x))  # [N, H, D]
        value = self._heads(self.value(x))
        square = query.square().mean(-1, keepdim=True)
        key = query * (square + 1e-6).rsqrt() / self.head_width**0.5
        out = self._read(query, key, value, texts)
        projected: Tensor = self.output(
            out.flatten(-2).reshape(*shape[:-1], out.shape[-2:].numel())
        )
        return projected

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:-1], self.heads, self.head_width)

    def _read(self, query: Tensor, key: Tensor, value: Tensor, texts: Texts) -> Tensor:
        count, size = len(query), self.chunks.size
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
        order, graph = sorted_graph(bucket.flatten(1), described * self.heads, self.chunks)
        places = order % (self.heads * count)
        query, key, value = (x.transpose(0, 1).flatten(0, 1)[:, None] for x in (query, key, value))
        dropout = self.dropout if self.training else 0.0
        # index_select and its gradient take less time than brackets
        query, key, read = (x.index_select(0, places) for x in (query, key, value))
        out, lse = attend_with_lse(query, key, read, graph, score=Dot(1.0), dropout=dropout)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)
        out, lse = (x.index_select(0, back).unflatten(0, (rounds, -1)) for x in (out, lse))
        itself = value, torch.full_like(lse[0], ALONE + math.log(rounds))
        merged, _ = merge_attention([*zip(out, lse, strict=True), itself])
        return merged.view(self.heads, count, self.head_width).transpose(0, 1)

    @torch.no_grad()
    def _buckets(self, query: Tensor, texts: Texts) -> Tensor:
        """``[rounds, H, N]``; a text that is read whole has one bucket."""
        parts, drawn = [], {}
        for part, length in zip(query.split(texts.sizes), texts.lengths, strict=True):
            if length <= self.chunks.size:
                one = torch.zeros(self.hashing.rounds, self.heads, len(part), device=part.device)
                parts.append(one.long())
                continue
            factors = self.hashing.factors(length, self.chunks.size)
            if factors not in drawn:
                drawn[factors] = self.hashing.rotations(self.heads, factors, query, self.training)
            turns = drawn[factors].permute(2, 0, 1, 3)  # [rounds, H, D, ...]
            parts.append(hash_buckets(part.transpose(0, 1), turns, factors))
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
        layout: SequenceLayout | None = None,
        *,
        graph: Pattern | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """States of x, ``[..., 2 * width]``; those of padding are 0.

        A padded text has the chunks of the length that it is padded to, as in transformers; one of
        a packed batch has its own.

        Args:
            x: features ``[B, T, width]``, or ``[N, width]`` of a packed batch.
            layout: padding, packing and positions.
            graph: none, as the graph is computed from x.
            memory: none.

        Raises:
            ArgumentError: a graph, a memory, or a cache: a token more may move any of those before
                it to another chunk, so that what these have read changes.
        """
        refuse_graph("reformer", graph)
        layout = SequenceLayout(x[..., 0]) if layout is None else layout
        refuse_cache("reformer", layout, memory, why="sorts all tokens anew for each one more")
        if layout.sizes is None and not layout.has_padding:
            members = x.shape[:-2].numel()
            lengths = [self._whole(layout.count)] * members
            texts = Texts(lengths, [layout.count] * members, packed=False)
            return self._run(x, texts)
        rows, sizes = layout.packed()
        if rows is None:
            return self._run(x, Texts([self._whole(size) for size in sizes], sizes, packed=True))
        texts = Texts([self._whole(layout.count)] * len(sizes), sizes, packed=True)
        return with_padding(self._run(x.flatten(0, 1)[rows], texts), rows, x)

    def _whole(self, count: int) -> int:
        return count if count <= self.least else -(-count // self.common) * self.common

    def _run(self, x: Tensor, texts: Texts) -> Tensor:
        first = second = x
        for layer in self.layers:
            first, second = layer(first, second, texts)
        states: Tensor = self.norm(torch.cat([first, second], -1))
        return states
