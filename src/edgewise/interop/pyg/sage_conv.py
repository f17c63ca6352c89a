"""``SAGEConv``: mean, sum, maximum or minimum of the neighbours, plus the node itself."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor
from torch_geometric import nn

from edgewise.interop.pyg.adjacency import Size, edge_weights
from edgewise.interop.pyg.drop_in import DropIn, Pair, as_pair, or_pyg, projected


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

    @or_pyg
    def forward(self, x: Tensor | Pair, edge_index: Tensor, size: Size = None) -> Tensor:
        """Return ``[..., N_dst, out_channels]``; the values of a sparse matrix are edge weights."""
        source, target = as_pair(x, batched=True)
        graph = self._graph(edge_index, (source, target), size)
        if self.project:
            source = projected(self.lin, source).relu()
        weight = edge_weights(edge_index, None, source)
        out = projected(self.lin_l, self._reduced(source, graph, weight))
        if self.root_weight and target is not None:
            out = out + projected(self.lin_r, target)
        return F.normalize(out, dim=-1) if self.normalize else out
