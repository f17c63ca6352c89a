"""Property prediction: losses and metrics of columns with gaps."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from edgewise.app.files.targets import Target, split_outputs
from edgewise.app.train import PropertyPrediction, Regression, Task
from tests.errors import refused

metrics = pytest.importorskip("sklearn.metrics")
NAN = math.nan
NUMBER = Target("log.S", mean=1.0, std=2.0)
BINARY = Target("active", ("no", "yes"), counts=(3, 1))
SEVERAL = Target("kind", ("a", "b", "c"), counts=(2, 1, 1))
ALL = (NUMBER, BINARY, SEVERAL)
OUTPUTS = torch.tensor(
    [[1.0, 0.5, 1, 0, 0], [2, -1.5, 0, 2, 1], [3, 2, 0.5, 0, 0], [0, 0.1, 0, 1, 3]]
)
TARGETS = torch.tensor([[2, 1, 0], [NAN, 0, 2], [1, NAN, NAN], [0.5, 0, 1]])


def task(*targets: Target, **fields: object) -> Task:
    return PropertyPrediction(**fields).with_targets(targets)  # type: ignore[arg-type]


def measured(own: Task, outputs: torch.Tensor, target: torch.Tensor) -> dict[str, float]:
    """The metrics after two batches."""
    found = own.metrics()
    for part in (slice(0, 2), slice(2, None)):
        for metric in found.values():
            metric.update(outputs[part], target[part])
    return {name: float(metric.compute()) for name, metric in found.items()}


def test_the_loss_is_the_mean_over_the_values_that_are_there() -> None:
    squares = [1 / 4, 4 / 4, 0.25 / 4]  # in standard deviations
    binary = F.binary_cross_entropy_with_logits(
        OUTPUTS[[0, 1, 3], 1], torch.tensor([1.0, 0, 0]), reduction="sum"
    )
    several = F.cross_entropy(OUTPUTS[[0, 1, 3], 2:], torch.tensor([0, 2, 1]), reduction="sum")
    wanted = (sum(squares) + float(binary) + float(several)) / 9
    own = task(*ALL)
    assert float(own.loss(OUTPUTS, TARGETS)) == pytest.approx(wanted)
    assert own.count(OUTPUTS, TARGETS) == 9


def test_one_number_has_the_loss_of_a_regression_in_standard_deviations() -> None:
    outputs, target = OUTPUTS[:, :1], torch.tensor([[1.0], [4], [0], [2]])
    for kind, power in (("mse", 2), ("mae", 1), ("huber", 2)):
        plain = Regression(kind=kind).loss(outputs, target)  # type: ignore[arg-type]
        own = task(NUMBER, kind=kind).loss(outputs, target)
        assert float(own) == pytest.approx(float(plain) / NUMBER.std**power)


def test_a_missing_value_has_no_gradient() -> None:
    outputs = OUTPUTS.clone().requires_grad_()
    task(*ALL).loss(outputs, TARGETS).backward()
    zero = outputs.grad == 0
    assert zero[1].tolist() == [True, False, False, False, False]
    assert zero[2].tolist() == [False, True, True, True, True]
    nothing = task(*ALL).loss(outputs, torch.full_like(TARGETS, NAN))
    assert float(nothing.detach()) == 0


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    weights = compute_class_weight("balanced", classes=np.array([0, 1]), y=[0, 0, 0, 1])
    truth = torch.tensor([0.0, 0, 0, 1])
    losses = F.binary_cross_entropy_with_logits(OUTPUTS[:, 1], truth, reduction="none")
    wanted = float((losses * torch.tensor(weights)[truth.long()]).mean())
    found = task(BINARY, class_weight="balanced").loss(OUTPUTS[:, 1:2], truth[:, None])
    assert float(found) == pytest.approx(wanted)


def test_metrics_of_two_classes_are_those_of_scikit_learn() -> None:
    torch.manual_seed(0)
    logits, truth = torch.randn(80, 1), torch.randint(2, (80, 1)).float()
    truth[::7] = NAN
    known = ~truth.isnan()
    y, p = truth[known].numpy(), logits[known].sigmoid().numpy()
    found = measured(task(BINARY), logits, truth)
    assert found.pop("calibration_error") == pytest.approx(calibration_error(y, p), abs=1e-6)
    assert found == pytest.approx(
        {
            "roc_auc": metrics.roc_auc_score(y, p),
            "average_precision": metrics.average_precision_score(y, p),
            "accuracy": metrics.accuracy_score(y, p > 0.5),
            "brier": metrics.brier_score_loss(y, p),
        },
        abs=1e-6,
    )


def calibration_error(y: np.ndarray, p: np.ndarray) -> float:
    """Expected calibration error with 15 bins of the probability of the second class."""
    bins = np.minimum((p * 15).astype(int), 14)
    gaps = [
        abs(p[bins == one].mean() - y[bins == one].mean()) * (bins == one).mean()
        for one in set(bins)
    ]
    return float(sum(gaps))


def test_metrics_of_several_classes_are_those_of_scikit_learn() -> None:
    torch.manual_seed(0)
    logits, truth = torch.randn(80, 3), torch.randint(3, (80, 1)).float()
    y, p = truth[:, 0].long().numpy(), logits.softmax(-1).numpy()
    found = measured(task(SEVERAL), logits, truth)
    assert found["roc_auc"] == pytest.approx(metrics.roc_auc_score(y, p, multi_class="ovr"))
    assert found["brier"] == pytest.approx(((p - np.eye(3)[y]) ** 2).sum(1).mean(), abs=1e-6)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(y, p.argmax(1)))


def test_several_targets_have_means_and_their_own_metrics() -> None:
    found = measured(task(*ALL), OUTPUTS, TARGETS)
    assert found["rmse"] == pytest.approx(math.sqrt((1 + 4 + 0.25) / 3))
    assert found["rmse"] == found["log_S/rmse"]
    assert found["accuracy"] == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert found["active/accuracy"] == pytest.approx(2 / 3)
    assert found["roc_auc"] == pytest.approx((found["active/roc_auc"] + found["kind/roc_auc"]) / 2)


def test_curves_of_a_single_class_are_undefined_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = measured(task(NUMBER, BINARY), OUTPUTS[:, :2], TARGETS[:, :2] * 0)
    assert math.isnan(found["roc_auc"])
    assert math.isnan(found["active/average_precision"])
    assert 0 <= found["accuracy"] <= 1


def test_outputs_of_a_target_are_one_for_two_classes_and_else_one_each() -> None:
    assert [part.shape[1] for part in split_outputs(ALL, OUTPUTS)] == [1, 1, 3]


def test_a_target_is_read_from_its_record() -> None:
    assert [Target.read(one._asdict()) for one in ALL] == list(ALL)


def test_a_task_without_a_description_of_its_targets_says_so() -> None:
    with refused("task", expected="description", got="none", remedy="with_targets"):
        PropertyPrediction().loss(OUTPUTS, TARGETS)


def test_a_regression_refuses_classes_and_several_targets() -> None:
    assert isinstance(Regression().with_targets([NUMBER]), Regression)
    for targets in ([BINARY], [NUMBER, NUMBER]):
        with refused("task", expected="PropertyPrediction", got="Regression", remedy="molecules"):
            Regression().with_targets(targets)


def test_an_unknown_class_weight_is_refused() -> None:
    with refused("task.class_weight", expected="balanced", got="'equal'", remedy=""):
        PropertyPrediction(class_weight="equal")  # type: ignore[arg-type]
