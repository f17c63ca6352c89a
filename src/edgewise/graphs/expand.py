"""A graph of blocks, blown up: block-sparse attention (BigBird, Zaheer et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise.arguments import check_count
from edgewise.graphs.convert import check_graph
from edgewise.graphs.edges import Edges
from edgewise.graphs.graph import Graph, Pattern
from edgewise.graphs.intervals import Intervals
from edgewise.graphs.runs import Lists, graph_of, lists_of, runs_of_keys
from edgewise.ragged import runs_and_positions, starts


@dataclass(frozen=True, repr=False)
class Expand(Pattern):
    """Each node of ``blocks`` becomes ``size`` positions: all of block I read all of block J.

    Position i is in block ``i // size``, and the last block may be shorter. ``blocks`` is a pattern
    over the blocks, as in ``expand(window(1) | random(3), 64)``, or a graph of as many nodes as
    there are blocks, of which an edge counts once. Neighbouring blocks that are read are one run of
    sources, so that attention costs no more than the pairs: no edges are listed.
    """

    blocks: Pattern
    size: int

    def __post_init__(self) -> None:
        check_graph(self.blocks, "blocks")
        check_count("size", self.size, 1, "pass how many consecutive nodes a block has")

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
        like = Intervals(block, block, num_sources)  # of these sizes
        return graph_of(whole, like, None)


def _runs_of(blocks: Graph) -> Lists:
    """What each block reads, as runs of neighbouring blocks, ordered by block."""
    lists = lists_of(blocks)
    if lists is not None and lists.step == 1:
        return lists
    listed = Edges(blocks.edge_index, blocks.num_targets, blocks.num_sources).unique()
    keys = listed.target * max(blocks.num_sources, 1) + listed.source
    return runs_of_keys(keys, blocks.num_sources)
