"""``GraphConv``: a sum over neighbours, divided by functions of the degrees."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import aggregate
from edgewise.interop.dgl.attention_layer import Activation
from edgewise.interop.dgl.graphs import Features, graph_and_features, per_edge
from edgewise.layers.sparse import check_node_features


class GraphConv(nn.Module):
    r"""DGL's ``GraphConv``, :math:`\sigma(b + \sum_j w_{ij} h_j W / c_{ij})` (Kipf and Welling).

    For the degrees d, :math:`c_{ij}` is :math:`\sqrt{d_i d_j}` for ``norm="both"``, the in-degree
    of i for ``"right"``, the out-degree of j for ``"left"`` and 1 for ``"none"``. Raises
    ArgumentError for a node without incoming edges, unless ``allow_zero_in_degree``.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> from edgewise.interop.dgl import GraphConv
        >>> GraphConv(16, 8)(graphs.window(1), torch.randn(3, 16)).shape
        torch.Size([3, 8])
    """

    def __init__(  # noqa: PLR0917 - DGL's signature
        self,
        in_feats: int,
        out_feats: int,
        norm: str = "both",
        weight: bool = True,
        bias: bool = True,
        activation: Activation = None,
        allow_zero_in_degree: bool = False,
    ) -> None:
        super().__init__()
        check_choice("norm", norm, ("none", "both", "right", "left"))
        self._in_feats, self._out_feats, self._norm = in_feats, out_feats, norm
        self._allow_zero_in_degree = allow_zero_in_degree
        self.weight = nn.Parameter(torch.empty(in_feats, out_feats)) if weight else None
        self.bias = nn.Parameter(torch.empty(out_feats)) if bias else None
        self._activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the parameters again."""
        if self.weight is not None:
            nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Set whether nodes without incoming edges are allowed."""
        self._allow_zero_in_degree = set_value

    def forward(
        self,
        graph: Any,
        feat: Features,
        weight: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """Return ``[N_dst, *, out_feats]`` from features ``[N, *, in_feats]``, or from a pair.

        ``weight`` replaces the matrix of a layer with ``weight=False``; ``edge_weight`` is ``[E]``.
        """
        graph, x, _ = graph_and_features(
            graph, feat, allow_zero_in_degree=self._allow_zero_in_degree
        )
        if weight is not None and self.weight is not None:
            raise ArgumentError(
                "weight",
                expected="None, because the layer has a weight",
                got="a tensor",
                remedy="build the layer with weight=False",
            )
        weight = self.weight if weight is None else weight
        if weight is not None:
            check_node_features(x, weight.shape[0], "feat", like=weight)
        if edge_weight is not None:
            edge_weight = per_edge("edge_weight", edge_weight, graph)
        if self._norm in ("left", "both"):
            x = x * self._factor(graph.out_degree(), x)
        if weight is not None and self._in_feats > self._out_feats:
            x, weight = x @ weight, None  # The narrower side is aggregated.
        sums = aggregate(x.flatten(1)[:, None], graph, weight=edge_weight)[:, 0]
        out = sums.view(-1, *x.shape[1:])
        out = out if weight is None else out @ weight
        if self._norm in ("right", "both"):
            out = out * self._factor(graph.in_degree(), out)
        out = out if self.bias is None else out + self.bias
        return out if self._activation is None else self._activation(out)

    def _factor(self, degree: Tensor, like: Tensor) -> Tensor:
        factor = degree.to(like.dtype).clamp(min=1) ** (-0.5 if self._norm == "both" else -1.0)
        return factor.view(-1, *[1] * (like.dim() - 1))

    def extra_repr(self) -> str:
        """Return the options that ``repr`` shows."""
        return f"in={self._in_feats}, out={self._out_feats}, normalization={self._norm}"
