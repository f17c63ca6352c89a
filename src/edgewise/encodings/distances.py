"""Distances in a graph: shortest paths, path edges, resistance, and distances from a set of nodes.

Results for pairs of nodes are in the order of the edges of ``graphs.complete()``, or, for a batch
of graphs, of ``graphs.batch(graphs.complete(), sizes)``. Distances are measured from source to
target along the edges. Unreachable pairs have distance -1.

Papers: Ying et al., Do Transformers really perform bad for graph representation?, 2021; Li et al.,
Distance encoding, 2020; Klein and Randić, Resistance distance, 1993.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_range, checked, describe
from edgewise._utils.errors import ArgumentError
from edgewise.attention.biases import EdgeTerms, TableBias
from edgewise.encodings.code import GraphEncoding, check_code
from edgewise.encodings.members import (
    SQUARE,
    Members,
    check_undirected,
    member_sizes,
    members_by_size,
    pair_index,
)
from edgewise.graphs import Graph, check_square
from edgewise.graphs.graph import fact_of_graph

FAR = -1
DENSE = 256  # Above this number of nodes, a sparse matrix product is faster.


@fact_of_graph
def shortest_paths(graph: Graph) -> Tensor:
    """Return the length of the shortest path from source to target for each pair of nodes, ``[P]``.

    Pairs are sorted by target, then by source: a graph of N nodes has P = N² pairs. In a batch, the
    pairs of each graph follow each other. Unreachable pairs have length -1.

    Raises:
        ArgumentError: a graph of the packed batch has more than 8,192 nodes.

    Example:
        >>> from edgewise import encodings, graphs
        >>> ring = graphs.grid(2, 2).bind(4)
        >>> encodings.shortest_paths(ring).view(4, 4)
        tensor([[0, 1, 1, 2],
                [1, 0, 2, 1],
                [1, 2, 0, 1],
                [2, 1, 1, 0]])
    """
    distances = _empty(graph, torch.long, FAR)
    for members in members_by_size(graph):
        distances[pair_index(graph, members)] = hops(members).flatten(1)
    return distances


def hops(members: Members, pairs: Tensor | None = None) -> Tensor:
    """Return distances ``[B, n, n]`` from source j to target i, -1 without a path or pair."""
    n = members.nodes.shape[1]
    adjacency = members.adjacency.float()
    sparse = sparse_matrix(adjacency[0]) if len(adjacency) == 1 and n > DENSE else None
    reached = torch.eye(n, device=adjacency.device).repeat(len(adjacency), 1, 1)
    steps = torch.full(adjacency.shape, FAR, dtype=torch.long, device=adjacency.device)
    steps[reached > 0] = 0
    for step in range(1, n):
        product = torch.bmm(adjacency, reached) if sparse is None else (sparse @ reached[0])[None]
        reached = product.clamp_(max=1)
        new = (reached > 0) & (steps == FAR)
        if not bool(new.any()):
            break
        steps[new] = step
        if pairs is not None and not bool((pairs & (steps == FAR)).any()):
            break
    return steps


def sparse_matrix(matrix: Tensor) -> Tensor:
    """Convert to ``torch.sparse_csr``, without PyTorch's warning that CSR support is in beta."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return matrix.to_sparse_csr()


@fact_of_graph
@checked()
def path_edges(graph: Graph, max_path_length: int) -> Tensor:
    """Return the edges of a shortest path for each pair of nodes, ``[P, max_path_length]``.

    Pairs are in the order of :func:`shortest_paths`. A path starts with its last edge, that into
    the target; entries are edge indices of ``graph``, and -1 after the end of the path. Of a longer
    path, the edges nearest to the target are kept. Of several shortest paths, the one through the
    nodes of lowest index is chosen (as in Graphormer), so the result depends on the node order.

    Raises:
        ArgumentError: a graph of the packed batch has more than 8,192 nodes.

    Example:
        >>> from edgewise import encodings, graphs
        >>> encodings.path_edges(graphs.grid(1, 3).bind(3), 2).view(3, 3, 2)[2]  # edges to node 2
        tensor([[ 3,  1],
                [ 3, -1],
                [-1, -1]])
    """
    size = _num_pairs(graph), max_path_length
    all_paths = torch.full(size, FAR, dtype=torch.long, device=graph.device)
    for members in members_by_size(graph):
        count, n = members.nodes.shape
        local = torch.full((graph.num_targets,), FAR, device=graph.device)
        member = torch.full_like(local, FAR)
        local[members.nodes] = torch.arange(n, device=graph.device)
        member[members.nodes] = torch.arange(count, device=graph.device)[:, None]
        index = (member[graph.target] >= 0).nonzero()[:, 0]
        target, source = graph.target[index], graph.source[index]
        edge = torch.full((count, n, n), FAR, device=graph.device)
        edge[member[target], local[target], local[source]] = index

        predecessor = _predecessors(members, hops(members))
        paths = torch.full((count, n, n, max_path_length), FAR, device=graph.device)
        batch = torch.arange(count, device=graph.device)[:, None, None]
        source = torch.arange(n, device=graph.device).expand(count, n, n)
        node = source.mT.clone()  # Follow the path from the target back to the source.
        for step in range(max_path_length):
            last = predecessor[batch, node, source]
            going = last >= 0
            if not bool(going.any()):
                break
            paths[..., step] = edge[batch, node, last.clamp(min=0)].where(going, FAR)
            node = last.where(going, node)
        all_paths[pair_index(graph, members)] = paths.flatten(1, 2)
    return all_paths


def _predecessors(members: Members, steps: Tensor) -> Tensor:
    """Return the node before i on a shortest path from j to i, ``[B, n, n]``, or -1 if none."""
    n = steps.shape[1]
    predecessor = torch.full_like(steps, FAR)
    for node in reversed(range(n)):  # The lowest index is written last, so that it is kept.
        through = members.adjacency[:, :, node, None] > 0
        shorter = (steps[:, node, None] == steps - 1) & (steps > 0)
        predecessor[through & shorter] = node
    return predecessor


@fact_of_graph
def resistance_distances(graph: Graph) -> Tensor:
    r"""Return the effective resistance between each pair of nodes, ``[P]``, with edges of one ohm.

    .. math:: r_{ij} = L^+_{ii} + L^+_{jj} - 2 L^+_{ij}, \qquad L = D - A

    Between components the resistance is infinite. Pairs are in the order of :func:`shortest_paths`.

    Raises:
        ArgumentError: the graph is directed, or a graph of the batch has more than 8,192 nodes.

    Example:
        >>> from edgewise import encodings, graphs
        >>> ring = graphs.grid(2, 2).bind(4)
        >>> encodings.resistance_distances(ring).view(4, 4)[0]
        tensor([0.0000, 0.7500, 0.7500, 1.0000])
    """
    resistances = _empty(graph, torch.float32, torch.inf)
    for members in members_by_size(graph):
        check_undirected(members)
        adjacency = members.without_loops()
        inverse = torch.linalg.pinv(torch.diag_embed(adjacency.sum(2)) - adjacency, hermitian=True)
        diagonal = inverse.diagonal(dim1=1, dim2=2)
        resistance = diagonal[:, :, None] + diagonal[:, None] - 2 * inverse
        resistance = resistance.clamp(min=0).masked_fill(hops(members) == FAR, torch.inf)
        resistances[pair_index(graph, members)] = resistance.flatten(1).float()
    return resistances


@fact_of_graph
@checked(max_distance=0, walk=0)
def distance_encoding(
    graph: Graph, nodes: Tensor | None, max_distance: int = 5, walk: int = 0
) -> Tensor:
    r"""Encode each node by its distances to a set S of nodes, ``[N, max_distance + 2 + walk]``.

    .. math:: \mathrm{code}_i = \Big(\sum_{s \in S} \mathrm{onehot}(d(s, i)), \;
              \sum_{s \in S} M_{is}, …, \sum_{s \in S} (M^{walk})_{is}\Big), \quad M = D^{-1} A

    The first entries count the nodes of S at each distance d; one entry counts those beyond
    ``max_distance`` or unreachable. The others are the probabilities that a random walk from i is
    in S after each step. In a batch, each graph uses the nodes of S in this graph; without one, its
    codes are 0. (Li et al., Distance encoding, 2020)

    Args:
        nodes: indices ``[S]``: two nodes for a link, one for a node; None for all nodes.

    Raises:
        ArgumentError: a graph has more than 8,192 nodes, or ``nodes`` is empty or out of range.

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> ring = graphs.grid(2, 2).bind(4)
        >>> encodings.distance_encoding(ring, torch.tensor([0]), max_distance=2)
        tensor([[1., 0., 0., 0.],
                [0., 1., 0., 0.],
                [0., 1., 0., 0.],
                [0., 0., 1., 0.]])
    """
    check_square(graph, SQUARE)
    if nodes is None:
        nodes = torch.arange(graph.num_targets, device=graph.device)
    else:
        _check_set(nodes, graph.num_targets)
    is_in_set = torch.bincount(nodes, minlength=graph.num_targets).clamp(max=1)
    code = torch.zeros(graph.num_targets, max_distance + 2 + walk, device=graph.device)
    for members in members_by_size(graph):
        is_in = is_in_set[members.nodes]
        of_set = is_in[:, None].expand(members.adjacency.shape)  # [b, i, j]: i is reached from j
        steps = hops(members, of_set > 0)
        kinds = torch.where((steps == FAR) | (steps > max_distance), max_distance + 1, steps)
        counts = is_in.new_zeros(*is_in.shape, max_distance + 2).scatter_add(2, kinds, of_set)
        columns, probability = [counts.float()], is_in.double()[..., None]
        for _ in range(walk):
            probability = members.walk() @ probability
            columns.append(probability.float())
        code[members.nodes] = torch.cat(columns, dim=2)
    return code


def _check_set(nodes: Tensor, n: int) -> None:
    has_indices = nodes.dtype in (torch.int32, torch.int64) and nodes.dim() == 1 and len(nodes) > 0
    if not (has_indices and int(nodes.min()) >= 0 and int(nodes.max()) < n):
        raise ArgumentError(
            "nodes",
            expected=f"the indices [S] of one or more of the graph's nodes, from 0 to {n - 1}",
            got=f"{describe(nodes)}, from {nodes.min()} to {nodes.max()}"
            if has_indices
            else describe(nodes),
            remedy="give integers in this range, such as torch.tensor([0]) for a node, or "
            "torch.tensor([0, 1]) for a link",
        )


def _num_pairs(graph: Graph) -> int:
    return int(member_sizes(graph).square().sum())


def _empty(graph: Graph, dtype: torch.dtype, fill: float) -> Tensor:
    return torch.full((_num_pairs(graph),), fill, dtype=dtype, device=graph.device)


class DistanceEncoding(GraphEncoding):
    r"""Add a linear map of log(1 + the number of nodes at distance d), for d from 1 to m.

    A last entry counts the nodes that are farther away or unreachable.

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> chain = graphs.grid(1, 10).bind(10)
        >>> encoding = encodings.DistanceEncoding(16)
        >>> encoding(torch.randn(10, 16), encoding.code(chain)).shape
        torch.Size([10, 16])
    """

    def __init__(self, width: int, max_distance: int = 5) -> None:
        super().__init__()
        check_range("max_distance", max_distance, "choose for example 5", least=1)
        self.max_distance = max_distance
        self.settings = (max_distance,)
        self.project = nn.Linear(max_distance + 1, width, bias=False)

    def code(self, graph: Graph) -> Tensor:
        """Return the number of nodes at each distance, ``[N, max_distance + 1]``."""
        return distance_encoding(graph, None, self.max_distance)[:, 1:]

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        """Return x ``[N, width]`` plus the linear map of log(1 + ``code``)."""
        check_code(code, x.shape[-2], self.max_distance + 1)
        out: Tensor = x + self.project(code.to(x).log1p())
        return out


class ShortestPath(GraphEncoding):
    r"""Learned attention bias of the shortest-path distance, :math:`b_{ij} = T[\min(d(j, i), m)]`.

    Unreachable pairs have a separate bias.

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> from edgewise.layers import MultiHeadAttention
        >>> molecule = graphs.grid(1, 4).bind(4)
        >>> encoding = encodings.ShortestPath(heads=4)
        >>> terms = encoding(encoding.code(molecule))  # for all pairs of nodes
        >>> MultiHeadAttention(32, 4)(torch.randn(4, 32), graphs.complete(), **terms).shape
        torch.Size([4, 32])
    """

    of_pairs = True

    def __init__(self, heads: int, max_distance: int = 20) -> None:
        super().__init__()
        check_range("max_distance", max_distance, "choose for example 20", least=1)
        self.max_distance = max_distance
        self.settings = (max_distance,)
        self.table = nn.Parameter(torch.empty(max_distance + 2, heads))
        nn.init.normal_(self.table, std=0.02)

    def code(self, graph: Graph) -> Tensor:
        """Return the clipped distance of each pair, ``[P]``; see :func:`shortest_paths`."""
        steps = shortest_paths(graph)
        return torch.where(steps == FAR, self.max_distance + 1, steps.clamp(max=self.max_distance))

    def forward(self, code: Tensor) -> EdgeTerms:
        """Return the bias of the edges of ``graphs.complete()``, as arguments of attention."""
        return {"bias": TableBias(code, self.table)}


class PathEdges(GraphEncoding):
    r"""Learned attention bias from the features of the edges along a shortest path (Graphormer).

    .. math:: c_{ij} = \frac{1}{N} \sum_{n=1}^{N} e_n^\top w_n

    Here e_n are the features of the n-th of N edges of the path, counted from the target, and w_n
    are learned weights for this place and each head. The bias is 0 for pairs without a path.

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> molecule = graphs.grid(1, 4).bind(4)
        >>> encoding = encodings.PathEdges(edge_width=3, heads=4)
        >>> encoding(encoding.code(molecule), torch.randn(molecule.num_edges, 3)).shape
        torch.Size([16, 4])
    """

    of_pairs = True

    def __init__(self, edge_width: int, heads: int, max_path_length: int = 5) -> None:
        super().__init__()
        self.max_path_length = max_path_length
        self.settings = (max_path_length,)
        self.weight = nn.Parameter(torch.empty(max_path_length, edge_width, heads))
        nn.init.normal_(self.weight, std=edge_width**-0.5)

    def code(self, graph: Graph) -> Tensor:
        """Return the edges of shortest paths, ``[P, max_path_length]``; see :func:`path_edges`."""
        return path_edges(graph, self.max_path_length)

    def forward(self, code: Tensor, edge_attr: Tensor) -> Tensor:
        """Return the attention bias ``[P, H]`` of the pairs from features ``[E, edge_width]``."""
        of_edges = edge_attr @ self.weight  # [max_path_length, E, H]
        total = of_edges.new_zeros(len(code), of_edges.shape[-1])
        for position, values in enumerate(of_edges):
            pair = (code[:, position] >= 0).nonzero()[:, 0]
            total = total.index_add(0, pair, values[code[pair, position]])
        return total / (code >= 0).sum(1, keepdim=True).clamp(min=1)


def path_classes(distances: Tensor, paths: Tensor, edge_attr: Tensor) -> tuple[Tensor, Tensor]:
    """Return groups ``[P]`` of pairs with equal biases, and the index of one pair of each group."""
    # Compiled code cannot group pairs by the values of features.
    if torch.compiler.is_compiling():
        every = torch.arange(len(distances), device=distances.device)
        return every, every
    # Each edge is to get its gradient.
    if edge_attr.requires_grad:
        kind = torch.arange(len(edge_attr), device=edge_attr.device)
    else:
        kind = edge_attr.unique(dim=0, return_inverse=True)[1]
    # The last entry belongs to index -1, which marks the end of a path.
    kind = torch.cat([kind + 1, kind.new_zeros(1)])
    num_kinds = int(kind.max()) + 1
    group = distances.long()
    num_groups = int(group.max()) + 1 if len(group) else 1
    for edge in paths.long().unbind(1):
        if num_groups > torch.iinfo(torch.long).max // num_kinds:
            groups, group = group.unique(return_inverse=True)
            num_groups = len(groups)
        group, num_groups = group * num_kinds + kind[edge], num_groups * num_kinds
    groups, group = group.unique(return_inverse=True)
    pair = torch.arange(len(group), device=group.device)
    first = torch.full_like(groups, len(group)).scatter_reduce_(0, group, pair, "amin")
    return group, first
