"""``HGTConv``: attention over a graph with several types of nodes and edges, in one call."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch_geometric import nn

from edgewise._utils.errors import ArgumentError
from edgewise.graphs import TypedGraph
from edgewise.interop.pyg.adjacency import graph_of
from edgewise.interop.pyg.drop_in import DropIn, or_pyg
from edgewise.layers import attend_relations

EdgeType = tuple[str, str, str]


class HGTConv(DropIn, nn.HGTConv):  # type: ignore[misc]
    r"""PyG's ``HGTConv``, the heterogeneous graph Transformer (Hu et al., 2020).

    The score of an edge of type r is :math:`p_r\, q_i^\top K_r k_j / \sqrt D`; one call of
    ``attend`` computes all types. A source is mapped once for each type with edges from it.

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import HGTConv
        >>> metadata = (["paper", "author"], [("author", "writes", "paper")])
        >>> x = {"paper": torch.randn(3, 16), "author": torch.randn(2, 16)}
        >>> edge_index = {("author", "writes", "paper"): torch.tensor([[0, 1, 1], [0, 1, 2]])}
        >>> HGTConv(16, 8, metadata, heads=2)(x, edge_index)["paper"].shape
        torch.Size([3, 8])
    """

    @or_pyg
    def forward(
        self, x_dict: dict[str, Tensor], edge_index_dict: dict[EdgeType, Tensor]
    ) -> dict[str, Tensor | None]:
        """Return features ``[N, out_channels]`` of each node type that is a target."""
        for edge_type in edge_index_dict:
            if edge_type not in self.edge_types_map or not {edge_type[0], edge_type[2]} <= {
                *x_dict
            }:
                raise ArgumentError(
                    "edge_index_dict",
                    expected=f"edge types of {self.edge_types}, with features of their nodes",
                    got=f"{edge_type}, with features of {', '.join(x_dict)}",
                    remedy="build the layer with data.metadata(), and pass features of all types",
                )
        projected = self.kqv_lin(x_dict)
        rows = torch.cat([*projected.values()]).unflatten(1, (3, self.heads, -1))
        key, query, value = rows.unbind(1)
        out = query.new_zeros(query.shape)
        if edge_index_dict:
            out = attend_relations(
                query,
                key,
                value,
                self._joined(projected, x_dict, edge_index_dict),
                key_weight=self._maps(self.k_rel, edge_index_dict),
                value_weight=self._maps(self.v_rel, edge_index_dict),
                priority=torch.cat([self.p_rel["__".join(t)] for t in edge_index_dict]),
            )
        outs = out.flatten(1).split([len(x_dict[name]) for name in projected])
        outputs = {
            name: F.gelu(out)
            for name, out in zip(projected, outs, strict=True)
            if name in self.dst_node_types
        }
        return {name: self._skipped(name, x_dict, o) for name, o in self.out_lin(outputs).items()}

    def _weighted_maps(self) -> Iterable[Module]:
        return self.k_rel, self.v_rel

    def _maps(self, linear: nn.HeteroLinear, edge_types: Iterable[EdgeType]) -> Tensor:
        """Return the matrices ``[R, H, D, D]`` of some edge types."""
        weight: Tensor = linear.weight.unflatten(0, (self.heads, -1))
        return weight.transpose(0, 1)[[self.edge_types_map[t] for t in edge_types]]

    def _skipped(self, name: str, x_dict: dict[str, Tensor], out: Tensor) -> Tensor:
        if out.shape[-1] != x_dict[name].shape[-1]:
            return out
        alpha = self.skip[name].sigmoid()
        mixed: Tensor = alpha * out + (1 - alpha) * x_dict[name]
        return mixed

    def _joined(
        self,
        names: Iterable[str],
        x_dict: dict[str, Tensor],
        edge_index_dict: dict[EdgeType, Tensor],
    ) -> TypedGraph:
        """Return the typed graph of all edges, with the nodes of all types in this order."""
        starts, count = {}, 0
        for name in names:
            starts[name] = count
            count += len(x_dict[name])
        graphs = [
            graph_of(index, x_dict[t[0]], x_dict[t[2]], None, self._forwards)
            for t, index in edge_index_dict.items()
        ]

        def make() -> TypedGraph:
            index = torch.cat(
                [
                    torch.stack([graph.source + starts[t[0]], graph.target + starts[t[2]]])
                    for graph, t in zip(graphs, edge_index_dict, strict=True)
                ],
                dim=1,
            )
            counts = torch.tensor([graph.num_edges for graph in graphs])
            types = torch.arange(len(graphs)).repeat_interleave(counts).to(index.device)
            return TypedGraph(index, count, count, types, tuple(edge_index_dict))

        key = ("joined", tuple(edge_index_dict), tuple(starts.items()), *graphs[1:])
        return graphs[0].cached(key, make)
