"""``GINEConv``: GIN whose messages are a ReLU of the source plus the edge features."""

from __future__ import annotations

from torch import Tensor
from torch_geometric import nn

from edgewise._utils.errors import ArgumentError
from edgewise.interop.pyg.adjacency import EdgeShapeError, Size, edge_features
from edgewise.interop.pyg.drop_in import Pair, as_pair, or_pyg, projected
from edgewise.interop.pyg.gin_conv import GINDropIn


class GINEConv(GINDropIn, nn.GINEConv):  # type: ignore[misc]
    r"""PyG's ``GINEConv``, :math:`h((1 + \epsilon) x_i + \sum_j \max(0, x_j + E e_{ij}))`.

    The message of each edge is stored once (Hu et al., 2020); PyG stores it three times.

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import GINEConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> layer = GINEConv(torch.nn.Linear(16, 8), edge_dim=4)
        >>> layer(torch.randn(3, 16), edge_index, torch.randn(3, 4)).shape
        torch.Size([3, 8])
    """

    @or_pyg
    def forward(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        size: Size = None,
    ) -> Tensor:
        """Return the network's output ``[N_dst, F]`` from edge features ``[E, edge_dim]``."""
        source, target = as_pair(x)
        graph = self._graph(edge_index, (source, target), size)
        features = edge_features(edge_index, edge_attr, None)
        width = source.shape[-1] if self.lin is None else self.lin.in_channels
        if features is None:
            raise ArgumentError(
                "edge_attr",
                expected=f"features [{graph.num_edges}, {width}]",
                got="None",
                remedy="pass edge features, or use GINConv",
            )
        if self.lin is not None:
            features = projected(self.lin, features, "edge_attr")
        elif features.shape[-1] != width:
            raise EdgeShapeError(
                "edge_attr",
                expected=f"features [{graph.num_edges}, {width}], as wide as x",
                got=f"width {features.shape[-1]}",
                remedy=f"build the layer with edge_dim={features.shape[-1]}",
            )
        messages = (graph.gather_source(source) + features).relu_()
        return self._with_target(self._reduced_messages(messages, graph), target)
