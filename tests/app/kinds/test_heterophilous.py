"""The published splits of minesweeper and tolokers."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from edgewise.app.kinds.nodes import Heterophilous
from edgewise.app.train.tasks.classification import Classification
from tests.errors import refused
from tests.places import needs


@needs("heterophilous")
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "width"),
    [("minesweeper", 10_000, 78_804, 7), ("tolokers", 11_758, 1_038_000, 10)],
)
def test_the_graph_and_its_splits(name, nodes, edges, width) -> None:
    folds = [Heterophilous(name, fold).load() for fold in (0, 9)]
    first = folds[0]
    assert first.model_arguments == {"in_width": width, "out_width": 1}
    tests = []
    for splits in folds:
        batches = [next(iter(loader)) for loader in splits.loaders(0).values()]
        x, graph = batches[0].inputs
        assert (len(x), graph.num_edges) == (nodes, edges)
        assert torch.equal(graph.in_degree(), graph.out_degree())
        for a, b in combinations(batches, 2):
            assert not torch.isin(a.select, b.select).any()
        assert sum(len(batch.target) for batch in batches) == nodes
        tests.append(batches[-1].select)
    assert not torch.equal(*tests)
    metrics = Classification().with_targets(first.targets).metrics()
    assert "roc_auc" in metrics


def test_there_are_ten_splits() -> None:
    for wrong in ({"fold": 10}, {"fold": -1}, {"folds": 11}, {"folds": 3, "fold": 3}):
        with refused(
            "data.fold, data.folds", expected="up to 10", got="data.fold", remedy="0 to 9"
        ):
            Heterophilous(**wrong)
