"""Consistency of views: known labels, agreement, and what has a gradient."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from edgewise.app.files.targets import Target
from edgewise.app.kinds.nodes import Consistency
from edgewise.layers import add_penalty
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


class Penalised(nn.Linear):
    """A layer that adds a penalty in each call: 1000 times its first bias."""

    def forward(self, x: Tensor) -> Tensor:
        add_penalty(1000 * self.bias[0])
        return super().forward(x)


class Recorded(Consistency):
    """A task that records the outputs of each step."""

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        SEEN.append(outputs.detach())
        return super().loss(outputs, target)


SEEN: list[Tensor] = []


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*many workers")  # Lightning's own
def test_a_training_step_has_views_with_different_dropout(tmp_path: Path):
    pytest.importorskip("lightning")
    from edgewise.app.train import OptimizerSettings, RunFolder, TrainerSettings, fit

    torch.manual_seed(0)
    model = nn.Sequential(nn.Dropout(0.5), Penalised(8, 2))
    gradients: list[Tensor] = []
    model[1].bias.register_hook(gradients.append)
    data = TensorDataset(torch.ones(4, 8), torch.tensor([0, 1, -100, -100]))
    batches = DataLoader(data, batch_size=4)
    fit(
        model,
        Recorded(views=3),
        {"train": batches, "val": batches, "test": batches},
        RunFolder(tmp_path),
        optimizer=OptimizerSettings(lr=0.1),
        trainer=TrainerSettings(epochs=1, accelerator="cpu", monitor="val/loss", mode="min"),
    )
    training = [outputs for outputs in SEEN if outputs.dim() == 3]
    assert [outputs.shape for outputs in training] == [(4, 3, 2)]
    assert not torch.equal(training[0][:, 0], training[0][:, 1])
    assert float(gradients[0][0]) == pytest.approx(1000, abs=2), "the mean penalty of the calls"
    assert {outputs.shape for outputs in SEEN if outputs.dim() < 3} == {(4, 2)}


def test_numbers_have_no_consistency():
    with refused("task", expected="classes", got="price", remedy="numbers"):
        Consistency().with_targets([Target("price")])
    assert Consistency().with_targets([], [3, 4]) == Consistency()


def test_views_of_a_model_and_of_the_task_are_alike():
    views = torch.randn(4, 6, 3)
    target, task = torch.tensor([0, 2, -100, 1]), Consistency()
    torch.testing.assert_close(
        task.loss(views.view(4, 2, 3, 3), target), task.loss(views, target), rtol=0, atol=0
    )


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [("weight", -1.0, "a number"), ("temperature", 0.0, "a number"), ("views", 0, "at least 1")],
)
def test_bad_field(field, value, expected):
    with refused(f"task.{field}", expected=expected, got=str(value), remedy="choose"):
        Consistency(**{field: value})
