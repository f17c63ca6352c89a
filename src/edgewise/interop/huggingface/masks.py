"""Attention masks of ``transformers`` models as graphs.

``transformers`` describes a mask by a function of positions and expands it to ``[B, 1, T, S]`` in
each call. Here the causal and the full mask become the patterns ``causal`` and ``complete``. Other
mask functions are evaluated a few rows at a time; the result is cached if the function depends on
positions and numbers only. Edges from padding are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest
from typing import Any, NoReturn

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.graphs import Edges, Graph, Intervals, Pattern, batch, causal, complete, empty
from edgewise.graphs.graph import disjoint_union

MaskFunction = Callable[..., Tensor]
"""Mask function of transformers: ``(batch index, head, target, source) -> bool`` of positions."""
AT_ONCE = 1 << 24
"""Maximum number of pairs for which a mask function is evaluated at once."""


class GraphMask:
    """Patterns of the batch, or of each text, that replace a mask ``[B, 1, T, S]``. A sliding cache
    has dropped ``forgotten`` sources; ``real`` ``[B, forgotten + S]`` is False for padding. The
    targets are the last sources, except in cross-attention.
    """

    ndim = 4
    """Number of dimensions of the mask, by which ``generate`` recognises a prepared mask."""

    def __init__(
        self,
        patterns: Sequence[Pattern],
        targets: int,
        sources: int,
        *,
        forgotten: int = 0,
        real: Tensor | None = None,
        kind: str = "",
    ) -> None:
        self.patterns, self.targets, self.sources = patterns, targets, sources
        self.forgotten = forgotten
        self.real, self.kind = real, kind
        self._bound: dict[Pattern | None, Pattern] = {}

    @property
    def is_shared(self) -> bool:
        """True if all members of the batch have the same graph."""
        return self.real is None and len(self.patterns) == 1

    def graph(self, pattern: Pattern | None) -> Pattern:
        """Return the pairs in the mask and in ``pattern`` (after padding): ``[T, S]`` or packed."""
        if pattern not in self._bound:
            self._bound[pattern] = (
                self._shared(pattern) if self.is_shared else self._packed(pattern)
            )
        return self._bound[pattern]

    def contiguous(self) -> GraphMask:
        """Return the object itself; ``generate`` calls this method."""
        return self

    def _shared(self, pattern: Pattern | None) -> Pattern:
        if pattern is None:
            return self.patterns[0]
        if self.forgotten:
            pattern = WithoutFirstSources(pattern, self.forgotten)
        return self.patterns[0] & pattern

    def _packed(self, pattern: Pattern | None) -> Graph:
        count = len(self.patterns) if self.real is None else len(self.real)
        return block_diagonal([self._member(number, pattern) for number in range(count)])

    def _member(self, number: int, pattern: Pattern | None) -> Graph:
        allowed = self.patterns[number if len(self.patterns) > 1 else 0]
        mask = allowed.bind(self.targets, self.sources)
        first, stop, holes = self._span(number)
        # Padding positions may attend too, as in transformers.
        if pattern is None or first == stop:
            start = torch.full((self.targets,), max(first - self.forgotten, 0))
            end = torch.full((self.targets,), max(stop - self.forgotten, 0))
            text: Graph = Intervals(start, end, self.sources)
        else:
            total = self.forgotten + self.sources
            row = max(first - (total - self.targets), 0)
            count = max(self.targets - row - (total - stop), 0)
            if count == stop - first and isinstance(allowed, Graph):
                lengths = lengths_of_texts(mask, first, stop)
                text = block_diagonal([pattern.bind(length) for length in lengths])
            else:
                text = pattern.bind(count, stop - first)
            text = place(text, self.targets, self.sources, row, first - self.forgotten)
        both = (mask & text).bind(self.targets, self.sources)
        if holes is None:
            return both
        edge_index = both.edge_index[:, ~holes[self.forgotten :][both.source]]
        return Edges(edge_index, self.targets, self.sources)

    def _span(self, number: int) -> tuple[int, int, Tensor | None]:
        """Return the start and end of a text, and the padding within it, if any."""
        if self.real is None:
            return 0, self.forgotten + self.sources, None
        real = self.real[number].cpu()
        positions = real.nonzero().flatten()
        if not len(positions):
            return 0, 0, None
        first, stop = int(positions[0]), int(positions[-1]) + 1
        return first, stop, None if len(positions) == stop - first else ~real

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
        arguments = [*args, *(kwargs or {}).values()]
        next(x for x in arguments if isinstance(x, GraphMask))._refuse()

    def _refuse(self) -> NoReturn:
        raise ArgumentError(
            "attn_implementation",
            expected="a model that uses AttentionInterface of transformers",
            got=f"a {self.kind or 'model'}, which uses the values of the attention mask",
            remedy='use attn_implementation="eager" for this model',
        )


def mask_of_call(
    *,
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: MaskFunction | None = None,
    attention_mask: Tensor | GraphMask | None = None,
    use_vmap: bool = False,
    **other: Any,
) -> GraphMask:
    """Return the attention mask of one forward pass; ``transformers`` calls this function."""
    if isinstance(attention_mask, GraphMask):  # The caller has prepared the mask.
        return attention_mask
    kind = getattr(other.get("config"), "model_type", "")
    from transformers import masking_utils

    function: Any = masking_utils.causal_mask_function if mask_function is None else mask_function
    offset = int(q_offset)
    if function is masking_utils.bidirectional_mask_function:
        patterns: list[Pattern] = [complete()]
    else:
        # A static cache has slots that are not written yet and must not be attended to.
        kv_length = min(kv_length, offset + q_length - kv_offset)
        patterns = [causal()]
        if function is not masking_utils.causal_mask_function:
            rule = MaskRule(function, batch_size, offset - kv_offset, kv_offset, use_vmap)
            patterns = rule.patterns(q_length, kv_length)
    real = None
    if attention_mask is not None:
        real = attention_mask[:, : kv_offset + kv_length].bool()
        missing = kv_offset + kv_length - real.shape[1]
        real = torch.nn.functional.pad(real, (0, missing)) if missing else real
        real = None if bool(real.all()) else real
    return GraphMask(patterns, q_length, kv_length, forgotten=kv_offset, real=real, kind=kind)


def mask_of_tensor(mask: Tensor, targets: int, sources: int) -> tuple[GraphMask, Tensor | None]:
    """Return the pairs that a mask ``[B, H, T, S]`` allows, and its additive bias or None."""
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
    graphs = [graph_of_rows([(0, matrix)], targets) for matrix in matrices]
    return GraphMask(graphs, targets, sources), added


@dataclass(frozen=True)
class MaskRule:
    """Mask function of ``transformers``, evaluated a few rows at a time."""

    function: MaskFunction
    members: int
    offset: int
    first: int
    use_vmap: bool

    def patterns(self, targets: int, sources: int) -> list[Pattern]:
        """Return one pattern for the batch, or one per member."""
        key = function_key(self.function)
        if key is not None and not self.use_vmap:
            return [RulePattern(key, self.offset, self.first, replace(self, members=1))]
        return list(self.graphs(targets, sources))

    def graphs(self, targets: int, sources: int) -> list[Graph]:
        """Return a list of one graph, or of one per batch member if their masks differ."""
        chunks = list(self._rows(targets, sources))
        is_shared = all(bool((allowed == allowed[:1]).all()) for _, allowed in chunks)
        return [
            graph_of_rows([(row, allowed[member]) for row, allowed in chunks], targets)
            for member in range(1 if is_shared else self.members)
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
                q_offset=self.first + self.offset + row,
                kv_offset=self.first,
                mask_function=self.function,
                allow_is_causal_skip=False,
                allow_is_bidirectional_skip=False,
                use_vmap=self.use_vmap,
            )
            # The mask is never None, because skipping is disabled.
            assert mask is not None
            yield row, mask[:, 0].cpu()


@dataclass(frozen=True)
class RulePattern(Pattern):
    """Pattern of a mask function that is identified by ``key``, such as a sliding window."""

    key: Any
    offset: int
    first: int
    rule: MaskRule = field(compare=False)

    def __repr__(self) -> str:
        return f"the mask of {self.rule.function.__qualname__}"

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        (graph,) = self.rule.graphs(num_targets, num_sources)
        return graph


@dataclass(frozen=True, repr=False)
class WithoutFirstSources(Pattern):
    """Pattern without its first ``forgotten`` sources, which a sliding cache has dropped."""

    pattern: Pattern
    forgotten: int

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        graph = self.pattern.bind(num_targets, self.forgotten + num_sources)
        return place(graph, num_targets, num_sources, 0, -self.forgotten)


def function_key(function: Any) -> Any:
    """Return a key for a mask function: its code and the numbers it closes over, or None."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    key: list[Any] = [code]
    for cell in function.__closure__ or ():
        contents = cell.cell_contents
        for value in contents if isinstance(contents, tuple) else (contents,):
            is_constant = isinstance(value, int | float | str | None)
            value_key = value if is_constant else function_key(value)
            if value_key is None and value is not None:
                return None
            key.append(value_key)
    return tuple(key)


def graph_of_rows(chunks: Sequence[tuple[int, Tensor]], targets: int) -> Graph:
    """Return the graph, intervals or edges, of a mask in chunks (first row, ``[rows, S]``)."""
    sources = chunks[0][1].shape[1] if chunks else 0
    if not sources or not targets:
        return Edges(torch.empty(2, 0, dtype=torch.long), targets, sources)
    counts = torch.cat([rows.sum(1) for _, rows in chunks])
    start = torch.cat([rows.byte().argmax(1) for _, rows in chunks])
    stop = torch.cat([sources - rows.flip(1).byte().argmax(1) for _, rows in chunks])
    stop = torch.where(counts > 0, stop, start)
    if torch.equal(stop - start, counts):
        return Intervals(start, stop, sources)
    pairs = [rows.nonzero().T + torch.tensor([[first], [0]]) for first, rows in chunks]
    return Edges(torch.cat(pairs, 1).flip(0).contiguous(), targets, sources)


def place(graph: Graph, targets: int, sources: int, row: int, column: int) -> Graph:
    """Place a graph at ``row``, ``column`` of a larger one, without edges from negative sources."""
    if (row, column, graph.num_targets, graph.num_sources) == (0, 0, targets, sources):
        return graph
    placed: list[Graph] = []
    for component in graph.parts:
        if isinstance(component, Intervals) and (component.step == 1 or column >= 0):
            start, stop = torch.zeros(2, targets, dtype=torch.long)
            rows = slice(row, row + component.num_targets)
            start[rows] = (component.start + column).clamp(min=0)
            stop[rows] = (component.stop + column).clamp(min=0)
            placed.append(Intervals(start, stop, sources, step=component.step))
        else:
            edge_index = component.edge_index + torch.tensor([[column], [row]])
            placed.append(Edges(edge_index[:, edge_index[0] >= 0], targets, sources))
    return disjoint_union(placed, targets, sources)


def block_diagonal(members: Sequence[Graph]) -> Graph:
    """Pack graphs into a block-diagonal graph, in which :class:`Intervals` stay intervals."""
    intervals = [[g for g in m.parts if isinstance(g, Intervals)] for m in members]
    others = [[g for g in m.parts if not isinstance(g, Intervals)] for m in members]
    packed = []
    for column in [*zip_longest(*intervals), *zip_longest(*others)]:
        pairs = zip(column, members, strict=True)
        packed.append(batch([empty().on_nodes_of(m) if g is None else g for g, m in pairs]))
    targets = sum(member.num_targets for member in members)
    sources = sum(member.num_sources for member in members)
    return disjoint_union(packed, targets, sources)


def lengths_of_texts(graph: Graph, first: int, stop: int) -> list[int]:
    """Return the lengths of the texts at positions ``first`` to ``stop`` of one row."""
    if not isinstance(graph, Intervals):
        return [stop - first]
    has_sources = graph.start < graph.stop
    low = graph.start.masked_fill(~has_sources, stop)[first:stop].flip(0).cummin(0).values.flip(0)
    high = graph.stop.masked_fill(~has_sources, 0)[first:stop].cummax(0).values
    position = torch.arange(first, stop)
    # True at positions that no pair crosses, so that a block may end there.
    ends = (high[:-1] <= position[1:]) & (low[1:] >= position[1:])
    cuts = [0, *(ends.nonzero().flatten() + 1).tolist(), stop - first]
    return [end - begin for begin, end in pairwise(cuts)]
