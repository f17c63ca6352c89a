"""``GMMConv``: K Gaussian kernels over pseudo-coordinates, as K heads of edge weights."""

from __future__ import annotations

from torch import Tensor
from torch_geometric import nn

from edgewise.attention import aggregate
from edgewise.errors import ArgumentError
from edgewise.graphs import incidence
from edgewise.interop.pyg.adjacency import Size, edge_features
from edgewise.interop.pyg.drop_in import DropIn

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

    def propagate(  # type: ignore[override]
        self,
        edge_index: Tensor,
        size: Size = None,
        *,
        x: tuple[Tensor, Tensor | None],
        edge_attr: Tensor | None,
    ) -> Tensor:
        """Aggregate neighbours into ``[N_dst, out_channels]``."""
        if self._has_messages:
            return DropIn.propagate(self, edge_index, size, x=x, edge_attr=edge_attr)
        graph = self._graph(edge_index, x, size)
        coordinates = edge_features(edge_index, edge_attr)
        if coordinates is None:
            raise ArgumentError(
                "edge_attr",
                expected=f"pseudo-coordinates of shape [E, {self.dim}]",
                got="None",
                remedy="pass for example the differences of node positions",
            )
        if self.separate_gaussians or self._reduce in ("max", "min"):
            messages = self.message(graph.gather_source(x[0]), coordinates)
            return aggregate(messages, incidence(graph), reduce=self._reduce)
        distance = (coordinates[:, None] - self.mu).square() / (EPSILON + self.sigma.square())
        weight = (-0.5 * distance.sum(-1)).exp()
        by_kernel = x[0].unflatten(-1, (self.kernel_size, self.out_channels))
        return aggregate(by_kernel, graph, weight=weight, reduce=self._reduce).sum(-2)
