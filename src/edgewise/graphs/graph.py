"""Who reads whom: patterns, which have no size yet, and graphs, which do.

A :class:`Pattern` is a relation for any number of nodes, so that a model can be declared before it
sees data. ``pattern.bind(n)`` gives a :class:`Graph`, a relation from ``num_sources`` sources to
``num_targets`` targets. ``edge_index[0]`` is the source j and ``edge_index[1]`` the target i that
reads it (the PyTorch Geometric convention).
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
"""Operations of patterns and graphs, by name.

They make subclasses of the classes below. The modules of these subclasses, all imported by
``graphs/__init__.py``, add them here, so that this module imports none of them.
"""


class Pattern(ABC):
    """A relation between nodes for any number of them; a set of edges once it is bound.

    Where the targets are fewer than the sources they are the *last* of the same positions, so that
    one target of n sources is the newest token of a sequence (cached decoding).
    """

    def bind(self, num_targets: int, num_sources: int | None = None) -> Graph:
        """The graph of this pattern for these sizes; those used last are kept, up to 64 MB of them.

        Raises:
            ArgumentError: the pattern does not exist at these sizes.

        """
        num_sources = num_targets if num_sources is None else num_sources
        if torch.compiler.is_dynamo_compiling():
            from edgewise.graphs.traced import bind_traced

            return bind_traced(self, index(num_targets), index(num_sources))
        return bound_graphs(self, num_targets, num_sources)

    @abstractmethod
    def _build(self, num_targets: int, num_sources: int) -> Graph:
        """Make the graph of these sizes."""

    def _refuse(self, expected: str, num_targets: int, num_sources: int) -> NoReturn:
        raise ArgumentError(
            "graph",
            expected=f"{expected}, as {self!r} needs",
            got=f"{num_targets} targets and {num_sources} sources",
            remedy="bind it to other sizes or choose another pattern",
        )

    def _sources_ahead(self, num_targets: int, num_sources: int) -> int:
        """How many sources come before the first target, for patterns over positions."""
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
        """I reads j where a walk of one to ``k`` edges leads from j to i."""
        return cast("Pattern", OPERATIONS["power"](self, k))

    def transpose(self) -> Pattern:
        """The same edges the other way round, in the same order."""
        return cast("Pattern", OPERATIONS["transpose"](self))

    def with_self_loops(self) -> Pattern:
        """The same with every node reading itself too."""
        return self | cast("Pattern", OPERATIONS["window"](0))

    def without_self_loops(self) -> Pattern:
        """The same with no node reading itself."""
        return self - cast("Pattern", OPERATIONS["window"](0))

    def draw(self, path: str | Path | None = None, *, nodes: int = 16) -> Figure:
        """A picture of the graph and of its matrix side by side, also saved to ``path``.

        A pattern is shown on ``nodes`` nodes.
        """
        graph = self if isinstance(self, Graph) else self.bind(nodes)
        return cast("Figure", OPERATIONS["draw"](graph, path))

    def _repr_html_(self) -> str:
        """What a notebook shows: a drawing where it is small, else what can be counted."""
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
    """As ``graphs.parse`` reads it: that of one's own with its module."""
    own = kind.__module__.partition(".")[0] != "edgewise"
    return f"{kind.__module__}:{kind.__name__}" if own else kind.__name__.lower()


def _written(value: Any) -> str:
    """As one would type it: a list, where a pattern keeps a tuple to be hashable."""
    return repr(list(value) if isinstance(value, tuple) else value)


WHILE_TRACING = "_derived_"
"""How the attributes begin by which compiled code knows what was derived of a graph."""


@while_tracing
def _derive_while_tracing(graph: Graph, function: Callable[[Graph], Any]) -> str | None:
    """:meth:`Graph.derived` while ``torch.compile`` traces: the name of an attribute.

    Compiled code cannot compute what depends on numbers, such as how many edges there are. None
    for a graph that the code itself makes, which has no numbers yet.
    """
    if "_cache" not in vars(graph):
        return None
    name = WHILE_TRACING + f"{function.__module__}_{function.__qualname__}".replace(".", "_")
    setattr(graph, name, graph.derived(function))
    return name


class Graph(Pattern):
    """A relation with sizes. Every view of it shows the same edges.

    Attributes:
        num_targets: how many nodes read.
        num_sources: how many nodes are read.
        device: where the indices are.
        segments: ``(target sizes, source sizes)`` where the graph is block-diagonal by
            construction, such as a packed batch; otherwise ``None``.

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
        """The edges. A copy, in a file or another process too, derives the rest again.

        What engines keep has addresses and functions, and other devices than a reader may have.
        """
        kept = {k: x for k, x in vars(self).items() if not k.startswith(WHILE_TRACING)}
        return {**kept, "_cache": {}}

    @property
    @abstractmethod
    def edge_index(self) -> Tensor:
        """``[2, E]``: sources, then the targets that read them."""

    @property
    @abstractmethod
    def num_edges(self) -> int:
        """How many edges there are, E."""

    @abstractmethod
    def contains(self, source: Tensor, target: Tensor) -> Tensor:
        """Which of these pairs are edges: boolean, of the inputs' broadcast shape."""

    @abstractmethod
    def _moved(self, device: torch.device) -> Graph:
        """A copy on another device."""

    @property
    def source(self) -> Tensor:
        """``[E]``, ``edge_index[0]``."""
        return self.edge_index[0]

    @property
    def target(self) -> Tensor:
        """``[E]``, ``edge_index[1]``."""
        return self.edge_index[1]

    @property
    def parts(self) -> tuple[Graph, ...]:
        """Disjoint graphs whose edges, one part after the other, are this graph's edges."""
        return (self,)

    @property
    def has_duplicates(self) -> bool:
        """Whether some edge is there more than once (only explicit edges may be)."""
        return False

    def dense(self) -> Tensor:
        """Boolean ``[num_targets, num_sources]``: row i shows what i reads."""
        target = torch.arange(self.num_targets, device=self.device)
        source = torch.arange(self.num_sources, device=self.device)
        return detach_from_inference(self.contains(source, target[:, None]))

    def in_degree(self) -> Tensor:
        """``[num_targets]``: how many edges each target reads."""
        return self.cached("in_degree", lambda: _counts(self.target, self.num_targets))

    def out_degree(self) -> Tensor:
        """``[num_sources]``: how many edges read each source."""
        return self.cached("out_degree", lambda: _counts(self.source, self.num_sources))

    def gather_source(self, x: Tensor, dim: int = -2) -> Tensor:
        """Features ``[..., num_sources, F]`` as ``[..., E, F]``: what each edge carries."""
        return x.index_select(dim, self.source)

    def gather_target(self, x: Tensor, dim: int = -2) -> Tensor:
        """Features ``[..., num_targets, F]`` as ``[..., E, F]``: who each edge ends in."""
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
        """Give the graph itself, if the sizes agree."""
        num_sources = num_targets if num_sources is None else num_sources
        return self._build(num_targets, num_sources)

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        if (num_targets, num_sources) != (self.num_targets, self.num_sources):
            raise ArgumentError(
                "graph",
                expected=f"a graph with {num_targets} targets and {num_sources} sources",
                got=repr(self),
                remedy="make the graph for the number of nodes that the features have",
            )
        return self

    def to(self, device: torch.device | str) -> Graph:
        """Give the graph on another device; the copy is kept.

        On ``torch.device("meta")`` it has as many edges, and nobody knows which.
        """
        if device == self.device:
            return self
        device = torch.device(device)
        if device.type == self.device.type and device.index in (None, self.device.index):
            return self
        make = self._without_numbers if device.type == "meta" else lambda: self._moved(device)
        return self.cached(("to", str(device)), make)

    def cached(self, key: Any, make: Callable[[], T]) -> T:
        """What ``make`` gives, computed once a graph, and outside of all modes of PyTorch."""
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
        """``function(self)``, computed once a graph; also while ``torch.compile`` traces."""
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
        """Whether its edges are known: not on meta, and not before compiled code has run."""
        traced = torch.compiler.is_dynamo_compiling() and not _exists(self)
        return self.device.type != "meta" and not traced

    def positions(self) -> Tensor | None:
        """``[n, 2]``, where to draw the nodes, if the pattern has a natural place for them."""
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
    """How often each node occurs; ``bincount`` has no form for meta tensors and compilers."""
    return node.new_zeros(count).index_add(0, node, torch.ones_like(node))


def _as_graph(pattern: Pattern) -> Graph:
    """Compositions of a graph are graphs: its sizes bind the rest."""
    assert isinstance(pattern, Graph)
    return pattern
