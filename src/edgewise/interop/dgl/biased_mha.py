"""``BiasedMHA``: attention with a bias or factor for each pair of nodes."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise._utils.arguments import check_choice, check_divides
from edgewise.attention.attend import attend
from edgewise.graphs import Pattern, complete


class BiasedMHA(nn.Module):
    r"""DGL's ``BiasedMHA``, :math:`\mathrm{softmax}(q^\top k / \sqrt D \circ b)\, v`.

    The operator ∘ is + for ``attn_bias_type="add"`` and · for ``"mul"`` (Ying et al., 2021).

    Example:
        >>> import torch
        >>> from edgewise.interop.dgl import BiasedMHA
        >>> BiasedMHA(16, num_heads=4)(torch.randn(2, 5, 16), torch.randn(2, 5, 5, 4)).shape
        torch.Size([2, 5, 16])
    """

    def __init__(
        self,
        feat_size: int,
        num_heads: int,
        bias: bool = True,
        attn_bias_type: str = "add",
        attn_drop: float = 0.1,
    ) -> None:
        super().__init__()
        check_divides("num_heads", num_heads, feat_size, "feat_size", "change num_heads")
        check_choice("attn_bias_type", attn_bias_type, ("add", "mul"))
        self.feat_size, self.num_heads = feat_size, num_heads
        self.attn_bias_type = attn_bias_type
        self.q_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.k_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.v_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.out_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.dropout = nn.Dropout(p=attn_drop)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the parameters again."""
        for layer in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(layer.weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)

    def forward(
        self,
        ndata: Tensor,
        attn_bias: Tensor | None = None,
        attn_mask: Tensor | None = None,
        *,
        graph: Pattern | None = None,
    ) -> Tensor:
        """Return ``[B, N, feat_size]`` from ``ndata`` of the same shape.

        ``attn_bias`` is ``[B, N, N, H]``; ``attn_mask``, ``[B, N, N]``, is true for pairs that are
        left out, and a node with no other pair gets zeros. Not in DGL: with ``graph``, attention is
        over its edges, and the first tensor is ``[B, E, H]``, the second ``[B, E]``.
        """
        query, key, value = (
            layer(ndata).unflatten(-1, (self.num_heads, -1))
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        bias = None if attn_bias is None else per_pair(attn_bias, graph)
        gain = None
        if self.attn_bias_type == "mul":
            bias, gain = None, bias
        if attn_mask is not None:
            is_masked = per_pair(attn_mask.bool()[..., None], graph)
            bias = query.new_zeros(()) if bias is None else bias
            bias = bias.masked_fill(is_masked, float("-inf"))
        dropout = self.dropout.p if self.training else 0.0
        pairs = complete() if graph is None else graph
        out = attend(query, key, value, pairs, bias=bias, gain=gain, dropout=dropout)
        projected: Tensor = self.out_proj(out.flatten(-2))
        return projected


def per_pair(values: Tensor, graph: Pattern | None) -> Tensor:
    """Return ``[B, N, N, ...]`` as ``[B, N², ...]``; values of the edges of a graph unchanged."""
    return values.flatten(1, 2) if graph is None else values
