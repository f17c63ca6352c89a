"""Block-sparse attention (BigBird, Zaheer et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise._utils.arguments import check_range
from edgewise._utils.ragged import runs_and_positions, starts
from edgewise.graphs.graph import (
    Edges,
    Graph,
    Pattern,
    check_graph,
    graph_of_runs,
    runs_of,
)
from edgewise.graphs.run_lists import RunList, runs_of_keys


@dataclass(frozen=True, repr=False)
class Expand(Pattern):
    """Block-sparse attention, given by a small pattern in which each node is a block of positions.

    ``expand(window(1) | random(3), 64)`` lets each block of 64 positions attend to itself, both
    neighbouring blocks and 3 random blocks. The last block may be shorter. Only intervals of
    sources are stored. ``blocks`` may also be a graph with one node per block.

    Example:
        >>> from edgewise import graphs
        >>> graphs.expand(graphs.causal(), 2).bind(4).dense().long()
        tensor([[1, 1, 0, 0],
                [1, 1, 0, 0],
                [1, 1, 1, 1],
                [1, 1, 1, 1]])
    """

    blocks: Pattern
    size: int

    def __post_init__(self) -> None:
        check_graph(self.blocks, "blocks")
        check_range("size", self.size, "pass the number of nodes in a block", least=1, integer=True)

    def _build(self, num_targets: int, num_sources: int) -> Graph:
        ahead = self._sources_ahead(num_targets, num_sources)
        first = ahead // self.size
        last = -(-num_sources // self.size)
        blocks = self.blocks.bind(last - first if num_targets else 0, last)
        position = torch.arange(num_targets, device=blocks.device) + ahead
        block = torch.div(position, self.size, rounding_mode="floor")
        runs = _block_runs(blocks)
        count = runs.row.new_zeros(blocks.num_targets)
        count.index_add_(0, runs.row, torch.ones_like(runs.row))
        row, rank = runs_and_positions(count[block - first])
        run = starts(count)[block[row] - first] + rank
        start = runs.start[run] * self.size
        stop = (runs.stop[run] * self.size).clamp_(max=num_sources)
        return graph_of_runs(RunList(row, start, stop, 1), num_targets, num_sources)


def _block_runs(blocks: Graph) -> RunList:
    """Return the edges between blocks as ranges of consecutive source blocks, sorted by target."""
    runs = runs_of(blocks)
    if runs is not None and runs.step == 1:
        return runs
    listed = Edges(blocks.edge_index, blocks.num_targets, blocks.num_sources).unique()
    keys = listed.target * max(blocks.num_sources, 1) + listed.source
    return runs_of_keys(keys, blocks.num_sources)
