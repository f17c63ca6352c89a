"""``DotGatConv``: dot-product attention with one projection for query, key and value."""

from __future__ import annotations

from typing import Any

from edgewise.interop.dgl.attention_layer import AttentionLayer
from edgewise.interop.dgl.graphs import Features


class DotGatConv(AttentionLayer):
    r"""DGL's ``DotGatConv``, :math:`\sum_j \mathrm{softmax}_j(h_i^\top h_j / \sqrt D)\, h_j`.

    Here h are the projected features (Vaswani et al., 2017). Raises ArgumentError for a node
    without incoming edges, unless ``allow_zero_in_degree``.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> from edgewise.interop.dgl import DotGatConv
        >>> DotGatConv(16, 8, num_heads=4)(graphs.window(1), torch.randn(3, 16)).shape
        torch.Size([3, 4, 8])
    """

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        num_heads: int,
        allow_zero_in_degree: bool = False,
    ) -> None:
        super().__init__(in_feats, out_feats, num_heads, allow_zero_in_degree)
        self._add_projections()

    def forward(self, graph: Any, feat: Features, get_attention: bool = False) -> Any:
        """Return ``[N_dst, H, out_feats]`` from features ``[N, in_feats]``, or from a pair.

        With ``get_attention``, return also the attention ``[E, H, 1]``.
        """
        graph, source, target = self._inputs(graph, feat)
        key, query = self._projected(source, target, is_shared=not isinstance(feat, tuple))
        return self._attend((query, key, key), graph, target, get_attention=get_attention)
