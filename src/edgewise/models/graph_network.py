"""Graph network: edges, nodes and whole graphs update each other.

Formula: e' = φ_e(e, v_i, v_j, u); v' = φ_v(⊕ e', v, u); u' = φ_u(⊕ e', ⊕ v', u)
Graph: the input graph; and who belongs to which graph of a batch
Score: none
Normalisation: by the reduction ⊕
Update: two-layer networks φ, between an encoder and a decoder of each kind
Paper: Battaglia et al., Relational inductive biases, deep learning, and graph networks, 2018
"""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.attention import Reduce
from edgewise.graphs import Pattern, complete, membership
from edgewise.graphs.batch import Sizes
from edgewise.layers import GraphLayer
from edgewise.layers.graph_network import GraphNetworkBlock, State
from edgewise.ranges import checked


class GraphNetwork(GraphLayer):
    """Encode, process, decode."""

    def __init__(
        self, widths: tuple[int, int, int], out_width: int, hidden: int, depth: int, reduce: Reduce
    ) -> None:
        super().__init__()
        self.encode = nn.ModuleList(nn.Linear(width, hidden) for width in widths)
        self.blocks = nn.ModuleList(GraphNetworkBlock(hidden, reduce=reduce) for _ in range(depth))
        self.decode = nn.ModuleList(nn.Linear(hidden, out_width) for _ in widths)

    def forward(
        self, x: Tensor, graph: Pattern, edge: Tensor, whole: Tensor, sizes: Sizes | None = None
    ) -> State:
        """All three, ``out_width`` wide; ``whole`` is ``[..., G, F]``, G = 1 without ``sizes``."""
        graph = graph.bind(x.shape[-2]).to(x.device)
        members = membership(sizes) if sizes is not None else complete().bind(1, x.shape[-2])
        x, edge, whole = (f(part) for f, part in zip(self.encode, (x, edge, whole), strict=True))
        for block in self.blocks:
            x, edge, whole = block((x, edge, whole), graph, members.to(x.device))
        x, edge, whole = (f(part) for f, part in zip(self.decode, (x, edge, whole), strict=True))
        return x, edge, whole


@checked()
def graph_network(
    in_width: int,
    edge_width: int,
    whole_width: int,
    out_width: int,
    *,
    hidden: int = 64,
    depth: int = 2,
    reduce: Reduce = "sum",
) -> GraphNetwork:
    """Stack ``depth`` blocks; called ``model(x, graph, edge, whole, sizes=None)``."""
    return GraphNetwork((in_width, edge_width, whole_width), out_width, hidden, depth, reduce)
