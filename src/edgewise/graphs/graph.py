"""Base classes of attention patterns (no fixed size) and graphs (fixed size).

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

from edgewise.dispatch_modes import detach_from_inference, persist_on, while_tracing
from edgewise.errors import ArgumentError
from edgewise.graphs.bound import bound_graphs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")

OPERATIONS: dict[str, Callable[..., Any]] = {}
"""Functions that implement the operations of patterns and graphs, by name.

An operation such as a union returns a subclass of :class:`Graph`, which is defined in another
module. That module adds the function to this table, so that this module does not import the
subclasses.
"""


class Pattern(ABC):
    """Attention pattern for any number of nodes.

    If there are fewer targets than sources, the targets are the *last* positions. One target and n
    sources are thus a step of decoding with a key-value cache.

    Example:
        >>> from edgewise import graphs
        >>> pattern = graphs.window(1) | graphs.hubs([0])
        >>> pattern.bind(5).num_edges
        19
    """

    def bind(self, num_targets: int, num_sources: int | None = None) -> Graph:
        """Return the graph of this pattern for these sizes, from a cache of up to 64 MB.

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
        """Build the graph of the pattern for these numbers of targets and sources."""

    def _refuse(self, expected: str, num_targets: int, num_sources: int) -> NoReturn:
        raise ArgumentError(
            "graph",
            expected=f"{expected}, for {self!r}",
            got=f"{num_targets} targets and {num_sources} sources",
            remedy="bind the pattern to other sizes, or choose another pattern",
        )

    def _sources_ahead(self, num_targets: int, num_sources: int) -> int:
        """Return the number of sources that precede the first target."""
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
        """Return the pattern with an edge from j to i if a walk of 1 to ``k`` edges joins them."""
        return cast("Pattern", OPERATIONS["power"](self, k))

    def transpose(self) -> Pattern:
        """Return the pattern with every edge reversed, in the same order."""
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
            path: file of the figure.
            nodes: number of nodes to which a pattern is bound first.
            weights: weights ``[E]``, or ``[E, H]`` to draw the mean over heads. Edges are then
                shaded by weight.
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
    """Return the name that ``graphs.parse`` accepts; user-defined patterns include the module."""
    own = kind.__module__.partition(".")[0] != "edgewise"
    return f"{kind.__module__}:{kind.__name__}" if own else kind.__name__.lower()


def _written(value: Any) -> str:
    """Return the text of an argument; tuples, stored to be hashable, are written as lists."""
    return repr(list(value) if isinstance(value, tuple) else value)


WHILE_TRACING = "_derived_"
"""Prefix of the attributes that hold derived values for compiled code."""


@while_tracing
def _derive_while_tracing(graph: Graph, function: Callable[[Graph], Any]) -> str | None:
    """Compute ``function(graph)`` while PyTorch traces, store it, and return its attribute's name.

    Compiled code reads the value from this attribute of the graph, because it cannot compute values
    that depend on data, such as the number of edges. The result is None if the graph is itself
    created inside the compiled code, because its edges have no values yet.
    """
    if "_cache" not in vars(graph):
        return None
    name = WHILE_TRACING + f"{function.__module__}_{function.__qualname__}".replace(".", "_")
    setattr(graph, name, graph.derived(function))
    return name


class Graph(Pattern):
    """Graph with a fixed number of nodes.

    Attributes:
        num_targets: number of target nodes, which attend.
        num_sources: number of source nodes, which are attended to.
        device: device of the indices.
        segments: ``(target sizes, source sizes)`` of the blocks if the graph is block-diagonal by
            construction, such as a packed batch; otherwise ``None``.

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

    def __getstate__(self) -> dict[str, Any]:
        """Return the edges without cached values, which a copy computes again.

        The cached layouts of engines hold memory addresses, functions and devices of this process.
        """
        kept = {k: x for k, x in vars(self).items() if not k.startswith(WHILE_TRACING)}
        return {**kept, "_cache": {}}

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
        """Return a boolean tensor, True for pairs that are edges; the inputs are broadcast."""

    @abstractmethod
    def _moved(self, device: torch.device) -> Graph:
        """Return a copy of the graph on another device."""

    @property
    def source(self) -> Tensor:
        """Sources of the edges ``[E]``, ``edge_index[0]``."""
        return self.edge_index[0]

    @property
    def target(self) -> Tensor:
        """Targets of the edges ``[E]``, ``edge_index[1]``."""
        return self.edge_index[1]

    @property
    def parts(self) -> tuple[Graph, ...]:
        """Disjoint graphs whose concatenated edges are the edges of this graph."""
        return (self,)

    @property
    def has_duplicates(self) -> bool:
        """Whether the graph has duplicate edges; only explicit edge lists can have duplicates."""
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
        """Gather the source features of each edge: ``[..., num_sources, F]`` to ``[..., E, F]``."""
        return x.index_select(dim, self.source)

    def gather_target(self, x: Tensor, dim: int = -2) -> Tensor:
        """Gather the target features of each edge: ``[..., num_targets, F]`` to ``[..., E, F]``."""
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
        """Return the graph itself, after checking the sizes."""
        num_sources = num_targets if num_sources is None else num_sources
        return self._build(num_targets, num_sources)

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        if (num_targets, num_sources) != (self.num_targets, self.num_sources):
            raise ArgumentError(
                "graph",
                expected=f"a graph with {num_targets} targets and {num_sources} sources",
                got=repr(self),
                remedy="create the graph with the number of nodes of the features",
            )
        return self

    def to(self, device: torch.device | str) -> Graph:
        """Return the graph on another device; the copy is cached.

        On ``torch.device("meta")`` the graph has the same number of edges, without their indices.
        """
        if device == self.device:
            return self
        device = torch.device(device)
        if device.type == self.device.type and device.index in (None, self.device.index):
            return self
        make = self._without_numbers if device.type == "meta" else lambda: self._moved(device)
        return self.cached(("to", str(device)), make)

    def cached(self, key: Any, make: Callable[[], T]) -> T:
        """Return ``make()``, computed once per graph, with PyTorch's modes disabled."""
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
        """Return ``function(self)``, computed once per graph, also under ``torch.compile``."""
        if not torch.compiler.is_dynamo_compiling():
            if function not in self._cache:
                with persist_on(self.device):
                    self._cache[function] = function(self)
            kept: T = self._cache[function]
            return kept
        name = _derive_while_tracing(self, function)
        value: T = function(self) if name is None else getattr(self, name)
        return value

    @property
    def is_numbered(self) -> bool:
        """Whether the edge indices have values: False on the device meta, and during tracing."""
        traced = torch.compiler.is_dynamo_compiling() and not _exists(self)
        return self.device.type != "meta" and not traced

    def positions(self) -> Tensor | None:
        """Return coordinates ``[n, 2]`` for drawing the nodes, or None for a default layout."""
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
    """Count the occurrences of each node, also for meta tensors and under ``torch.compile``."""
    return node.new_zeros(count).index_add(0, node, torch.ones_like(node))


def _as_graph(pattern: Pattern) -> Graph:
    """Cast a composition with a graph as operand to Graph; the operand gives the sizes."""
    assert isinstance(pattern, Graph)
    return pattern
