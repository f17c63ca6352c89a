"""Units and levels of the user's numbers: y -> a·y + b gives the same results, relative to a."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from edgewise import models
from edgewise.app.files.targets import Target
from edgewise.app.kinds import find
from edgewise.app.kinds.nodes.files import scaled
from edgewise.app.kinds.series.baseline import smoothed
from edgewise.app.runs import baselines, train, with_values
from edgewise.app.train import (
    Batch,
    OptimizerSettings,
    PropertyPrediction,
    RunFolder,
    TargetScaling,
    TrainerSettings,
    fit,
)
from edgewise.app.train.column_baselines import Column, fit_columns, linear_model
from edgewise.app.train.standardisation import Standardisation
from edgewise.app.train.tree_baselines import _forest, boosted_trees
from tests.errors import refused

pytest.importorskip("lightning")
pytest.importorskip("sklearn")
UNITS = [(1e-15, 0.0), (1e-6, 0.0), (1e6, 0.0), (1.0, 1e8), (16.0, -311_026.0)]
TRAINED = [(1e-15, 0.0), (1.0, 1e8)]


def series(count: int = 160) -> np.ndarray:
    step = np.arange(count)
    noise = np.random.default_rng(0).normal(0, 0.3, count)
    return np.sin(step * np.pi / 6) + 0.02 * step + noise


@pytest.mark.parametrize(("a", "b"), UNITS)
def test_columns_are_standardised_in_any_unit(a: float, b: float) -> None:
    x = torch.randn(50, 3, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    x[:, 2] = 0.1
    expected = Standardisation.of(x).scaled(x)
    assert (expected[:, 2] == 0).all(), "a constant column"
    y = a * x + b
    torch.testing.assert_close(Standardisation.of(y).scaled(y), expected, rtol=1e-5, atol=1e-6)
    nodes = scaled(y, "columns", Standardisation.of(y))
    torch.testing.assert_close(nodes, expected, rtol=1e-5, atol=1e-6)
    if not b:
        rows = scaled(a * x.abs(), "rows", Standardisation.of(y))
        torch.testing.assert_close(rows.sum(1), torch.ones(50))


@pytest.mark.parametrize(
    "record", [{"mean": [1.0], "std": [1.0]}, {"mean": [1.0, 2.0], "std": [1]}]
)
def test_a_scale_of_other_columns_is_named(record: dict[str, list[float]]) -> None:
    """As after an update of RDKit, whose versions have other descriptors."""
    got = f"{len(record['mean'])} and {len(record['std'])}"
    with refused("preprocessing.json", expected="2 columns", got=got, remedy="RDKit"):
        Standardisation.read(record).scaled(torch.ones(3, 2))


@pytest.mark.parametrize(("a", "b"), UNITS)
def test_forecasts_have_the_unit_and_level_of_the_history(a: float, b: float) -> None:
    torch.manual_seed(0)
    model = models.forecaster(24, 12, 12, width=8, heads=2, dropout=0.0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    history = torch.from_numpy(series(96)).view(4, 24)
    history[3] = 0.1
    expected = model(history)
    assert expected.dtype == torch.double
    assert torch.equal(expected[3], history[3, :12]), "a constant history"
    change = (model(a * history + b) - b) / a
    torch.testing.assert_close(change, expected, rtol=1e-4, atol=1e-5)


def series_table(path: Path, a: float, b: float) -> dict[str, object]:
    text = "\n".join(["sales", *(repr(float(value)) for value in a * series() + b)])
    path.write_text(text)
    return {"data.path": str(path), "data.season": 12, "data.history": 24, "data.horizon": 6}


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), TRAINED)
def test_series_are_trained_alike(a: float, b: float, tmp_path: Path) -> None:
    fields = {"trainer.epochs": 2, "data.windows": 64, "model.dropout": 0.0, "optimizer.lr": 3e-3}
    metrics = []
    for number, unit in enumerate(((1.0, 0.0), (a, b))):
        table = series_table(tmp_path / f"{number}.csv", *unit)
        recipe = with_values(find("series"), {**table, **fields})
        metrics.append(train(recipe, tmp_path / f"run-{number}"))
    for name, factor in (("mae", a), ("seasonal_ratio", 1.0), ("loss", 1.0)):
        expected = factor * metrics[0][f"test/{name}"]
        assert metrics[1][f"test/{name}"] == pytest.approx(expected, rel=1e-3), name
    assert metrics[0]["test/mae"] > 0.1


@pytest.mark.slow(after=1)
@pytest.mark.parametrize(("a", "b"), TRAINED)
def test_baselines_of_series_are_alike(a: float, b: float, tmp_path: Path) -> None:
    plain, mapped = (
        {
            one.name: one
            for one in baselines(
                with_values(find("series"), series_table(tmp_path / "series.csv", *unit)),
                quick=True,
            )
        }
        for unit in ((1.0, 0.0), (a, b))
    )
    for name, baseline in plain.items():
        ratio = baseline.metrics["test/seasonal_ratio"]
        assert mapped[name].metrics["test/seasonal_ratio"] == pytest.approx(ratio, rel=0.02), name
        assert mapped[name].setting == baseline.setting


@pytest.mark.slow(after=1)
@pytest.mark.parametrize(("a", "b"), UNITS)
def test_exponential_smoothing_is_alike(a: float, b: float) -> None:
    pytest.importorskip("statsmodels")
    history = torch.from_numpy(series(36))[None]
    plain, mapped = (
        smoothed(12, Batch((factor * history + level,), torch.zeros(1, 6, 3)))
        for factor, level in ((1.0, 0.0), (a, b))
    )
    torch.testing.assert_close((mapped - b) / a, plain, rtol=0.02, atol=0.02)


@pytest.mark.slow(after=1)
@pytest.mark.parametrize(("a", "b"), UNITS)
def test_baselines_of_numbers_are_alike(a: float, b: float) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 4))
    y = x[:, :1] - x[:, 1:2] ** 2 + 0.1 * random.normal(size=(80, 1))
    trees = partial(boosted_trees, "squared_error", 15)
    # Rounding decides between splits of trees that are equally good.
    for make, tolerance in ((partial(linear_model, 10.0), 1e-5), (trees, 0.1), (_forest, 0.1)):

        def predicted(y: np.ndarray, make=make) -> torch.Tensor:
            return fit_columns(make, [Column(0, 1)], x[:60], y[:60], (x[60:], y[60:]))(x)

        change = (predicted(a * y + b) - b) / a
        expected = predicted(y)
        error = (change - expected).square().mean().sqrt()
        assert float(error / expected.std()) < tolerance


@pytest.mark.slow(after=1)
@pytest.mark.parametrize(("a", "b"), TRAINED)
def test_numbers_are_trained_alike(a: float, b: float, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(60, 3)
    y = (x[:, :1] - x[:, 1:2]).double() + 0.1 * torch.randn(60, 1)
    metrics = []
    for number, (factor, level) in enumerate(((1.0, 0.0), (a, b))):
        values = factor * y + level
        target = Target("y", mean=float(values.mean()), std=float(values.std()))
        torch.manual_seed(1)
        model = TargetScaling(torch.nn.Linear(3, 1), target.mean, target.std)
        batches = [Batch((x[rows],), values[rows]) for rows in torch.arange(60).split(20)]
        metrics.append(
            fit(
                model,
                PropertyPrediction().with_targets([target]),
                {"train": batches, "val": batches, "test": batches},
                RunFolder(tmp_path / str(number)),
                optimizer=OptimizerSettings(lr=0.03),
                trainer=TrainerSettings(
                    epochs=4, monitor="val/rmse", mode="min", accelerator="cpu", clip_norm=1.0
                ),
            )
        )
    for name, factor in (("rmse", a), ("mae", a), ("r2", 1.0), ("loss", 1.0)):
        expected = factor * metrics[0][f"test/{name}"]
        assert metrics[1][f"test/{name}"] == pytest.approx(expected, rel=1e-4), name
    assert 0 < metrics[0]["test/r2"] < 1
