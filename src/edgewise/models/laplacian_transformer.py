"""Graph Transformer with Laplacian encodings and edge features, for whole graphs.

Formula: h_i = W x_i + P u_i; s_ij = q_i ∘ k_j ∘ (E e_ij) / √D; h_i' = Σ_j softmax_j(Σ s_ij) v_j;
    u_i: entries of node i in the Laplacian eigenvectors
Graph: the input graph; for the readout, edges from the nodes to their graph
Score: sum of the entries of s_ij; computed without ``attend``, which returns no vector per edge
Normalisation: softmax over the neighbourhood; batch norm after each sublayer
Update: residual connections around attention and the feed-forward networks of nodes and edges
Paper: Dwivedi and Bresson, A generalization of Transformer networks to graphs, 2020
"""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.encodings import Laplacian
from edgewise.graphs import Pattern
from edgewise.layers import GraphLayer, Linear, Membership, Pool, given_or_ones, packed_graph
from edgewise.layers.pooling import Pooling
from edgewise.models.arguments import model_factory
from edgewise.models.edge_transformer import EdgeTransformerLayer


class LaplacianTransformer(GraphLayer):
    """Graph Transformer with Laplacian positional encodings.

    Called as ``model(x [N, in_width], graph, edge_attr=[E, edge_width], batch=...)``. The paper's
    model for ZINC has 10 layers and 0.6 million parameters.

    Args:
        position_size: number of Laplacian eigenvectors in the positional encoding, which is added
            to the node features. Their signs are random in training.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.laplacian_transformer(16, 1)
        >>> model(torch.randn(10, 16), chains, batch=[4, 6]).shape
        torch.Size([2, 1])
    """

    reads_edge_attr = True

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        edge_width: int = 0,
        position_size: int = 8,
        width: int = 64,
        depth: int = 6,
        heads: int = 8,
        pool: Pooling = "mean",
    ) -> None:
        super().__init__()
        self.embed = Linear(in_width, width)
        self.edge_width = edge_width or 1
        self.embed_edges = nn.Linear(self.edge_width, width)
        self.position = Laplacian(width, position_size)
        self.layers = nn.ModuleList(EdgeTransformerLayer(width, heads) for _ in range(depth))
        self.pool = Pool(pool)
        self.head = nn.Sequential(
            nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, out_width)
        )

    def encodings(self) -> dict[str, nn.Module]:
        return {"positions": self.position}

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Return outputs ``[B, out_width]``; edge features are ones by default.

        ``positions`` is ``model.position.code(graph)``, if computed before.
        """
        graph = packed_graph(x, graph, batch)
        nodes = self.embed(x)
        edge_attr = given_or_ones(edge_attr, graph, self.edge_width, like=x)
        code = self.position.code(graph) if positions is None else positions
        x, edges = self.position(nodes, code), self.embed_edges(edge_attr)
        for layer in self.layers:
            x, edges = layer(x, graph, edges)
        out: Tensor = self.head(self.pool(x, batch))
        return out


laplacian_transformer = model_factory(LaplacianTransformer, depth=0, edge_width=0)
