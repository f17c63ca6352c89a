"""Consistency of views: known labels, agreement, and what has a gradient."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from edgewise.tasks import Consistency
from tests.errors import refused

LOG3 = math.log(3)
VIEWS = torch.tensor([[[LOG3, 0.0], [0.0, LOG3]], [[LOG3, 0.0], [LOG3, 0.0]]])  # [N, S, C]
TARGET = torch.tensor([-100, 0])


def test_loss_by_hand():
    # Node 0: the views say 3/4 and 1/4, their mean is even; node 1: sharpened 9/10 against 3/4.
    apart = (2 * 2 * 0.25**2 + 2 * 2 * 0.15**2) / 4
    loss = Consistency(weight=0.5, temperature=0.5).loss(VIEWS, TARGET)
    assert float(loss) == pytest.approx(-math.log(3 / 4) + 0.5 * apart, abs=1e-6)


def test_unlabelled_nodes_have_a_gradient_and_the_common_answer_has_none():
    views = VIEWS.clone().requires_grad_()
    task = Consistency()
    task.loss(views, TARGET).backward()
    assert (views.grad[0] != 0).all()
    moved = VIEWS.clone().requires_grad_()
    mean = VIEWS.softmax(-1).mean(1) ** 2
    sharp = mean / mean.sum(-1, keepdim=True)  # a constant
    apart = (moved.softmax(-1) - sharp[:, None]).square().sum(-1).mean()
    (F.cross_entropy(moved[1], torch.tensor([0, 0])) + apart).backward()
    torch.testing.assert_close(views.grad, moved.grad)


def test_without_views_it_is_cross_entropy():
    outputs, target = torch.randn(4, 3), torch.tensor([0, 2, -100, 1])
    known = target >= 0
    expected = F.cross_entropy(outputs[known], target[known])
    torch.testing.assert_close(Consistency().loss(outputs, target), expected)


def test_accuracy_is_of_the_mean_view_where_the_label_is_known():
    pytest.importorskip("torchmetrics")
    metric = Consistency().metrics()["accuracy"]
    views = torch.tensor([[[4.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]], [[0.0, 9.0]] * 2])
    metric.update(views, torch.tensor([0, 0, -100]))
    assert float(metric.compute()) == 0.5
    metric.update(views[:, 0], torch.tensor([0, 1, 1]))
    assert float(metric.compute()) == pytest.approx(4 / 5)


@pytest.mark.parametrize(("field", "value"), [("weight", -1.0), ("temperature", 0.0)])
def test_bad_field(field, value):
    with refused(f"task.{field}", expected="a number", got=str(value), remedy="choose"):
        Consistency(**{field: value})
