"""``TransformerConv``: a Transformer's attention on the edges of a graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric import nn

from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import attend
from edgewise.attention.steps import attention_weights
from edgewise.interop.pyg.attention_drop_in import AttentionDropIn, both
from edgewise.interop.pyg.drop_in import or_pyg, projected


class TransformerConv(AttentionDropIn, nn.TransformerConv):  # type: ignore[misc]
    r"""PyG's ``TransformerConv``, :math:`W_1 x_i + \sum_j \alpha_{ij} (W_2 x_j + W_6 e_{ij})`.

    The score is :math:`q^\top (k + W_6 e) / \sqrt D` (Shi et al., 2021). As in PyG, the result
    is a tuple if ``return_attention_weights`` is a boolean, even if it is ``False``.

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import TransformerConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> TransformerConv(16, 8, heads=2)(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 16])
    """

    vector_features = False

    @or_pyg
    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        """Return ``[N_dst, H * out_channels]``, or the mean over heads.

        With ``return_attention_weights``, return ``(out, (edge_index, weights before dropout))``.
        """
        left, right = both(x)
        graph = self._graph(edge_index, (left, right))
        query, key, value = (
            projected(linear, nodes).unflatten(-1, (self.heads, -1))
            for linear, nodes in (
                (self.lin_query, right),
                (self.lin_key, left),
                (self.lin_value, left),
            )
        )
        edges = self._edge_vector(self._edge_features(edge_index, edge_attr))
        if edges is None and self.lin_edge is not None:
            raise ArgumentError(
                "edge_attr",
                expected=f"shape [E, {self.edge_dim}], because the layer was built with edge_dim",
                got="None",
                remedy="pass edge features, or build the layer without edge_dim",
            )
        dropout = self.dropout if self.training else 0.0
        out = attend(query, key, value, graph, edge_key=edges, edge_value=edges, dropout=dropout)
        out = self._with_root(out.flatten(1) if self.concat else out.mean(1), right)
        if not isinstance(return_attention_weights, bool):
            return out
        weights = attention_weights(query, key, graph, edge_key=edges).to(query.dtype)
        return out, (edge_index, weights)

    def _with_root(self, out: Tensor, x: Tensor) -> Tensor:
        if not self.root_weight:
            return out
        root: Tensor = projected(self.lin_skip, x)
        if self.lin_beta is None:
            return out + root
        beta = self.lin_beta(torch.cat([out, root, out - root], dim=-1)).sigmoid()
        mixed: Tensor = beta * root + (1 - beta) * out
        return mixed
