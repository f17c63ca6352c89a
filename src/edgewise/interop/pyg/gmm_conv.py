"""``GMMConv``: K Gaussian kernels over pseudo-coordinates, as K heads of edge weights."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric import nn

from edgewise._utils.arguments import check_type
from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import aggregate
from edgewise.graphs import Graph
from edgewise.interop.pyg.adjacency import Size, edge_features
from edgewise.interop.pyg.drop_in import REDUCTIONS, DropIn, Pair, as_pair, or_pyg, projected
from edgewise.layers.sparse import check_node_features

EPSILON = 1e-15  # PyG's value; avoids division by a variance of zero


class GMMConv(DropIn, nn.GMMConv):  # type: ignore[misc]
    r"""PyG's ``GMMConv``, :math:`\bigoplus_j \sum_k w_k(e_{ij}) \Theta_k x_j` (Monti et al., 2017).

    With ``separate_gaussians``, and for ``aggr="max"`` or ``"min"``, the message of each edge is
    stored, as in PyG.

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import GMMConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> layer = GMMConv(16, 8, dim=2, kernel_size=3)
        >>> layer(torch.randn(3, 16), edge_index, torch.rand(3, 2)).shape
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
        """Return ``[N_dst, out_channels]``; ``edge_attr`` are pseudo-coordinates ``[E, dim]``."""
        source, target = as_pair(x)
        graph = self._graph(edge_index, (source, target), size)
        coordinates = edge_features(edge_index, edge_attr, self.dim)
        if coordinates is None:
            raise ArgumentError(
                "edge_attr",
                expected=f"pseudo-coordinates of shape [E, {self.dim}]",
                got="None",
                remedy="pass for example the differences of node positions",
            )
        check_type("edge_attr", coordinates, self.mu)
        check_node_features(source, self.g.shape[0], like=self.g)
        if not self.separate_gaussians:
            source = source @ self.g
        out = self._mixed(source, graph, coordinates)
        if self.root_weight and target is not None:
            out = out + projected(self.root, target)
        return out if self.bias is None else out + self.bias

    def _mixed(self, source: Tensor, graph: Graph, coordinates: Tensor) -> Tensor:
        """Reduce the neighbours, weighted by the kernels of each edge."""
        if self.separate_gaussians or self.aggr in ("max", "min"):
            messages = self.message(graph.gather_source(source), coordinates)
            return self._reduced_messages(messages, graph)
        distance = (coordinates[:, None] - self.mu).square() / (EPSILON + self.sigma.square())
        weight = (-0.5 * distance.sum(-1)).exp()
        by_kernel = source.to(torch.promote_types(source.dtype, weight.dtype)).unflatten(
            -1, (self.kernel_size, self.out_channels)
        )
        return aggregate(by_kernel, graph, weight=weight, reduce=REDUCTIONS[self.aggr]).sum(-2)
