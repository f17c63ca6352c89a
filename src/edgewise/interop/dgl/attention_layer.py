"""Base class of DGL's attention layers on edges: options, projections and results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from torch import Tensor, nn

from edgewise.attention.attend import AttendOptions
from edgewise.graphs import Graph
from edgewise.interop.dgl.graphs import Features, graph_and_features
from edgewise.interop.weighted_attention import attend_and_weigh
from edgewise.layers.sparse import check_node_features

Activation = Callable[[Tensor], Tensor] | None


class AttentionLayer(nn.Module):
    """Base class of GATConv, GATv2Conv and DotGatConv."""

    res_fc: nn.Module | None
    activation: Activation = None

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        num_heads: int,
        allow_zero_in_degree: bool,
    ) -> None:
        super().__init__()
        self._has_pair = isinstance(in_feats, tuple)
        self._in_src_feats, self._in_dst_feats = (
            in_feats if isinstance(in_feats, tuple) else (in_feats, in_feats)
        )
        self._out_feats, self._num_heads = out_feats, num_heads
        self._allow_zero_in_degree = allow_zero_in_degree

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Set whether nodes without incoming edges are allowed."""
        self._allow_zero_in_degree = set_value

    def _linear(self, width: int, bias: bool = False) -> nn.Linear:
        return nn.Linear(width, self._num_heads * self._out_feats, bias=bias)

    def _add_projections(self) -> None:
        """Define ``fc``, or ``fc_src`` and ``fc_dst`` if sources and targets have own features."""
        if self._has_pair:
            self.fc_src = self._linear(self._in_src_feats)
            self.fc_dst = self._linear(self._in_dst_feats)
        else:
            self.fc = self._linear(self._in_src_feats)

    def _projected(
        self, source: Tensor, target: Tensor, *, is_shared: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the projections of sources and targets; shared features are projected once."""
        maps = (self.fc_src, self.fc_dst) if self._has_pair else (self.fc, self.fc)
        sources = self._heads(maps[0], source)
        if is_shared:
            return sources, sources[..., : len(target), :, :]
        return sources, self._heads(maps[1], target)

    def _add_residual(self, residual: bool, bias: bool) -> None:
        """Define ``res_fc``: a linear map, the identity if the widths agree, or None."""
        if not residual:
            self.register_buffer("res_fc", None)
        elif self._in_dst_feats == self._num_heads * self._out_feats:
            self.res_fc = nn.Identity()
        else:
            self.res_fc = self._linear(self._in_dst_feats, bias)

    def _inputs(self, graph: Any, feat: Features) -> tuple[Graph, Tensor, Tensor]:
        return graph_and_features(graph, feat, allow_zero_in_degree=self._allow_zero_in_degree)

    def _heads(self, linear: nn.Module, x: Tensor) -> Tensor:
        """Return the projection of ``[N, *, F]`` as ``[*, N, H, D]``."""
        if isinstance(linear, nn.Linear):
            check_node_features(x, linear.in_features, "feat", like=linear.weight)
        projected: Tensor = linear(x).unflatten(-1, (-1, self._out_feats)).movedim(0, -3)
        return projected

    def _attend(
        self,
        nodes: tuple[Tensor, Tensor, Tensor],
        graph: Graph,
        target: Tensor,
        *,
        get_attention: bool,
        edge_weight: Tensor | None = None,
        **terms: Unpack[AttendOptions],
    ) -> Any:
        """Return ``[N_dst, *, H, D]``, with the attention ``[E, *, H, 1]`` if asked.

        ``nodes`` are query, key and value; ``target`` are the features for the residual.
        """
        out, weights = attend_and_weigh(
            *nodes,
            graph,
            return_weights=get_attention,
            edge_weight=edge_weight,
            **terms,
        )
        residual: nn.Module | None = getattr(self, "res_fc", None)
        if residual is not None:
            out = out + self._heads(residual, target)
        bias = getattr(self, "bias", None)
        if isinstance(bias, Tensor):
            out = out + bias.view(self._num_heads, self._out_feats)
        out = out.movedim(-3, 0)
        out = out if self.activation is None else self.activation(out)
        return out if weights is None else (out, weights.movedim(-2, 0)[..., None])


def init_xavier(*parameters: Tensor) -> None:
    """Initialise as DGL: from a normal distribution of Glorot and Bengio with the gain of ReLU."""
    for parameter in parameters:
        nn.init.xavier_normal_(parameter, gain=nn.init.calculate_gain("relu"))


def move_bias(layer: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Rename ``bias`` in a state dict of an older DGL to the bias of the layer's linear map."""
    if prefix + "bias" in state and not isinstance(layer.bias, Tensor):
        linear = "res_fc" if hasattr(layer, "res_fc") else "fc_self"
        state[f"{prefix}{linear}.bias"] = state.pop(prefix + "bias")
