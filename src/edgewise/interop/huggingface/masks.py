"""Attention masks of ``transformers`` models as graphs.

``transformers`` describes a mask by a function of positions and expands it to ``[B, 1, T, S]`` in
each call. Here the causal and the full mask become the patterns ``causal`` and ``complete``. Other
mask functions are evaluated a few rows at a time; the result is cached if the function depends on
positions and numbers only. Edges from padding are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Any, NoReturn

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.graphs import Edges, Graph, Intervals, Pattern, batch, causal, complete
from edgewise.graphs.compose import disjoint_union

Rule = Callable[..., Tensor]
"""Mask function of transformers: ``(batch index, head, target, source) -> bool`` of positions."""
SIDES = ("targets", "sources")
AT_ONCE = 1 << 24
"""Maximum number of pairs for which a mask function is evaluated at once."""


class Reads:
    """Description of a mask ``[B, 1, T, S]`` that replaces the tensor.

    Attributes:
        own: patterns of the allowed pairs: one for the whole batch, or one for each of its texts.
        targets, sources: T and S. The targets are the last sources, except in cross-attention.
        forgotten: number of earlier sources that a sliding cache has dropped.
        real: boolean ``[B, forgotten + S]``, False for padding; ``None`` if there is none.
        kind: type of the model, for errors.
    """

    ndim = 4
    """Number of dimensions of the mask, by which ``generate`` recognises a prepared mask."""

    def __init__(
        self,
        own: Sequence[Pattern],
        targets: int,
        sources: int,
        *,
        forgotten: int = 0,
        real: Tensor | None = None,
        kind: str = "",
    ) -> None:
        self.own, self.targets, self.sources, self.forgotten = own, targets, sources, forgotten
        self.real, self.kind = real, kind
        self._bound: dict[Pattern | None, Pattern] = {}

    @property
    def is_shared(self) -> bool:
        """True if all members of the batch have the same graph."""
        return self.real is None and len(self.own) == 1

    def graph(self, pattern: Pattern | None) -> Pattern:
        """Return the graph of the pairs that are in the mask and in ``pattern`` (None = all pairs).

        The graph is ``[T, S]`` if it is shared, else a packed batch ``[B·T, B·S]``. Positions of
        the pattern start at the first token of each text that is not padding.
        """
        if pattern not in self._bound:
            self._bound[pattern] = (
                self._shared(pattern) if self.is_shared else self._packed(pattern)
            )
        return self._bound[pattern]

    def contiguous(self) -> Reads:
        """Return the object itself; ``generate`` calls this method."""
        return self

    def _shared(self, pattern: Pattern | None) -> Pattern:
        if pattern is None:
            return self.own[0]
        return self.own[0] & (Late(pattern, self.forgotten) if self.forgotten else pattern)

    def _packed(self, pattern: Pattern | None) -> Graph:
        count = len(self.own) if self.real is None else len(self.real)
        members = [self._member(number, pattern) for number in range(count)]
        return side_by_side(members)

    def _member(self, number: int, pattern: Pattern | None) -> Graph:
        allowed = self.own[number if len(self.own) > 1 else 0]
        own = allowed.bind(self.targets, self.sources)
        first, stop, holes = self._span(number)
        # Padding positions may attend too, as in transformers.
        if pattern is None or first == stop:
            start = torch.full((self.targets,), max(first - self.forgotten, 0))
            end = torch.full((self.targets,), max(stop - self.forgotten, 0))
            read: Graph = Intervals(start, end, self.sources)
        else:
            whole = self.forgotten + self.sources
            row = max(first - (whole - self.targets), 0)
            count = max(self.targets - row - (whole - stop), 0)
            if count == stop - first and isinstance(allowed, Graph):
                text = side_by_side([pattern.bind(n) for n in lengths_of_texts(own, first, stop)])
            else:
                text = pattern.bind(count, stop - first)
            read = place(text, self.targets, self.sources, row, first - self.forgotten)
        both = (own & read).bind(self.targets, self.sources)
        return both if holes is None else _without_sources(both, ~holes[self.forgotten :])

    def _span(self, number: int) -> tuple[int, int, Tensor | None]:
        """Return the start and end of a text, and the padding within it, if any."""
        if self.real is None:
            return 0, self.forgotten + self.sources, None
        real = self.real[number].cpu()
        found = real.nonzero().flatten()
        if not len(found):
            return 0, 0, None
        first, stop = int(found[0]), int(found[-1]) + 1
        return first, stop, None if len(found) == stop - first else ~real

    def __getitem__(self, index: object) -> NoReturn:
        self._refuse()

    def __getattr__(self, name: str) -> Any:
        # copy and pickle look up optional attributes, whose names begin with an underscore.
        if name.startswith("_"):
            raise AttributeError(name)
        self._refuse()

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> NoReturn:
        given = [*args, *(kwargs or {}).values()]
        next(x for x in given if isinstance(x, Reads))._refuse()

    def _refuse(self) -> NoReturn:
        raise ArgumentError(
            "attn_implementation",
            expected="a model that uses AttentionInterface of transformers",
            got=f"a {self.kind or 'model'}, which uses the values of the attention mask",
            remedy='use attn_implementation="eager" for this model',
        )


def reads_of_call(
    *,
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Rule | None = None,
    attention_mask: Tensor | Reads | None = None,
    use_vmap: bool = False,
    **other: Any,
) -> Reads:
    """Return the mask of a call; this function is registered with ``transformers``.

    ``transformers`` passes the arguments, among them the padding mask ``attention_mask``, in each
    call of the model.
    """
    if isinstance(attention_mask, Reads):  # The caller has prepared the mask.
        return attention_mask
    kind = getattr(other.get("config"), "model_type", "")
    from transformers import masking_utils as theirs

    rule: Any = theirs.causal_mask_function if mask_function is None else mask_function
    ahead = int(q_offset)
    if rule is theirs.bidirectional_mask_function:
        own: list[Pattern] = [complete()]
    else:
        # A static cache has slots that are not written yet and must not be attended to.
        kv_length = min(kv_length, ahead + q_length - kv_offset)
        own = [causal()]
        if rule is not theirs.causal_mask_function:
            asked = Asked(rule, batch_size, ahead - kv_offset, kv_offset, use_vmap)
            own = asked.patterns(q_length, kv_length)
    real = None
    if attention_mask is not None:
        real = attention_mask[:, : kv_offset + kv_length].bool()
        missing = kv_offset + kv_length - real.shape[1]
        real = torch.nn.functional.pad(real, (0, missing)) if missing else real
        real = None if bool(real.all()) else real
    return Reads(own, q_length, kv_length, forgotten=kv_offset, real=real, kind=kind)


def reads_of_mask(mask: Tensor, targets: int, sources: int) -> tuple[Reads, Tensor | None]:
    """Return the pairs that a mask ``[B, H, T, S]`` allows, and its additive bias or None.

    The caller caches the result by the version of the mask, so a change of the mask through
    ``.data`` or NumPy is not noticed.

    Args:
        mask: boolean, True for allowed pairs; or numbers that are added to the scores.
        targets: T; a larger mask is cut, a mask ``[B, H, 1, S]`` is expanded.
        sources: S; a larger mask is cut.
    """
    mask = mask[..., :targets, :sources].expand(-1, -1, targets, sources)
    allowed = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    added = None
    # Learned masks may be 0 before training, and need a gradient.
    if mask.dtype != torch.bool and (
        mask.requires_grad or bool(mask.masked_fill(~allowed, 0).any())
    ):
        added = mask.masked_fill(~allowed, -torch.inf)
    # The heads have different masks, so they are passed as a bias.
    elif allowed.shape[1] > 1:
        added = torch.zeros(mask.shape, device=mask.device).masked_fill(~allowed, -torch.inf)
    matrices = allowed.any(1).cpu()
    own: list[Pattern] = [graph_of_rows([(0, matrix)], targets) for matrix in matrices]
    return Reads(own, targets, sources), added


@dataclass(frozen=True)
class Asked:
    """Mask function of ``transformers``, evaluated for every pair, a few rows at a time.

    Attributes:
        rule: the mask function.
        members: batch size, as a mask may differ between members.
        ahead: number of sources before the first target.
        first: position of the first source.
        one_by_one: whether the function takes single positions only.
    """

    rule: Rule
    members: int
    ahead: int
    first: int
    one_by_one: bool

    def patterns(self, targets: int, sources: int) -> list[Pattern]:
        """Return one pattern for the batch, or one per member.

        A mask function whose closure has only numbers is identified by its code and these numbers,
        and is evaluated only once.
        """
        key = meaning(self.rule)
        if key is not None and not self.one_by_one:
            return [Ruled(key, self.ahead, self.first, replace(self, members=1))]
        return list(self.graphs(targets, sources))

    def graphs(self, targets: int, sources: int) -> list[Graph]:
        """Return a list of one graph, or of one per batch member if their masks differ."""
        parts = list(self._rows(targets, sources))
        alike = all(bool((allowed == allowed[:1]).all()) for _, allowed in parts)
        count = 1 if alike else self.members
        return [
            graph_of_rows([(row, allowed[member]) for row, allowed in parts], targets)
            for member in range(count)
        ]

    def _rows(self, targets: int, sources: int) -> Iterator[tuple[int, Tensor]]:
        """Yield chunks of rows of the mask: the first row, and ``[members, rows, sources]``."""
        from transformers.masking_utils import sdpa_mask

        step = max(AT_ONCE // max(self.members * sources, 1), 1)
        for row in range(0, targets, step):
            mask = sdpa_mask(
                batch_size=self.members,
                q_length=min(step, targets - row),
                kv_length=sources,
                q_offset=self.first + self.ahead + row,
                kv_offset=self.first,
                mask_function=self.rule,
                allow_is_causal_skip=False,
                allow_is_bidirectional_skip=False,
                use_vmap=self.one_by_one,
            )
            # The mask is never None, because skipping is disabled.
            assert mask is not None
            yield row, mask[:, 0].cpu()


@dataclass(frozen=True)
class Ruled(Pattern):
    """Pattern of a mask function that is identified by ``key``, such as a sliding window."""

    key: Any
    ahead: int
    first: int
    asked: Asked

    def __eq__(self, other: object) -> bool:
        mine = self.key, self.ahead, self.first
        return isinstance(other, Ruled) and mine == (other.key, other.ahead, other.first)

    def __hash__(self) -> int:
        return hash((self.key, self.ahead, self.first))

    def __repr__(self) -> str:
        return f"the mask of {self.asked.rule.__qualname__}"

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        (graph,) = self.asked.graphs(num_targets, num_sources)
        return graph


@dataclass(frozen=True, repr=False)
class Late(Pattern):
    """Pattern without its first ``forgotten`` sources, which a sliding cache has dropped."""

    pattern: Pattern
    forgotten: int

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        whole = self.pattern.bind(num_targets, self.forgotten + num_sources)
        return place(whole, num_targets, num_sources, 0, -self.forgotten)


def meaning(rule: Any) -> Any:
    """Return a key for a mask function: its code and the numbers it closes over, or None."""
    code = getattr(rule, "__code__", None)
    if code is None:
        return None
    known: list[Any] = [code]
    for cell in rule.__closure__ or ():
        held = cell.cell_contents
        for value in held if isinstance(held, tuple) else (held,):
            found = value if isinstance(value, int | float | str | None) else meaning(value)
            if found is None and value is not None:
                return None
            known.append(found)
    return tuple(known)


def graph_of_rows(parts: Sequence[tuple[int, Tensor]], targets: int) -> Graph:
    """Return the graph of a boolean mask: intervals if each row is one interval, else edges.

    Args:
        parts: number of the first row, and rows ``[rows, S]``, of each part.
        targets: total number of rows.
    """
    sources = parts[0][1].shape[1] if parts else 0
    counts = torch.cat([rows.sum(1) for _, rows in parts]) if parts else torch.zeros(0)
    if not sources or not targets:
        return Edges(torch.empty(2, 0, dtype=torch.long), targets, sources)
    start = torch.cat([rows.byte().argmax(1) for _, rows in parts])
    stop = torch.cat([sources - rows.flip(1).byte().argmax(1) for _, rows in parts])
    stop = torch.where(counts > 0, stop, start)
    if torch.equal(stop - start, counts):
        return Intervals(start, stop, sources)
    found = [rows.nonzero().T + torch.tensor([[first], [0]]) for first, rows in parts]
    return Edges(torch.cat(found, 1).flip(0).contiguous(), targets, sources)


def place(graph: Graph, targets: int, sources: int, row: int, column: int) -> Graph:
    """Place the edges of a graph in a larger graph, in which its nodes have other numbers.

    Args:
        graph: graph to place.
        targets: number of targets of the larger graph.
        sources: number of sources of the larger graph.
        row: new number of the first target.
        column: new number of the first source. If it is negative, edges from sources with negative
            new numbers are dropped.
    """
    if (row, column, graph.num_targets, graph.num_sources) == (0, 0, targets, sources):
        return graph
    placed: list[Graph] = []
    for part in graph.parts:
        if isinstance(part, Intervals) and (part.step == 1 or column >= 0):
            start, stop = torch.zeros(2, targets, dtype=torch.long)
            rows = slice(row, row + part.num_targets)
            start[rows] = (part.start + column).clamp(min=0)
            stop[rows] = (part.stop + column).clamp(min=0)
            placed.append(Intervals(start, stop, sources, step=part.step))
        else:
            moved = part.edge_index + torch.tensor([[column], [row]])
            placed.append(Edges(moved[:, moved[0] >= 0], targets, sources))
    return disjoint_union(placed, targets, sources)


def side_by_side(members: Sequence[Graph]) -> Graph:
    """Pack graphs into a block-diagonal graph, in which :class:`Intervals` stay intervals."""
    runs = [[part for part in m.parts if isinstance(part, Intervals)] for m in members]
    rest = [[part for part in m.parts if not isinstance(part, Intervals)] for m in members]
    columns = [*zip_longest(*runs), *zip_longest(*rest)]
    packed = []
    for column in columns:
        parts = zip(column, members, strict=True)
        packed.append(batch([_empty(m) if part is None else part for part, m in parts]))
    targets, sources = (sum(getattr(m, f"num_{side}") for m in members) for side in SIDES)
    return disjoint_union(packed, targets, sources)


def lengths_of_texts(graph: Graph, first: int, stop: int) -> list[int]:
    """Return the lengths of the texts packed in one row; texts do not attend to each other.

    Args:
        graph: graph with as many targets as sources.
        first: position of the first token.
        stop: position after the last token.
    """
    if not isinstance(graph, Intervals):
        return [stop - first]
    reads = graph.start < graph.stop
    low = graph.start.masked_fill(~reads, stop)[first:stop].flip(0).cummin(0).values.flip(0)
    high = graph.stop.masked_fill(~reads, 0)[first:stop].cummax(0).values
    place = torch.arange(first, stop)
    # True at positions that no pair crosses, so that a block may end there.
    ends = (high[:-1] <= place[1:]) & (low[1:] >= place[1:])
    cuts = [0, *(ends.nonzero().flatten() + 1).tolist(), stop - first]
    return [after - before for before, after in pairwise(cuts)]


def _empty(graph: Graph) -> Intervals:
    start, stop = torch.zeros(2, graph.num_targets, dtype=torch.long)
    return Intervals(start, stop, graph.num_sources)


def _without_sources(graph: Graph, real: Tensor) -> Graph:
    kept = graph.edge_index[:, real[graph.source]]
    return Edges(kept, graph.num_targets, graph.num_sources)
