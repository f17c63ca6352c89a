"""Compact forms of biases and edge vectors, expanded to one entry per edge only if needed."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from functools import cached_property
from typing import Any, TypedDict, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from edgewise._utils.dispatch_modes import detach_from_inference, disable_modes
from edgewise._utils.errors import ArgumentError
from edgewise._utils.torch_internals import has_values

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class TableBias:
    """Bias that depends on the class of an edge: ``bias[e, h] = table[index[e], h]``.

    The class is for example the shortest-path distance (Graphormer), the type of the edge, or the
    relative position (T5, Swin).

    Args:
        index: ``[E]``, class of each edge, in the graph's edge order. For the complete graph this
            is the matrix of classes ``[N_dst, N_src]``, flattened.
        table: ``[classes, H]``, bias of each class and head.

    Example:
        >>> import torch, edgewise
        >>> query = key = value = torch.randn(10, 4, 8)  # nodes, heads, width of a head
        >>> graph = edgewise.graphs.window(1).bind(10)
        >>> kind = torch.randint(3, (graph.num_edges,))  # three kinds of edges
        >>> bias = edgewise.TableBias(kind, torch.randn(3, 4))
        >>> edgewise.attend(query, key, value, graph, bias=bias).shape
        torch.Size([10, 4, 8])
    """

    index: Tensor
    table: Tensor

    def __post_init__(self) -> None:
        _check_index(self.index, self.table)
        if self.index.dtype not in (torch.int32, torch.int64):
            # PyTorch treats a uint8 index as a boolean mask, so the index is converted to int64.
            object.__setattr__(self, "index", self.index.long())

    @property
    def shape(self) -> torch.Size:
        """Shape ``[E, H]`` of the expanded bias."""
        return torch.Size((self.index.shape[0], self.table.shape[1]))

    def expand(self) -> Tensor:
        """Return the bias as a tensor ``[E, H]``."""
        return self.table.index_select(0, self.index)

    def edges(self, chosen: slice | Tensor) -> TableBias:
        """Return the bias of selected edges, given as a slice or as indices."""
        return _unchecked(TableBias, index=self.index[chosen], table=self.table)

    def to(self, dtype: torch.dtype) -> TableBias:
        """Return the bias in another dtype; gradients of the table keep its dtype."""
        return self if self.table.dtype == dtype else self.with_table(self.table.to(dtype))

    def with_table(self, table: Tensor) -> TableBias:
        return _unchecked(TableBias, index=self.index, table=table)


@dataclass(frozen=True, eq=False)
class Offsets:
    """Classes of edges that depend on the relative position of source and target.

    Each node has an integer position. The class of the edge from j to i is
    ``classes[source_place[j] - target_place[i]]``. For relative position buckets (T5), use the
    position in the text; for 2-D offsets in a window (Swin), use ``row * (2 * side - 1) +
    column``. The ``tiles`` engine computes classes from positions, so its memory grows with the
    number of nodes, not of edges. For other engines, the classes of all edges are computed once.

    Attributes:
        target_place: ``[N_dst]``, integer positions of the targets.
        source_place: ``[N_src]``, integer positions of the sources.
        classes: ``[count]``, class of each difference of positions. For every source and target,
            also without an edge, the difference must be from 0 to ``count - 1``; add a constant to
            the positions of the sources if it can be negative.
        graph: graph that contains the edges, with known numbers of sources and targets.

    Raises:
        ArgumentError: if the number of positions differs from the number of nodes, or a
            difference of positions is out of range.

    Example:
        >>> import torch, edgewise
        >>> place = torch.arange(3)  # positions in a text
        >>> graph = edgewise.graphs.causal().bind(3)
        >>> offsets = edgewise.Offsets(place - 2, place, torch.tensor([2, 1, 0, 0, 0]), graph)
        >>> graph.target - graph.source, offsets.index
        (tensor([0, 1, 0, 2, 1, 0]), tensor([0, 1, 0, 2, 1, 0]))
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
                expected=f"one position for each of the graph's {sizes[0]} targets and {sizes[1]} "
                "sources",
                got=f"{got[0]} target positions and {got[1]} source positions",
                remedy="give target_place one position per target, and source_place one per source",
            )
        for name in ("target_place", "source_place"):
            positions = detach_from_inference(getattr(self, name).int())
            object.__setattr__(self, name, positions)
        object.__setattr__(self, "classes", detach_from_inference(self.classes))
        # PyTorch indexes with int32 and int64 only; see TableBias.
        if self.classes.dtype in (torch.int8, torch.int16, torch.uint8):
            object.__setattr__(self, "classes", self.classes.long())
        if 0 in sizes or not has_values(self.classes):
            return
        low = int(self.source_place.min()) - int(self.target_place.max())
        high = int(self.source_place.max()) - int(self.target_place.min())
        if low < 0 or high >= len(self.classes):
            raise ArgumentError(
                "Offsets.classes",
                expected=f"a class for each difference of positions, from {low} to {high}",
                got=f"classes for differences from 0 to {len(self.classes) - 1}",
                remedy=f"subtract {-low} from target_place, and give {high - low + 1} classes"
                if low < 0
                else f"give {high + 1} classes",
            )

    @cached_property
    def index(self) -> Tensor:
        """Class of each edge, ``[E]``."""
        graph = self.graph.to(self.classes.device)
        if self.classes.is_meta:
            return self.classes.new_empty(graph.num_edges)
        # The index is cached, so it must be valid in calls under other PyTorch modes.
        with disable_modes(self.classes.device):
            return self.classes[self.source_place[graph.source] - self.target_place[graph.target]]

    def to(self, device: torch.device) -> Offsets:
        """Return the offsets on another device, cached on the copy of the graph on that device."""
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
    """Bias by relative position: ``bias[e, h] = table[offsets.index[e], h]``.

    It is equal to a ``TableBias``, but the ``tiles`` engine does not store the index ``[E]``.

    Args:
        offsets: positions of the nodes, and the class of each difference of positions.
        table: ``[classes, H]``, bias of each class and head.

    Raises:
        ArgumentError: if the table has no row for one of the classes.

    Example:
        >>> import torch, edgewise
        >>> place = torch.arange(10)  # positions in a text
        >>> classes = (9 - torch.arange(19)).clamp(-2, 2) + 2  # i - j clipped to 2 on either side
        >>> graph = edgewise.graphs.causal().bind(10)
        >>> offsets = edgewise.Offsets(place - 9, place, classes, graph)  # differences from 0 to 18
        >>> bias = edgewise.OffsetBias(offsets, torch.randn(5, 4))
        >>> query = key = value = torch.randn(10, 4, 8)  # nodes, heads, width of a head
        >>> edgewise.attend(query, key, value, graph, bias=bias).shape
        torch.Size([10, 4, 8])
    """

    offsets: Offsets
    # FSDP2 calls dataclasses.replace, which passes the fields to __init__.
    __dataclass_fields__ = vars(make_dataclass("_", ["offsets", "table"]))["__dataclass_fields__"]

    def __init__(self, offsets: Offsets, table: Tensor) -> None:
        _check_index(offsets.classes, table)
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "table", table)

    @property
    def index(self) -> Tensor:
        """Class of each edge, ``[E]``, computed on first use."""
        return self.offsets.index

    @property
    def shape(self) -> torch.Size:
        """Shape ``[E, H]`` of the expanded bias."""
        return torch.Size((self.offsets.graph.num_edges, self.table.shape[1]))

    def with_table(self, table: Tensor) -> TableBias:
        return _unchecked(OffsetBias, offsets=self.offsets, table=table)


@dataclass(frozen=True, eq=False)
class Projected:
    r"""Edge vectors that are projections of edge features: ``vector[e, h] = W[h] @ features[e]``.

    The ``rows`` engine does not store the edge vectors. With features e and attention weights w,
    it computes scores as :math:`q^\top k + (W^\top q)^\top e` and values as
    :math:`\sum w v + W \sum w e`.

    Args:
        features: edge features, ``[E, F]``.
        weight: projection W of each head, ``[H, D, F]``.

    Example:
        >>> import torch, edgewise
        >>> query = key = value = torch.randn(10, 4, 8)  # nodes, heads, width of a head
        >>> graph = edgewise.graphs.window(1).bind(10)
        >>> features, weight = torch.randn(graph.num_edges, 5), torch.randn(4, 8, 5)
        >>> edge_key = edgewise.Projected(features, weight)
        >>> edgewise.attend(query, key, value, graph, edge_key=edge_key).shape
        torch.Size([10, 4, 8])
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
                remedy="reshape the weight of nn.Linear(F, H * D) with .view(H, D, F); features "
                "must not have a batch dimension",
            )

    def expand(self) -> Tensor:
        """Return the edge vectors as a tensor ``[E, H, D]``."""
        return torch.einsum("ef,hdf->ehd", self.features, self.weight)

    def edges(self, chosen: slice | Tensor) -> Projected:
        """Return the vectors of selected edges, given as a slice or as indices."""
        return Projected(self.features[chosen], self.weight)

    def to(self, dtype: torch.dtype) -> Projected:
        """Return a copy with features and weight in another dtype."""
        return Projected(self.features.to(dtype), self.weight.to(dtype))


EdgeTerm = Tensor | TableBias
"""Type of a bias or gain: a tensor ``[..., E, H]`` or ``[..., E, 1]``, or a ``TableBias``."""

EdgeVector = Tensor | Projected
"""Type of edge vectors: a tensor ``[..., E, H, D]``, or ``Projected``."""


class EdgeTerms(TypedDict, total=False):
    """Keyword arguments of layers, each with one entry per edge; see :func:`edgewise.attend`."""

    bias: EdgeTerm | None
    gain: EdgeTerm | None
    edge_key: EdgeVector | None
    edge_value: EdgeVector | None


def add_terms(*terms: EdgeTerm | None) -> EdgeTerm | None:
    """Return the sum of the biases that are not None. A single bias is returned unchanged."""
    present = [term for term in terms if term is not None]
    if len(present) < 2:
        return present[0] if present else None
    first, *others = (term.expand() if isinstance(term, TableBias) else term for term in present)
    return sum(others, first)


def _unchecked(kind: type[T], **fields: Any) -> T:
    """Create an instance of a frozen dataclass without the checks of its constructor."""
    instance = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(instance, name, value)
    return instance


_RANGES = WeakTensorKeyDictionary()


def _range(index: Tensor) -> tuple[int, int]:
    """Return the smallest and the largest number, cached for a GPU; 0 and -1 if it is empty."""
    if not index.numel():
        return 0, -1
    if index.device.type == "cpu" or torch.compiler.is_compiling() or index.is_inference():
        return int(index.min()), int(index.max())
    entry: tuple[object, tuple[int, int]] | None = _RANGES.get(index)
    if entry is None or entry[0] != index._version:
        low, high = torch.stack(index.aminmax()).tolist()
        entry = _RANGES[index] = index._version, (low, high)
    return entry[1]


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
            remedy="use one row per class and one column per head",
        )
    if index.device != table.device:
        raise ArgumentError(
            "TableBias.index",
            expected=f"a tensor on {table.device}, the device of the table",
            got=f"a tensor on {index.device}",
            remedy="move index and table to one device with .to(device)",
        )
    if not has_values(index):
        return
    low, high = _range(index)
    if low < 0 or high >= table.shape[0]:
        raise ArgumentError(
            "TableBias.index",
            expected=f"classes from 0 to {table.shape[0] - 1}",
            got=f"values from {low} to {high}",
            remedy="clip the classes or give the table more rows",
        )
