"""``PNAConv``: several statistics of the messages, scaled by functions of the degree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch_geometric import nn

from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import aggregate
from edgewise.graphs import Graph, incidence
from edgewise.interop.pyg.adjacency import EdgeShapeError, edge_features
from edgewise.interop.pyg.drop_in import DropIn, as_pair, or_pyg, projected
from edgewise.layers.sparse import check_node_features

STATISTICS = ("sum", "mean", "min", "max", "var", "std")
SMALLEST_VARIANCE = 1e-5  # PyG's value


class PNAConv(DropIn, nn.PNAConv):  # type: ignore[misc]
    r"""PyG's ``PNAConv``, :math:`U(x_i, \bigoplus_j M(x_i, x_j, e_{ij}))` (Corso et al., 2020).

    Mean, variance and standard deviation need one call, maximum and minimum another. The first
    linear layer of M is applied to nodes, not to edges; with ``pre_layers=1`` and without edge
    features, no message is stored.

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import PNAConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> layer = PNAConv(16, 8, ["mean", "std"], ["identity", "linear"], torch.tensor([0, 3]))
        >>> layer(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 8])
    """

    aggr: Any = None  # The statistics are in ``aggr_module``.

    @or_pyg
    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        """Return ``[N, out_channels]``; edge features are ``[E, edge_dim]``."""
        nodes, _ = as_pair((x, None))
        graph = self._graph(edge_index, (nodes, nodes))
        check_node_features(nodes, self.in_channels, like=next(self.lin.parameters()))
        names = self._statistics()
        if self.divide_input:
            towers = nodes.unflatten(-1, (self.towers, self.F_in))
        else:
            towers = nodes[:, None].expand(-1, self.towers, -1)
        source, target, edges = self._first_layer(towers, edge_index, edge_attr)
        rest = [network[1:] for network in self.pre_nns]
        if len(rest[0]):
            messages = graph.gather_source(source, -3) + graph.gather_target(target, -3)
            messages = messages if edges is None else messages + edges
            messages = torch.stack([f(messages[:, i]) for i, f in enumerate(rest)], 1)
            out = statistics(messages, incidence(graph), names)
        elif edges is not None:
            messages = graph.gather_source(source, -3) + edges
            out = statistics(messages, incidence(graph), names, target)
        else:
            out = statistics(source, graph, names, target)
        out = torch.cat([towers, self._scaled(out, graph)], dim=-1)
        joined = torch.cat([f(out[:, i]) for i, f in enumerate(self.post_nns)], dim=1)
        result: Tensor = self.lin(joined)
        return result

    def _weighted_maps(self) -> Iterable[Module]:
        return (network[0] for network in self.pre_nns)

    def _statistics(self) -> list[str]:
        """Return the names of the statistics; raise ArgumentError for others."""
        aggregation = self.aggr_module.aggr
        members = getattr(aggregation, "aggrs", [aggregation])
        names = [type(m).__name__.removesuffix("Aggregation").lower() for m in members]
        is_plain = getattr(aggregation, "mode", "cat") == "cat" and not any(
            getattr(getattr(m, "var_aggr", m), "semi_grad", False) for m in members
        )
        if not is_plain or not set(names) <= set(STATISTICS):
            raise ArgumentError(
                "aggregators",
                expected=f"names of {', '.join(STATISTICS)}",
                got=", ".join(map(str, members)),
                remedy="use torch_geometric.nn.PNAConv",
            )
        return names

    def _first_layer(
        self, towers: Tensor, adjacency: Tensor, edge_attr: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the terms of source, target and edge in the first layer of M, ``[..., T, F]``."""
        linears = [network[0] for network in self.pre_nns]
        weight = torch.stack([linear.weight for linear in linears]).split(self.F_in, dim=2)
        target, source = (torch.einsum("ntf,tgf->ntg", towers, w) for w in weight[:2])
        target = target + torch.stack([linear.bias for linear in linears])
        width = self.edge_dim
        features = edge_features(adjacency, edge_attr, width)
        if (features is None) != (width is None):
            raise EdgeShapeError(
                "edge_attr",
                expected="None, because the layer has no edge_dim"
                if width is None
                else f"features [E, {width}]",
                got="None" if features is None else f"features of width {features.shape[-1]}",
                remedy="build the layer with edge_dim if there are edge features",
            )
        if features is None:
            return source, target, None
        edges = projected(self.edge_encoder, features, "edge_attr")
        return source, target, F.linear(edges, weight[2].flatten(0, 1)).view(-1, *source.shape[1:])

    def _scaled(self, out: Tensor, graph: Graph) -> Tensor:
        """Return the statistics times each scaler, along the last axis."""
        scalers = self.aggr_module
        degree = graph.in_degree().to(out.dtype)[:, None, None]
        factors: dict[str, Callable[[], Any]] = {
            "identity": lambda: 1,
            "amplification": lambda: (degree + 1).log() / scalers.avg_deg_log,
            "attenuation": lambda: scalers.avg_deg_log / (degree.clamp(min=1) + 1).log(),
            "linear": lambda: degree / scalers.avg_deg_lin,
            "inverse_linear": lambda: scalers.avg_deg_lin / degree.clamp(min=1),
        }
        return torch.cat([out * factors[name]() for name in scalers.scaler], dim=-1)


def statistics(
    x: Tensor, graph: Graph, names: Sequence[str], shift: Tensor | None = None
) -> Tensor:
    """Reduce x ``[N_src, T, F]``, plus the target's ``shift``, to ``[N_dst, T, len(names) F]``.

    Targets without sources get zeros.
    """
    needed, results = set(names), {}
    if needed & {"min", "max"}:
        # One pass computes both, because the minimum of x is the negative maximum of -x.
        both = torch.cat([x, -x], dim=-1) if "min" in needed else x
        largest = aggregate(both, graph, reduce="max").split(x.shape[-1], dim=-1)
        results["max"], results["min"] = largest[0], -largest[-1]
    if needed & {"sum", "mean", "var", "std"}:
        powers = torch.cat([x, x * x], dim=-1) if needed & {"var", "std"} else x
        means = aggregate(powers, graph, reduce="mean").split(x.shape[-1], dim=-1)
        results["mean"] = means[0]
        results["var"] = means[-1] - means[0] * means[0]
        results["std"] = _root(results["var"])
    degree = graph.in_degree().to(x.dtype)[:, None, None]
    if shift is not None:
        shift = shift * (degree > 0)
        results |= {n: results[n] + shift for n in ("max", "min", "mean") if n in results}
    if "sum" in needed:
        results["sum"] = results["mean"] * degree
    return torch.cat([results[name] for name in names], dim=-1)


def _root(variance: Tensor) -> Tensor:
    """Return the standard deviation, 0 with gradient 0 for variances of at most 1e-5, as in PyG."""
    root = variance.clamp(min=SMALLEST_VARIANCE).sqrt()
    return root.masked_fill(root <= math.sqrt(SMALLEST_VARIANCE), 0.0)
