"""Graphs whose nodes and edges have types, such as users who share posts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range, describe
from edgewise._utils.dispatch_modes import disable_modes
from edgewise._utils.errors import ArgumentError, unknown_name
from edgewise.graphs.convert import edges
from edgewise.graphs.graph import Edges, Graph

Relation = tuple[str, str, str]
"""Source type, name and target type of a relation."""
REVERSED = "rev_"
"""Prefix of the name of a reversed relation, as in PyTorch Geometric."""


class TypedGraph(Edges):
    """Graph with a relation for each edge and a type for each node, not checked.

    Call :func:`edgewise.graphs.typed` to create such a graph with checks. Operations that change
    edges return a graph without types, except :meth:`transpose`, :meth:`with_reverse` and
    :meth:`select`.

    Attributes:
        relations: the relations, in the order of their numbers.
        edge_type: number of the relation of each edge, ``[E]``.
        node_types: names of the node types, in the order of their numbers.
        node_type: number of the type of each target node, ``[N]``.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> shares = {("user", "shares", "post"): torch.tensor([[0, 1], [0, 0]])}
        >>> graphs.typed(shares, {"user": 2, "post": 1}).with_reverse().relations
        (('user', 'shares', 'post'), ('post', 'rev_shares', 'user'))
    """

    def __init__(
        self,
        edge_index: Tensor,
        num_targets: int,
        num_sources: int,
        edge_type: Tensor,
        relations: Sequence[Any],
        *,
        node_type: Tensor | None = None,
        node_types: Sequence[str] = ("node",),
    ) -> None:
        super().__init__(edge_index, num_targets, num_sources)
        self.edge_type, self.relations, self.node_types = edge_type, relations, node_types
        if node_type is None:
            node_type = torch.zeros(num_targets, dtype=torch.long, device=edge_index.device)
        self.node_type = node_type

    @property
    def num_nodes(self) -> dict[str, int]:
        """Number of nodes of each type."""
        counts = self.node_type.bincount(minlength=len(self.node_types)).tolist()
        return dict(zip(self.node_types, counts, strict=True))

    def pack(self, features: Mapping[str, Tensor], *, separate: bool = False) -> Tensor:
        """Return the features ``[N, F]`` of all nodes; a type without features gets zeros.

        Args:
            features: features ``[N_type, F]`` of the nodes of a type, in their order.
            separate: whether each type has columns of its own, so that widths may differ: a linear
                map of the result is a separate linear map for each type.

        Raises:
            ArgumentError: a type is unknown, or a shape or dtype does not fit.
        """
        counts, widths = self.num_nodes, set()
        for name, x in features.items():
            if name not in counts:
                raise unknown_name("node type", name, self.node_types)
            if not isinstance(x, Tensor) or x.dim() != 2 or len(x) != counts[name]:
                raise ArgumentError(
                    "features",
                    expected=f"shape [{counts[name]}, F] for the nodes of type {name!r}",
                    got=describe(x),
                    remedy="pass one row of features for each node of the type",
                )
            widths.add(x.shape[1])
        if len(widths) > 1 and not separate:
            raise ArgumentError(
                "features",
                expected="the same number of features for each node type",
                got=", ".join(f"{x.shape[1]} for {name!r}" for name, x in features.items()),
                remedy="pass separate=True, which gives each type columns of its own",
            )
        width = sum(x.shape[1] for x in features.values()) if separate else max(widths, default=0)
        dtypes = {x.dtype for x in features.values()}
        if len(dtypes) > 1:
            raise ArgumentError(
                "features",
                expected="one dtype for all node types",
                got=", ".join(map(str, dtypes)),
                remedy="convert the features, for example with .float()",
            )
        like = next(iter(features.values()), torch.empty(0, device=self.device))
        packed, column = like.new_zeros(self.num_targets, width), 0
        for name, x in features.items():
            packed[self.nodes(name), column : column + x.shape[1]] = x
            column += x.shape[1] if separate else 0
        return packed

    def unpack(self, x: Tensor) -> dict[str, Tensor]:
        """Return the rows of x ``[N, F]`` by node type; the inverse of :meth:`pack`."""
        return {name: x[self.nodes(name)] for name in self.node_types}

    def nodes(self, node_type: str) -> Tensor:
        """Return the numbers of the nodes of a type, ``[N_type]``."""
        if node_type not in self.node_types:
            raise unknown_name("node type", node_type, self.node_types)
        return (self.node_type == list(self.node_types).index(node_type)).nonzero()[:, 0]

    def transpose(self) -> TypedGraph:
        def make() -> TypedGraph:
            index = self.edge_index.flip(0)
            return self._with_edges(index, self.edge_type, _reversed(self.relations))

        return self.cached("transpose", make)

    def with_reverse(self) -> TypedGraph:
        """Append each edge reversed, in relations ``(target type, "rev_NAME", source type)``."""

        def make() -> TypedGraph:
            index = torch.cat([self.edge_index, self.edge_index.flip(0)], dim=1)
            types = torch.cat([self.edge_type, self.edge_type + len(self.relations)])
            return self._with_edges(index, types, (*self.relations, *_reversed(self.relations)))

        return self.cached("with_reverse", make)

    def select(self, edges: Tensor) -> TypedGraph:
        """Return the graph with only the edges of these indices, or of a mask."""
        return self._with_edges(self.edge_index[:, edges], self.edge_type[edges], self.relations)

    def renumbered(self, edge_index: Tensor, edges: Tensor, nodes: Tensor) -> TypedGraph:
        """Return a graph of some ``nodes``, numbered in their order; its ``edge_index`` are the
        edges of these indices here.
        """
        return self._with_edges(
            edge_index, self.edge_type[edges], self.relations, self.node_type[nodes]
        )

    def _with_edges(
        self,
        edge_index: Tensor,
        edge_type: Tensor,
        relations: Sequence[Any],
        node_type: Tensor | None = None,
    ) -> TypedGraph:
        """Return a graph of other edges, and of other nodes of these types if given."""
        node_type = self.node_type if node_type is None else node_type
        return TypedGraph(
            edge_index,
            len(node_type),
            len(node_type),
            edge_type,
            relations,
            node_type=node_type,
            node_types=self.node_types,
        )

    def _moved(self, device: torch.device) -> Graph:
        index, edge_type, node_type = (
            x.to(device) for x in (self.edge_index, self.edge_type, self.node_type)
        )
        graph = self._with_edges(index, edge_type, self.relations, node_type)
        graph.whole = self.whole and self.whole.to(device)
        return graph


def typed(
    edge_indices: Mapping[Relation, Tensor], num_nodes: Mapping[str, int] | None = None
) -> TypedGraph:
    """Return one graph of all relations, whose nodes are packed by type.

    The nodes of the first type come first. Edges keep their order within a relation.

    Args:
        edge_indices: for each relation ``(source type, name, target type)`` its edges ``[2, E]``;
            sources in row 0 and targets in row 1, each numbered from 0 within its type.
        num_nodes: number of nodes of each type. None: the largest number of a node, plus 1.

    Raises:
        ArgumentError: a relation names an unknown type, a type has no nodes, or a node number is
            outside of its type.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> shares = torch.tensor([[0, 1, 1], [0, 0, 2]])
        >>> follows = torch.tensor([[0], [1]])
        >>> graph = graphs.typed(
        ...     {("user", "shares", "post"): shares, ("user", "follows", "user"): follows},
        ...     {"user": 2, "post": 3},
        ... )
        >>> graph
        <typed: 5 nodes, 4 edges>
        >>> graph.edge_index
        tensor([[0, 1, 1, 0],
                [2, 2, 4, 1]])
        >>> graph.edge_type
        tensor([0, 0, 0, 1])
    """
    if not isinstance(edge_indices, Mapping) or not all(
        isinstance(relation, tuple) and len(relation) == 3 for relation in edge_indices
    ):
        raise ArgumentError(
            "edge_indices",
            expected="a dict from (source type, name, target type) to edges [2, E]",
            got=repr(list(edge_indices) if isinstance(edge_indices, Mapping) else edge_indices),
            remedy='write for example {("user", "shares", "post"): edge_index}',
        )
    sizes = _counted(edge_indices) if num_nodes is None else dict(num_nodes)
    for name, count in sizes.items():
        remedy = "remove the type, or pass the number of its nodes in num_nodes"
        check_range(f"num_nodes[{name!r}]", count, remedy, least=1, integer=True)
    offset, start = {}, 0
    for name, count in sizes.items():
        offset[name], start = start, start + count
    indices = [torch.empty(2, 0, dtype=torch.long)]
    for relation, index in edge_indices.items():
        for name in (relation[0], relation[2]):
            if name not in sizes:
                raise ArgumentError(
                    "num_nodes",
                    expected=f"the number of nodes of type {name!r}, which the relation "
                    f"{relation} names",
                    got=f"the types {', '.join(map(repr, sizes)) or 'none'}",
                    remedy="correct the name of the type in the relation, or add it to num_nodes",
                )
        try:
            graph = edges(index, (sizes[relation[0]], sizes[relation[2]]))
        except ArgumentError as error:
            error.add_note(f"relation: {relation}")
            raise
        shift = torch.tensor([[offset[relation[0]]], [offset[relation[2]]]], device=index.device)
        indices.append(graph.edge_index + shift)
    counts = torch.tensor([index.shape[1] for index in indices[1:]], dtype=torch.long)
    with disable_modes():
        edge_index = torch.cat([index.to(indices[-1].device) for index in indices], dim=1)
        edge_type = torch.arange(len(counts)).repeat_interleave(counts)
        node_counts = torch.tensor(list(sizes.values()), dtype=torch.long)
        node_type = torch.arange(len(sizes)).repeat_interleave(node_counts)
    device = edge_index.device
    packed = TypedGraph(
        edge_index,
        start,
        start,
        edge_type.to(device),
        tuple(edge_indices),
        node_type=node_type.to(device),
        node_types=tuple(sizes),
    )
    packed.name = "typed"
    return packed


def from_hetero_data(data: Any) -> TypedGraph:
    """Return the typed graph of PyTorch Geometric's ``HeteroData``, with its order of types.

    ``graph.pack(data.x_dict)`` returns the features of all nodes.

    Example:
        >>> import torch
        >>> from torch_geometric.data import HeteroData
        >>> from edgewise import graphs
        >>> data = HeteroData()
        >>> data["user"].x, data["post"].num_nodes = torch.randn(2, 8), 3
        >>> data["user", "shares", "post"].edge_index = torch.tensor([[0, 1], [0, 2]])
        >>> graphs.from_hetero_data(data).num_nodes
        {'user': 2, 'post': 3}
    """
    if not hasattr(data, "edge_index_dict") or not hasattr(data, "node_types"):
        raise ArgumentError(
            "data",
            expected="a HeteroData of PyTorch Geometric",
            got=type(data).__name__,
            remedy="use graphs.from_pyg for a Data, or graphs.typed(edge_indices, num_nodes)",
        )
    sizes = {name: data[name].num_nodes for name in data.node_types}
    unknown = [name for name, count in sizes.items() if count is None]
    if unknown:
        raise ArgumentError(
            "data",
            expected="the number of nodes of each type",
            got=f"neither features nor num_nodes for {', '.join(map(repr, unknown))}",
            remedy=f"set data[{unknown[0]!r}].num_nodes",
        )
    return typed(data.edge_index_dict, sizes)


def _counted(edge_indices: Mapping[Relation, Tensor]) -> dict[str, int]:
    """Return for each type the largest number of a node plus 1."""
    sizes: dict[str, int] = {}
    for relation, index in edge_indices.items():
        if not isinstance(index, Tensor) or index.dim() != 2 or len(index) != 2:
            raise ArgumentError(
                "edge_indices",
                expected=f"edges [2, E] of the relation {relation}",
                got=describe(index),
                remedy="pass sources in row 0 and targets in row 1",
            )
        for name, ends in zip((relation[0], relation[2]), index, strict=True):
            count = int(ends.max()) + 1 if ends.numel() else 0
            sizes[name] = max(sizes.get(name, 0), count)
    return sizes


def _reversed(relations: Sequence[Relation]) -> tuple[Relation, ...]:
    return tuple((target, REVERSED + name, source) for source, name, target in relations)


class Pairs(NamedTuple):
    """Pairs of a relation and a node with an edge of it, sorted by relation."""

    node: Tensor
    sizes: list[int]
    """Number of pairs of each relation."""
    of_edge: Tensor
    """Pair of each edge."""


class SourcePairs(NamedTuple):
    """Pairs of a relation and a source, and the graph with an edge from a pair to each target."""

    pairs: Pairs
    graph: Edges


class TargetPairs(NamedTuple):
    """Pairs of a relation and a target.

    ``graph`` has edges from sources to pairs, ``summed`` an edge from each pair to its target.
    """

    pairs: Pairs
    graph: Edges
    summed: Edges


def source_pairs(graph: Graph) -> SourcePairs:
    """Return the pairs of a relation and a source in a :class:`TypedGraph`."""
    assert isinstance(graph, TypedGraph)
    pairs = _pairs(graph.source, graph.num_sources, graph)
    index = torch.stack([pairs.of_edge, graph.target])
    return SourcePairs(pairs, Edges(index, graph.num_targets, len(pairs.node)))


def target_pairs(graph: Graph) -> TargetPairs:
    """Return the pairs of a relation and a target in a :class:`TypedGraph`."""
    assert isinstance(graph, TypedGraph)
    pairs = _pairs(graph.target, graph.num_targets, graph)
    count = len(pairs.node)
    index = torch.stack([graph.source, pairs.of_edge])
    summed = torch.stack([torch.arange(count, device=graph.device), pairs.node])
    return TargetPairs(
        pairs, Edges(index, count, graph.num_sources), Edges(summed, graph.num_targets, count)
    )


def stacked(graph: Graph) -> Edges:
    """Return the graph in which each relation has nodes of its own, ``relation * N + node``."""
    assert isinstance(graph, TypedGraph)
    count, types = len(graph.relations), graph.edge_type
    index = torch.stack(
        [types * graph.num_sources + graph.source, types * graph.num_targets + graph.target]
    )
    return Edges(index, count * graph.num_targets, count * graph.num_sources)


def _pairs(node: Tensor, num_nodes: int, graph: TypedGraph) -> Pairs:
    num_nodes = max(num_nodes, 1)
    keys, of_edge = (graph.edge_type * num_nodes + node).unique(return_inverse=True)
    sizes = (keys // num_nodes).bincount(minlength=len(graph.relations))
    return Pairs(keys % num_nodes, sizes.tolist(), of_edge)
