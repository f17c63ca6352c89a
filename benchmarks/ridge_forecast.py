"""What ``forecast`` stands beside: linear models and rules on the same windows of the same series.

    python benchmarks/ridge_forecast.py

Ridge regression reads each window less the mean of its history, once in ppm and once over the
history's spread as well; its penalty is chosen by the error on the validation windows. The rules
repeat the last season, as it was or with its rise over the one before. The test windows are looked
at once.
"""

from __future__ import annotations

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


class Normalised:
    """History with a one for the constant, and how what came after is told from it.

    Args:
        part: its windows.
        spread: whether it is divided by its standard deviation, beside the mean that is taken off.

    """

    def __init__(self, part: Split, *, spread: bool) -> None:
        history, self.after, _ = windows(part)
        std, self.mean = torch.std_mean(history, dim=1, keepdim=True)
        self.std = std if spread else torch.ones_like(std)
        one = torch.ones_like(self.mean)
        self.x = torch.cat([(history - self.mean) / self.std, one], dim=1)

    def fitted(self, penalty: float) -> Tensor:
        """The weights of ridge regression."""
        x, y = self.x, (self.after - self.mean) / self.std
        return torch.linalg.solve(x.T @ x + penalty * torch.eye(x.shape[1]).double(), x.T @ y)

    def error(self, weights: Tensor) -> float:
        """The mean absolute error of these weights."""
        return float((self.mean + self.std * (self.x @ weights) - self.after).abs().mean())


def main() -> None:
    splits = find("forecast").data.load()
    history, after, seasonal = windows(splits.test)
    season = splits.model_arguments["season"]
    rise = history[:, -1:] - history[:, -1 - season, None]
    for name, rule in (("the last season", seasonal), ("with its rise", seasonal + rise)):
        print(f"{name}: test/mae {float((rule - after).abs().mean()):.4f}")
    for name, spread in (("ridge regression", False), ("over the spread, too", True)):
        train, val, test = (
            Normalised(part, spread=spread) for part in (splits.train, splits.val, splits.test)
        )
        best, penalty = min((val.error(train.fitted(p)), p) for p in PENALTIES)
        error = test.error(train.fitted(penalty))
        print(f"{name}: val/mae {best:.4f}, test/mae {error:.4f} (penalty {penalty:g})")


if __name__ == "__main__":
    main()
