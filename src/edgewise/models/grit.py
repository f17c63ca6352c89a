"""GRIT: attention of all pairs with states of pairs, which begin with random-walk probabilities.

Formula: ê_ij = ReLU(ρ((Q x_i + K x_j) ⊙ W e_ij) + B e_ij), ρ(x) = sign(x) √|x|; s_ij = A ê_ij;
    g_i = Σ_j softmax_j(s_ij) (V x_j + U ê_ij); x = norm(x + O (a ⊙ g + b ⊙ g log(1 + d_i))),
    e = norm(e + P ê), then x = norm(x + FFN(x)); d_i: number of neighbours
Graph: the complete graph of the nodes of each graph
Score: s_ij; computed without ``attend``, which has no states of pairs
Encoding: probabilities of random walks, from a node to itself added to x, of pairs as e
Normalisation: softmax; batch norm after each sublayer
Update: residual connections of nodes and pairs, and a feed-forward network
Paper: Ma et al., Graph inductive biases in Transformers without message passing, 2023
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise._utils.arguments import check_divides
from edgewise.attention.attend import aggregate
from edgewise.attention.steps import edge_softmax
from edgewise.encodings import relative_random_walk_probabilities
from edgewise.encodings.members import member_graphs, pair_of_edge
from edgewise.graphs import Graph, incidence
from edgewise.layers import FeedForward, GraphLayer, JointLinear, NodeBatchNorm, Residual
from edgewise.layers.pooling import Pooling
from edgewise.models.arguments import model_factory
from edgewise.models.graph_encoder import GraphEncoder

LARGEST_SCORE = 5.0
"""Scores are clamped to this absolute value."""
SMALLEST = 1e-12
"""Absolute values are raised to this minimum before the root."""


def signed_root(x: Tensor) -> Tensor:
    """Return sign(x) √max(|x|, 1e-12), whose gradient is 0 for smaller |x|."""
    # In float16, the minimum and with it the root would be 0, where the gradient is infinite.
    size = x.abs().to(torch.promote_types(x.dtype, torch.float32))
    return x.sign() * size.clamp(min=SMALLEST).sqrt().to(x.dtype)


class GRITAttention(GraphLayer):
    """Attention of GRIT, which also returns the new states of the pairs ê."""

    def __init__(self, width: int, heads: int, *, dropout: float) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.heads, self.dropout = heads, dropout
        self.nodes = JointLinear(width, [width] * 3)  # Q, K and V in the formula above
        self.pairs = JointLinear(width, [width] * 2)  # W and B
        self.score = nn.Parameter(torch.empty(heads, width // heads))  # A
        self.pair_value = nn.Parameter(torch.empty(heads, width // heads, width // heads))  # U
        for weight in (self.nodes.weight, self.pairs.weight, self.score, self.pair_value):
            nn.init.xavier_normal_(weight)

    def forward(self, x: Tensor, pairs: Graph, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs of nodes ``[N, width]`` and of pairs ``[P, width]``."""
        query, key, value = self.nodes(x).chunk(3, dim=-1)
        weight, bias = self.pairs(states).chunk(2, dim=-1)
        sums = pairs.gather_target(query) + pairs.gather_source(key)
        states = (signed_root(sums * weight) + bias).relu()
        by_head = states.unflatten(-1, (self.heads, -1))
        scores = (by_head * self.score).sum(-1).clamp(-LARGEST_SCORE, LARGEST_SCORE)
        weights = F.dropout(edge_softmax(scores, pairs), self.dropout, self.training)
        out = aggregate(value.unflatten(-1, (self.heads, -1)), pairs, weight=weights)
        # The map U comes after the sum, because there are fewer nodes than pairs.
        of_pairs = aggregate(by_head, incidence(pairs), weight=weights)
        out = out + torch.einsum("nhd,hod->nho", of_pairs, self.pair_value)
        return out.flatten(-2), states


class GRITLayer(GraphLayer):
    """GRIT layer: attention, degree scaler, norms, residual connections, feed-forward network.

    Without ``updates_pairs`` the pairs are returned unchanged, for a last layer.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        dropout: float,
        attention_dropout: float,
        updates_pairs: bool = True,
    ) -> None:
        super().__init__()
        self.attention = GRITAttention(width, heads, dropout=attention_dropout)
        self.degree = nn.Parameter(torch.empty(2, width))  # a and b in the formula above
        nn.init.xavier_normal_(self.degree)
        self.dropout = nn.Dropout(dropout)
        self.node_output, self.node_norm = nn.Linear(width, width), NodeBatchNorm(width)
        self.pair_output = nn.Linear(width, width) if updates_pairs else None
        self.pair_norm = NodeBatchNorm(width) if updates_pairs else None
        network = FeedForward(width, 2 * width, dropout=dropout)
        self.network = Residual(network, width, norm="batch")

    def forward(
        self, x: Tensor, pairs: Graph, states: Tensor, log_degree: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return features of nodes and pairs, of the same shapes; ``log_degree`` is ``[N, 1]``."""
        nodes, pair_states = self.attention(x, pairs, states)
        nodes = self.dropout(nodes)
        nodes = nodes * self.degree[0] + log_degree * nodes * self.degree[1]
        x = self.network(self.node_norm(x + self.node_output(nodes)))
        if self.pair_output is not None and self.pair_norm is not None:
            states = self.pair_norm(states + self.pair_output(self.dropout(pair_states)))
        return x, states


class GRIT(GraphEncoder):
    """Graph inductive bias Transformer (GRIT).

    Called as ``model(x [N, in_width], graph, edge_attr=[E, edge_width], batch=...)``. The defaults
    are those of the paper for ZINC, with 0.5 million parameters. Memory is proportional to the
    number of pairs of nodes times the width.

    Args:
        steps: number of walk lengths in the encoding, from 0.
        dropout: dropout probability of the input and of each sublayer's output.
        attention_dropout: dropout probability of the attention weights.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.grit(16, 1, depth=2)
        >>> model(torch.randn(10, 16), chains, batch=[4, 6]).shape
        torch.Size([2, 1])
    """

    accepts_leading_dims = False

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        edge_width: int = 0,
        steps: int = 21,
        width: int = 64,
        depth: int = 10,
        heads: int = 8,
        pool: Pooling = "sum",
        dropout: float = 0.0,
        attention_dropout: float = 0.2,
        output_hops: int = 0,
    ) -> None:
        layers = (
            GRITLayer(
                width,
                heads,
                dropout=dropout,
                attention_dropout=attention_dropout,
                updates_pairs=layer < depth - 1,
            )
            for layer in range(depth)
        )
        super().__init__(
            in_width,
            out_width,
            layers,
            edge_width=edge_width,
            position="none",
            position_size=0,
            width=width,
            pool=pool,
            dropout=dropout,
            output_hops=output_hops,
        )
        self.steps = steps
        self.walk = nn.Linear(steps, width, bias=False)
        self.relative_walk = nn.Linear(steps, width, bias=False)
        self.embed_edges = nn.Linear(edge_width, width) if edge_width else None

    def transform(self, x: Tensor, graph: Graph, edge_attr: Tensor | None) -> Tensor:
        pairs = member_graphs(graph)
        # Not precomputed: for 12,000 molecules, the codes take 0.6 GB, and computing those of a
        # batch takes 2 % of a training step.
        code = relative_random_walk_probabilities(graph, self.steps).to(x)
        states = self.relative_walk(code)
        if self.embed_edges is not None and edge_attr is not None:
            edges = self.embed_edges(edge_attr).to(states)
            states = states.index_add(0, pair_of_edge(graph), edges)
        x = x + self.walk(code[pairs.derived(_self_loops)])
        log_degree = graph.in_degree().to(x).log1p()[:, None]
        for layer in self.layers:
            x, states = layer(x, pairs, states, log_degree)
        return x


def _self_loops(pairs: Graph) -> Tensor:
    """Return the indices of the self-loops among the edges, ``[N]``."""
    return (pairs.source == pairs.target).nonzero()[:, 0]


grit = model_factory(GRIT, depth=0, edge_width=0, output_hops=0)
