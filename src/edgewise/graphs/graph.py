"""Base classes: ``Pattern`` for any number of nodes, ``Graph`` for a fixed number of nodes.

A :class:`Pattern` defines edges for any number of nodes, so a model can be built before the sizes
of its inputs are known. ``pattern.bind(n)`` returns a :class:`Graph` with ``num_sources`` sources
and ``num_targets`` targets. As in PyTorch Geometric, ``edge_index[0]`` holds the sources and
``edge_index[1]`` the targets. A target attends to its sources.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import torch
from torch import Tensor

from edgewise._utils.dispatch_modes import detach_from_inference, persist_on, while_tracing
from edgewise._utils.errors import ArgumentError, counted
from edgewise.graphs.bound import bound_graphs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")

OPERATIONS: dict[str, Callable[..., Any]] = {}
"""Dict from the names of operations, such as "union", to the functions that implement them.

Other modules of this package define the functions and add them to this dict, because they import
this module and an import back would be circular.
"""


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

    def __init_subclass__(cls) -> None:
        """Let ``torch.load(weights_only=True)`` create this class if it belongs to this package."""
        super().__init_subclass__()
        if cls.__module__.partition(".")[0] == __name__.partition(".")[0]:
            torch.serialization.add_safe_globals([cls])

    def bind(self, num_targets: int, num_sources: int | None = None) -> Graph:
        """Return the graph of this pattern for these numbers of nodes.

        ``num_sources`` defaults to ``num_targets``. Graphs are cached (up to 64 MB for all
        patterns together).

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

    def _refuse(self, expected: str, num_targets: int, num_sources: int) -> NoReturn:
        raise ArgumentError(
            "graph",
            expected=f"{expected}, for {self!r}",
            got=f"{counted(num_targets, 'target')} and {counted(num_sources, 'source')}",
            remedy="change the number of targets or sources, or choose another pattern",
        )

    def _sources_ahead(self, num_targets: int, num_sources: int) -> int:
        """Return the position of the first target among the sources.

        The targets are the last source positions, so this is ``num_sources - num_targets``.
        """
        if num_targets > num_sources:
            self._refuse("no more targets than sources", num_targets, num_sources)
        return num_sources - num_targets

    def __or__(self, other: Pattern) -> Pattern:
        return cast("Pattern", OPERATIONS["union"](self, other))

    def __and__(self, other: Pattern) -> Pattern:
        return cast("Pattern", OPERATIONS["intersection"](self, other))

    def __sub__(self, other: Pattern) -> Pattern:
        return cast("Pattern", OPERATIONS["difference"](self, other))

    def power(self, k: int) -> Pattern:
        """Return the pattern with an edge from j to i if 1 to ``k`` edges lead from j to i."""
        return cast("Pattern", OPERATIONS["power"](self, k))

    def transpose(self) -> Pattern:
        """Return the pattern with every edge reversed; the order of the edges stays the same."""
        return cast("Pattern", OPERATIONS["transpose"](self))

    def with_self_loops(self) -> Pattern:
        """Return the pattern with a self-loop at every node."""
        return self | cast("Pattern", OPERATIONS["window"](0))

    def without_self_loops(self) -> Pattern:
        """Return the pattern without self-loops."""
        return self - cast("Pattern", OPERATIONS["window"](0))

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
        return cast("Figure", OPERATIONS["draw"](graph, path, weights))

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: a drawing of a small graph, statistics of a large graph."""
        return cast("str", OPERATIONS["html"](self))

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
    own = kind.__module__.partition(".")[0] != "edgewise"
    return f"{kind.__module__}:{kind.__name__}" if own else kind.__name__.lower()


def _written(value: Any) -> str:
    """Return the ``repr`` of an argument value, with tuples written as lists.

    Patterns store list arguments as tuples, so that they can be hashed.
    """
    return repr(list(value) if isinstance(value, tuple) else value)


WHILE_TRACING = "_derived_"
"""Prefix of the attributes in which :meth:`Graph.derived` stores values for compiled code."""


@while_tracing
def _derive_while_tracing(graph: Graph, function: Callable[[Graph], Any]) -> str | None:
    """Store ``function(graph)`` on the graph during tracing, and return the attribute's name.

    Compiled code reads the value from this attribute, because it cannot compute values that depend
    on data, such as the number of edges. Returns None if the compiled code itself creates the
    graph, because the edges then have no values during tracing.
    """
    if "_cache" not in vars(graph):
        return None
    name = WHILE_TRACING + f"{function.__module__}_{function.__qualname__}".replace(".", "_")
    setattr(graph, name, graph.derived(function))
    return name


class Graph(Pattern):
    """Graph with a fixed number of nodes.

    Attributes:
        num_targets: number of target nodes (queries).
        num_sources: number of source nodes (keys).
        device: device of the edge indices.
        segments: for a packed batch, two tensors with the number of targets and of sources of each
            graph in the batch; otherwise ``None``.

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
    name: str = ""

    def __init__(self, num_targets: int, num_sources: int, device: torch.device) -> None:
        self.num_targets, self.num_sources, self.device = num_targets, num_sources, device
        self._cache: dict[Any, Any] = {}
        # The compiler cannot compare a dictionary whose keys are functions, as it does with _cache.
        self._results: dict[Callable[[Graph], Any], Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to pickle or copy, without the cached values.

        Cached values can hold memory addresses and functions of this process, so a copy computes
        its own.
        """
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
        """Return a boolean tensor that says which pairs are edges.

        ``source`` and ``target`` are node indices; their shapes are broadcast.
        """

    @abstractmethod
    def _moved(self, device: torch.device) -> Graph:
        """Return a copy of the graph on this device; :meth:`to` caches it."""

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
        """Graphs without common edges whose union is this graph.

        Their edge lists, concatenated, are ``edge_index``. A union such as
        ``window(2) | hubs([0])`` has several parts; most graphs have one.
        """
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
        return self.cached("in_degree", lambda: _counts(self.target, self.num_targets))

    def out_degree(self) -> Tensor:
        """Return the number of edges out of each source ``[num_sources]``."""
        return self.cached("out_degree", lambda: _counts(self.source, self.num_sources))

    def gather_source(self, x: Tensor, dim: int = -2) -> Tensor:
        """Return the source features of each edge, ``[..., E, F]``, from ``[..., sources, F]``."""
        return x.index_select(dim, self.source)

    def gather_target(self, x: Tensor, dim: int = -2) -> Tensor:
        """Return the target features of each edge, ``[..., E, F]``, from ``[..., targets, F]``."""
        return x.index_select(dim, self.target)

    def transpose(self) -> Graph:
        def make() -> Graph:
            segments = (self.segments[1], self.segments[0]) if self.segments else None
            flipped = self.edge_index.flip(0), self.num_sources, self.num_targets, segments
            return cast("Graph", OPERATIONS["edges"](*flipped))

        return self.cached("transpose", make)

    def with_self_loops(self) -> Graph:
        return self.cached(
            "with_self_loops", lambda: _as_graph(super(Graph, self).with_self_loops())
        )

    def without_self_loops(self) -> Graph:
        return self.cached(
            "without_self_loops", lambda: _as_graph(super(Graph, self).without_self_loops())
        )

    def power(self, k: int) -> Graph:
        return _as_graph(super().power(k))

    def bind(self, num_targets: int, num_sources: int | None = None) -> Graph:
        """Return this graph itself.

        Raises:
            ArgumentError: the graph has other numbers of nodes.
        """
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
        """Return a copy of the graph on this device; the copy is cached.

        On ``torch.device("meta")``, the copy knows the number of edges but not their indices.
        """
        if device == self.device:
            return self
        device = torch.device(device)
        if device.type == self.device.type and device.index in (None, self.device.index):
            return self
        make = self._without_numbers if device.type == "meta" else lambda: self._moved(device)
        return self.cached(("to", str(device)), make)

    def cached(self, key: Any, make: Callable[[], T]) -> T:
        """Return ``make()``, computed once and stored in the cache of this graph under ``key``.

        ``make`` runs outside of modes such as ``torch.inference_mode`` and ``torch.device``, so
        that later calls in any mode can use the result.
        """
        if key not in self._cache:
            if torch.compiler.is_dynamo_compiling():
                return make()
            with persist_on(self.device):
                self._cache[key] = make()
        value: T = self._cache[key]
        return value

    def _without_numbers(self) -> Graph:
        return cast("Graph", OPERATIONS["meta"](self))

    def derived(self, function: Callable[[Graph], T]) -> T:
        """Return ``function(self)``, computed once per graph.

        Unlike :meth:`cached`, this also works in code compiled with ``torch.compile``, if
        ``function`` is defined at module level.
        """
        if not torch.compiler.is_dynamo_compiling():
            if function not in self._results:
                with persist_on(self.device):
                    self._results[function] = function(self)
            result: T = self._results[function]
            return result
        name = _derive_while_tracing(self, function)
        value: T = function(self) if name is None else getattr(self, name)
        return value

    @property
    def is_numbered(self) -> bool:
        """True if the edge indices have values.

        False on the device meta, and while ``torch.compile`` traces code that creates the graph.
        """
        traced = torch.compiler.is_dynamo_compiling() and not _exists(self)
        return self.device.type != "meta" and not traced

    def positions(self) -> Tensor | None:
        """Return coordinates ``[n, 2]`` for drawing the nodes, or None to draw them on a circle."""
        return None

    def __repr__(self) -> str:
        sizes = f"{self.num_targets} nodes"
        if self.num_sources != self.num_targets:
            sizes = f"{self.num_targets} targets, {self.num_sources} sources"
        return f"<{self.name or type(self).__name__.lower()}: {sizes}, {self.num_edges} edges>"


@while_tracing
def _exists(graph: Graph) -> bool:
    return "_cache" in vars(graph)


def _counts(node: Tensor, count: int) -> Tensor:
    """Return how often each index from 0 to ``count - 1`` occurs in ``node``, ``[count]``.

    Unlike ``torch.bincount``, this works for meta tensors and under ``torch.compile``.
    """
    return node.new_zeros(count).index_add(0, node, torch.ones_like(node))


def _as_graph(pattern: Pattern) -> Graph:
    """Tell the type checker that the result of an operation on a graph is a graph."""
    assert isinstance(pattern, Graph)
    return pattern
