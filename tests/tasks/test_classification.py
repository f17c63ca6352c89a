"""Cross-entropy and accuracy, on numbers that can be checked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from edgewise.tasks import Classification
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
