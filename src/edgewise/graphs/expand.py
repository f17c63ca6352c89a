"""Block-sparse attention (BigBird, Zaheer et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise._utils.arguments import check_range
from edgewise._utils.ragged import runs_and_positions, starts
from edgewise.graphs.convert import check_graph
from edgewise.graphs.edges import Edges
from edgewise.graphs.graph import Graph, Pattern
from edgewise.graphs.intervals import Intervals
from edgewise.graphs.runs import Lists, graph_of, lists_of, runs_of_keys


@dataclass(frozen=True, repr=False)
class Expand(Pattern):
    """Block-sparse attention, given by a small pattern in which each node is a block of positions.

    ``expand(window(1) | random(3), 64)`` lets each block of 64 positions attend to itself, both
    neighbouring blocks and 3 random blocks. Position i is in block ``i // size``; the last block
    may be shorter. ``blocks`` is a pattern, or a graph with one node per block; duplicate edges of
    this graph have no effect. The edges between positions are not stored, only intervals of
    sources.

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
        lists = _runs_of(blocks)
        number = lists.row.new_zeros(blocks.num_targets)
        number.index_add_(0, lists.row, torch.ones_like(lists.row))
        begin = starts(number)
        row, rank = runs_and_positions(number[block - first])
        run = begin[block[row] - first] + rank
        start, stop = lists.start[run] * self.size, lists.stop[run] * self.size
        whole = Lists(row, start, stop.clamp_(max=num_sources), 1)
        like = Intervals(block, block, num_sources)
        return graph_of(whole, like, None)


def _runs_of(blocks: Graph) -> Lists:
    """Return the edges between blocks as ranges of consecutive source blocks, sorted by target.

    Args:
        blocks: graph with one node per block.
    """
    lists = lists_of(blocks)
    if lists is not None and lists.step == 1:
        return lists
    listed = Edges(blocks.edge_index, blocks.num_targets, blocks.num_sources).unique()
    keys = listed.target * max(blocks.num_sources, 1) + listed.source
    return runs_of_keys(keys, blocks.num_sources)
