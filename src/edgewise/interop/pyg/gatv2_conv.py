"""``GATv2Conv``: additive attention whose ranking of the sources depends on the target."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric import nn

from edgewise.attention.scores import Additive
from edgewise.interop.pyg.attention_drop_in import AttentionDropIn, both
from edgewise.interop.pyg.drop_in import or_pyg, projected


class GATv2Conv(AttentionDropIn, nn.GATv2Conv):  # type: ignore[misc]
    r"""PyG's ``GATv2Conv``, :math:`\sum_j \alpha_{ij} W_l x_j` (Brody et al., 2022).

    The score is :math:`a^\top \mathrm{LeakyReLU}(W_r x_i + W_l x_j + V e_{ij})`.

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import GATv2Conv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> GATv2Conv(16, 8, heads=4)(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 32])
    """

    @or_pyg
    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        """Return ``[N_dst, H * out_channels]``, or the mean over heads; see :class:`GATConv`."""
        left, right = both(x)
        graph, edge_attr = self._looped(edge_index, (left, right), edge_attr)
        key = projected(self.lin_l, left).unflatten(-1, (self.heads, -1))
        if self.share_weights and right is left:
            query = key
        else:
            query = projected(self.lin_r, right).unflatten(-1, (self.heads, -1))
        out, weights = self._attend(
            query,
            key,
            key,
            graph,
            att=self.att,
            score=Additive(weight=self.att[0], negative_slope=self.negative_slope),
            edge_key=self._edge_vector(edge_attr),
            return_weights=return_attention_weights,
        )
        residual = None if self.res is None else projected(self.res, right)
        return self._join_heads(out, residual, edge_index, graph, weights)
