"""``GINConv``: a network applied to the sum of a node and its neighbours."""

from __future__ import annotations

from torch_geometric import nn

from edgewise.interop.pyg.drop_in import DropIn
from edgewise.interop.pyg.sage_conv import SAGEConv


class GINConv(DropIn, nn.GINConv):  # type: ignore[misc]
    r"""PyG's ``GINConv``, :math:`h((1 + \epsilon) x_i + \sum_j x_j)` (Xu et al., 2019).

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import GINConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> GINConv(torch.nn.Linear(16, 8))(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 8])
    """

    propagate = SAGEConv.propagate  # type: ignore[assignment]
