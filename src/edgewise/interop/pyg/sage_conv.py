"""``SAGEConv``: mean, sum, maximum or minimum of the neighbours, plus the node itself."""

from __future__ import annotations

from torch import Tensor
from torch_geometric import nn

from edgewise.attention import aggregate
from edgewise.interop.pyg.adjacency import Size, values_of
from edgewise.interop.pyg.drop_in import DropIn


class SAGEConv(DropIn, nn.SAGEConv):  # type: ignore[misc]
    r"""PyG's ``SAGEConv``, :math:`W_1 x_i + W_2 \bigoplus_j x_j` (Hamilton et al., 2017).

    ``aggr`` is ``"mean"``, ``"sum"`` (or ``"add"``), ``"max"`` or ``"min"``. Other values, such as
    ``"lstm"``, a list or a module, raise an error.

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import SAGEConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> SAGEConv(16, 8, aggr="max")(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 8])
    """

    def propagate(  # type: ignore[override]
        self, edge_index: Tensor, size: Size = None, *, x: tuple[Tensor, Tensor | None]
    ) -> Tensor:
        """Aggregate neighbours into ``[..., N_dst, F]``; entries of a sparse matrix are weights."""
        if self._has_messages:
            return DropIn.propagate(self, edge_index, size, x=x)
        graph, values = self._graph(edge_index, x, size), values_of(edge_index)
        senders = x[0].unsqueeze(-2)
        return aggregate(senders, graph, weight=values, reduce=self._reduce).squeeze(-2)
