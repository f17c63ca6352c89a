"""``GATConv``: additive attention, whose query and key are one number per node and head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from edgewise.attention.scores import Additive
from edgewise.interop.dgl.attention_layer import Activation, AttentionLayer, init_xavier, move_bias
from edgewise.interop.dgl.graphs import Features, per_edge


class GATConv(AttentionLayer):
    r"""DGL's ``GATConv``, :math:`\sum_j \alpha_{ij} W h_j` (Veličković et al., 2018).

    The score is LeakyReLU(attn_l·W h_j + attn_r·W h_i). Raises ArgumentError for a node without
    incoming edges, unless ``allow_zero_in_degree``. A checkpoint of DGL before 1.1, in which a
    layer with linear residual has a ``bias``, is loaded with this as the bias of ``res_fc``.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> from edgewise.interop.dgl import GATConv
        >>> GATConv(16, 8, num_heads=4)(graphs.window(1), torch.randn(3, 16)).shape
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
    ) -> None:
        super().__init__(in_feats, out_feats, num_heads, allow_zero_in_degree)
        self._add_projections()
        self.attn_l = nn.Parameter(torch.empty(1, num_heads, out_feats))
        self.attn_r = nn.Parameter(torch.empty(1, num_heads, out_feats))
        self.feat_drop, self.attn_drop = nn.Dropout(feat_drop), nn.Dropout(attn_drop)
        self.leaky_relu = nn.LeakyReLU(negative_slope)
        self._add_residual(residual, bias)
        if bias and not isinstance(self.res_fc, nn.Linear):
            self.bias = nn.Parameter(torch.empty(num_heads * out_feats))
        else:
            self.register_buffer("bias", None)
        self.activation = activation
        self.reset_parameters()
        self.register_load_state_dict_pre_hook(move_bias)  # type: ignore[no-untyped-call]

    def reset_parameters(self) -> None:
        """Initialise the parameters again."""
        linears = [layer for layer in self.children() if isinstance(layer, nn.Linear)]
        init_xavier(*(layer.weight for layer in linears), self.attn_l, self.attn_r)
        for bias in [self.bias, *(layer.bias for layer in linears)]:
            if bias is not None:
                nn.init.zeros_(bias)

    def forward(
        self,
        graph: Any,
        feat: Features,
        edge_weight: Tensor | None = None,
        get_attention: bool = False,
    ) -> Any:
        """Return ``[N_dst, *, H, out_feats]`` from features ``[N, *, in_feats]`` or a pair.

        ``edge_weight``, ``[E]``, multiplies the attention after softmax and dropout. With
        ``get_attention``, return also the attention ``[E, *, H, 1]``.
        """
        graph, source, target = self._inputs(graph, feat)
        is_shared = not isinstance(feat, tuple)
        source = self.feat_drop(source)
        target = source[: len(target)] if is_shared else self.feat_drop(target)
        value, target_value = self._projected(source, target, is_shared=is_shared)
        key = (value * self.attn_l).sum(-1, keepdim=True)
        query = (target_value * self.attn_r).sum(-1, keepdim=True)
        return self._attend(
            (query, key, value),
            graph,
            target,
            dropout=self.attn_drop.p if self.training else 0.0,
            get_attention=get_attention,
            edge_weight=None
            if edge_weight is None
            else per_edge("edge_weight", edge_weight, graph),
            score=Additive(negative_slope=self.leaky_relu.negative_slope),
        )
