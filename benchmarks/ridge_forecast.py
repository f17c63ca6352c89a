"""What ``forecast`` stands beside: linear models and rules on the same windows of the same series.

    python benchmarks/ridge_forecast.py

Ridge regression reads each window less the mean of its history, once in ppm and once over the
history's spread as well; its penalty is chosen by the error on the validation windows. The rules
repeat the last season, as it was or with its rise over the one before. The test windows are looked
at once.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from edgewise.data import Split
from edgewise.recipes import find

PENALTIES = [10.0 ** (k / 2) for k in range(-8, 10)]


def windows(part: Split) -> tuple[Tensor, Tensor, Tensor]:
    """History, what came after, and the last season repeated."""
    batch = part.make(torch.arange(part.count))
    after, seasonal = batch.target.double().unbind(-1)
    return batch.inputs[0].double(), after, seasonal


def normalised(history: Tensor, *, spread: bool) -> tuple[Tensor, Tensor, Tensor]:
    """History with a one for the constant, what was taken off and what it was divided by."""
    std, mean = torch.std_mean(history, dim=1, keepdim=True)
    std = std if spread else torch.ones_like(std)
    return torch.cat([(history - mean) / std, torch.ones_like(mean)], dim=1), mean, std


def ridge(history: Tensor, after: Tensor, penalty: float, *, spread: bool) -> Tensor:
    """The weights."""
    x, mean, std = normalised(history, spread=spread)
    identity = torch.eye(x.shape[1], dtype=x.dtype)
    return torch.linalg.solve(x.T @ x + penalty * identity, x.T @ ((after - mean) / std))


def forecast(weights: Tensor, part: Split, *, spread: bool) -> Tensor:
    """The mean absolute error of these weights."""
    history, after, _ = windows(part)
    x, mean, std = normalised(history, spread=spread)
    return (mean + std * (x @ weights) - after).abs().mean()


def main() -> None:
    data = find("forecast").data
    splits = data.load()
    history, after, seasonal = windows(splits.test)
    season = splits.model_arguments["season"]
    rise = history[:, -1:] - history[:, -1 - season, None]
    for name, rule in (("the last season", seasonal), ("with its rise", seasonal + rise)):
        print(f"{name}: test/mae {float((rule - after).abs().mean()):.4f}")
    history, after, _ = windows(splits.train)
    for name, spread in (("ridge regression", False), ("over the spread, too", True)):
        fit = partial(ridge, history, after, spread=spread)
        found = [(float(forecast(fit(p), splits.val, spread=spread)), p) for p in PENALTIES]
        val, penalty = min(found)
        test = float(forecast(fit(penalty), splits.test, spread=spread))
        print(f"{name}: val/mae {val:.4f}, test/mae {test:.4f} (penalty {penalty:g})")


if __name__ == "__main__":
    main()
