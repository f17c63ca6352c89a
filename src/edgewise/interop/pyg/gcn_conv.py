"""``GCNConv``: a sum over neighbours, weighted by the degrees of both nodes of an edge."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric import nn
from torch_geometric.utils import is_torch_sparse_tensor

from edgewise._utils.errors import ArgumentError
from edgewise.graphs import Graph
from edgewise.interop.pyg.adjacency import edge_weights, fresh_loops
from edgewise.interop.pyg.drop_in import DropIn, as_pair, or_pyg, projected
from edgewise.layers import symmetric_weight


class GCNConv(DropIn, nn.GCNConv):  # type: ignore[misc]
    r"""PyG's ``GCNConv``, :math:`\hat D^{-1/2} \hat A \hat D^{-1/2} X W` (Kipf and Welling, 2017).

    Without ``edge_weight``, the normalised weights of a graph are computed once. With
    ``edge_weight``, they are differentiable, and computed in every call unless ``cached=True``.

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import GCNConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> GCNConv(16, 8)(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 8])
    """

    @or_pyg
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return ``[..., N, out_channels]`` from x ``[..., N, in_channels]``."""
        if not isinstance(x, Tensor):
            raise ArgumentError(
                "x",
                expected="one tensor of features; GCNConv does not support bipartite graphs",
                got=type(x).__name__,
                remedy="use SAGEConv or GATConv, which take (x_source, x_target)",
            )
        cached = self._cached_edge_index if self.normalize else None
        edge_index, edge_weight = (edge_index, edge_weight) if cached is None else cached
        graph = self._graph(edge_index, as_pair(x, batched=True))
        edge_weight = edge_weights(edge_index, edge_weight, next(self.lin.parameters()))
        if self.normalize and cached is None:
            graph, edge_weight = self._normalise(
                graph, edge_weight, x.dtype, is_torch_sparse_tensor(edge_index)
            )
        out = self._reduced(projected(self.lin, x), graph, edge_weight)
        return out if self.bias is None else out + self.bias

    def _normalise(
        self, graph: Graph, weight: Tensor | None, dtype: torch.dtype, adds: bool
    ) -> tuple[Graph, Tensor]:
        """Return the graph with self-loops, and normalised weights; store both if ``cached``."""
        fill = (2.0 if self.improved else 1.0) if self.add_self_loops else None

        def of_the_graph() -> tuple[Graph, Tensor]:
            # Without edge weights, PyG gives self-loops the weight 1, also with ``improved=True``.
            ones = torch.ones(graph.num_edges, dtype=torch.double, device=graph.device)
            looped, weights = _with_loops(graph, ones, fill and 1.0, adds)
            return looped, symmetric_weight(looped, weights).to(dtype)

        if weight is None:
            graph, weight = graph.cached(("gcn", self.add_self_loops, dtype), of_the_graph)
        else:
            graph, weight = _with_loops(graph, weight, fill, adds)
            weight = symmetric_weight(graph, weight)
        if self.cached:
            index = graph.edge_index
            self._cached_edge_index = (index if self._forwards else index.flip(0), weight)
        return graph, weight


def _with_loops(
    graph: Graph, weight: Tensor, fill: float | None, adds: bool
) -> tuple[Graph, Tensor]:
    """Give each node one self-loop; an existing one keeps its weight, or adds it to ``fill``."""
    if fill is None:
        return graph, weight
    looped, others, loops = fresh_loops(graph)
    added = weight.new_full((graph.num_targets,), fill)
    added = added.index_put((graph.source[loops],), weight[loops], accumulate=adds)
    return looped, torch.cat([weight[others], added])
