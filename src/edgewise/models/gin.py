"""Graph isomorphism network (GIN).

Formula: h_i' = MLP((1 + ε) h_i + Σ_j h_j); the output is linear in the features of all layers
Graph: the input graph
Score: none
Normalisation: none (sum); batch norm in the MLP
Update: a two-layer network, ReLU
Paper: Xu et al., How powerful are graph neural networks?, 2019
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from edgewise.attention.attend import aggregate
from edgewise.graphs import Pattern
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers import GraphLayer, GraphSequential, Linear, NodeBatchNorm
from edgewise.layers.sparse import check_node_features
from edgewise.models.arguments import model_function


class GINLayer(GraphLayer):
    """GIN layer, ``network((1 + ε) h_i + Σ_j h_j)``, with learned ε that starts at zero."""

    reach = 1

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.epsilon = network, nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        graph = bind_to_nodes(graph, x)
        check_node_features(x)
        messages = aggregate(x.unsqueeze(-2), graph).squeeze(-2)
        out: Tensor = self.network((1 + self.epsilon) * x + messages)
        return out


class JumpingKnowledge(GraphLayer):
    r"""Layers whose outputs are concatenated, :math:`[h^0; \dots; h^L]` (Xu et al., Representation
    learning on graphs with jumping knowledge networks, 2018).

    The inputs of layers after the first have ``width`` features.
    """

    def __init__(self, *layers: nn.Module, width: int) -> None:
        super().__init__()
        self.layers, self.width = nn.ModuleList(layers), width

    def stages(self) -> list[nn.Module]:
        widths = [0, *[self.width] * (len(self.layers) - 1)]
        return list(map(_Appended, self.layers, widths))

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        """Return features ``[..., N, width_0 + ... + width_L]`` of nodes ``[..., N, width_0]``."""
        x = x.to_dense() if x.layout is torch.sparse_csr else x
        features = [x]
        for layer in self.layers:
            x = layer(x, graph) if isinstance(layer, GraphLayer) else layer(x)
            features.append(x)
        return torch.cat(features, dim=-1)


class _Appended(GraphLayer):
    """Layer whose output is appended to its input; it reads the last ``width`` features, or all if
    ``width`` is 0.
    """

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer, self.width = layer, width
        self.reach = layer.reach if isinstance(layer, GraphLayer) else 0

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        x = x.to_dense() if x.layout is torch.sparse_csr else x
        h = x[..., -self.width :]
        h = self.layer(h, graph) if isinstance(self.layer, GraphLayer) else self.layer(h)
        return torch.cat([x, h], dim=-1)


@model_function()
def gin(
    in_width: int, out_width: int, *, width: int = 64, depth: int = 5, dropout: float = 0.0
) -> GraphSequential:
    """Build a graph isomorphism network whose output is linear in the features of all layers.

    Called as ``model(x [..., N, in_width], graph)``. Summed over the nodes, the output is the
    paper's readout, except that its bias is multiplied by the number of nodes. In evaluation, a
    node's output depends only on the nodes up to ``depth`` steps away; in training, batch norm uses
    all nodes.

    Args:
        dropout: dropout probability before the linear output layer.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.gin(16, 3)
        >>> model(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 3])
    """
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise([in_width, *[width] * depth]):
        network = nn.Sequential(
            Linear(fan_in, fan_out),
            NodeBatchNorm(fan_out),
            nn.ReLU(),
            nn.Linear(fan_out, fan_out),
            NodeBatchNorm(fan_out),
            nn.ReLU(),
        )
        layers.append(GINLayer(network))
    head = nn.Linear(in_width + depth * width, out_width)
    return GraphSequential(JumpingKnowledge(*layers, width=width), nn.Dropout(dropout), head)
