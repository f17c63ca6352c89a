"""A Transformer layer whose edges have vectors, which are updated along with the nodes."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.attention import aggregate
from edgewise.edge_steps import edge_softmax
from edgewise.graphs import Pattern
from edgewise.layers.block import NodeBatchNorm, Residual
from edgewise.layers.feed_forward import FeedForward
from edgewise.layers.sequential import GraphLayer


class EdgeTransformerLayer(GraphLayer):
    """Nodes ``[..., N, width]`` and edges ``[..., E, width]`` to the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.edge = (nn.Linear(width, width) for _ in range(4))
        self.outputs = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.norms = nn.ModuleList(NodeBatchNorm(width) for _ in range(2))
        self.networks = nn.ModuleList(
            Residual(FeedForward(width, 2 * width), width, norm="batch") for _ in range(2)
        )

    def forward(self, x: Tensor, graph: Pattern, edge: Tensor) -> tuple[Tensor, Tensor]:
        graph = graph.bind(x.shape[-2]).to(x.device)
        query, key, value = (
            f(x).unflatten(-1, (self.heads, -1)) for f in (self.query, self.key, self.value)
        )
        score = graph.gather_target(query, -3) * graph.gather_source(key, -3)
        score = score * self.edge(edge).unflatten(-1, (self.heads, -1)) * query.shape[-1] ** -0.5
        new = aggregate(value, graph, weight=edge_softmax(score.sum(-1), graph))
        pairs = zip((x, edge), (new, score), self.outputs, self.norms, self.networks, strict=True)
        x, edge = (network(norm(old + out(s.flatten(-2)))) for old, s, out, norm, network in pairs)
        return x, edge
