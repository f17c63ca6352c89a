"""``GINConv``: a network applied to the sum of a node and its neighbours."""

from __future__ import annotations

from torch_geometric import nn

from edgewise.interop.pyg.drop_in import DropIn
from edgewise.interop.pyg.sage_conv import SAGEConv


class GINConv(DropIn, nn.GINConv):  # type: ignore[misc]
    r"""PyG's ``GINConv``, :math:`h((1 + \epsilon) x_i + \sum_j x_j)` (Xu et al., 2019)."""

    propagate = SAGEConv.propagate  # type: ignore[assignment]
