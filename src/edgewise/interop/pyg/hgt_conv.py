"""``HGTConv``: attention over a graph with several types of nodes and edges, in one call."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch_geometric import nn

from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import attend
from edgewise.attention.biases import TableBias
from edgewise.graphs import Edges
from edgewise.interop.pyg.adjacency import graph_of
from edgewise.interop.pyg.drop_in import DropIn, or_pyg

EdgeType = tuple[str, str, str]


class HGTConv(DropIn, nn.HGTConv):  # type: ignore[misc]
    r"""PyG's ``HGTConv``, the heterogeneous graph Transformer (Hu et al., 2020).

    The score of an edge of type r is :math:`p_r\, q_i^\top K_r k_j / \sqrt D`; the factor p is a
    gain of one call of ``attend`` for all types.

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
        projected = {
            name: rows.unflatten(1, (3, self.heads, -1)).unbind(1)
            for name, rows in self.kqv_lin(x_dict).items()
        }
        query = torch.cat([rows[1] for rows in projected.values()])
        out = query.new_zeros(query.shape)
        if edge_index_dict:
            key, value = (
                torch.cat([self._by_type(projected[t[0]][i], t, maps) for t in edge_index_dict])
                for i, maps in ((0, self.k_rel), (2, self.v_rel))
            )
            graph, types = self._joined(projected, x_dict, edge_index_dict)
            priority = torch.cat([self.p_rel["__".join(t)] for t in edge_index_dict])
            out = attend(query, key, value, graph, gain=TableBias(types, priority))
        rows = out.flatten(1).split([len(x_dict[name]) for name in projected])
        outputs = {
            name: F.gelu(out)
            for name, out in zip(projected, rows, strict=True)
            if name in self.dst_node_types
        }
        return {name: self._skipped(name, x_dict, o) for name, o in self.out_lin(outputs).items()}

    def _weighted_maps(self) -> Iterable[Module]:
        return self.k_rel, self.v_rel

    def _by_type(self, rows: Tensor, edge_type: EdgeType, maps: nn.HeteroLinear) -> Tensor:
        """Map ``[N, H, D]`` by the matrices of an edge type, one for each head."""
        weight = maps.weight.unflatten(0, (self.heads, -1))[:, self.edge_types_map[edge_type]]
        return torch.einsum("nhd,hde->nhe", rows, weight)

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
    ) -> tuple[Edges, Tensor]:
        """Return the graph of all edges, and the number of the type of each edge.

        Its sources are numbered for each edge type, its targets for each node type.
        """
        starts, num_targets = {}, 0
        for name in names:
            starts[name] = num_targets
            num_targets += len(x_dict[name])
        graphs = [
            graph_of(index, x_dict[t[0]], x_dict[t[2]], None, self._forwards)
            for t, index in edge_index_dict.items()
        ]

        def make() -> tuple[Edges, Tensor]:
            start, indices = 0, []
            for graph, edge_type in zip(graphs, edge_index_dict, strict=True):
                indices.append(
                    torch.stack([graph.source + start, graph.target + starts[edge_type[2]]])
                )
                start += graph.num_sources
            counts = torch.tensor([graph.num_edges for graph in graphs])
            types = torch.arange(len(graphs)).repeat_interleave(counts).to(graphs[0].device)
            return Edges(torch.cat(indices, 1), num_targets, start), types

        key = ("joined", tuple(edge_index_dict), tuple(starts.items()), *graphs[1:])
        return graphs[0].cached(key, make)
