"""GatedGCN with the GNN+ recipe: gates per feature, residuals, norms, FFN and random walks.

Formula: ê_ij = D h_i + E h_j + C e_ij; g_i = A h_i + Σ_j σ(ê_ij) ⊙ B h_j / (Σ_j σ(ê_ij) + ε);
    h = h + ReLU(norm(g)), e = e + ReLU(norm(ê)), then h = norm(h + FFN(h))
Graph: the input graph
Score: ê_ij, one number per feature; computed without ``attend``, which has one number per head
Normalisation: by the sum of the gates σ(ê) of each feature; batch norm
Update: residual connections of nodes and edges, ReLU and a feed-forward network
Paper: Bresson and Laurent, Residual gated graph ConvNets, 2017; Luo et al., Unlocking the potential
    of classic GNNs for graph-level tasks (GNN+), 2025
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.attention.attend import aggregate
from edgewise.graphs import Graph, incidence
from edgewise.layers import FeedForward, GraphLayer, JointLinear, Residual, given_or_ones
from edgewise.layers.pooling import Pooling
from edgewise.layers.transformer import make_norm
from edgewise.models.arguments import model_factory
from edgewise.models.gps import NormName
from edgewise.models.graph_encoder import GraphEncoder, Position

EPSILON = 1e-6
"""Number added to the sum of the gates."""


class GatedConvolution(GraphLayer):
    """Graph convolution with a gate for each edge and feature (``ResGatedGraphConv`` in PyG, which
    does not divide by the sum of the gates).
    """

    reads_edge_attr = True

    def __init__(self, width: int) -> None:
        super().__init__()
        self.nodes = JointLinear(width, [width] * 4)  # A, B, D and E in the formula above
        self.edges = nn.Linear(width, width)  # C

    def forward(self, x: Tensor, graph: Graph, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Return features of nodes ``[..., N, width]`` and of edges ``[..., E, width]``."""
        own, value, target, source = self.nodes(x).chunk(4, dim=-1)
        edges = graph.gather_target(target) + graph.gather_source(source) + self.edges(edges)
        # In float16, the gradient of the quotient overflows if all gates of a node are small.
        wide = torch.float32 if edges.dtype == torch.float16 else edges.dtype
        gate = edges.to(wide).sigmoid()
        # Two calls are faster than one on stacked terms, whose copy is as large as both.
        gated = gate * graph.gather_source(value)
        message = aggregate(gated.unsqueeze(-2), incidence(graph)).squeeze(-2)
        total = aggregate(gate.unsqueeze(-2), incidence(graph)).squeeze(-2)
        return own + (message / (total + EPSILON)).to(own.dtype), edges


class GatedGCNLayer(GraphLayer):
    """Gated convolution with norms, residual connections and a feed-forward network (GNN+).

    Without ``updates_edges`` the edges are returned unchanged, for a last layer.
    """

    reads_edge_attr = True

    def __init__(
        self, width: int, *, norm: NormName, dropout: float, updates_edges: bool = True
    ) -> None:
        super().__init__()
        self.convolution = GatedConvolution(width)
        self.node_norm = make_norm(norm, width)
        self.edge_norm = make_norm(norm, width) if updates_edges else None
        self.dropout = nn.Dropout(dropout)
        network = FeedForward(width, 2 * width, dropout=dropout)
        self.network = Residual(network, width, norm=norm, dropout=dropout)

    def forward(self, x: Tensor, graph: Graph, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Return features of nodes and edges, of the same shapes."""
        nodes, gates = self.convolution(x, graph, edges)
        x = x + self.dropout(self.node_norm(nodes).relu())
        if self.edge_norm is not None:
            edges = edges + self.dropout(self.edge_norm(gates).relu())
        return self.network(x), edges


class GatedGCN(GraphEncoder):
    """Gated graph convolutional network with the GNN+ recipe, for whole graphs or nodes.

    Called as ``model(x [N, in_width], graph, edge_attr=[E, edge_width], batch=...)``. Edge features
    are ones by default. The defaults are those of the paper for ZINC.

    Args:
        norm: kind of norm: "batch" or "layer".
        dropout: dropout probability of the input, the convolutions and the feed-forward networks.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.gated_gcn(16, 1, depth=2)
        >>> model(torch.randn(10, 16), chains, batch=[4, 6]).shape
        torch.Size([2, 1])
    """

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        edge_width: int = 0,
        position: Position = "random_walk",
        position_size: int = 20,
        width: int = 70,
        depth: int = 9,
        norm: NormName = "batch",
        pool: Pooling = "mean",
        dropout: float = 0.05,
        output_hops: int = 0,
    ) -> None:
        layers = (
            GatedGCNLayer(width, norm=norm, dropout=dropout, updates_edges=layer < depth - 1)
            for layer in range(depth)
        )
        super().__init__(
            in_width,
            out_width,
            layers,
            edge_width=edge_width,
            position=position,
            position_size=position_size,
            width=width,
            pool=pool,
            dropout=dropout,
            output_hops=output_hops,
        )
        self.embed_edges = nn.Linear(edge_width or 1, width)

    def transform(self, x: Tensor, graph: Graph, edge_attr: Tensor | None) -> Tensor:
        edges = self.embed_edges(given_or_ones(edge_attr, graph, self.edge_width or 1, like=x))
        for layer in self.layers:
            x, edges = layer(x, graph, edges)
        return x


gated_gcn = model_factory(GatedGCN, depth=0, edge_width=0, output_hops=0)
