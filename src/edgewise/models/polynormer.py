"""Polynormer: gated attention to neighbours, then gated linear attention to all nodes.

Formula: local: g = ReLU(GAT(h) + L h), h = (1 - β) norm(ReLU(G h) ⊙ g) + β g; global, on the sum of
    all local h: g_i = Σ_j (k_i·k_j) v_j / Σ_j k_i·k_j, with k = σ(K h); h = ReLU(O (norm(g) ⊙
    (G h + β))); β = σ(b) for each feature
Graph: the input graph with self-loops; global layers: all pairs, in linear time
Score: ``Additive``, as in GAT; global: k_i·k_j
Normalisation: softmax over the neighbourhood; global: by the sum of weights; layer norm
Update: products of gates and attention, whose degree in the inputs grows with the depth
Paper: Deng et al., Polynormer: polynomial-expressive graph Transformer in linear time, 2024
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_divides
from edgewise._utils.ragged import runs_and_positions
from edgewise.encodings.members import member_sizes
from edgewise.graphs import Graph
from edgewise.layers import GraphLayer
from edgewise.layers.pooling import Pooling
from edgewise.models.arguments import model_factory
from edgewise.models.gat import GATLayer
from edgewise.models.graph_encoder import GraphEncoder
from edgewise.models.performer import linear_attention


class LocalLayer(GraphLayer):
    """Local layer of Polynormer: GAT and a linear map, multiplied by a gate."""

    def __init__(self, width: int, heads: int, *, dropout: float) -> None:
        super().__init__()
        self.attention = GATLayer(width, width // heads, heads)
        self.linear, self.gate = nn.Linear(width, width), nn.Linear(width, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)
        self.mixture = nn.Parameter(torch.zeros(width))  # b in the formula above

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Return features ``[N, width]`` from x of the same shape."""
        gate = self.gate(x).relu()
        out = self.dropout((self.attention(x, graph) + self.linear(x)).relu())
        beta = self.mixture.sigmoid()
        mixed: Tensor = (1 - beta) * self.norm(gate * out) + beta * out
        return mixed


class GlobalLayer(GraphLayer):
    """Global layer of Polynormer: linear attention of all nodes of a graph, with a gate."""

    def __init__(self, width: int, heads: int, *, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.key, self.value = nn.Linear(width, width), nn.Linear(width, width)
        self.gate, self.output = nn.Linear(width, width), nn.Linear(width, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)
        self.mixture = nn.Parameter(torch.zeros(width))  # b in the formula above

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Return features ``[N, width]`` from x of the same shape."""
        sizes = member_sizes(graph)
        row, position = runs_and_positions(sizes, len(x))
        shape = len(sizes), int(sizes.max()) if len(sizes) else 0, self.heads
        key = self.key(x).sigmoid().unflatten(-1, (self.heads, -1))
        value = self.value(x).unflatten(-1, (self.heads, -1))
        keys, values = (
            states.new_zeros(*shape, states.shape[-1]).index_put((row, position), states)
            for states in (key, value)
        )
        # Padding has key 0, and so weight 0.
        out = linear_attention(keys, keys, keys.new_zeros(shape), values)[row, position]
        gated = self.norm(out.flatten(-2)) * (self.gate(x) + self.mixture.sigmoid())
        projected: Tensor = self.dropout(self.output(gated).relu())
        return projected


class Polynormer(GraphEncoder):
    """Polynormer, for nodes or whole graphs.

    Called as ``model(x [N, in_width], graph, batch=...)``.

    Args:
        depth: number of local layers.
        global_depth: number of global layers.
        local_steps: number of first training steps whose output is a linear map of the local
            states, as a warm-up of the local layers.
        dropout: dropout probability in the local layers.
        input_dropout: dropout probability of the input.
        global_dropout: dropout probability in the global layers.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.polynormer(16, 3, pool="none")
        >>> model(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 3])
    """

    reads_edge_attr = False
    calls: Tensor

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        width: int = 64,
        depth: int = 7,
        global_depth: int = 2,
        heads: int = 8,
        local_steps: int = 0,
        pool: Pooling = "mean",
        dropout: float = 0.3,
        input_dropout: float = 0.15,
        global_dropout: float = 0.5,
    ) -> None:
        check_divides("heads", heads, width, "the width", "change heads or width")
        layers = (LocalLayer(width, heads, dropout=dropout) for _ in range(depth))
        super().__init__(
            in_width,
            out_width,
            layers,
            edge_width=0,
            position="none",
            position_size=0,
            width=width,
            pool=pool,
            dropout=input_dropout,
        )
        self.dropout = nn.Dropout(dropout)
        self.global_norm = nn.LayerNorm(width)
        self.global_layers = nn.ModuleList(
            GlobalLayer(width, heads, dropout=global_dropout) for _ in range(global_depth)
        )
        self.head = nn.Linear(width, out_width)
        self.local_steps = local_steps
        self.local_head = nn.Linear(width, width) if local_steps else None
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def transform(self, x: Tensor, graph: Graph, edge_attr: Tensor | None) -> Tensor:  # noqa: ARG002
        x = self.dropout(x)
        total = torch.zeros_like(x)
        for layer in self.layers:
            x = layer(x, graph)
            total = total + x
        if self.local_head is not None:
            if self.training:
                self.calls += 1
            if self.calls <= self.local_steps:
                states: Tensor = self.local_head(total)
                return states
        x = self.global_norm(total)
        for layer in self.global_layers:
            x = layer(x, graph)
        return x


polynormer = model_factory(Polynormer, depth=0, global_depth=0, local_steps=0)
