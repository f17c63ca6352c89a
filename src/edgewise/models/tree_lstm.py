"""Tree-LSTM: each node is made of its children's states, from the leaves up.

Formula: i, o, u from W x_j + U Σ_k h_k; f_jk = σ(W_f x_j + U_f h_k); c_j = i u + Σ_k f_jk c_k;
bidirectional: then the same from the roots down, with [x_j; h_j] for x_j and the parent for k
Graph: a forest in which nodes read their children, a level at a time
Score: none; a gate for each child
Normalisation: none (sum)
Update: h_j = o tanh(c_j); in the binary form each child has matrices of its own
Paper: Tai, Socher and Manning, Improved semantic representations from tree-structured LSTMs, 2015
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from edgewise.arguments import check_divides, checked
from edgewise.attention import aggregate
from edgewise.checks import bind_graph
from edgewise.errors import ArgumentError
from edgewise.graphs import Edges, Graph, Pattern, incidence
from edgewise.layers import GraphLayer, Linear, Membership, packed_graph, refuse_edge_attr
from edgewise.ragged import starts


class Level(NamedTuple):
    """Nodes all of whose children are on lower levels.

    Attributes:
        nodes: ``[L]``.
        graph: from all nodes to these, who reads which child.
        place: ``[E']``, which child of its parent each is, by their numbers from 0.

    """

    nodes: Tensor
    graph: Graph
    place: Tensor


def upwards(graph: Graph) -> list[Level]:
    """The nodes from the leaves up.

    Raises:
        ArgumentError: a node has two parents, or is among its own descendants.

    """
    check_parents(graph)
    return levels(graph)


def downwards(graph: Graph) -> list[Level]:
    """The nodes from the roots down: each reads its parent as if that were its only child."""
    return levels(graph.transpose())


def levels(graph: Graph) -> list[Level]:
    """The nodes, each after those that it reads; an error where it is among them itself."""
    waiting = graph.in_degree()
    order = (graph.target * graph.num_sources + graph.source).argsort()  # children by number
    source, target = graph.source[order], graph.target[order]
    first = starts(waiting)
    place = torch.arange(len(order), device=order.device) - first[target]
    left = torch.ones_like(waiting, dtype=torch.bool)
    found = []
    while bool(left.any()):
        ready = left & (waiting == 0)
        nodes = ready.nonzero()[:, 0]
        if not len(nodes):
            raise no_forest(f"a cycle through node {int(left.nonzero()[0])} or below it")
        number = torch.full_like(waiting, -1)
        number[nodes] = torch.arange(len(nodes), device=nodes.device)
        mine = number[target] >= 0
        edges = torch.stack([source[mine], number[target[mine]]])
        found.append(Level(nodes, Edges(edges, len(nodes), graph.num_sources), place[mine]))
        left = left & ~ready
        waiting = waiting - torch.bincount(target[ready[source]], minlength=len(waiting))
    return found


def check_parents(graph: Graph) -> None:
    """Refuse a node that two others read."""
    parents = torch.bincount(graph.source, minlength=1)
    if int(parents.max()) > 1:
        raise no_forest(f"node {int(parents.argmax())} with {int(parents.max())} parents")


def no_forest(got: str) -> ArgumentError:
    """The error of a graph in which nodes do not read their children alone."""
    return ArgumentError(
        "graph",
        expected="a forest, in which nodes read their children",
        got=got,
        remedy="read in one direction: graphs.tree(parents, reads='children')",
    )


class ChildSum(nn.Module):
    """The cell that adds its children's states; children have no order.

    Args:
        in_width: of x.
        width: of the states.

    """

    def __init__(self, in_width: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.x = nn.Linear(in_width, 4 * width)
        self.h = nn.Linear(width, 3 * width, bias=False)
        self.forget = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, h: Tensor, c: Tensor, level: Level) -> tuple[Tensor, Tensor]:
        """States and cells ``[L, width]`` of a level's nodes x, from those ``[N, ...]`` of all."""
        own, own_forget = self.x(x).split([3 * h.shape[-1], h.shape[-1]], dim=-1)
        i, o, u = (own + self.h(aggregate(h, level.graph))).chunk(3, dim=-1)
        asked = self.forget(level.graph.gather_source(h)) + level.graph.gather_target(own_forget)
        kept = asked.sigmoid() * level.graph.gather_source(c)
        cell = i.sigmoid() * u.tanh() + aggregate(kept, incidence(level.graph))
        return o.sigmoid() * cell.tanh(), cell


class NAry(nn.Module):
    """The cell of trees of at most K children, each of which has matrices of its own.

    Args:
        in_width: of x.
        width: of the states.
        children: K; 2 for binary trees.

    """

    def __init__(self, in_width: int, width: int, children: int) -> None:
        super().__init__()
        self.width, self.places = width, children
        self.x = nn.Linear(in_width, 4 * width)
        self.h = nn.Linear(children * width, (3 + children) * width, bias=False)

    def forward(self, x: Tensor, h: Tensor, c: Tensor, level: Level) -> tuple[Tensor, Tensor]:
        """States and cells ``[L, width]`` of a level's nodes x, from those ``[N, ...]`` of all."""
        if level.place.numel() and int(level.place.max()) >= self.places:
            raise ArgumentError(
                "graph",
                expected=f"at most {self.places} children of each node",
                got=f"one with {int(level.place.max()) + 1}",
                remedy="use the sum of children (children=0), or make the tree binary",
            )
        width = h.shape[-1]
        each = torch.stack([self._slot(h, level, k) for k in range(self.places)], dim=1)
        cells = torch.stack([self._slot(c, level, k) for k in range(self.places)], dim=1)
        own, own_forget = self.x(x).split([3 * width, width], dim=-1)
        read, asked = self.h(each.flatten(1)).split([3 * width, self.places * width], dim=-1)
        i, o, u = (own + read).chunk(3, dim=-1)
        forget = (own_forget[:, None] + asked.unflatten(-1, (self.places, width))).sigmoid()
        cell = i.sigmoid() * u.tanh() + (forget * cells).sum(1)
        return o.sigmoid() * cell.tanh(), cell

    @staticmethod
    def _slot(state: Tensor, level: Level, k: int) -> Tensor:
        """``[L, width]``, the k-th child's; 0 where there is none."""
        mine = level.place == k
        target, source = level.graph.target[mine], level.graph.source[mine]
        return state.new_zeros(len(level.nodes), state.shape[-1]).index_copy(
            0, target, state[source]
        )


class TreeLSTM(GraphLayer):
    """See :func:`tree_lstm`."""

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        width: int,
        children: int,
        bidirectional: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        directions = 2 if bidirectional else 1
        check_divides("bidirectional", directions, width, "the width", "choose an even width")
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
        """``[N, out_width]`` from x ``[N, in_width]``.

        Args:
            x: features of nodes.
            graph: who reads which children; a forest, such as all sentences of a batch.
            edge_attr: refused.
            batch: see :mod:`edgewise.models`.

        Raises:
            ArgumentError: the graph has a cycle, a node more children than the cell has places, or
                an edge joins two trees of the batch.

        """
        refuse_edge_attr(edge_attr)
        if batch is not None:
            graph = packed_graph(x, graph, batch)
        out: Tensor = self.head(self.dropout(self.states(x, graph)))
        return out

    def states(self, x: Tensor, graph: Pattern) -> Tensor:
        """``[N, width]``, h of every node; that of a root knows its whole tree."""
        graph = bind_graph(graph, len(x), len(x), x.device)
        x = self.embed(self.dropout(x))
        h = read(self.cell, x, graph.derived(upwards))
        if self.from_above is None:
            return h
        above = read(self.from_above, torch.cat([x, h], dim=-1), graph.derived(downwards))
        return torch.cat([h, above], dim=-1)


def read(cell: ChildSum | NAry, x: Tensor, order: Sequence[Level]) -> Tensor:
    """``[N, width]``, the states of all nodes, a level at a time."""
    h = c = x.new_zeros(len(x), cell.width)
    for level in order:
        state, own = cell(x[level.nodes], h, c, level)
        h, c = h.index_copy(0, level.nodes, state), c.index_copy(0, level.nodes, own)
    return h


@checked(children=0)
def tree_lstm(
    in_width: int,
    out_width: int,
    *,
    width: int = 64,
    children: int = 0,
    bidirectional: bool = False,
    dropout: float = 0.0,
) -> TreeLSTM:
    """Called ``model(x [N, in_width], graph)``, in which nodes read their children.

    ``children`` 0 adds them up, as many as there are and in no order; 2 is the binary form, in
    which the child of lower number is the left one. With ``bidirectional`` half of each state
    comes from the root down, where a node reads its parent and what was found below itself: every
    node then knows its whole tree (Teng and Zhang, Head-lexicalized bidirectional tree LSTMs, 2017,
    without their head words).
    """
    return TreeLSTM(
        in_width,
        out_width,
        width=width,
        children=children,
        bidirectional=bidirectional,
        dropout=dropout,
    )
