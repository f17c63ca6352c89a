"""How far apart two runs of classifiers are on the same test examples, and how sure that is.

    python benchmarks/paired.py RUN OTHER

Of each example the share of a run's seeds that are right is taken, and the mean of the differences
between the two runs is printed with its standard error. Examples that are as hard for both add
nothing to it, so that it is smaller than that of two shares of other examples. What other seeds
would change is beside it: the mean and the standard deviation of each run's seeds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor

import edgewise

AT_ONCE = 100


def right(folder: Path) -> Tensor:
    """``[N]``, whether a run is right on each test example."""
    run = edgewise.load(folder)
    test = run.recipe.data.load().test
    answers = []
    with torch.inference_mode():
        for index in torch.arange(test.count).split(AT_ONCE):
            batch = test.make(index)
            answers.append(run.model(*batch.inputs, **batch.keywords).argmax(1) == batch.target)
    return torch.cat(answers).double()


def of_seeds(folder: Path) -> Tensor:
    """``[S, N]``: of a run with seeds one row each, else one."""
    return torch.stack([right(seed) for seed in sorted(folder.glob("seed-*")) or [folder]])


def difference(one: Tensor, other: Tensor) -> tuple[float, float]:
    """The mean difference over examples, and its standard error, from ``[S, N]`` of each."""
    apart = one.mean(0) - other.mean(0)
    return float(apart.mean()), float(apart.std() / len(apart) ** 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path, nargs=2, metavar="RUN")
    folders = parser.parse_args().runs
    both = [of_seeds(folder) for folder in folders]
    for folder, found in zip(folders, both, strict=True):
        each = 100 * found.mean(1)
        spread = f" ± {each.std():.2f}" if len(each) > 1 else ""
        print(f"{folder.name}: {each.mean():.2f}{spread} %, {len(each)} seeds")
    mean, error = difference(*both)
    print(f"difference {100 * mean:+.2f} points, standard error {100 * error:.2f}")


if __name__ == "__main__":
    main()
