"""Features of whole graphs for trees and linear models: counts of node neighbourhoods.

As in Morgan fingerprints, a neighbourhood of radius r is represented by the color of a node after r
steps of Weisfeiler–Lehman refinement with edge types (Rogers and Hahn, Extended-connectivity
fingerprints, 2010). The first color is a hash of those node features that are integers. Further
features of a graph are the sums and means of its other node features, and the conditions and
descriptors in the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from edgewise.app.train.batches import Batch
from edgewise.graphs import Graph

RADIUS = 2
COUNTS = 2048  # Maximum number of neighbourhoods to count, those in most training graphs first.
LEAST = 3  # Minimum number of training graphs in which a neighbourhood must occur.
MIXERS = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
"""Odd multipliers of the hash function of splitmix64 (Steele et al., 2014)."""


class NeighbourhoodCounts(nn.Module):
    """Counts of neighbourhoods and further features of graphs, called as a graph model is.

    Args:
        known: sorted colors of the counted neighbourhoods, ``[K]``.
        is_integer: node features that determine the first color, ``[F]``.
        kept: columns of the result, ``[C]``, without columns that are equal in training.
    """

    known: Tensor
    is_integer: Tensor
    kept: Tensor

    def __init__(self, known: Tensor, is_integer: Tensor, kept: Tensor) -> None:
        super().__init__()
        for name, buffer in (("known", known), ("is_integer", is_integer), ("kept", kept)):
            self.register_buffer(name, buffer, persistent=False)

    @classmethod
    def fit(cls, batches: Sequence[Batch]) -> NeighbourhoodCounts:
        """Choose the most frequent neighbourhoods and the distinct columns in training batches."""
        x = torch.cat([batch.inputs[0] for batch in batches])
        counts = cls(torch.empty(0, dtype=torch.long), (x == x.round()).all(0), torch.empty(0))
        graph_counts: dict[int, int] = {}
        for batch in batches:
            colors, graph, _ = counts.table(*batch.inputs, **batch.keywords)
            pairs = torch.stack([graph.repeat(RADIUS + 1), colors.T.flatten()])
            for color in pairs.unique(dim=1)[1].tolist():
                graph_counts[color] = graph_counts.get(color, 0) + 1
        least = min(LEAST, sum(len(batch.target) for batch in batches))
        common = sorted(
            (c for c in graph_counts if graph_counts[c] >= least),
            key=lambda c: (-graph_counts[c], c),
        )
        counts.known = torch.tensor(common[:COUNTS], dtype=torch.long).sort().values
        rows = [counts.all_columns(*batch.inputs, **batch.keywords).numpy() for batch in batches]
        # With few molecules, many columns are equal; trees would spend half of their time on them.
        distinct = np.unique(np.concatenate(rows), axis=1, return_index=True)[1]
        counts.kept = torch.from_numpy(np.sort(distinct))
        return counts

    def forward(self, x: Tensor, graph: Graph, **keywords: Any) -> Tensor:
        """Return features ``[B, C]`` of the graphs of a batch."""
        return self.all_columns(x, graph, **keywords)[:, self.kept]

    def table(
        self, x: Tensor, graph: Graph, *, batch: Graph, **keywords: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return colors of nodes ``[N, RADIUS + 1]``, the graph of each node ``[N]``, and the
        further features of the graphs ``[B, K]``.
        """
        # Rows with the same molecule share its nodes, so features are gathered by membership.
        node, of_node = batch.edge_index
        colors = neighbourhoods(x[:, self.is_integer], graph.edge_index, keywords.get("edge_attr"))[
            node
        ]
        real = x[node][:, ~self.is_integer]
        count = batch.num_targets
        size = torch.bincount(of_node, minlength=count)[:, None]
        total = real.new_zeros(count, real.shape[1]).index_add(0, of_node, real)
        graph_features = [keywords[n] for n in ("global_attr", "descriptors") if n in keywords]
        other = torch.cat([size, total, total / size.clamp(min=1), *graph_features], dim=1)
        return colors, of_node, other

    def all_columns(self, x: Tensor, graph: Graph, **keywords: Any) -> Tensor:
        """Return the further features and all counts."""
        colors, of_node, other = self.table(x, graph, **keywords)
        if not len(self.known):
            return other
        column = torch.searchsorted(self.known, colors).clamp(max=len(self.known) - 1)
        is_counted = self.known[column] == colors
        count = torch.zeros(len(other), len(self.known), device=x.device)
        graph_index = of_node[:, None].expand_as(column)[is_counted]
        ones = torch.ones(len(graph_index), device=x.device)
        count.index_put_((graph_index, column[is_counted]), ones, accumulate=True)
        return torch.cat([other, count], dim=1)


def neighbourhoods(x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> Tensor:
    """Return the Weisfeiler–Lehman colors of each node after 0 to :data:`RADIUS` steps. Colors of
    different neighbourhoods differ, except for collisions of 64-bit hashes.
    """
    color = _row_hash(x.long())
    kind = 0 if edge_attr is None else _row_hash((1000 * edge_attr).round().long())
    source, target = edge_index
    colors = [color]
    for _ in range(RADIUS):
        received = _mixed(color[source] + kind)
        color = _mixed(3 * color + torch.zeros_like(color).index_add(0, target, received))
        colors.append(color)
    return torch.stack(colors, dim=1)


def _row_hash(rows: Tensor) -> Tensor:
    """Return a hash of each row of integers, ``[N]``."""
    weight = _mixed(torch.arange(1, rows.shape[1] + 1, device=rows.device))
    return _mixed((rows * weight).sum(1))


def _mixed(value: Tensor) -> Tensor:
    """Return a hash of each 64-bit integer. The arithmetic overflows on purpose."""
    for multiplier in MIXERS:
        value = (value ^ (value >> 29)) * (multiplier - 2**64)
    return value ^ (value >> 32)
