r"""Relational graph convolutional network (R-GCN), for graphs with several types of edges.

Formula: h_i' = ReLU(W₀ h_i + Σ_r mean_{j ∈ N_r(i)} W_r h_j + b), W_r = Σ_b a_rb V_b
Graph: the input graph, a typed graph if there are several relations
Score: none; an edge of relation r has weight 1/\|N_r(i)\|
Normalisation: by the number of edges of each relation at a target
Update: ReLU between layers
Paper: Schlichtkrull et al., Modeling relational data with graph convolutional networks, 2018

Nodes without features get one-hot features, which the first linear map turns into a learned vector
of each node. The paper has no such map: its first layer learns a vector for each node and basis.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.attention.attend import aggregate
from edgewise.graphs import Pattern
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers import Dropout, GraphLayer, GraphSequential, Linear, sum_relations, typed_graph
from edgewise.layers.typed import check_unbatched, glorot_
from edgewise.models.arguments import model_function


class RGCNLayer(GraphLayer):
    r"""Layer :math:`W_0 h_i + \sum_r mean_j W_r h_j + b`, with ``bases`` matrices, or 0: one matrix
    for each relation. Parameters have the names and shapes of PyTorch Geometric's ``RGCNConv``.
    """

    reach = 1

    def __init__(self, in_width: int, out_width: int, relations: int, bases: int) -> None:
        super().__init__()
        self.relations = relations
        self.weight = nn.Parameter(torch.empty(bases or relations, in_width, out_width))  # V
        self.comp = nn.Parameter(torch.empty(relations, bases)) if bases else None  # a
        self.root = nn.Parameter(torch.empty(in_width, out_width))  # W_0
        self.bias = nn.Parameter(torch.zeros(out_width))
        for matrix in (self.weight, self.comp, self.root):
            if matrix is not None:
                glorot_(matrix)

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        """Return ``[N, out_width]`` from x ``[N, in_width]``; one relation may have a batch."""
        graph = bind_to_nodes(graph, x)
        weight: Tensor = self.weight
        if self.comp is not None:
            weight = torch.einsum("rb,bio->rio", self.comp, self.weight)
        if self.relations == 1:
            neighbours = aggregate(x.unsqueeze(-2), graph, reduce="mean").squeeze(-2) @ weight[0]
        else:
            check_unbatched(x)
            typed = typed_graph(graph, relations=self.relations)
            neighbours = sum_relations(x, typed, weight, "mean")
        return x @ self.root + neighbours + self.bias


@model_function(bases=0)
def rgcn(
    in_width: int,
    out_width: int,
    *,
    relations: int = 1,
    width: int = 64,
    depth: int = 2,
    bases: int = 0,
    dropout: float = 0.0,
) -> GraphSequential:
    """Build a relational graph convolutional network.

    Called as ``model(x [N, in_width], graph)`` with a graph of :func:`edgewise.graphs.typed`. Call
    ``graph.with_reverse()`` first, so that messages also pass against the direction of an edge. A
    node's output depends on the nodes up to ``depth`` steps away and on no others.

    Args:
        relations: number of relations of the graph; with 1, any graph will do.
        bases: number of matrices V of which the matrix of each relation is a learned sum (0 = one
            independent matrix for each relation).

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> shares = {("user", "shares", "post"): torch.tensor([[0, 1, 1], [0, 0, 2]])}
        >>> graph = graphs.typed(shares, {"user": 2, "post": 3}).with_reverse()
        >>> model = models.rgcn(16, 4, relations=len(graph.relations))
        >>> model(torch.randn(5, 16), graph).shape
        torch.Size([5, 4])
    """
    layers: list[nn.Module] = [Linear(in_width, width)]
    for _ in range(depth - 1):
        layers += [RGCNLayer(width, width, relations, bases), nn.ReLU(), Dropout(dropout)]
    return GraphSequential(*layers, RGCNLayer(width, out_width, relations, bases))
