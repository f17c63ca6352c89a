"""The baseline for ``forecast``: ridge regression on the same windows of the same series.

    python benchmarks/ridge_forecast.py

Each window is taken less the mean of its history; the penalty is chosen by the error on the
validation windows, and the test windows are looked at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise.data import Split
from edgewise.recipes import find

PENALTIES = [10.0 ** (k / 2) for k in range(-8, 10)]


def windows(part: Split) -> tuple[Tensor, Tensor]:
    """History, with a one for the constant, and what came after; both less the history's mean."""
    batch = part.make(torch.arange(part.count))
    history, after = batch.inputs[0].double(), batch.target[..., 0].double()
    mean = history.mean(1, keepdim=True)
    return torch.cat([history - mean, torch.ones_like(mean)], dim=1), after - mean


def main() -> None:
    splits = find("forecast").data.load()
    x, y = windows(splits.train)
    found = []
    for penalty in PENALTIES:
        weights = torch.linalg.solve(x.T @ x + penalty * torch.eye(x.shape[1]).double(), x.T @ y)
        errors = [
            float((inputs @ weights - after).abs().mean())
            for inputs, after in (windows(splits.val), windows(splits.test))
        ]
        found.append((*errors, penalty))
    val, test, penalty = min(found)
    print(f"ridge regression: val/mae {val:.4f}, test/mae {test:.4f} (penalty {penalty:g})")


if __name__ == "__main__":
    main()
