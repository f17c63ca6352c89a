"""Baselines of ``forecast``: ridge regression and seasonal naive forecasts on the same windows.

    python benchmarks/ridge_forecast.py

Ridge regression takes each window minus the mean of its history, with or without division by the
standard deviation; its penalty is chosen by the validation error. The seasonal naive forecasts
repeat the last season, without or with its change since the season before. The test windows are
used once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise.data import Split
from edgewise.recipes import find

PENALTIES = [10.0 ** (k / 2) for k in range(-8, 10)]


def windows(part: Split) -> tuple[Tensor, Tensor, Tensor]:
    """Return the history, the target and the seasonal naive forecast of each window."""
    batch = part.make(torch.arange(part.count))
    after, seasonal = batch.target.double().unbind(-1)
    return batch.inputs[0].double(), after, seasonal


class Normalised:
    """Normalised windows with a constant feature.

    Args:
        part: split with the windows.
        spread: divide by the standard deviation of the history, after subtracting its mean.
    """

    def __init__(self, part: Split, *, spread: bool) -> None:
        history, self.after, _ = windows(part)
        std, self.mean = torch.std_mean(history, dim=1, keepdim=True)
        self.std = std if spread else torch.ones_like(std)
        one = torch.ones_like(self.mean)
        self.x = torch.cat([(history - self.mean) / self.std, one], dim=1)

    def fitted(self, penalty: float) -> Tensor:
        """Return the weights of ridge regression."""
        x, y = self.x, (self.after - self.mean) / self.std
        return torch.linalg.solve(x.T @ x + penalty * torch.eye(x.shape[1]).double(), x.T @ y)

    def error(self, weights: Tensor) -> float:
        """Return the mean absolute error of these weights."""
        return float((self.mean + self.std * (self.x @ weights) - self.after).abs().mean())


def main() -> None:
    splits = find("forecast").data.load()
    history, after, seasonal = windows(splits.test)
    season = splits.model_arguments["season"]
    rise = history[:, -1:] - history[:, -1 - season, None]
    for name, rule in (("seasonal naive", seasonal), ("with drift", seasonal + rise)):
        print(f"{name}: test/mae {float((rule - after).abs().mean()):.4f}")
    for name, spread in (("ridge regression", False), ("standardised ridge", True)):
        train, val, test = (
            Normalised(part, spread=spread) for part in (splits.train, splits.val, splits.test)
        )
        best, penalty = min((val.error(train.fitted(p)), p) for p in PENALTIES)
        error = test.error(train.fitted(penalty))
        print(f"{name}: val/mae {best:.4f}, test/mae {error:.4f} (penalty {penalty:g})")


if __name__ == "__main__":
    main()
