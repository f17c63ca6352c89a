"""Digits of numbers on the screen and in files."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
import torch

from edgewise._utils.digits import rounded, saved
from edgewise.app.predict.rows import write_answers
from edgewise.app.train import Regression


@pytest.mark.parametrize(
    ("value", "screen", "file"),
    [
        (0.0, "0.0000", 0.0),
        (-0.0, "0.0000", 0.0),
        (2.23456789e-9, "2.235e-09", 2.23457e-09),
        (0.73123455047, "0.7312", 0.731235),
        (-0.99996, "-1.000", -0.99996),
        (12.3456789, "12.35", 12.345679),
        (-311_026.12345678, "-311026", -311_026.123457),
        (1e8 + 0.25, "100000000", 1e8 + 0.25),
        (1.5e20, "1.500e+20", 1.5e20),
        (math.inf, "inf", math.inf),
    ],
)
def test_four_significant_digits_on_the_screen_and_six_in_files(
    value: float, screen: str, file: float
) -> None:
    assert rounded(value) == screen
    assert saved(value) == file


def test_small_errors_are_saved_and_not_zero() -> None:
    pytest.importorskip("torchmetrics")
    from edgewise.app.train.split_metrics import SplitMetrics

    metrics = SplitMetrics(Regression())
    target = torch.linspace(0, 1, 5, dtype=torch.double)[:, None] * 1e-8
    metrics.add(target + 2.2e-9, target)
    values = metrics.finish()
    assert values["rmse"] == pytest.approx(2.2e-9)
    assert values["loss"] == pytest.approx(2.2e-9**2)


def test_predictions_in_files_have_six_significant_digits(tmp_path: Path) -> None:
    answer = {"y": 0.7312345504760742, "why": [["C", 0.1234567891]]}
    write_answers(tmp_path / "out.csv", [answer])
    with (tmp_path / "out.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row == {"y": "0.731235", "why": "C +0.123457"}
