"""``GATConv``: additive attention, whose query and key are one number per node and head."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric import nn

from edgewise.attention.biases import Projected
from edgewise.attention.scores import Additive
from edgewise.interop.pyg.adjacency import Size
from edgewise.interop.pyg.attention_drop_in import AttentionDropIn
from edgewise.interop.pyg.drop_in import Pair, as_pair, or_pyg, projected


class GATConv(AttentionDropIn, nn.GATConv):  # type: ignore[misc]
    r"""PyG's ``GATConv``, :math:`\sum_j \alpha_{ij} W x_j` (Veličković et al., 2018).

    The score is :math:`\mathrm{LeakyReLU}(a^\top W x_i + b^\top W x_j + c^\top V e_{ij})`.
    The last term is one number per edge and head; :math:`V e_{ij}` itself is not computed.

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import GATConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> GATConv(16, 8, heads=4)(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 32])
    """

    @or_pyg
    def forward(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        size: Size = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        """Return ``[N_dst, H * out_channels]``, or ``[N_dst, out_channels]`` with ``concat=False``.

        With ``return_attention_weights=True``, return ``(out, (edge_index, weights))``, with the
        weights ``[E, H]`` after dropout, and with self-loops if the layer adds them. If
        ``edge_index`` is a sparse matrix, the returned matrix holds the weights too.
        """
        pair = as_pair(x)
        graph, edge_attr = self._looped(edge_index, pair, edge_attr, size)
        value, target = self._values(pair)
        key = (value * self.att_src).sum(-1, keepdim=True)
        if target is None:
            query = key.new_zeros(graph.num_targets, self.heads, 1)
        else:
            query = (target * self.att_dst).sum(-1, keepdim=True)
        out, weights = self._attend(
            query,
            key,
            value,
            graph,
            att=self.att_src,
            score=Additive(negative_slope=self.negative_slope),
            edge_key=self._edge_key(edge_attr),
            return_weights=return_attention_weights,
        )
        residual = None if self.res is None or pair[1] is None else projected(self.res, pair[1])
        return self._join_heads(out, residual, edge_index, graph, weights)

    def _values(self, pair: Pair) -> tuple[Tensor, Tensor | None]:
        """Return projections ``[N, H, D]`` of sources and targets, computed once if shared."""
        linears = (self.lin, self.lin) if self.lin is not None else (self.lin_src, self.lin_dst)
        source = projected(linears[0], pair[0]).unflatten(-1, (self.heads, -1))
        if pair[1] is None or (pair[1] is pair[0] and linears[0] is linears[1]):
            return source, None if pair[1] is None else source
        return source, projected(linears[1], pair[1]).unflatten(-1, (self.heads, -1))

    def _edge_key(self, edge_attr: Tensor | None) -> Projected | None:
        edges = self._edge_vector(edge_attr if self.lin_edge is not None else None)
        if edges is None:
            return None
        weight = (edges.weight * self.att_edge[0, ..., None]).sum(1, keepdim=True)
        return Projected(edges.features, weight)
