"""``GINConv``: a network applied to the sum of a node and its neighbours."""

from __future__ import annotations

from torch import Tensor
from torch.nn import Module
from torch_geometric import nn

from edgewise._utils.arguments import describe
from edgewise._utils.errors import ArgumentError
from edgewise.interop.pyg.adjacency import Size, edge_weights
from edgewise.interop.pyg.drop_in import DropIn, Pair, as_pair, or_pyg


class GINDropIn(DropIn):
    """Base class of GINConv and GINEConv, whose network is applied to the sum."""

    def _with_target(self, out: Tensor, target: Tensor | None) -> Tensor:
        """Return the input of the network, which ``or_pyg`` applies."""
        if target is None:
            return out
        if target.shape != out.shape:
            raise ArgumentError(
                "x",
                expected=f"targets of shape {list(out.shape)}, as the sums of their sources",
                got=describe(target),
                remedy="pass features of the same width for sources and targets",
            )
        total: Tensor = out + (1 + self.eps) * target
        return total

    @property
    def _network(self) -> Module:  # type: ignore[override]
        network: Module = self.nn
        return network


class GINConv(GINDropIn, nn.GINConv):  # type: ignore[misc]
    r"""PyG's ``GINConv``, :math:`h((1 + \epsilon) x_i + \sum_j x_j)` (Xu et al., 2019).

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import GINConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> GINConv(torch.nn.Linear(16, 8))(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 8])
    """

    @or_pyg
    def forward(self, x: Tensor | Pair, edge_index: Tensor, size: Size = None) -> Tensor:
        """Return the network's output ``[..., N_dst, F]``; sparse matrices give edge weights."""
        source, target = as_pair(x, batched=True)
        graph = self._graph(edge_index, (source, target), size)
        out = self._reduced(source, graph, edge_weights(edge_index, None, source))
        return self._with_target(out, target)
