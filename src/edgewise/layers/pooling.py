"""Pooling (readout): one vector per graph from the states of the graph's nodes."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice, check_divides
from edgewise._utils.errors import ArgumentError, counted
from edgewise._utils.ragged import segment_index, starts
from edgewise.attention.attend import Reduce, aggregate, attend
from edgewise.graphs import Edges, Graph, Intervals, Pattern, complete, membership
from edgewise.graphs.batch import Sizes
from edgewise.graphs.graph import bind_graph, bind_to_nodes, fact_of_graph
from edgewise.layers.sequential import GraphLayer

Pooling = Literal["mean", "sum", "max", "class", "last", "none"]
REDUCTIONS: dict[str, Reduce] = {
    "mean": "mean",
    "sum": "sum",
    "max": "max",
    "class": "sum",
    "last": "sum",
}


Membership = Sizes | Graph | None
"""Type of the argument ``batch``, which assigns nodes to graphs. It is a list of the number of
nodes of each graph, if the nodes of each graph follow each other; or ``None`` if all nodes form one
graph; or a membership graph (``graphs.membership``), with an edge from each node of graph b to
output b. In a membership graph, a node may belong to several outputs, and outputs may be in any
order."""


def members_of(x: Tensor, batch: Membership) -> Graph:
    """Return the membership graph: edges from nodes of x ``[..., N, width]`` to pooled outputs.

    Raises:
        ArgumentError: the sizes do not sum to N, or the membership graph does not have N sources.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> layers.members_of(torch.randn(3, 16), [1, 2]).dense().long()
        tensor([[1, 0, 0],
                [0, 1, 1]])
    """
    count = x.shape[-2]
    if batch is None:
        return bind_graph(complete(), 1, count, x.device)
    graph = batch if isinstance(batch, Graph) else membership(batch)
    if graph.num_sources != count:
        raise ArgumentError(
            "batch",
            expected=f"sizes of graphs that sum to {count}, or a membership graph of "
            f"{counted(count, 'node')}",
            got=counted(graph.num_sources, "node"),
            remedy="if batch is a vector with the graph of each node, as in PyTorch Geometric, "
            "pass batch.bincount()",
        )
    return graph.to(x.device)


def packed_graph(x: Tensor, graph: Pattern, batch: Membership) -> Graph:
    """Return ``graph`` for the nodes of x ``[..., N, width]``, with the size of each graph stored.

    The sizes are those of the packed ``graph``, or follow from ``batch``.

    Raises:
        ArgumentError: ``batch`` does not assign each node to one graph, an edge joins two graphs,
            or x is a meta tensor.
    """
    if x.is_meta:
        raise ArgumentError(
            "x",
            expected="a tensor with data, because shapes inside the model depend on the sizes of "
            "the graphs",
            got="a tensor on the device meta",
            remedy='use a device with memory, such as "cpu"',
        )
    graph = bind_to_nodes(graph, x)
    if batch is None or (graph.segments is not None and isinstance(batch, Graph)):
        return graph
    members = members_of(x, batch)
    if not isinstance(members, Intervals):
        raise ArgumentError(
            "batch",
            expected="sizes of graphs, or a membership graph",
            got=repr(batch),
            remedy="create the membership graph with graphs.membership(sizes)",
        )
    return _with_members(graph, members, isinstance(batch, Graph))


@fact_of_graph
def _with_members(graph: Graph, members: Intervals, may_repeat: bool) -> Graph:
    """Return the graph with the sizes of the graphs of a batch; several members may be equal."""
    ranges = (
        members.derived(_distinct_ranges)
        if may_repeat
        else _ranges(members.start, members.stop, members.num_sources)
    )
    start, sizes = ranges.start, ranges.sizes
    if not ranges.is_partition:
        raise ArgumentError(
            "batch",
            expected=f"graphs that contain each of the {graph.num_targets} nodes exactly once",
            got="graphs with the node ranges "
            f"{torch.stack([start, start + sizes], 1).tolist()[:8]} ([first, end], end excluded)",
            remedy="give the sizes of all graphs, in the order of their nodes",
        )
    if graph.segments is not None and torch.equal(sizes, graph.segments[0].to(graph.device)):
        return graph
    member = segment_index(sizes, graph.num_targets)
    if graph.is_numbered and not torch.equal(member[graph.source], member[graph.target]):
        raise ArgumentError(
            "batch",
            expected="no edge between two graphs of the batch",
            got="an edge between two graphs",
            remedy="check the order of the sizes in batch",
        )
    return Edges(graph.edge_index, graph.num_targets, graph.num_sources, (sizes, sizes))


class _Ranges(NamedTuple):
    """First node and number of nodes of each graph, and whether each node is in one graph."""

    start: Tensor
    sizes: Tensor
    is_partition: bool


def _ranges(start: Tensor, stop: Tensor, nodes: int) -> _Ranges:
    sizes = stop - start
    return _Ranges(start, sizes, int(sizes.sum()) == nodes and torch.equal(starts(sizes), start))


def _distinct_ranges(members: Graph) -> _Ranges:
    """Return each range of nodes once; several targets can have the same range."""
    assert isinstance(members, Intervals)
    start, stop = torch.stack([members.start, members.stop]).unique(dim=1)
    return _ranges(start, stop, members.num_sources)


class Pool(nn.Module):
    """Pooling of node features to one vector per graph: their mean, sum or maximum, or one node.

    Args:
        pool: ``"mean"``, ``"sum"``, ``"max"``, ``"class"`` (the first node, a class token) or
            ``"last"`` (the last node); ``"none"`` keeps all nodes.

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers
        >>> layers.Pool("max")(torch.randn(10, 16), graphs.membership([4, 6])).shape
        torch.Size([2, 16])
    """

    def __init__(self, pool: Pooling = "mean") -> None:
        super().__init__()
        check_choice("pool", pool, get_args(Pooling))
        self.pool = pool

    def forward(self, x: Tensor, batch: Membership = None) -> Tensor:
        """Return one vector for each graph, ``[..., graphs, width]``; 0 for a graph without nodes.

        Without ``batch`` the shape is ``[..., width]``; with ``"none"``, x itself is returned.

        Raises:
            ArgumentError: the number of nodes in ``batch`` is not N.
        """
        if self.pool == "none":
            return x
        graph = members_of(x, batch)
        if self.pool in ("class", "last"):
            graph = _single_nodes(graph, self.pool == "class")
        pooled = aggregate(x.unsqueeze(-2), graph, reduce=REDUCTIONS[self.pool]).squeeze(-2)
        return pooled.squeeze(-2) if batch is None else pooled


@fact_of_graph
def _single_nodes(graph: Graph, first: bool) -> Graph:
    """Return a membership graph with edges from only the first or last node of each graph."""
    assert isinstance(graph, Intervals)
    if first:
        start, stop = graph.start, torch.minimum(graph.start + 1, graph.stop)
    else:
        start, stop = torch.maximum(graph.stop - 1, graph.start), graph.stop
    return Intervals(start, stop, graph.num_sources)


def outputs_of_graphs(states: Tensor, sizes: Tensor, batch: Membership) -> Tensor:
    """Return one row for each output of ``batch``, as :class:`Pool` does, from states of graphs.

    ``states`` are ``[G, ...]``, and ``sizes`` ``[G]`` the number of nodes of each graph.
    """
    if batch is None:
        return states.squeeze(0)
    if not isinstance(batch, Graph):
        return states
    assert isinstance(batch, Intervals)
    # An empty graph starts where the next graph starts.
    graph_keys = 2 * starts(sizes) + (sizes > 0)
    output_keys = 2 * batch.start + (batch.stop > batch.start)
    return states[torch.searchsorted(graph_keys, output_keys.to(graph_keys.device))]


class AttentionPool(nn.Module):
    r"""Multi-head attention pooling with a learned query.

    .. math:: z_b = \mathrm{attend}(q,\; K h,\; V h,\; \mathrm{members})

    Here members is the graph with an edge from each node to the output of its graph. All graphs
    share q (Li et al., Gated graph sequence neural networks, 2016; Lee et al., Set Transformer,
    2019).

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers
        >>> pool = layers.AttentionPool(16, heads=4)
        >>> pool(torch.randn(10, 16), graphs.membership([4, 6])).shape
        torch.Size([2, 16])
    """

    def __init__(self, width: int, heads: int = 1) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.query = nn.Parameter(torch.empty(heads, width // heads))
        nn.init.normal_(self.query)
        self.key, self.value = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, batch: Membership = None) -> Tensor:
        """Return one vector for each graph, as :class:`Pool` does."""
        members = members_of(x, batch)
        query = self.query.expand(*x.shape[:-2], members.num_targets, -1, -1)
        key = self.key(x).unflatten(-1, self.query.shape)
        value = self.value(x).unflatten(-1, self.query.shape)
        pooled = attend(query.to(key), key, value, members).flatten(-2)
        return pooled.squeeze(-2) if batch is None else pooled


class ClassToken(nn.Module):
    """Prepend a learned node (class token) to x; the result is ``[..., N + 1, width]``.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> layers.ClassToken(16)(torch.randn(2, 10, 16)).shape
        torch.Size([2, 11, 16])
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.empty(width))
        nn.init.normal_(self.token, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        token = self.token.expand(*x.shape[:-2], 1, -1)
        return torch.cat([token, x], dim=-2)


class PooledNodes(GraphLayer):
    """Pool the outputs of a node-level model to graph-level outputs; see :class:`Pool`.

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers, models
        >>> model = layers.PooledNodes(models.gin(16, 3), pool="sum")
        >>> model(torch.randn(10, 16), graphs.batch(graphs.window(1), [4, 6]), batch=[4, 6]).shape
        torch.Size([2, 3])
    """

    def __init__(self, nodes: nn.Module, pool: Pooling) -> None:
        super().__init__()
        self.nodes, self.pool = nodes, Pool(pool)

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,
    ) -> Tensor:
        """Return outputs ``[B, out_width]`` for x ``[N, in_width]``; see :mod:`edgewise.models`."""
        out: Tensor = self.pool(self.nodes(x, graph, edge_attr=edge_attr), batch)
        return out
