"""``EGTLayer``: attention with biases and gates from edge features, which it updates."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from edgewise._utils.arguments import check_divides
from edgewise.attention.attend import aggregate
from edgewise.attention.scores import Dot
from edgewise.attention.steps import edge_scores, edge_softmax
from edgewise.graphs import Pattern, complete
from edgewise.interop.dgl.biased_mha import per_pair

BOUND = 5.0  # DGL clips the dot products.


class EGTLayer(nn.Module):
    r"""DGL's ``EGTLayer``, the edge-augmented graph Transformer (Hussain et al., 2022).

    With the score :math:`s_{ij} = \mathrm{clip}(q_i^\top k_j, ±5) + E e_{ij}` and the gate
    :math:`g_{ij} = \sigma(G e_{ij})`, the output is :math:`\log(1 + \sum_j g_{ij}) \sum_j
    \mathrm{softmax}_j(s_{ij})\, g_{ij}\, v_j` and the scores update the edge features.

    Example:
        >>> import torch
        >>> from edgewise.interop.dgl import EGTLayer
        >>> layer = EGTLayer(16, 6, num_heads=4, num_virtual_nodes=1)
        >>> nodes, edges = layer(torch.randn(2, 5, 16), torch.randn(2, 5, 5, 6))
        >>> nodes.shape, edges.shape
        (torch.Size([2, 5, 16]), torch.Size([2, 5, 5, 6]))
    """

    def __init__(  # noqa: PLR0917 - DGL's signature
        self,
        feat_size: int,
        edge_feat_size: int,
        num_heads: int,
        num_virtual_nodes: int,
        dropout: float = 0,
        attn_dropout: float = 0,
        activation: nn.Module = nn.ELU(),  # noqa: B008 - DGL's default
        edge_update: bool = True,
    ) -> None:
        super().__init__()
        check_divides("num_heads", num_heads, feat_size, "feat_size", "change num_heads")
        self.num_heads, self.num_virtual_nodes = num_heads, num_virtual_nodes
        self.edge_update = edge_update
        self.mha_ln_h, self.mha_ln_e = nn.LayerNorm(feat_size), nn.LayerNorm(edge_feat_size)
        self.edge_input = nn.Linear(edge_feat_size, num_heads)
        self.qkv_proj = nn.Linear(feat_size, feat_size * 3)
        self.gate = nn.Linear(edge_feat_size, num_heads)
        self.attn_dropout = nn.Dropout(attn_dropout)
        self.node_output = nn.Linear(feat_size, feat_size)
        self.mha_dropout_h = nn.Dropout(dropout)
        self.node_ffn = _network(feat_size, activation, dropout)
        if edge_update:
            self.edge_output = nn.Linear(num_heads, edge_feat_size)
            self.mha_dropout_e = nn.Dropout(dropout)
            self.edge_ffn = _network(edge_feat_size, activation, dropout)

    def forward(
        self,
        nfeat: Tensor,
        efeat: Tensor,
        mask: Tensor | None = None,
        *,
        graph: Pattern | None = None,
    ) -> Any:
        """Return node features ``[B, N, F]``, and edge features unless ``edge_update=False``.

        ``efeat`` is ``[B, N, N, F_e]``; ``mask``, ``[B, N, N]``, is 0 for pairs and -inf for those
        left out. Not in DGL: with ``graph``, attention is over its edges, ``efeat`` is
        ``[B, E, F_e]`` and ``mask`` ``[B, E]``.
        """
        edges = self.mha_ln_e(efeat)
        projected = self.qkv_proj(self.mha_ln_h(nfeat)).unflatten(-1, (3, -1, self.num_heads))
        query, key, value = projected.mT.unbind(-3)
        pairs = (complete() if graph is None else graph).bind(nfeat.shape[-2])
        scores = edge_scores(query, key, pairs, score=Dot(1.0)).clamp(-BOUND, BOUND)
        scores = scores + per_pair(self.edge_input(edges), graph)
        gates, masked = per_pair(self.gate(edges), graph), scores
        if mask is not None:
            hidden = per_pair(mask[..., None], graph)
            gates, masked = gates + hidden, scores + hidden
        gates = gates.sigmoid()
        weights = self.attn_dropout(edge_softmax(masked, pairs) * gates)
        degree = aggregate(value.new_ones(()).expand(*value.shape[:-1], 1), pairs, weight=gates)
        factor = (1 + degree).log()
        factor[:, : self.num_virtual_nodes] = 1.0
        out = (aggregate(value, pairs, weight=weights) * factor).mT.flatten(-2)
        nodes = nfeat + self.mha_dropout_h(self.node_output(out))
        nodes = nodes + self.node_ffn(nodes)
        if not self.edge_update:
            return nodes
        changes = self.edge_output(scores).view(efeat.shape)
        edges = efeat + self.mha_dropout_e(changes)
        return nodes, edges + self.edge_ffn(edges)


def _network(width: int, activation: nn.Module, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.LayerNorm(width),
        nn.Linear(width, width),
        activation,
        nn.Linear(width, width),
        nn.Dropout(dropout),
    )
