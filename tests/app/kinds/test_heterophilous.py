"""The published splits of minesweeper and tolokers."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

import edgewise
from edgewise.app import runs
from edgewise.app.kinds import find
from edgewise.app.kinds.nodes import Heterophilous
from edgewise.app.kinds.nodes.heterophilous import CLASSES
from edgewise.app.train.tasks.classification import Classification
from tests.errors import refused
from tests.places import needs


@needs("heterophilous")
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "width"),
    [
        ("minesweeper", 10_000, 78_804, 7),
        pytest.param("tolokers", 11_758, 1_038_000, 10, marks=pytest.mark.slow),
    ],
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


@needs("heterophilous")
@pytest.mark.slow
def test_a_run_predicts_the_class_of_a_node(tmp_path) -> None:
    values = {"trainer.epochs": 1, "model.depth": 1, "model.width": 4}
    runs.train(runs.with_values(find("gcn-minesweeper"), values), tmp_path / "run")
    run = edgewise.load(tmp_path / "run")
    answers = run.predict(["0", "9999"])
    logits = run.predictor.all_outputs[[0, 9999], 0]
    for answer, chance in zip(answers, logits.sigmoid().tolist(), strict=True):
        assert answer["P(class=mine)"] == pytest.approx(chance)
        assert answer["class"] == CLASSES["minesweeper"][chance > 0.5]
