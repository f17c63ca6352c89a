"""Relational Transformer: attention over the cells of a database along columns, rows and keys.

Formula: h_i = c_i + S_i u_i + v_i, with the embeddings c_i, S_i of the column of cell i, v_i of its
    value, and its numbers u_i; each layer adds attention over four graphs and a gated network
Graph: the cells of the same column; of the same row and of the rows that it refers to; of the rows
    that refer to it; and all cells of the context
Score: ``Dot`` (scaled dot product)
Normalisation: softmax over the neighbourhood; RMS norm before each sublayer
Update: residual connections; the output is that of the first cell, whose value is masked
Paper: Ranjan et al., Relational Transformer: Toward zero-shot foundation models for relational
    data, 2026

The paper embeds the names of columns with a text encoder, and shares the model between databases.
Here each column of one database has a learned embedding.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError, counted
from edgewise._utils.ragged import ranges, segment_index, starts
from edgewise._utils.torch_internals import has_values
from edgewise.graphs import Graph, Intervals, Pattern, Permuted, Runs
from edgewise.graphs.graph import bind_graph
from edgewise.layers import (
    GatedFeedForward,
    GraphLayer,
    Membership,
    MultiHeadAttention,
    Residual,
    members_of,
)
from edgewise.layers.sparse import check_node_features
from edgewise.models.arguments import model_factory


class CellGraphs(NamedTuple):
    """Attention graphs of N cells, in the order in which a layer uses them."""

    column: Graph
    features: Graph
    neighbours: Graph
    context: Graph


def cell_graphs(column: Tensor, row: Tensor, keys: Graph, sizes: Tensor) -> CellGraphs:
    """Return the attention graphs of cells, without a list of the pairs of cells.

    Args:
        column, row: column and row of each cell, ``[N]``; the cells of a row follow each other.
        keys: graph of the rows: each row attends to the rows to which its foreign keys refer.
        sizes: number of cells of each context, ``[B]``.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> from edgewise.models.relational_transformer import cell_graphs
        >>> keys = graphs.edges(torch.tensor([[0], [1]]), 2)  # row 1 refers to row 0
        >>> column, row = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1])
        >>> cell_graphs(column, row, keys, torch.tensor([3])).features.dense().long()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [1, 1, 1]])
    """
    count, segments = len(row), (sizes, sizes)
    row_sizes = row.new_zeros(keys.num_targets).index_add_(0, row, torch.ones_like(row))
    itself = torch.arange(keys.num_targets, device=row.device).expand(2, -1)
    features = torch.cat([itself, keys.edge_index], dim=1)
    context = segment_index(sizes, count)
    # Cells of one column are consecutive in this order, so that their graph is made of intervals.
    order = column.argsort(stable=True)
    order = order[context[order].argsort(stable=True)]
    sorted_column, sorted_context = column[order], context[order]
    is_first = torch.ones_like(order, dtype=torch.bool)
    is_first[1:] = (sorted_column.diff() != 0) | (sorted_context.diff() != 0)
    group = is_first.cumsum(0) - 1
    first = is_first.nonzero()[:, 0]
    stop = torch.cat([first[1:], first.new_tensor([count])]) if count else first
    by_column = Intervals(first[group], stop[group], count, segments=segments)
    end = sizes.cumsum(0)
    return CellGraphs(
        Permuted(by_column, order, order),
        _between_rows(features, row_sizes, count, segments),
        _between_rows(keys.edge_index.flip(0), row_sizes, count, segments),
        Intervals((end - sizes)[context], end[context], count, segments=segments),
    )


def _between_rows(
    pairs: Tensor, row_sizes: Tensor, count: int, segments: tuple[Tensor, Tensor]
) -> Graph:
    """Return the graph in which the cells of a target row attend to those of its source rows."""
    num_rows, start = len(row_sizes), starts(row_sizes)
    # Two keys may refer to the same row, and a row to itself.
    distinct = (pairs[1] * num_rows + pairs[0]).unique()
    target, source = distinct // max(num_rows, 1), distinct % max(num_rows, 1)
    has_cells = row_sizes[source] > 0
    target, source = target[has_cells], source[has_cells]
    lengths = row_sizes[target]
    cell, pair = ranges(start[target], lengths), segment_index(lengths)
    order = cell.argsort(stable=True)
    source = source[pair[order]]
    first = start[source]
    stop = first + row_sizes[source]
    return Runs(cell[order], first, stop, count, count, segments=segments)


def _has_empty(members: Graph) -> bool:
    return bool((members.in_degree() == 0).any())


class RelationalLayer(GraphLayer):
    """Attention over each of four graphs, then a gated feed-forward network, all pre-norm."""

    def __init__(self, width: int, heads: int, ffn_dim: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        sublayers: dict[str, nn.Module] = {
            name: MultiHeadAttention(width, heads, dropout=dropout) for name in CellGraphs._fields
        }
        sublayers["feed_forward"] = GatedFeedForward(width, ffn_dim, dropout=dropout)
        self.sublayers = nn.ModuleDict(
            {
                name: Residual(sublayer, width, order="pre", norm="rms", dropout=dropout)
                for name, sublayer in sublayers.items()
            }
        )

    def forward(self, x: Tensor, graphs: CellGraphs) -> Tensor:
        """Return features ``[N, width]`` from x of the same shape."""
        for name, graph in graphs._asdict().items():
            x = self.sublayers[name](x, graph)
        out: Tensor = self.sublayers["feed_forward"](x)
        return out


class RelationalTransformer(nn.Module):
    """Relational Transformer, which predicts a masked cell of each context of cells.

    Called as ``model(x [N, in_width], cells [N, 3], graph, batch=sizes)`` for the cells of B
    contexts: numbers of each cell, such as its standardised value; column, value and row of each
    cell; and the graph of the rows, in which each row attends to the rows to which its foreign keys
    refer. The first cell of each context is the one to predict. The cells of a row follow each
    other, and rows are numbered in the order of their cells.

    Args:
        in_width: number of numbers per cell.
        out_width: number of outputs per context.
        num_columns: number of columns of all tables together.
        num_values: number of distinct values of all columns together: categories, and for each
            column one value for missing ones.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.relational_transformer(1, 2, num_columns=3, num_values=5)
        >>> keys = graphs.edges(torch.tensor([[0], [1]]), 2)  # row 1 refers to row 0
        >>> cells = torch.tensor([[0, 0, 0], [1, 2, 0], [2, 4, 1]])
        >>> model(torch.randn(3, 1), cells, keys, batch=[3]).shape
        torch.Size([1, 2])
    """

    def __init__(
        self,
        in_width: int,
        out_width: int,
        num_columns: int,
        num_values: int,
        *,
        width: int = 64,
        depth: int = 2,
        heads: int = 4,
        ffn_dim: int = 128,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.in_width = in_width
        self.column = nn.Embedding(num_columns, width)
        self.slope = nn.Embedding(num_columns, in_width * width)
        self.embedding = nn.Embedding(num_values, width)
        self.layers = nn.ModuleList(
            RelationalLayer(width, heads, ffn_dim, dropout=dropout) for _ in range(depth)
        )
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, out_width)

    def forward(
        self, x: Tensor, cells: Tensor, graph: Pattern | CellGraphs, *, batch: Membership = None
    ) -> Tensor:
        """Return outputs ``[B, out_width]``; B is 1 without ``batch``. The attention graphs may be
        computed before, by :func:`cell_graphs`, and passed in the place of the graph of the rows.

        Raises:
            ArgumentError: ``cells`` does not fit ``x``, the rows are not in order, or a context has
                no cell.
        """
        check_node_features(x, self.in_width, like=self.column.weight)
        fits = cells.shape == (len(x), 3)
        if not fits or (has_values(cells) and (cells[:, 2].diff() < 0).any()):
            raise ArgumentError(
                "cells",
                expected=f"column, value and row of each cell, [{len(x)}, 3], sorted by row",
                got=f"a tensor of shape {list(cells.shape)}",
                remedy="sort the cells by row, and give one row of x and of cells for each",
            )
        column, value, row = cells.unbind(1)
        members = members_of(x, batch)
        sizes = members.in_degree()
        if members.num_edges != len(x) or members.derived(_has_empty):
            raise ArgumentError(
                "batch",
                expected="contexts of at least one cell, with each cell in one of them",
                got=f"contexts of {sizes.tolist()[:8]} cells for {counted(len(x), 'cell')}",
                remedy="give the number of cells of each context",
            )
        if not isinstance(graph, CellGraphs):
            num_rows = int(row[-1]) + 1 if len(row) else 0
            if isinstance(graph, Graph):
                num_rows = max(num_rows, graph.num_targets)
            keys = bind_graph(graph, num_rows, num_rows, x.device)
            graph = cell_graphs(column, row, keys, sizes)
        slope = self.slope(column).unflatten(-1, (self.in_width, -1))
        states = self.column(column) + self.embedding(value) + (x[..., None] * slope).sum(-2)
        for layer in self.layers:
            states = layer(states, graph)
        out: Tensor = self.head(self.norm(states[starts(sizes)]))
        return out


relational_transformer = model_factory(RelationalTransformer, depth=0)
