"""Graphs on ``torch.device("meta")``, which have shapes but no data."""

from __future__ import annotations

import torch

from edgewise.graphs.edges import Edges
from edgewise.graphs.graph import OPERATIONS, Graph


class MetaGraph(Edges):
    """Copy on ``torch.device("meta")`` of the graph ``numbered``, whose edges have values."""

    def __init__(self, numbered: Graph) -> None:
        edge_index = torch.empty(2, numbered.num_edges, dtype=torch.long, device="meta")
        super().__init__(edge_index, numbered.num_targets, numbered.num_sources)
        self.numbered = numbered

    @property
    def has_duplicates(self) -> bool:
        return self.numbered.has_duplicates

    def transpose(self) -> Graph:
        return self.numbered.transpose().to("meta")

    def with_self_loops(self) -> Graph:
        return self.numbered.with_self_loops().to("meta")

    def without_self_loops(self) -> Graph:
        return self.numbered.without_self_loops().to("meta")

    def power(self, k: int) -> Graph:
        return self.numbered.power(k).to("meta")

    def _moved(self, device: torch.device) -> Graph:
        return self.numbered.to(device)


OPERATIONS.update(meta=MetaGraph)
