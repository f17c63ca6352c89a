"""Patterns for any number of nodes, graphs for a fixed number of nodes, and their operations.

``pattern.bind(n)`` returns a :class:`Graph`. As in PyTorch Geometric, ``edge_index[0]`` holds the
sources and ``edge_index[1]`` the targets. A target attends to its sources.

The base classes stand here with the classes of which their operators return instances.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from html import escape
from operator import index
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, TypeVar, cast

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range, describe
from edgewise._utils.dispatch_modes import (
    detach_from_inference,
    disable_modes,
    while_tracing,
)
from edgewise._utils.errors import ArgumentError, counted
from edgewise._utils.ragged import runs_and_positions, starts
from edgewise.graphs import drawing
from edgewise.graphs.run_lists import (
    RunList,
    common_runs,
    remaining_runs,
    run_key,
    run_lengths,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

MOST_BYTES = 64 << 20
MOST_GRAPHS = 64


class Pattern(ABC):
    """Attention pattern for any number of nodes.

    If there are fewer targets than sources, the targets are the *last* positions. Decoding one
    token with a key-value cache therefore uses one target and n sources.

    Example:
        >>> from edgewise import graphs
        >>> pattern = graphs.window(1) | graphs.hubs([0])
        >>> pattern.bind(5).num_edges
        19
    """

    _sized_remedy = "call .bind(num_nodes) on the pattern"
    """Remedy where a graph with a fixed number of nodes is expected."""

    def __init_subclass__(cls) -> None:
        """Let ``torch.load(weights_only=True)`` create this class if it belongs to this package."""
        super().__init_subclass__()
        if cls.__module__.partition(".")[0] == __name__.partition(".")[0]:
            torch.serialization.add_safe_globals([cls])

    def bind(self, num_targets: int, num_sources: int | None = None) -> Graph:
        """Return the graph of this pattern for these numbers of nodes.

        ``num_sources`` defaults to ``num_targets``. Graphs are cached (up to 64 MB in all).

        Raises:
            ArgumentError: the pattern is not defined for these sizes.
        """
        num_sources = num_targets if num_sources is None else num_sources
        if torch.compiler.is_dynamo_compiling():
            from edgewise.graphs.traced import bind_traced

            return bind_traced(self, index(num_targets), index(num_sources))
        return bound_graphs(self, num_targets, num_sources)

    @abstractmethod
    def _build(self, num_targets: int, num_sources: int) -> Graph:
        """Build the graph of this pattern for these numbers of nodes, without the cache."""

    def on_nodes_of(self, graph: Graph) -> Graph:
        """Build the graph of this pattern for the nodes of another graph, without the cache."""
        with disable_modes():
            return self._build(graph.num_targets, graph.num_sources)

    def _refuse(self, expected: str, num_targets: int, num_sources: int) -> NoReturn:
        raise ArgumentError(
            "graph",
            expected=f"{expected}, for {self!r}",
            got=f"{counted(num_targets, 'target')} and {counted(num_sources, 'source')}",
            remedy="change the number of targets or sources, or choose another pattern",
        )

    def _sources_ahead(self, num_targets: int, num_sources: int) -> int:
        """Return the position of the first target among the sources."""
        if num_targets > num_sources:
            self._refuse("no more targets than sources", num_targets, num_sources)
        return num_sources - num_targets

    def __or__(self, other: Pattern) -> Pattern:
        return Union.of(self, other)

    def __and__(self, other: Pattern) -> Pattern:
        return Intersection.of(self, other)

    def __sub__(self, other: Pattern) -> Pattern:
        return Difference.of(self, other)

    def power(self, k: int) -> Pattern:
        """Return the pattern with an edge from j to i if 1 to ``k`` edges lead from j to i.

        These j are the receptive field of i after k layers. The power of an undirected graph has
        self-loops for k ≥ 2; ``without_self_loops()`` removes them.
        """
        return Power(self, k)

    def transpose(self) -> Pattern:
        """Return the pattern with every edge reversed; the order of the edges stays the same."""
        return Transpose(self)

    def with_self_loops(self) -> Pattern:
        """Return the pattern with a self-loop at every node."""
        return Union(self, Window(0))

    def without_self_loops(self) -> Pattern:
        """Return the pattern without self-loops."""
        return Difference(self, Window(0))

    def draw(
        self, path: str | Path | None = None, *, nodes: int = 16, weights: Tensor | None = None
    ) -> Figure:
        """Draw the graph and its adjacency matrix; save the figure if ``path`` is given.

        Args:
            path: image file to write.
            nodes: number of nodes to draw if this is a pattern without a fixed size.
            weights: attention weights ``[E]``, or ``[E, H]`` to draw their mean over the heads.
                Edges with larger weights are darker.
        """
        graph = self if isinstance(self, Graph) else self.bind(nodes)
        return drawing.draw(graph, path, weights)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: a drawing with 16 nodes, or the name if this is no size."""
        try:
            graph = self.bind(16)
        except ArgumentError:
            return f"<code>{escape(repr(self))}</code>"
        return drawing.html_figure(drawing.svg(graph), f"{self!r}, on 16 nodes")

    def __repr__(self) -> str:
        assert is_dataclass(self)
        shown = [
            _written(value) if f.default is MISSING else f"{f.name}={_written(value)}"
            for f in fields(self)
            if (value := getattr(self, f.name)) != f.default
        ]
        return f"{_name(type(self))}({', '.join(shown)})"


def _name(kind: type[Pattern]) -> str:
    """Return the pattern's name for ``graphs.parse``: "window", or "mymodule:Strided"."""
    is_built_in = kind.__module__.partition(".")[0] == "edgewise"
    return kind.__name__.lower() if is_built_in else f"{kind.__module__}:{kind.__name__}"


def _written(value: Any) -> str:
    """Return the ``repr`` of an argument, with tuples (hashable lists) written as lists."""
    return repr(list(value) if isinstance(value, tuple) else value)


WHILE_TRACING = "_derived_"
"""Prefix of the attributes in which :meth:`Graph.derived` stores values for compiled code."""
ERROR = WHILE_TRACING + "error"
"""Attribute that stores the message of an ArgumentError while tracing."""


@while_tracing
def _derive_while_tracing(graph: Graph, function: Callable[..., Any], *args: Any) -> str | None:
    """Store ``function(graph, *args)`` on the graph during tracing; return the attribute's name."""
    # Compiled code cannot compute values that depend on data, such as the number of edges. A graph
    # that it creates has no values yet.
    if "_cache" not in vars(graph):
        return None
    try:
        result = graph.derived(function, *args)
    except ArgumentError as error:
        setattr(graph, ERROR, str(error))
        return ERROR
    # Compiled code is compiled again for another graph, so a number within the graph is unique.
    name = WHILE_TRACING + str(list(graph._results).index((function, *args)))
    setattr(graph, name, result)
    return name


class WholeDegrees(NamedTuple):
    """In-degree and number of self-loops, ``[num_targets]``, of the targets of a sampled graph in
    the graph from which its edges were sampled.
    """

    degree: Tensor
    loops: Tensor

    def with_self_loops(self) -> WholeDegrees:
        """Count a self-loop for each node that has none."""
        return WholeDegrees(self.degree + (self.loops == 0), self.loops.clamp(min=1))

    def without_self_loops(self) -> WholeDegrees:
        """Count no self-loop."""
        return WholeDegrees(self.degree - self.loops, torch.zeros_like(self.loops))

    def to(self, device: torch.device) -> WholeDegrees:
        """Return a copy on another device."""
        return WholeDegrees(self.degree.to(device), self.loops.to(device))


class Graph(Pattern):
    """Graph with a fixed number of nodes.

    Attributes:
        num_targets: number of target nodes (queries).
        num_sources: number of source nodes (keys).
        device: device of the edge indices.
        segments: for a packed batch, two tensors with the number of targets and of sources of each
            graph in the batch; otherwise ``None``.
        whole: for a sample of the edges of a larger graph, the degrees of the targets there;
            otherwise ``None``.

    Example:
        >>> from edgewise import graphs
        >>> graph = graphs.causal().bind(3)
        >>> graph.num_edges, graph.in_degree()
        (6, tensor([1, 2, 3]))
        >>> graph.edge_index  # sources, targets
        tensor([[0, 0, 1, 0, 1, 2],
                [0, 1, 1, 2, 2, 2]])
    """

    num_targets: int
    num_sources: int
    device: torch.device
    segments: tuple[Tensor, Tensor] | None = None
    whole: WholeDegrees | None = None
    name: str = ""

    def __init__(self, num_targets: int, num_sources: int, device: torch.device) -> None:
        self.num_targets, self.num_sources, self.device = num_targets, num_sources, device
        self._cache: dict[Any, Any] = {}
        # The compiler cannot compare a dictionary whose keys are functions, as it does with _cache.
        self._results: dict[tuple[Any, ...], Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the cached values, which are of this process only."""
        attributes = {k: x for k, x in vars(self).items() if not k.startswith(WHILE_TRACING)}
        return {**attributes, "_cache": {}, "_results": {}}

    @property
    @abstractmethod
    def edge_index(self) -> Tensor:
        """Edges ``[2, E]``: the sources in row 0, the targets in row 1."""

    @property
    @abstractmethod
    def num_edges(self) -> int:
        """Number of edges, E."""

    @abstractmethod
    def contains(self, source: Tensor, target: Tensor) -> Tensor:
        """Return which pairs of node indices ``source`` and ``target`` (broadcast) are edges."""

    @abstractmethod
    def _moved(self, device: torch.device) -> Graph:
        """Return a copy of the graph on this device; :meth:`to` caches it."""

    def _segments_on(self, device: torch.device) -> tuple[Tensor, Tensor] | None:
        if self.segments is None:
            return None
        return self.segments[0].to(device), self.segments[1].to(device)

    @property
    def source(self) -> Tensor:
        """Source node of each edge, ``[E]``; the same as ``edge_index[0]``."""
        return self.edge_index[0]

    @property
    def target(self) -> Tensor:
        """Target node of each edge, ``[E]``; the same as ``edge_index[1]``."""
        return self.edge_index[1]

    @property
    def parts(self) -> tuple[Graph, ...]:
        """Graphs without common edges whose edge lists, concatenated, are ``edge_index``."""
        return (self,)

    @property
    def has_duplicates(self) -> bool:
        """True if the graph has duplicate edges; only explicit edge lists can have duplicates."""
        return False

    def dense(self) -> Tensor:
        """Return the boolean adjacency matrix ``[num_targets, num_sources]``."""
        target = torch.arange(self.num_targets, device=self.device)
        source = torch.arange(self.num_sources, device=self.device)
        return detach_from_inference(self.contains(source, target[:, None]))

    def in_degree(self) -> Tensor:
        """Return the number of edges into each target ``[num_targets]``."""
        return self.cached("in_degree", lambda: _counts(self.edge_index[1], self.num_targets))

    def whole_in_degree(self) -> Tensor:
        """Return the in-degree ``[num_targets]``; of a sample, that in the whole graph."""
        return self.in_degree() if self.whole is None else self.whole.degree

    def out_degree(self) -> Tensor:
        """Return the number of edges out of each source ``[num_sources]``."""
        return self.cached("out_degree", lambda: _counts(self.edge_index[0], self.num_sources))

    def gather_source(self, x: Tensor, dim: int = -2) -> Tensor:
        """Return the source features of each edge, ``[..., E, F]``, from ``[..., sources, F]``."""
        return x.index_select(dim, self.source)

    def gather_target(self, x: Tensor, dim: int = -2) -> Tensor:
        """Return the target features of each edge, ``[..., E, F]``, from ``[..., targets, F]``."""
        return x.index_select(dim, self.target)

    def transpose(self) -> Graph:
        return self.derived(_transposed)

    def with_self_loops(self) -> Graph:
        return self.derived(_with_self_loops)

    def without_self_loops(self) -> Graph:
        return self.derived(_without_self_loops)

    def power(self, k: int) -> Graph:
        return Power(self, k).on_nodes_of(self)

    def bind(self, num_targets: int, num_sources: int | None = None) -> Graph:
        """Return this graph itself; raise ArgumentError if it has other numbers of nodes."""
        num_sources = num_targets if num_sources is None else num_sources
        return self._build(num_targets, num_sources)

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        if (num_targets, num_sources) != (self.num_targets, self.num_sources):
            raise ArgumentError(
                "graph",
                expected=f"a graph with {counted(num_targets, 'target')} and "
                f"{counted(num_sources, 'source')}",
                got=repr(self),
                remedy="create the graph with the number of nodes that the features have",
            )
        return self

    def to(self, device: torch.device | str) -> Graph:
        """Return a cached copy on this device; on "meta", without the indices of the edges."""
        if device == self.device:
            return self
        device = torch.device(device)
        if device.type == self.device.type and device.index in (None, self.device.index):
            return self
        is_meta = device.type == "meta"
        return self.cached(
            ("to", str(device)), lambda: MetaGraph(self) if is_meta else self._moved(device)
        )

    def cached(self, key: Any, make: Callable[[], T]) -> T:
        """Return ``make()``, computed once and stored in the cache of this graph under ``key``.

        ``make`` runs outside of modes such as ``torch.inference_mode`` and ``torch.device``, so
        that later calls in any mode can use the result.
        """
        if key not in self._cache:
            if torch.compiler.is_dynamo_compiling():
                return make()
            with disable_modes(self.device):
                self._cache[key] = make()
        value: T = self._cache[key]
        return value

    def derived(self, function: Callable[..., T], *args: Any) -> T:
        """Return ``function(self, *args)``, computed once per graph, also in code that is compiled.

        ``args`` are hashable, and no tensors. Compiled code has the result as a constant, and is
        compiled again for another graph. There, ``function`` must be defined at module level, and
        ``args`` outside of the compiled code.
        """
        if not torch.compiler.is_dynamo_compiling():
            key = function, *args
            if key not in self._results:
                with disable_modes(self.device):
                    self._results[key] = function(self, *args)
            result: T = self._results[key]
            return result
        name = _derive_while_tracing(self, function, *args)
        value: T = function(self, *args) if name is None else getattr(self, name)
        if name == ERROR:
            # PyTorch then runs the code without compiling it, which raises the ArgumentError. With
            # fullgraph=True it shows the message.
            raise ValueError(value)
        return value

    @property
    def is_numbered(self) -> bool:
        """True if edge indices have values: not on "meta" or while ``torch.compile`` traces."""
        traced = torch.compiler.is_dynamo_compiling() and not _exists(self)
        return self.device.type != "meta" and not traced

    def positions(self) -> Tensor | None:
        """Return coordinates ``[n, 2]`` for drawing the nodes, or None to draw them on a circle."""
        return None

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: a drawing of a small graph, statistics of a large graph."""
        return drawing.html(self)

    def __repr__(self) -> str:
        sizes = f"{self.num_targets} nodes"
        if self.num_sources != self.num_targets:
            sizes = f"{self.num_targets} targets, {self.num_sources} sources"
        return f"<{self.name or type(self).__name__.lower()}: {sizes}, {self.num_edges} edges>"


@while_tracing
def _exists(graph: Graph) -> bool:
    return "_cache" in vars(graph)


def _counts(node: Tensor, count: int) -> Tensor:
    # Unlike torch.bincount, this works for meta tensors and under torch.compile.
    return node.new_zeros(count).index_add(0, node, torch.ones_like(node))


def _transposed(graph: Graph) -> Graph:
    segments = (graph.segments[1], graph.segments[0]) if graph.segments else None
    return Edges(graph.edge_index.flip(0), graph.num_sources, graph.num_targets, segments)


def _with_self_loops(graph: Graph) -> Graph:
    return Union(graph, Window(0)).on_nodes_of(graph)


def _without_self_loops(graph: Graph) -> Graph:
    return Difference(graph, Window(0)).on_nodes_of(graph)


class Edges(Graph):
    """Graph of a ``[2, E]`` edge list, which is not checked.

    Call :func:`edgewise.graphs.edges` to create such a graph with checks of the indices.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> graphs.Edges(torch.tensor([[0, 1], [1, 0]]), 2, 2).num_edges
        2
    """

    def __init__(
        self,
        edge_index: Tensor,
        num_targets: int,
        num_sources: int,
        segments: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        super().__init__(num_targets, num_sources, edge_index.device)
        self._edge_index = detach_from_inference(edge_index)
        self.segments = segments

    @property
    def edge_index(self) -> Tensor:
        return self._edge_index

    @property
    def num_edges(self) -> int:
        return self._edge_index.shape[1]

    @property
    def has_duplicates(self) -> bool:
        if not self.is_numbered:
            return True  # A meta tensor has no values, so there may be duplicates.
        return self.derived(_unique_keys).numel() < self.num_edges

    def contains(self, source: Tensor, target: Tensor) -> Tensor:
        keys, pairs = self.derived(_unique_keys), target * self.num_sources + source
        if not keys.numel():
            return torch.zeros_like(pairs, dtype=torch.bool)
        index = torch.searchsorted(keys, pairs).clamp_(max=keys.numel() - 1)
        return keys[index].eq(pairs)

    def unique(self) -> Edges:
        """Return the graph without duplicate edges; edges are sorted by target, then by source."""
        return self.cached("unique", lambda: edges_of_keys(self.derived(_unique_keys), self))

    def with_self_loops(self) -> Graph:
        """Append self-loops for the nodes that have none; existing edges keep their order."""
        return self.derived(_with_appended_loops)

    def without_self_loops(self) -> Graph:
        """Remove self-loops; the remaining edges keep their order, including duplicates."""
        return self.derived(_with_loops_removed)

    def _moved(self, device: torch.device) -> Graph:
        if self._edge_index.is_meta:
            raise ArgumentError(
                "graph",
                expected=f"a graph whose edges can be copied to {device}",
                got='a graph on torch.device("meta"), which has no data',
                remedy="create the graph outside of `with torch.device('meta')`, or from a tensor"
                " on another device",
            )
        edge_index, segments = self._edge_index.to(device), self._segments_on(device)
        graph = Edges(edge_index, self.num_targets, self.num_sources, segments)
        graph.whole = self.whole and self.whole.to(device)
        return graph


def _with_appended_loops(graph: Graph) -> Graph:
    ahead = graph._sources_ahead(graph.num_targets, graph.num_sources)
    source, target = graph.edge_index
    node = torch.arange(graph.num_targets, device=graph.device)
    is_loop = source == target + ahead
    num_loops = node.new_zeros(graph.num_targets).index_add(0, target, is_loop.long())
    node = node[num_loops == 0]
    joined = torch.cat([graph.edge_index, torch.stack([node + ahead, node])], dim=1)
    square = graph.segments is not None and torch.equal(*graph.segments)
    segments = graph.segments if square else None
    looped = Edges(joined, graph.num_targets, graph.num_sources, segments)
    looped.whole = graph.whole and graph.whole.with_self_loops()
    return looped


def _with_loops_removed(graph: Graph) -> Graph:
    ahead = graph._sources_ahead(graph.num_targets, graph.num_sources)
    loopless = select_edges(graph, graph.source != graph.target + ahead, graph.segments)
    loopless.whole = graph.whole and graph.whole.without_self_loops()
    return loopless


def edge_keys(graph: Graph) -> Tensor:
    """Return ``target * num_sources + source`` of each edge, ``[E]``."""
    return graph.target * graph.num_sources + graph.source


def _unique_keys(graph: Graph) -> Tensor:
    """Return the sorted distinct :func:`edge_keys`."""
    keys: Tensor = torch.unique(edge_keys(graph))
    return keys


def edges_of_keys(keys: Tensor, like: Graph) -> Edges:
    """Return the graph of sorted ``target * num_sources + source``, with the nodes of ``like``."""
    width = max(like.num_sources, 1)
    pairs = torch.stack([keys % width, torch.div(keys, width, rounding_mode="floor")])
    return Edges(pairs, like.num_targets, like.num_sources, like.segments)


class MetaGraph(Edges):
    """Copy on ``torch.device("meta")``, with shapes but no data, of the graph ``original``."""

    def __init__(self, original: Graph) -> None:
        edge_index = torch.empty(2, original.num_edges, dtype=torch.long, device="meta")
        super().__init__(edge_index, original.num_targets, original.num_sources)
        self.original = original

    @property
    def has_duplicates(self) -> bool:
        return self.original.has_duplicates

    def transpose(self) -> Graph:
        return self.original.transpose().to("meta")

    def with_self_loops(self) -> Graph:
        return self.original.with_self_loops().to("meta")

    def without_self_loops(self) -> Graph:
        return self.original.without_self_loops().to("meta")

    def power(self, k: int) -> Graph:
        return self.original.power(k).to("meta")

    def _moved(self, device: torch.device) -> Graph:
        return self.original.to(device)


class Intervals(Graph):
    """Graph in which target i attends to sources ``range(start[i], stop[i], step)``.

    Full, causal, sliding-window, dilated and block attention have this form, as do packed batches
    of these. Memory is O(n) for n targets. Edges are sorted by target, then by source.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> start, stop = torch.tensor([0, 0, 1]), torch.tensor([1, 2, 3])
        >>> graphs.Intervals(start, stop, num_sources=3).dense().long()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 1, 1]])
    """

    def __init__(
        self,
        start: Tensor,
        stop: Tensor,
        num_sources: int,
        *,
        step: int = 1,
        segments: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        super().__init__(start.shape[0], num_sources, start.device)
        # Copy start and stop, so that later in-place changes of the arguments have no effect.
        self.start, self.stop = (
            detach_from_inference(start.clone()),
            detach_from_inference(torch.maximum(start, stop)),
        )
        self.step = step
        self.segments = segments

    def in_degree(self) -> Tensor:
        if self.step == 1:
            return detach_from_inference(self.stop - self.start)
        return detach_from_inference(run_lengths(self.start, self.stop, self.step))

    @property
    def num_edges(self) -> int:
        return self.derived(_count_edges)

    @property
    def edge_index(self) -> Tensor:
        return self.derived(_list_interval_edges)

    @property
    def is_causal(self) -> bool:
        """True if there are as many targets as sources and target i attends to sources 0 to i."""
        return self.derived(_is_causal)

    def contains(self, source: Tensor, target: Tensor) -> Tensor:
        start = self.start[target]
        inside = (source >= start) & (source < self.stop[target])
        return inside if self.step == 1 else inside & ((source - start) % self.step == 0)

    def _moved(self, device: torch.device) -> Graph:
        start, stop = self.start.to(device), self.stop.to(device)
        segments = self._segments_on(device)
        return Intervals(start, stop, self.num_sources, step=self.step, segments=segments)


def _count_edges(graph: Graph) -> int:
    return int(graph.in_degree().sum())


def _list_interval_edges(graph: Graph) -> Tensor:
    assert isinstance(graph, Intervals)
    target, rank = runs_and_positions(graph.in_degree(), graph.num_edges)
    return torch.stack([graph.start[target] + graph.step * rank, target])


def _is_causal(graph: Graph) -> bool:
    assert isinstance(graph, Intervals)
    if graph.num_targets != graph.num_sources or graph.step != 1:
        return False
    node = torch.arange(graph.num_targets, device=graph.device)
    return bool((graph.start == 0).all()) and bool((graph.stop == node + 1).all())


class Runs(Graph):
    """Graph given by R intervals ("runs") of sources, with any number of intervals per target.

    Target ``row[r]`` attends to ``range(start[r], stop[r], step)``. The intervals of a target are
    disjoint, such as the random blocks of BigBird. Memory is O(R). Runs and edges are sorted by
    target, then by source.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> row, start, stop = torch.tensor([[0, 0, 1], [0, 2, 1], [1, 4, 3]])
        >>> graphs.Runs(row, start, stop, 2, 4).dense().long()
        tensor([[1, 0, 1, 1],
                [0, 1, 1, 0]])
    """

    def __init__(
        self,
        row: Tensor,
        start: Tensor,
        stop: Tensor,
        num_targets: int,
        num_sources: int,
        *,
        step: int = 1,
        segments: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        super().__init__(num_targets, num_sources, start.device)
        self.row, self.start, self.stop = (
            detach_from_inference(row),
            detach_from_inference(start),
            detach_from_inference(stop),
        )
        self.step = step
        self.segments = segments

    def in_degree(self) -> Tensor:
        return self.cached("in_degree", self._degrees)

    def _degrees(self) -> Tensor:
        lengths = run_lengths(self.start, self.stop, self.step)
        return lengths.new_zeros(self.num_targets).index_add_(0, self.row, lengths)

    @property
    def num_edges(self) -> int:
        return self.derived(_count_edges)

    @property
    def edge_index(self) -> Tensor:
        return self.derived(_list_run_edges)

    def contains(self, source: Tensor, target: Tensor) -> Tensor:
        begin, end, width = self.derived(_sorted_runs)
        pairs = run_key(target, source, self.step, width)
        if not begin.numel():
            return torch.zeros_like(pairs, dtype=torch.bool)
        index = torch.searchsorted(begin, pairs, right=True) - 1
        return (index >= 0) & (pairs < end[index.clamp_(min=0)])

    def _moved(self, device: torch.device) -> Graph:
        return Runs(
            self.row.to(device),
            self.start.to(device),
            self.stop.to(device),
            self.num_targets,
            self.num_sources,
            step=self.step,
            segments=self._segments_on(device),
        )


def _list_run_edges(graph: Graph) -> Tensor:
    assert isinstance(graph, Runs)
    lengths = run_lengths(graph.start, graph.stop, graph.step)
    run, rank = runs_and_positions(lengths, graph.num_edges)
    return torch.stack([graph.start[run] + graph.step * rank, graph.row[run]])


def _sorted_runs(graph: Graph) -> tuple[Tensor, Tensor, int]:
    """Return the begin and end of each run and the width, for :func:`run_key`, sorted by begin."""
    assert isinstance(graph, Runs)
    width = graph.num_sources // graph.step + 2
    begin, order = run_key(graph.row, graph.start, graph.step, width).sort()
    return begin, begin + run_lengths(graph.start, graph.stop, graph.step)[order], width


def runs_of(graph: Graph) -> RunList | None:
    """Return the runs of an Intervals or Runs graph, or None for other graphs."""
    if isinstance(graph, Runs):
        return RunList(graph.row, graph.start, graph.stop, graph.step)
    if isinstance(graph, Intervals):
        row = torch.arange(graph.num_targets, device=graph.device)
        return RunList(row, graph.start, graph.stop, graph.step).non_empty()
    return None


def graph_of_runs(
    runs: RunList,
    num_targets: int,
    num_sources: int,
    segments: tuple[Tensor, Tensor] | None = None,
) -> Graph:
    """Return the graph of disjoint runs: Intervals if each target has one run, otherwise Runs."""
    runs = runs.at((runs.row * (num_sources + 1) + runs.start).argsort())
    row, start, stop = runs.row, runs.start, runs.stop
    if bool((row[1:] == row[:-1]).any()):
        return Runs(row, start, stop, num_targets, num_sources, step=runs.step, segments=segments)
    start = row.new_zeros(num_targets).index_copy_(0, row, start)
    stop = row.new_zeros(num_targets).index_copy_(0, row, stop)
    return Intervals(start, stop, num_sources, step=runs.step, segments=segments)


@dataclass(frozen=True, repr=False)
class Composition(Pattern):
    """Base class of the set operations on two patterns; ``sign`` is the operator, such as "|"."""

    left: Pattern
    right: Pattern
    sign: ClassVar[str]

    @classmethod
    def of(cls, left: Pattern, right: Pattern) -> Pattern:
        """Return the result of the operation: a graph if an operand is a graph, else a pattern."""
        composition = cls(left, check_graph(right))
        for side in (left, right):
            if isinstance(side, Graph):
                return composition.on_nodes_of(side)
        return composition

    def __repr__(self) -> str:
        return f"({self.left!r} {self.sign} {self.right!r})"

    def _operands(self, num_targets: int, num_sources: int) -> tuple[Graph, Graph]:
        """Return both operands as graphs on one device; a pattern follows the other operand."""
        left = self.left.bind(num_targets, num_sources)
        right = self.right.bind(num_targets, num_sources)
        if left.device == right.device:
            return left, right
        sized = [side for side in (self.left, self.right) if isinstance(side, Graph)]
        device = common_device(sized or (left, right))
        return left.to(device), right.to(device)


class Union(Composition):
    """Union ``a | b``: edges of at least one of the two patterns."""

    sign = "|"

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        left, right = self._operands(num_targets, num_sources)
        # Each graph loses the edges that an earlier one contains. Graphs of intervals with step 1
        # come first, because removing edges would split their intervals.
        disjoint: list[Graph] = []
        for graph in sorted([*left.parts, *right.parts], key=_raggedness):
            disjoint.append(_difference(_as_set(graph), disjoint))
        return disjoint_union(disjoint, num_targets, num_sources)


class Intersection(Composition):
    """Intersection ``a & b``: edges of both patterns."""

    sign = "&"

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        left, right = self._operands(num_targets, num_sources)
        disjoint = [_intersection(a, b) for a in left.parts for b in right.parts]
        return disjoint_union(disjoint, num_targets, num_sources)


class Difference(Composition):
    """Difference ``a - b``: edges of the first pattern that are not edges of the second."""

    sign = "-"

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        left, right = self._operands(num_targets, num_sources)
        disjoint = [_difference(_as_set(graph), [right]) for graph in left.parts]
        return disjoint_union(disjoint, num_targets, num_sources)


@dataclass(frozen=True, repr=False)
class Transpose(Pattern):
    """Transpose: every edge reversed."""

    pattern: Pattern

    def __repr__(self) -> str:
        return f"({self.pattern!r}).transpose()"

    def transpose(self) -> Pattern:
        return self.pattern

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        return self.pattern.bind(num_sources, num_targets).transpose()


class DisjointUnion(Graph):
    """Union of graphs without common edges; ``edge_index`` concatenates their edge lists."""

    def __init__(self, graphs: Sequence[Graph], num_targets: int, num_sources: int) -> None:
        super().__init__(num_targets, num_sources, graphs[0].device)
        self._graphs = tuple(graphs)
        self.segments = _common_segments(graphs)

    @property
    def parts(self) -> tuple[Graph, ...]:
        return self._graphs

    @property
    def edge_index(self) -> Tensor:
        return self.derived(_join_edges)

    @property
    def num_edges(self) -> int:
        return sum(graph.num_edges for graph in self._graphs)

    def in_degree(self) -> Tensor:
        return self.cached("in_degree", self._degrees)

    def _degrees(self) -> Tensor:
        return torch.stack([graph.in_degree() for graph in self._graphs]).sum(0)

    @property
    def has_duplicates(self) -> bool:
        return any(graph.has_duplicates for graph in self._graphs)

    def contains(self, source: Tensor, target: Tensor) -> Tensor:
        is_edge = self._graphs[0].contains(source, target)
        for graph in self._graphs[1:]:
            is_edge = is_edge | graph.contains(source, target)
        return is_edge

    def _moved(self, device: torch.device) -> Graph:
        graphs = [graph.to(device) for graph in self._graphs]
        return DisjointUnion(graphs, self.num_targets, self.num_sources)


def _join_edges(graph: Graph) -> Tensor:
    return torch.cat([component.edge_index for component in graph.parts], dim=1)


def disjoint_union(graphs: Sequence[Graph], num_targets: int, num_sources: int) -> Graph:
    """Return the union of graphs without common edges; those with edge lists are joined."""
    with_edges = [graph for graph in graphs if graph.num_edges]
    listed = [graph for graph in with_edges if isinstance(graph, Edges)]
    disjoint = [graph for graph in with_edges if not isinstance(graph, Edges)]
    if len(listed) > 1:
        joined = torch.cat([graph.edge_index for graph in listed], dim=1)
        listed = [Edges(joined, num_targets, num_sources, _common_segments(listed))]
    disjoint.extend(listed)
    if len(disjoint) == 1:
        return disjoint[0]
    if disjoint:
        return DisjointUnion(disjoint, num_targets, num_sources)
    no_edges = torch.empty(2, 0, dtype=torch.long, device=common_device(graphs))
    return Edges(no_edges, num_targets, num_sources)


def _common_segments(graphs: Sequence[Graph]) -> tuple[Tensor, Tensor] | None:
    """Return the sizes of the batch, ``segments``, if they are equal in all graphs, else None."""
    first = graphs[0].segments
    same = first is not None and all(
        graph.segments is not None and all(map(torch.equal, graph.segments, first))
        for graph in graphs[1:]
    )
    return first if same else None


def _as_set(graph: Graph) -> Graph:
    return graph.unique() if isinstance(graph, Edges) and graph.has_duplicates else graph


def select_edges(
    graph: Graph, edges: Tensor, segments: tuple[Tensor, Tensor] | None = None
) -> Edges:
    """Return a graph with all nodes and only the edges of these indices, or of a mask."""
    return Edges(graph.edge_index[:, edges], graph.num_targets, graph.num_sources, segments)


def _raggedness(graph: Graph) -> int:
    """Return the step of a graph of intervals, or a large number for other graphs (a sort key)."""
    return graph.step if isinstance(graph, Intervals | Runs) else torch.iinfo(torch.int).max


def _intersection(left: Graph, right: Graph) -> Graph:
    segments = left.segments or right.segments
    left_runs, right_runs = runs_of(left), runs_of(right)
    if left_runs is not None and right_runs is not None:
        runs = common_runs(left_runs, right_runs, left.num_sources)
        if runs is not None:
            return graph_of_runs(runs, left.num_targets, left.num_sources, segments)
    smaller, larger = sorted((left, right), key=lambda graph: graph.num_edges)
    smaller = _as_set(smaller)
    is_common = larger.contains(smaller.source, smaller.target)
    return select_edges(smaller, is_common, smaller.segments or larger.segments)


def _difference(graph: Graph, others: Sequence[Graph]) -> Graph:
    """Return ``graph`` without the edges of ``others``, as a graph of intervals if possible."""
    not_runs = []
    for other in (component for union in others for component in union.parts):
        runs, other_runs = runs_of(graph), runs_of(other)
        remaining = None
        if runs is not None and other_runs is not None:
            remaining = remaining_runs(runs, other_runs, graph.num_sources)
        if remaining is None:
            not_runs.append(other)
        elif int(remaining.lengths().sum()) < graph.num_edges:
            sizes = graph.num_targets, graph.num_sources
            graph = graph_of_runs(remaining, *sizes, graph.segments)
    return _listed_difference(graph, not_runs) if not_runs else graph


def _listed_difference(graph: Graph, others: Sequence[Graph]) -> Graph:
    """Return ``graph`` without the edges of ``others``, as an edge list if any are removed."""
    shared = torch.zeros(graph.num_edges, dtype=torch.bool, device=graph.device)
    for other in others:
        shared |= other.contains(graph.source, graph.target)
    if not shared.any():
        return graph
    if isinstance(graph, Edges):
        return select_edges(graph, ~shared, graph.segments)
    return edges_of_keys(edge_keys(graph)[~shared].sort().values, graph)


@dataclass(frozen=True, repr=False)
class Window(Pattern):
    """Sliding window: each target attends to itself and to ``radius`` positions on either side.

    Neighbouring attended positions are ``dilation`` apart. ``causal() & window(r)`` is the sliding
    window of a language model. With ``window(0)``, each node attends only to itself.

    Example:
        >>> from edgewise import graphs
        >>> graphs.window(1).bind(4).dense().long()
        tensor([[1, 1, 0, 0],
                [1, 1, 1, 0],
                [0, 1, 1, 1],
                [0, 0, 1, 1]])
    """

    radius: int
    dilation: int = 1

    def __post_init__(self) -> None:
        check_range("radius", self.radius, "choose 0 for the node alone", least=0, integer=True)
        check_range(
            "dilation", self.dilation, "choose 1 for consecutive positions", least=1, integer=True
        )

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        position = torch.arange(num_targets) + self._sources_ahead(num_targets, num_sources)
        left = torch.div(position, self.dilation, rounding_mode="floor").clamp_(max=self.radius)
        start = position - left * self.dilation
        reach = min(self.radius * self.dilation, num_sources)  # The product may exceed 64 bits.
        stop = (position + reach + 1).clamp_(max=num_sources)
        return Intervals(start, stop, num_sources, step=self.dilation)


@dataclass(frozen=True, repr=False)
class Power(Pattern):
    """Pattern with an edge from j to i if 1 to ``k`` edges of ``pattern`` lead from j to i."""

    pattern: Pattern
    k: int

    def __post_init__(self) -> None:
        check_range(
            "k",
            self.k,
            "choose for example 2; for self-loops only, use graphs.window(0)",
            least=1,
            integer=True,
        )

    def __repr__(self) -> str:
        return f"({self.pattern!r}).power({self.k})"

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        if num_targets != num_sources:
            self._refuse("as many targets as sources", num_targets, num_sources)
        graph = self.pattern.bind(num_targets)
        n = max(num_targets, 1)
        target, source = graph.target, graph.source
        order = target.argsort(stable=True)
        sorted_source, degree = source[order], graph.in_degree()
        first = starts(degree)
        reach = frontier = torch.unique(target * n + source)
        for _ in range(self.k - 1):
            # Extend each walk, from m to target i, by all sources of m.
            end, middle = torch.div(frontier, n, rounding_mode="floor"), frontier % n
            walk, nth = runs_and_positions(degree[middle])
            begin = sorted_source[first[middle][walk] + nth]
            reached = torch.unique(end[walk] * n + begin)
            # Only new pairs are extended: a walk from an old pair was extended before.
            frontier = reached[~torch.isin(reached, reach)]
            if not len(frontier):
                break
            reach = torch.cat([reach, frontier]).sort().values
        return edges_of_keys(reach, graph)


@dataclass(eq=False)
class _Entry:
    graph: Graph
    held: int = 0


class BoundGraphs:
    """Least-recently-used cache, limited by memory, of the graphs that ``Pattern.bind`` returns."""

    def __init__(self, most_bytes: int = MOST_BYTES, most_graphs: int = MOST_GRAPHS) -> None:
        self.most_bytes, self.most_graphs = most_bytes, most_graphs
        # The least recently used entry comes first.
        self._entries: OrderedDict[tuple[Pattern, int, int], _Entry] = OrderedDict()
        # Entries used since the last measurement.
        self._unmeasured: dict[tuple[Pattern, int, int], _Entry] = {}
        self._newest: _Entry | None = None
        self._measured = 0  # In bytes.
        # The lock is reentrant, because binding `a | b` also binds `a` and `b`.
        self._lock = RLock()

    def __call__(self, pattern: Pattern, num_targets: int, num_sources: int) -> Graph:
        """Return the graph of a pattern for these numbers of nodes, from the cache if possible."""
        key = pattern, num_targets, num_sources
        entry = self._entries.get(key)
        if entry is None or entry is not self._newest:
            with self._lock:
                entry = self._entries.get(key) or self._add(key)
                self._entries.move_to_end(key)
                self._newest = self._unmeasured[key] = entry
        return entry.graph

    def cache_clear(self) -> None:
        """Remove all graphs from the cache; named as in ``functools.lru_cache``."""
        with self._lock:
            self._entries.clear()
            self._unmeasured.clear()
            self._newest, self._measured = None, 0

    def held(self) -> int:
        """Return the size of all cached tensors in bytes."""
        with self._lock:
            return held_bytes([entry.graph for entry in self._entries.values()])

    def _add(self, key: tuple[Pattern, int, int]) -> _Entry:
        pattern, num_targets, num_sources = key
        with disable_modes():
            graph = pattern._build(num_targets, num_sources)
        graph.name = graph.name or repr(pattern)
        self._make_room()
        entry = self._entries[key] = _Entry(graph)
        return entry

    def _make_room(self) -> None:
        # A graph grows when it is used, because derived tensors are cached on it.
        for entry in self._unmeasured.values():
            self._measured -= entry.held
            entry.held = held_bytes(entry.graph)
            self._measured += entry.held
        self._unmeasured.clear()
        while self._entries and (
            self._measured > self.most_bytes or len(self._entries) >= self.most_graphs
        ):
            self._measured -= self._entries.popitem(last=False)[1].held


bound_graphs = BoundGraphs()
"""The cache that ``Pattern.bind`` uses."""


def held_bytes(root: Any) -> int:
    """Return the bytes of all storages in an object and its attributes, lists and dicts."""
    storages: dict[int, int] = {}
    seen: set[int] = set()
    stack = [root]
    while stack:
        member = stack.pop()
        if isinstance(member, Tensor):
            if not member.is_meta:
                storage = member.untyped_storage()
                storages[storage.data_ptr()] = storage.nbytes()
            continue
        if id(member) in seen or isinstance(member, (int, float, str, type)):
            continue
        seen.add(id(member))
        if isinstance(member, dict):
            stack.extend(member.values())
        elif isinstance(member, (list, tuple)):
            stack.extend(member)
        elif hasattr(member, "__dict__"):
            stack.extend(vars(member).values())
    return sum(storages.values())


def check_graph(graph: Any, argument: str = "graph") -> Pattern:
    """Return the argument if it is a graph or a pattern.

    Raises:
        ArgumentError: the argument is neither a graph nor a pattern. If it can be converted (such
            as a mask, an edge list or a NetworkX graph), the message names the function for this.
    """
    if isinstance(graph, Pattern):
        return graph
    got, remedy = _describe_and_convert(graph)
    raise ArgumentError(argument, expected="a graph or a pattern", got=got, remedy=remedy)


def call_for_graph(function: Callable[..., T], *args: object) -> T:
    """Return ``function(*args)``, whose arguments are patterns and numbers, and result has graphs.

    Compiled code contains the result as a constant, so it has no break where a model makes graphs.
    """
    if torch.compiler.is_dynamo_compiling():
        from edgewise.graphs.traced import call_traced

        return call_traced(function, *args)
    with disable_modes():
        return function(*args)


def fact_of_graph(function: F) -> F:
    """Decorate a function of a graph and numbers, which compiled code calls while it is traced.

    Sizes, distances or eigenvectors depend on no feature, so compiled code and exported programs
    have them as constants; see :meth:`Graph.derived`. Other calls are those of ``function`` itself.
    """

    @wraps(function)
    def call(graph: Any, *args: Any, **options: Any) -> Any:
        if not torch.compiler.is_compiling() or not isinstance(graph, Graph) or options:
            return function(graph, *args, **options)
        # As a constant, a tensor would have the values of the first call in all calls.
        if any(isinstance(value, Tensor) for value in args):
            return function(graph, *args)
        return graph.derived(function, *args)

    return cast(F, call)


def bind_graph(graph: Pattern, num_targets: int, num_sources: int, device: torch.device) -> Graph:
    """Return the graph with these numbers of nodes, on this device; a pattern is bound to them."""
    if (
        isinstance(graph, Graph)
        and graph.num_targets == num_targets
        and graph.num_sources == num_sources
        and graph.device == device
    ):
        return graph
    return check_graph(graph).bind(num_targets, num_sources).to(device)


def bind_to_nodes(graph: Pattern, x: Tensor) -> Graph:
    """Return a graph whose sources and targets are both the nodes of x ``[..., N, width]``."""
    if x.dim() < 2:
        raise ArgumentError(
            "x",
            expected="features of nodes [..., N, width]",
            got=describe(x),
            remedy="give a single node as x[None]",
        )
    return bind_graph(graph, x.shape[-2], x.shape[-2], x.device)


def common_device(graphs: Sequence[Graph]) -> torch.device:
    """Return the device of all these graphs, or the CPU if the list is empty."""
    devices = list(dict.fromkeys(graph.device for graph in graphs))
    if len(devices) > 1:
        raise ArgumentError(
            "graph",
            expected="graphs on one device",
            got=" and ".join(map(str, devices)),
            remedy="move the graphs to one device with .to(device)",
        )
    return devices[0] if devices else torch.device("cpu")


def _describe_and_convert(value: Any) -> tuple[str, str]:
    """Return a description of a value that is not a graph, and how to convert it to a graph."""
    name = type(value).__name__
    if isinstance(value, type) and issubclass(value, Pattern):
        return f"the class {value.__name__}", f"call it: graphs.{value.__name__.lower()}(...)"
    if isinstance(value, str):
        return repr(value), "read it with graphs.parse(text)"
    if hasattr(value, "sparse_size") or hasattr(value, "edge_index"):
        return f"a {name} of PyTorch Geometric", "use graphs.from_pyg(data)"
    if hasattr(value, "tocoo"):
        return (
            f"a sparse {name}",
            "use graphs.from_scipy(matrix); row i has the sources of target i",
        )
    if hasattr(value, "is_directed"):
        return f"a {name}", "use graphs.from_networkx(graph)"
    if not isinstance(value, Tensor):
        return name, "name a pattern such as graphs.causal(), or use graphs.edges(edge_index, n)"
    got = f"a Tensor of {value.dtype} and shape {list(value.shape)}"
    two_rows = value.dim() == 2 and len(value) == 2 and value.dtype != torch.bool
    if two_rows and (value.shape[1] != 2 or not value.dtype.is_floating_point):
        return got, "wrap explicit edges with graphs.edges(edge_index, num_nodes)"
    if value.dtype == torch.bool:
        return (
            got,
            "use graphs.from_dense(mask) for a mask [num_targets, num_sources]; True is an edge",
        )
    return got, (
        "use graphs.from_dense(mask == 0) for an additive mask [num_targets, num_sources], or"
        " graphs.from_dense(matrix != 0) for an adjacency; pass other numbers as bias="
    )
