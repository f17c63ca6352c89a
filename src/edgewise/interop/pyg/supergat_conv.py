"""``SuperGATConv``: attention that is also trained to predict edges."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric import nn

from edgewise.attention.attend import attend
from edgewise.attention.scores import Additive, Dot
from edgewise.attention.steps import edge_scores
from edgewise.graphs import edges
from edgewise.interop.pyg.adjacency import fresh_loops
from edgewise.interop.pyg.attention_drop_in import AttentionDropIn
from edgewise.interop.pyg.drop_in import as_pair, or_pyg, projected


class SuperGATConv(AttentionDropIn, nn.SuperGATConv):  # type: ignore[misc]
    r"""PyG's ``SuperGATConv`` (Kim and Oh, 2021), with :math:`h = W x`.

    The score is LeakyReLU((a·h_i + b·h_j) · σ(h_i·h_j)) for "MX", and LeakyReLU(h_i·h_j / √D) for
    "SD". The factor σ > 0 is a gain of GAT's score. In training, the dot products of edges and of
    sampled pairs are stored for ``get_attention_loss``.

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import SuperGATConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> SuperGATConv(16, 8, heads=4).eval()(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 32])
    """

    @or_pyg
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        neg_edge_index: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Return ``[N, H * out_channels]``, or the mean over heads with ``concat=False``."""
        nodes, _ = as_pair((x, None))
        graph = self._graph(edge_index, (nodes, nodes))
        graph = fresh_loops(graph)[0] if self.add_self_loops else graph
        value = projected(self.lin, nodes).unflatten(-1, (self.heads, -1))
        is_mixed = self.attention_type == "MX"
        dot = Dot(1.0) if is_mixed else Dot()
        logits = edge_scores(value, value, graph, score=dot)
        dropout = self.dropout if self.training else 0.0
        if is_mixed:
            query, key = ((value * a).sum(-1, keepdim=True) for a in (self.att_r, self.att_l))
            score = Additive(negative_slope=self.negative_slope)
            gain = logits.sigmoid()
            out = attend(query, key, value, graph, score=score, gain=gain, dropout=dropout)
        else:
            scores = F.leaky_relu(logits, self.negative_slope)
            out = attend(value, value, value, graph, score=None, bias=scores, dropout=dropout)
        if self.training:
            index = graph.edge_index if self._forwards else graph.edge_index.flip(0)
            if self.edge_sample_ratio < 1:
                positive = edges(self.positive_sampling(index), len(nodes))
                logits = edge_scores(value, value, positive, score=dot)
            if neg_edge_index is None:
                neg_edge_index = self.negative_sampling(index, len(nodes), batch).long()
            negative = edges(neg_edge_index, len(nodes))
            other_logits = edge_scores(value, value, negative, score=dot)
            self.att_x = torch.cat([logits, other_logits])
            self.att_y = (torch.arange(len(self.att_x), device=x.device) < len(logits)).to(x.dtype)
        out = out.flatten(1) if self.concat else out.mean(1)
        return out if self.bias is None else out + self.bias
