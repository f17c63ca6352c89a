"""Tree-LSTM: the state of a node is computed from the states of its children, from the leaves up.

Formula: with children k, i and o = σ(W x + U Σ_k h_k), u = tanh(W_u x + U_u Σ_k h_k),
    f_k = σ(W_f x + U_f h_k); c = i u + Σ_k f_k c_k
Graph: a forest with edges from children to parents, processed level by level
Score: none; a gate for each child
Normalisation: none (sum)
Update: h = o tanh(c); the N-ary form has separate matrices for each child
Paper: Tai, Socher and Manning, Improved semantic representations from tree-structured LSTMs, 2015
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_even
from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import runs_and_positions
from edgewise.attention.attend import aggregate
from edgewise.graphs import Edges, Graph, Pattern, incidence
from edgewise.graphs.graph import bind_graph, edge_keys
from edgewise.layers import GraphLayer, Linear, Membership, packed_graph, refuse_edge_attr
from edgewise.models.arguments import model_factory


class Level(NamedTuple):
    """Nodes of a tree whose children are on lower levels: indices ``[L]``, and edges to them from
    their children, sorted by target, then by source.
    """

    nodes: Tensor
    graph: Graph


def upwards(graph: Graph) -> list[Level]:
    """Sort the nodes into levels, leaves first, so that children are on lower levels."""
    check_parents(graph)
    return levels(graph)


def downwards(graph: Graph) -> list[Level]:
    """Sort the nodes into levels, roots first; the edges of a level go from parents to children."""
    return levels(graph.transpose())


def levels(graph: Graph) -> list[Level]:
    """Sort nodes into levels so that sources precede targets; raise ArgumentError for a cycle."""
    waiting = graph.in_degree()
    order = edge_keys(graph).argsort()  # Sort children by index.
    source, target = graph.source[order], graph.target[order]
    remaining = torch.ones_like(waiting, dtype=torch.bool)
    sorted_levels = []
    while bool(remaining.any()):
        ready = remaining & (waiting == 0)
        nodes = ready.nonzero()[:, 0]
        if not len(nodes):
            raise no_forest(f"a cycle that contains or leads to node {int(remaining.nonzero()[0])}")
        number = torch.full_like(waiting, -1)
        number[nodes] = torch.arange(len(nodes), device=nodes.device)
        is_edge = number[target] >= 0
        edges = torch.stack([source[is_edge], number[target[is_edge]]])
        sorted_levels.append(Level(nodes, Edges(edges, len(nodes), graph.num_sources)))
        remaining = remaining & ~ready
        waiting = waiting - torch.bincount(target[ready[source]], minlength=len(waiting))
    return sorted_levels


def check_parents(graph: Graph) -> None:
    """Raise ArgumentError if a node has more than one parent."""
    parents = torch.bincount(graph.source, minlength=1)
    if int(parents.max()) > 1:
        raise no_forest(f"node {int(parents.argmax())} with {int(parents.max())} parents")


def no_forest(got: str) -> ArgumentError:
    """Return the error for a graph that is not a forest with edges from children to parents."""
    return ArgumentError(
        "graph",
        expected="a forest whose edges point from children to parents",
        got=got,
        remedy="create the graph with graphs.tree(parents, reads='children')",
    )


class ChildSum(nn.Module):
    r"""Tree-LSTM cell for any children, :math:`c_j = i u + \sum_k σ(W_f x_j + U_f h_k) c_k`."""

    def __init__(self, in_width: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.x = nn.Linear(in_width, 4 * width)
        self.h = nn.Linear(width, 3 * width, bias=False)
        self.forget = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, h: Tensor, c: Tensor, level: Level) -> tuple[Tensor, Tensor]:
        """Return the hidden and cell states ``[L, width]`` of the L nodes of a level."""
        x_gates, x_forget = self.x(x).split([3 * h.shape[-1], h.shape[-1]], dim=-1)
        i, o, u = (x_gates + self.h(aggregate(h, level.graph))).chunk(3, dim=-1)
        forget = self.forget(level.graph.gather_source(h)) + level.graph.gather_target(x_forget)
        child_cells = forget.sigmoid() * level.graph.gather_source(c)
        cell = i.sigmoid() * u.tanh() + aggregate(child_cells, incidence(level.graph))
        return o.sigmoid() * cell.tanh(), cell


class NAry(nn.Module):
    r"""Tree-LSTM cell for K children with gates :math:`σ(W_f x_j + \sum_l U_{kl} h_l)`."""

    def __init__(self, in_width: int, width: int, children: int) -> None:
        super().__init__()
        self.width, self.max_children = width, children
        self.x = nn.Linear(in_width, 4 * width)
        self.h = nn.Linear(children * width, (3 + children) * width, bias=False)

    def forward(self, x: Tensor, h: Tensor, c: Tensor, level: Level) -> tuple[Tensor, Tensor]:
        """Return the hidden and cell states ``[L, width]`` of the L nodes of a level."""
        width = h.shape[-1]
        slot, source = level.graph.derived(_slots, self.max_children)
        hidden, cells = (
            state.new_zeros(len(level.nodes) * self.max_children, width)
            .index_copy(0, slot, state[source])
            .unflatten(0, (len(level.nodes), self.max_children))
            for state in (h, c)
        )
        x_gates, x_forget = self.x(x).split([3 * width, width], dim=-1)
        h_gates, h_forget = self.h(hidden.flatten(1)).split(
            [3 * width, self.max_children * width], dim=-1
        )
        i, o, u = (x_gates + h_gates).chunk(3, dim=-1)
        forget = (x_forget[:, None] + h_forget.unflatten(-1, (self.max_children, width))).sigmoid()
        cell = i.sigmoid() * u.tanh() + (forget * cells).sum(1)
        return o.sigmoid() * cell.tanh(), cell


def _slots(graph: Graph, children: int) -> tuple[Tensor, Tensor]:
    """Return the slot of each child among those of all nodes of a level, and the child."""
    degree = graph.in_degree()
    if degree.numel() and int(degree.max()) > children:
        raise ArgumentError(
            "graph",
            expected=f"at most {children} children for each node",
            got=f"a node with {int(degree.max())} children",
            remedy="build the model with a larger children=, or children=0 for any number",
        )
    rank = runs_and_positions(degree, graph.num_edges)[1]
    return graph.target * children + rank, graph.source


class TreeLSTM(GraphLayer):
    """Tree-LSTM for node-level outputs.

    Called as ``model(x [N, in_width], graph)``, with edges from children to parents. With
    ``children=2``, the child with the lower index is the left one. With ``bidirectional``, a second
    pass from the roots down computes half of the features of each state, from the parent's state,
    the node's input and its state of the first pass (as in Teng and Zhang, Head-lexicalized
    bidirectional tree LSTMs, 2017, without their head words).

    Args:
        children: max number of ordered children per node (0 = any number, unordered).
        bidirectional: also compute states from the roots down.
        dropout: dropout probability of the input and the states.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> tree = graphs.tree([-1, 0, 0, 1], reads="children")
        >>> model = models.tree_lstm(16, 3)
        >>> model(torch.randn(4, 16), tree).shape
        torch.Size([4, 3])
    """

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        width: int = 64,
        children: int = 0,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        directions = 2 if bidirectional else 1
        if bidirectional:
            check_even("width", width, "each direction computes half of the features")
        half = width // directions
        self.embed = Linear(in_width, width)
        self.cell = NAry(width, half, children) if children else ChildSum(width, half)
        self.from_above = ChildSum(width + half, half) if bidirectional else None
        self.dropout, self.head = nn.Dropout(dropout), nn.Linear(width, out_width)

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,
    ) -> Tensor:
        """Return outputs ``[N, out_width]``.

        Raises:
            ArgumentError: the graph has a cycle, a node has too many children for the cell, or an
                edge joins two trees of the batch.
        """
        refuse_edge_attr(edge_attr)
        if batch is not None:
            graph = packed_graph(x, graph, batch)
        out: Tensor = self.head(self.dropout(self.states(x, graph)))
        return out

    def states(self, x: Tensor, graph: Pattern) -> Tensor:
        """Return the state of every node, ``[N, width]``; a root's state covers its whole tree."""
        graph = bind_graph(graph, len(x), len(x), x.device)
        x = self.embed(self.dropout(x))
        h = read(self.cell, x, graph.derived(upwards))
        if self.from_above is None:
            return h
        above = read(self.from_above, torch.cat([x, h], dim=-1), graph.derived(downwards))
        return torch.cat([h, above], dim=-1)


def read(cell: ChildSum | NAry, x: Tensor, order: Sequence[Level]) -> Tensor:
    """Return the hidden states of all nodes, ``[N, width]``, computed level by level."""
    h = c = x.new_zeros(len(x), cell.width)
    for level in order:
        state, cell_state = cell(x[level.nodes], h, c, level)
        h, c = h.index_copy(0, level.nodes, state), c.index_copy(0, level.nodes, cell_state)
    return h


tree_lstm = model_factory(TreeLSTM, children=0)
