"""``SAGEConv``: mean or maximum of the neighbours, plus the node itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import aggregate
from edgewise.interop.dgl.attention_layer import Activation, move_bias
from edgewise.interop.dgl.graphs import Features, graph_and_features, per_edge
from edgewise.layers.sparse import check_node_features

AGGREGATORS = ("mean", "gcn", "pool")


class SAGEConv(nn.Module):
    r"""DGL's ``SAGEConv``, :math:`W_1 h_i + W_2 \bigoplus_j h_j` (Hamilton et al., 2017).

    ``aggregator_type`` is ``"mean"``, ``"gcn"`` (the mean over neighbours and the node) or
    ``"pool"`` (the maximum of a layer with ReLU). ``"lstm"`` raises an error.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> from edgewise.interop.dgl import SAGEConv
        >>> SAGEConv(16, 8, "mean")(graphs.window(1), torch.randn(3, 16)).shape
        torch.Size([3, 8])
    """

    def __init__(  # noqa: PLR0917 - DGL's signature
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        aggregator_type: str,
        feat_drop: float = 0.0,
        bias: bool = True,
        norm: Activation = None,
        activation: Activation = None,
    ) -> None:
        super().__init__()
        if aggregator_type not in AGGREGATORS:
            raise ArgumentError(
                "aggregator_type",
                expected=f"one of {', '.join(AGGREGATORS)}",
                got=repr(aggregator_type),
                remedy="use one of these; an LSTM over neighbours depends on their order",
            )
        self._in_src_feats, self._in_dst_feats = (
            in_feats if isinstance(in_feats, tuple) else (in_feats, in_feats)
        )
        self._out_feats, self._aggre_type = out_feats, aggregator_type
        self.norm, self.activation = norm, activation
        self.feat_drop = nn.Dropout(feat_drop)
        if aggregator_type == "pool":
            self.fc_pool = nn.Linear(self._in_src_feats, self._in_src_feats)
        self.fc_neigh = nn.Linear(self._in_src_feats, out_feats, bias=False)
        has_bias = bias and aggregator_type == "gcn"
        self.bias = nn.Parameter(torch.zeros(out_feats)) if has_bias else None
        if aggregator_type != "gcn":
            self.fc_self = nn.Linear(self._in_dst_feats, out_feats, bias=bias)
            self.register_load_state_dict_pre_hook(move_bias)  # type: ignore[no-untyped-call]
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the weights again."""
        for layer in self.children():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight, gain=nn.init.calculate_gain("relu"))

    def forward(self, graph: Any, feat: Features, edge_weight: Tensor | None = None) -> Tensor:
        """Return ``[N_dst, out_feats]`` from features ``[N, in_feats]``, or from a pair.

        ``edge_weight``, ``[E]``, multiplies the messages.
        """
        graph, source, target = graph_and_features(graph, feat)
        if edge_weight is not None:
            edge_weight = per_edge("edge_weight", edge_weight, graph)
        source = self.feat_drop(source)
        target = self.feat_drop(target) if isinstance(feat, tuple) else source[: len(target)]
        like = next(self.parameters())
        check_node_features(source, self._in_src_feats, "feat", like=like)
        is_narrow = self._in_src_feats <= self._out_feats or self._aggre_type == "pool"
        if self._aggre_type == "gcn":
            check_node_features(target, self._in_src_feats, "feat", like=like)
            rows = (source, target) if is_narrow else (self.fc_neigh(source), self.fc_neigh(target))
            sums = aggregate(rows[0], graph, weight=edge_weight)
            out = (sums + rows[1]) / (graph.in_degree().to(sums.dtype)[:, None] + 1)
        elif self._aggre_type == "mean":
            rows = source if is_narrow else self.fc_neigh(source)
            out = aggregate(rows, graph, weight=edge_weight, reduce="mean")
        else:
            out = aggregate(self.fc_pool(source).relu(), graph, weight=edge_weight, reduce="max")
        out = self.fc_neigh(out) if is_narrow else out
        if self._aggre_type != "gcn":
            check_node_features(target, self._in_dst_feats, "feat", like=like)
            out = self.fc_self(target) + out
        out = out if self.bias is None else out + self.bias
        for function in (self.activation, self.norm):
            out = out if function is None else function(out)
        result: Tensor = out
        return result
