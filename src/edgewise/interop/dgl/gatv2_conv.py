"""``GATv2Conv``: additive attention whose ranking of the sources depends on the target."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from edgewise.attention.scores import Additive
from edgewise.interop.dgl.attention_layer import Activation, AttentionLayer, init_xavier
from edgewise.interop.dgl.graphs import Features


class GATv2Conv(AttentionLayer):
    r"""DGL's ``GATv2Conv``, :math:`\sum_j \alpha_{ij} W_{src} h_j` (Brody et al., 2022).

    The score is attn·LeakyReLU(W_src h_j + W_dst h_i). Raises ArgumentError for a node without
    incoming edges, unless ``allow_zero_in_degree``.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> from edgewise.interop.dgl import GATv2Conv
        >>> GATv2Conv(16, 8, num_heads=4)(graphs.window(1), torch.randn(3, 16)).shape
        torch.Size([3, 4, 8])
    """

    def __init__(  # noqa: PLR0917 - DGL's signature
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        num_heads: int,
        feat_drop: float = 0.0,
        attn_drop: float = 0.0,
        negative_slope: float = 0.2,
        residual: bool = False,
        activation: Activation = None,
        allow_zero_in_degree: bool = False,
        bias: bool = True,
        share_weights: bool = False,
    ) -> None:
        super().__init__(in_feats, out_feats, num_heads, allow_zero_in_degree)
        self.share_weights = share_weights and not isinstance(in_feats, tuple)
        self.fc_src = self._linear(self._in_src_feats, bias)
        self.fc_dst = self.fc_src if self.share_weights else self._linear(self._in_dst_feats, bias)
        self.attn = nn.Parameter(torch.empty(1, num_heads, out_feats))
        self.feat_drop, self.attn_drop = nn.Dropout(feat_drop), nn.Dropout(attn_drop)
        self.leaky_relu = nn.LeakyReLU(negative_slope)
        self._add_residual(residual, bias)
        self.activation = activation
        self.bias = bias
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the parameters again."""
        linears = [layer for layer in self.children() if isinstance(layer, nn.Linear)]
        init_xavier(*(layer.weight for layer in linears), self.attn)
        for layer in linears:
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, graph: Any, feat: Features, get_attention: bool = False) -> Any:
        """Return ``[N_dst, H, out_feats]`` from features ``[N, in_feats]``, or from a pair.

        With ``get_attention``, return also the attention ``[E, H, 1]``.
        """
        graph, source, target = self._inputs(graph, feat)
        is_shared = not isinstance(feat, tuple)
        source = self.feat_drop(source)
        target = source[: len(target)] if is_shared else self.feat_drop(target)
        key = self._heads(self.fc_src, source)
        if self.share_weights and is_shared:
            query = key[..., : len(target), :, :]
        else:
            query = self._heads(self.fc_dst, target)
        score = Additive(weight=self.attn[0], negative_slope=self.leaky_relu.negative_slope)
        return self._attend(
            (query, key, key),
            graph,
            target,
            dropout=self.attn_drop.p if self.training else 0.0,
            get_attention=get_attention,
            score=score,
        )
