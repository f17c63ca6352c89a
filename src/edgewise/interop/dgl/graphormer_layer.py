"""``GraphormerLayer``: a Transformer layer with a bias for each pair of nodes."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.graphs import Pattern
from edgewise.interop.dgl.biased_mha import BiasedMHA


class GraphormerLayer(nn.Module):
    """DGL's ``GraphormerLayer``, attention of :class:`BiasedMHA` and a feed-forward network.

    Example:
        >>> import torch
        >>> from edgewise.interop.dgl import GraphormerLayer
        >>> layer = GraphormerLayer(16, hidden_size=32, num_heads=4)
        >>> layer(torch.randn(2, 5, 16), torch.randn(2, 5, 5, 4)).shape
        torch.Size([2, 5, 16])
    """

    def __init__(  # noqa: PLR0917 - DGL's signature
        self,
        feat_size: int,
        hidden_size: int,
        num_heads: int,
        attn_bias_type: str = "add",
        norm_first: bool = False,
        dropout: float = 0.1,
        attn_dropout: float = 0.1,
        activation: nn.Module = nn.ReLU(),  # noqa: B008 - DGL's default
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attn = BiasedMHA(
            feat_size, num_heads, attn_bias_type=attn_bias_type, attn_drop=attn_dropout
        )
        self.ffn = nn.Sequential(
            nn.Linear(feat_size, hidden_size),
            activation,
            nn.Dropout(p=dropout),
            nn.Linear(hidden_size, feat_size),
            nn.Dropout(p=dropout),
        )
        self.dropout = nn.Dropout(p=dropout)
        self.attn_layer_norm = nn.LayerNorm(feat_size)
        self.ffn_layer_norm = nn.LayerNorm(feat_size)

    def forward(
        self,
        nfeat: Tensor,
        attn_bias: Tensor | None = None,
        attn_mask: Tensor | None = None,
        *,
        graph: Pattern | None = None,
    ) -> Tensor:
        """Return ``[B, N, feat_size]``; the arguments are those of :meth:`BiasedMHA.forward`."""
        x = self.attn_layer_norm(nfeat) if self.norm_first else nfeat
        x = nfeat + self.dropout(self.attn(x, attn_bias, attn_mask, graph=graph))
        x = x if self.norm_first else self.attn_layer_norm(x)
        out: Tensor = x + self.ffn(self.ffn_layer_norm(x) if self.norm_first else x)
        return out if self.norm_first else self.ffn_layer_norm(out)
