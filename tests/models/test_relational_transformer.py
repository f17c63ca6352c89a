"""The Relational Transformer attends as the four masks of the paper's code, in packed contexts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs, models
from edgewise.models.relational_transformer import cell_graphs
from tests.errors import refused

SIZES = torch.tensor([5, 3, 1])
COLUMN = torch.tensor([0, 1, 2, 2, 3, 0, 1, 1, 0])
ROW = torch.tensor([0, 0, 1, 3, 3, 4, 4, 5, 6])
"""Row 2 has no cell."""
PARENT, CHILD = torch.tensor([0, 2, 0, 0, 1, 4, 4, 0]), torch.tensor([1, 1, 2, 3, 3, 5, 5, 3])
"""Row 5 refers to row 4, and row 3 to row 0, by two keys."""
KEYS = graphs.edges(torch.stack([PARENT, CHILD]), 7)


def masks() -> dict[str, Tensor]:
    """Dense masks of ``rt/model.py`` of the authors, within each context."""
    context = torch.arange(3).repeat_interleave(SIZES)
    same = context[:, None] == context
    parents = [CHILD.eq(row).nonzero()[:, 0] for row in ROW]
    refers = torch.stack([torch.isin(ROW, PARENT[at]) for at in parents])
    return {
        "column": same & (COLUMN[:, None] == COLUMN),
        "features": same & ((ROW[:, None] == ROW) | refers),
        "neighbours": same & refers.T,
        "context": same,
    }


def test_four_graphs_are_the_masks_of_the_paper() -> None:
    found = cell_graphs(COLUMN, ROW, KEYS, SIZES)
    for name, mask in masks().items():
        graph = getattr(found, name)
        assert torch.equal(graph.dense(), mask), name
        assert graph.num_edges == mask.sum()
        assert not graph.has_duplicates


def test_a_layer_is_attention_under_dense_masks() -> None:
    torch.manual_seed(0)
    model = models.relational_transformer(2, 3, 4, 6, width=8, heads=2, depth=2, ffn_dim=16)
    model = model.double().eval()
    x = torch.randn(9, 2, dtype=torch.double)
    cells = torch.stack([COLUMN, COLUMN + 1, ROW], dim=1)
    states = model.column(cells[:, 0]) + model.embedding(cells[:, 1])
    slope = model.slope(cells[:, 0]).view(9, 2, 8)
    states = states + slope[:, 0] * x[:, :1] + slope[:, 1] * x[:, 1:]
    for layer in model.layers:
        for name, mask in masks().items():
            sublayer = layer.sublayers[name]
            states = sublayer(states, graphs.from_dense(mask))
        states = layer.sublayers["feed_forward"](states)
    expected = model.head(model.norm(states[[0, 5, 8]]))
    out = model(x, cells, KEYS, batch=SIZES)
    torch.testing.assert_close(out, expected)
    alone = model(x[:5], cells[:5], graphs.edges(torch.stack([PARENT, CHILD])[:, :5], 4), batch=[5])
    torch.testing.assert_close(out[:1], alone)
    with ew.using_engine("reference"):
        torch.testing.assert_close(model(x, cells, KEYS, batch=SIZES), out)


def test_without_keys_no_cell_reads_another_row_by_a_key() -> None:
    found = cell_graphs(COLUMN, ROW, graphs.empty().bind(7), SIZES)
    assert found.neighbours.num_edges == 0
    assert torch.equal(found.features.dense(), ROW[:, None] == ROW)


@pytest.mark.parametrize("sizes", [[9, 0], [5, 3], [5, 5]])
def test_contexts_that_do_not_fit_are_refused(sizes: list[int]) -> None:
    model, cells = models.relational_transformer(2, 3, 4, 6), torch.stack([COLUMN, COLUMN, ROW], 1)
    with refused("batch", expected="", got="", remedy=""):
        model(torch.randn(9, 2), cells, KEYS, batch=sizes)
    with refused("cells", expected="sorted by row", got="[9, 3]", remedy="sort the cells"):
        model(torch.randn(9, 2), cells.flip(0), KEYS, batch=[9])
