"""Cross-entropy and accuracy, on numbers that can be checked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from edgewise.app.files.targets import Target
from edgewise.app.train import Classification
from tests.errors import refused

OUTPUTS = torch.tensor([[0.0, math.log(3)], [math.log(3), 0.0]])  # shares 1/4, 3/4
TARGET = torch.tensor([1, 1])


def test_loss():
    expected = -(math.log(3 / 4) + math.log(1 / 4)) / 2
    assert float(Classification().loss(OUTPUTS, TARGET)) == pytest.approx(expected)


def test_smoothed_loss():
    right, wrong = -math.log(3 / 4), -math.log(1 / 4)
    smoothed = (0.9 * right + 0.1 * wrong + 0.9 * wrong + 0.1 * right) / 2
    loss = Classification(label_smoothing=0.2).loss(OUTPUTS, TARGET)
    assert float(loss) == pytest.approx(smoothed)


def test_class_weights_are_those_of_scikit_learn():
    numpy, utils = pytest.importorskip("numpy"), pytest.importorskip("sklearn.utils.class_weight")
    labels = [0, 0, 0, 1]
    weights = utils.compute_class_weight("balanced", classes=numpy.array([0, 1]), y=labels)
    target = torch.tensor([0, 1])
    losses = torch.nn.functional.cross_entropy(OUTPUTS, target, reduction="none")
    task = Classification(class_weight="balanced").with_targets((), [3, 1])
    assert float(task.loss(OUTPUTS, target)) == pytest.approx(
        float((losses * torch.tensor(weights)).mean())
    )
    several = Classification(class_weight="balanced").with_targets([Target("toxic", ("0", "1"))])
    assert several.class_weight == "balanced"
    with refused("task.class_weight", expected="none", got="'balanced'", remedy="omit"):
        Classification(class_weight="balanced").loss(OUTPUTS, target)
    with refused("task.class_weight", expected="balanced", got="'equal'", remedy=""):
        Classification(class_weight="equal")


def test_balanced_accuracy_is_the_mean_over_classes():
    pytest.importorskip("torchmetrics")
    task = Classification(class_weight="balanced").with_targets((), [3, 1])
    metric = task.metrics()["balanced_accuracy"]
    outputs = torch.eye(2)[[0, 0, 0, 1, 0]]
    metric.update(outputs, torch.tensor([0, 0, 0, 0, 1]))
    assert float(metric.compute()) == pytest.approx((3 / 4 + 0) / 2)


def test_accuracy_is_the_share_of_right_answers_over_batches():
    pytest.importorskip("torchmetrics")
    accuracy = Classification().metrics()["accuracy"]
    accuracy.update(OUTPUTS, TARGET)
    accuracy.update(OUTPUTS[:1], TARGET[:1])
    assert float(accuracy.compute()) == pytest.approx(2 / 3)


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_smoothing_out_of_range(share):
    with refused("task.label_smoothing", expected="from 0", got=str(share), remedy="0.1"):
        Classification(label_smoothing=share)


def test_several_rows_of_scores_for_a_target_are_refused() -> None:
    """Such as the views that GRAND has in training, which Consistency is for."""
    outputs, target = torch.randn(5, 2, 3), torch.zeros(5).long()
    remedy = "tasks.Consistency"
    with refused("model", expected="[M, classes]", got="shape [5, 2, 3]", remedy=remedy):
        Classification().loss(outputs, target)
