"""Link prediction on scores that can be ranked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from edgewise.app.kinds.links import LinkPrediction
from edgewise.app.kinds.links import task as link_prediction
from edgewise.app.train.batches import LinkBatch
from tests.errors import refused

SCORES = torch.tensor([3.0, 1.0, 0.0, 2.0, 1.0, -1.0])
TARGET = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
# Non-edges above each edge, with half of those beside it: 0, 1.5, 2.


def measured(scores, target, **fields):
    pytest.importorskip("torchmetrics")
    metrics = LinkPrediction(**fields).metrics()
    for metric in metrics.values():
        for piece in range(0, len(scores), 4):
            metric.update(scores[piece : piece + 4], target[piece : piece + 4])
    return {name: float(metric.compute()) for name, metric in metrics.items()}


def test_loss():
    loss = LinkPrediction().loss(torch.tensor([0.0, math.log(3)]), torch.tensor([1.0, 0.0]))
    assert float(loss) == pytest.approx(-(math.log(1 / 2) + math.log(1 / 4)) / 2)


def test_ranks():
    found = measured(SCORES, TARGET, hits=2)
    assert found["auc"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert found["mrr"] == pytest.approx((1 + 1 / 2.5 + 1 / 3) / 3)
    assert found["hits@2"] == pytest.approx(1 / 3), "above 1.0, the second best of 2, 1, -1"
    assert measured(SCORES, TARGET, hits=3)["hits@3"] == 1
    assert measured(SCORES, TARGET, hits=4)["hits@4"] == 1, "there are only three non-edges"


def test_auc_is_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    scores, target = torch.randn(200).round(decimals=1), (torch.rand(200) < 0.3).float()
    expected = metrics.roc_auc_score(target, scores)
    assert measured(scores, target)["auc"] == pytest.approx(expected, abs=1e-12)


def test_scores_that_tell_nothing():
    found = measured(torch.zeros(10), torch.tensor([1.0, 0.0] * 5), hits=1)
    assert found == {"auc": 0.5, "hits@1": 0.0, "mrr": pytest.approx(1 / 3.5)}


def proposals(left, right, known, links, scores, **fields):
    """Return the nodes with links, their proposed neighbours, and the recall."""
    metric = pytest.importorskip("torchmetrics") and LinkPrediction(**fields).generation_metrics()
    pairs = torch.tensor(links).T
    batch = LinkBatch(
        (pairs, None), torch.ones(len(links)), known=torch.tensor(known).T, left=left, right=right
    )
    found = LinkPrediction(**fields).generate(lambda asked, _graph: scores[tuple(asked)], batch)
    (recall,) = metric.values()
    recall.update(found, batch)
    best = dict(zip(found[0].tolist(), found[1].tolist(), strict=True))
    return best, float(recall.compute())


def test_recall_ranks_all_nodes_without_a_known_link():
    """Scores fall with the number of the node; node 4 has no held-out link."""
    scores = -torch.arange(5.0).expand(5, 5)
    best, recall = proposals(range(5), range(5), [[0, 1], [2, 4]], [[0, 2], [1, 3]], scores, k=2)
    assert best == {0: [2, 3], 1: [2, 3], 2: [0, 1], 3: [0, 1]}
    assert recall == 1
    _, recall = proposals(range(5), range(5), [[0, 1], [2, 4]], [[0, 2], [0, 4]], scores, k=1)
    assert recall == pytest.approx((1 / 2 + 1 + 1) / 3)


def test_recall_with_two_node_types_ranks_the_other_type():
    best, _ = proposals(range(2), range(2, 5), [[0, 2]], [[0, 4], [1, 2]], torch.zeros(5, 5), k=2)
    assert set(best[0]) == {3, 4}
    assert set(best[4]) == {0, 1}
    assert best[2][0] == 1, "0 is known"


def test_recall_samples_nodes_of_large_graphs(monkeypatch):
    monkeypatch.setattr(link_prediction, "RANKED", 10)
    monkeypatch.setattr(link_prediction, "CHUNK", 5)
    links = [[0, 1], [2, 3]]
    best, recall = proposals(range(5), range(5), [[0, 4]], links, torch.eye(5), k=3)
    assert len(best) == 2
    assert 0 < recall <= 1


def test_bad_field():
    with refused("task.hits", expected="at least 1", got="0", remedy="50"):
        LinkPrediction(hits=0)
    with refused("task.k", expected="at least 1", got="0", remedy="10"):
        LinkPrediction(k=0)
