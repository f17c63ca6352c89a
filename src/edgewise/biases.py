"""Edge terms that look themselves up, so that no tensor of their full size has to exist."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from edgewise.dispatch_modes import detach_from_inference, persist_on
from edgewise.errors import ArgumentError

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class TableBias:
    """A bias that depends on the class of an edge: ``bias[e, h] = table[index[e], h]``.

    Shortest-path distance (Graphormer), edge type and relative position (T5, Swin) are of this
    form. ``index`` is ``[E]`` in the graph's edge order (for the complete graph that is the
    ``[N_dst, N_src]`` matrix of classes, flattened), ``table`` is ``[classes, H]``.
    """

    index: Tensor
    table: Tensor

    def __post_init__(self) -> None:
        _check_index(self.index, self.table)
        if self.index.dtype not in (torch.int32, torch.int64):  # bytes would select as a mask does
            object.__setattr__(self, "index", self.index.long())

    @property
    def shape(self) -> torch.Size:
        """``[E, H]``, of the whole tensor."""
        return torch.Size((self.index.shape[0], self.table.shape[1]))

    def expand(self) -> Tensor:
        """The whole ``[E, H]`` tensor that this stands for."""
        return self.table.index_select(0, self.index)

    def edges(self, chosen: slice | Tensor) -> TableBias:
        """The same bias for these edges alone."""
        return _unchecked(TableBias, index=self.index[chosen], table=self.table)

    def to(self, dtype: torch.dtype) -> TableBias:
        """The same bias with numbers of another type; gradients come back in the table's own."""
        return self if self.table.dtype == dtype else self._with(self.table.to(dtype))

    def _with(self, table: Tensor) -> TableBias:
        return _unchecked(TableBias, index=self.index, table=table)


@dataclass(frozen=True, eq=False)
class Offsets:
    """How far apart the ends of each edge are, as a class, from a number for each node.

    The class of the edge from j to i is ``classes[source_place[j] - target_place[i]]``. Positions
    of a text, say, are places for T5's buckets; and ``row * (2 * side - 1) + column`` for Swin's
    2-D offsets in a window. Memory grows with the nodes, not with the edges, where an engine reads
    places itself, as ``tiles`` does; others are given the index ``[E]``, made once.

    Attributes:
        target_place: ``[N_dst]``, integers.
        source_place: ``[N_src]``, integers.
        classes: ``[count]``, of every difference of a source's and a target's place: each of these,
            of an edge or not, is from 0 to ``count - 1``.
        graph: whose edges these are.

    Raises:
        ArgumentError: places of other nodes than the graph's, or a difference out of range.
    """

    target_place: Tensor
    source_place: Tensor
    classes: Tensor
    graph: Any

    def __post_init__(self) -> None:
        sizes = self.graph.num_targets, self.graph.num_sources
        got = len(self.target_place), len(self.source_place)
        if got != sizes:
            raise ArgumentError(
                "Offsets",
                expected=f"places of the graph's {sizes[0]} targets and {sizes[1]} sources",
                got=f"{got[0]} and {got[1]}",
                remedy="give a number for each node",
            )
        for name in ("target_place", "source_place"):
            place = detach_from_inference(getattr(self, name).int())
            object.__setattr__(self, name, place)
        object.__setattr__(self, "classes", detach_from_inference(self.classes))
        if self.classes.dtype in (torch.int8, torch.int16, torch.uint8):  # see TableBias
            object.__setattr__(self, "classes", self.classes.long())
        if 0 in sizes or self.classes.is_meta:
            return
        low = int(self.source_place.min()) - int(self.target_place.max())
        high = int(self.source_place.max()) - int(self.target_place.min())
        if low < 0 or high >= len(self.classes):
            raise ArgumentError(
                "Offsets.classes",
                expected=f"a class for every difference of places, here {low} to {high}",
                got=f"{len(self.classes)}, from 0 on",
                remedy="take what is greatest off the targets' places, or give more classes",
            )

    @cached_property
    def index(self) -> Tensor:
        """``[E]``, the class of each edge."""
        graph = self.graph.to(self.classes.device)
        if self.classes.is_meta:
            return self.classes.new_empty(graph.num_edges)
        with persist_on(self.classes.device):  # kept for calls in other modes
            return self.classes[self.source_place[graph.source] - self.target_place[graph.target]]

    def to(self, device: torch.device) -> Offsets:
        """The same on another device, which is kept with the graph there."""
        if self.classes.device == device:
            return self
        graph = self.graph.to(device)
        moved: Offsets = graph.cached(self, lambda: self._on(graph))
        return moved

    def _on(self, graph: Any) -> Offsets:
        names = "target_place", "source_place", "classes"
        tensors = {name: getattr(self, name).to(graph.device) for name in names}
        return _unchecked(Offsets, graph=graph, **tensors)


class OffsetBias(TableBias):
    """A table's bias by offset: ``bias[e, h] = table[offsets.index[e], h]``, and no ``[E]`` tensor.

    Positions of a text, whose distances beyond 2 share a number a head on each side::

        behind = 9 - torch.arange(19)  # of places 0 to 9 less the targets' -9 to 0
        place = torch.arange(10)
        offsets = Offsets(place - 9, place, behind.clamp(-2, 2) + 2, graphs.causal().bind(10))
        attend(query, key, value, offsets.graph, bias=OffsetBias(offsets, torch.randn(5, heads)))

    Args:
        offsets: the class of each edge, as places of nodes.
        table: ``[classes, H]``.

    Raises:
        ArgumentError: a class that the table has no row for.
    """

    offsets: Offsets

    def __init__(self, offsets: Offsets, table: Tensor) -> None:
        _check_index(offsets.classes, table)
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "table", table)

    @property
    def index(self) -> Tensor:
        """``[E]``, the class of each edge; made when somebody asks for it."""
        return self.offsets.index

    @property
    def shape(self) -> torch.Size:
        """``[E, H]``, of the whole tensor."""
        return torch.Size((self.offsets.graph.num_edges, self.table.shape[1]))

    def _with(self, table: Tensor) -> TableBias:
        return _unchecked(OffsetBias, offsets=self.offsets, table=table)


@dataclass(frozen=True, eq=False)
class Projected:
    """Edge vectors as a projection of narrow edge features: ``vector[e, h] = W[h] @ features[e]``.

    ``features`` is ``[E, F]`` and ``weight`` is ``[H, D, F]``. Fused engines never expand it:
    q·(k + We) = q·k + (Wᵀq)·e and Σ p (v + We) = Σ p v + W (Σ p e).
    """

    features: Tensor
    weight: Tensor

    def __post_init__(self) -> None:
        narrow = self.features.dim() == 2 and self.weight.dim() == 3
        if not narrow or self.features.shape[1] != self.weight.shape[2]:
            raise ArgumentError(
                "Projected",
                expected="features [E, F] and weight [H, D, F] with the same F",
                got=f"{list(self.features.shape)} and {list(self.weight.shape)}",
                remedy="reshape the weight of nn.Linear(F, H * D) with .view(H, D, F); edges have "
                "one set of features for the whole batch",
            )

    def expand(self) -> Tensor:
        """The whole ``[E, H, D]`` tensor that this stands for."""
        return torch.einsum("ef,hdf->ehd", self.features, self.weight)

    def edges(self, chosen: slice | Tensor) -> Projected:
        """The same vectors for these edges alone."""
        return Projected(self.features[chosen], self.weight)

    def to(self, dtype: torch.dtype) -> Projected:
        """The same vectors with numbers of another type."""
        return Projected(self.features.to(dtype), self.weight.to(dtype))


EdgeTerm = Tensor | TableBias
"""What may stand for a bias: ``[..., E, H]``, ``[..., E, 1]`` or a table."""

EdgeVector = Tensor | Projected
"""What may stand for an edge vector: ``[E, H, D]`` or a projection."""


class EdgeTerms(TypedDict, total=False):
    """What may be added on the edges of a layer; see :func:`edgewise.attend`."""

    bias: EdgeTerm | None
    gain: EdgeTerm | None
    edge_key: EdgeVector | None
    edge_value: EdgeVector | None


def add_terms(*terms: EdgeTerm | None) -> EdgeTerm | None:
    """The sum of biases, those that are ``None`` left out; a table alone stays one."""
    given = [term for term in terms if term is not None]
    if len(given) < 2:
        return given[0] if given else None
    first, *others = (term.expand() if isinstance(term, TableBias) else term for term in given)
    return sum(others, first)


def _unchecked(kind: type[T], **fields: Any) -> T:
    """One of a frozen class made of what was checked, which is not read through again."""
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


_RANGES = WeakTensorKeyDictionary()


def _range(index: Tensor) -> tuple[int, int]:
    """The least and the greatest class; of an index on a GPU once, as to read them waits for it."""
    if not index.numel():
        return 0, -1
    if index.device.type == "cpu" or torch.compiler.is_compiling() or index.is_inference():
        return int(index.min()), int(index.max())
    known: tuple[object, tuple[int, int]] | None = _RANGES.get(index)
    if known is None or known[0] != index._version:
        low, high = torch.stack(index.aminmax()).tolist()
        known = _RANGES[index] = index._version, (low, high)
    return known[1]


def _check_index(index: Tensor, table: Tensor) -> None:
    if index.dtype.is_floating_point or index.dtype == torch.bool or index.dim() != 1:
        raise ArgumentError(
            "TableBias.index",
            expected="integers of shape [E]",
            got=f"{index.dtype} of shape {list(index.shape)}",
            remedy="flatten the classes in the graph's edge order and cast them with .long()",
        )
    if table.dim() != 2:
        raise ArgumentError(
            "TableBias.table",
            expected="shape [classes, H]",
            got=f"shape {list(table.shape)}",
            remedy="use one row a class and one column a head",
        )
    if index.device != table.device:
        raise ArgumentError(
            "TableBias.index",
            expected=f"a tensor on {table.device}, as the table is",
            got=f"one on {index.device}",
            remedy="move both with .to(device)",
        )
    if index.is_meta:  # shapes alone, no classes to look at
        return
    low, high = _range(index)
    if low < 0 or high >= table.shape[0]:
        raise ArgumentError(
            "TableBias.index",
            expected=f"classes from 0 to {table.shape[0] - 1}",
            got=f"values from {low} to {high}",
            remedy="clip the classes or give the table more rows",
        )
