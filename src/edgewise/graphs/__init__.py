"""Attention patterns and graphs; ``docs/reference/graphs.md`` shows them with pictures."""

from __future__ import annotations

from edgewise.graphs.batch import batch, incidence, membership
from edgewise.graphs.convert import (
    check_sized,
    check_square,
    edges,
    from_dense,
    from_networkx,
    from_pyg,
    from_scipy,
)
from edgewise.graphs.expand import Expand as expand
from edgewise.graphs.expression import parse_expression
from edgewise.graphs.graph import (
    Edges,
    Graph,
    Intervals,
    Pattern,
    Runs,
    check_graph,
)
from edgewise.graphs.graph import Window as window
from edgewise.graphs.grid import Grid as grid
from edgewise.graphs.hubs import Hubs as hubs
from edgewise.graphs.line import line_graph
from edgewise.graphs.permuted import Permuted
from edgewise.graphs.random import Expander as expander
from edgewise.graphs.random import Random as random
from edgewise.graphs.sequence import Blocks as blocks
from edgewise.graphs.sequence import Causal as causal
from edgewise.graphs.sequence import Complete as complete
from edgewise.graphs.sequence import Empty as empty
from edgewise.graphs.subgraphs import Subgraphs as subgraphs
from edgewise.graphs.tree import Tree as tree
from edgewise.graphs.typed import TypedGraph, from_hetero_data, typed
from edgewise.graphs.virtual import Virtual as virtual

PATTERNS: dict[str, type[Pattern]] = {
    "blocks": blocks,
    "causal": causal,
    "complete": complete,
    "empty": empty,
    "expand": expand,
    "expander": expander,
    "grid": grid,
    "hubs": hubs,
    "random": random,
    "subgraphs": subgraphs,
    "tree": tree,
    "virtual": virtual,
    "window": window,
}
"""Dict from the names of patterns in recipes and on the command line to pattern classes."""


def parse(text: str) -> Pattern:
    """Return the pattern that a string such as ``"window(4) | hubs([0])"`` describes.

    Example:
        >>> from edgewise import graphs
        >>> graphs.parse("window(1) | hubs([0])").bind(4).dense().long()
        tensor([[1, 1, 1, 1],
                [1, 1, 1, 0],
                [1, 1, 1, 1],
                [1, 0, 1, 1]])
    """
    return parse_expression(text, PATTERNS)


__all__ = [
    "PATTERNS",
    "Edges",
    "Graph",
    "Intervals",
    "Pattern",
    "Permuted",
    "Runs",
    "TypedGraph",
    "batch",
    "blocks",
    "causal",
    "check_graph",
    "check_sized",
    "check_square",
    "complete",
    "edges",
    "empty",
    "expand",
    "expander",
    "from_dense",
    "from_hetero_data",
    "from_networkx",
    "from_pyg",
    "from_scipy",
    "grid",
    "hubs",
    "incidence",
    "line_graph",
    "membership",
    "parse",
    "random",
    "subgraphs",
    "tree",
    "typed",
    "virtual",
    "window",
]


def __dir__() -> list[str]:
    return __all__
