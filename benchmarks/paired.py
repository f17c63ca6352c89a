"""How far apart two runs of classifiers are on the same test examples, and how sure that is.

    python benchmarks/paired.py RUN OTHER

Of each example the share of a run's seeds that are right is taken, and the mean of the differences
between the two runs is printed with its standard error. Examples that are as hard for both add
nothing to it, so that it is smaller than that of two shares of other examples. What other seeds
would change is beside it: the mean and the standard deviation of each run's seeds. Runs whose test
examples have other classes, or these in another order, are refused.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

import edgewise
from edgewise.batches import UNLABELLED


class Answers(NamedTuple):
    """``[N]`` each: whether a run is right on each test example, and what that is."""

    right: Tensor
    target: Tensor


def answered(folder: Path) -> Answers:
    """What a run says of its test examples."""
    run = edgewise.load(folder)
    if "test/accuracy" not in run.metrics:
        raise SystemExit(f"{folder}: no classifier, as it has no test/accuracy")
    right, target = [], []
    with torch.inference_mode():
        for batch in run.recipe.data.load().loaders(run.recipe.seed)["test"]:
            outputs = batch.counted(run.model(*batch.inputs, **batch.keywords))
            counts = batch.target != UNLABELLED
            right.append((outputs.argmax(-1) == batch.target)[counts])
            target.append(batch.target[counts])
    return Answers(torch.cat(right).double(), torch.cat(target))


def of_seeds(folder: Path) -> list[Answers]:
    """Those of each seed of a run that has some, else of the one."""
    return [answered(seed) for seed in sorted(folder.glob("seed-*")) or [folder]]


def on_the_same(runs: Sequence[Sequence[Answers]]) -> list[Tensor]:
    """``[S, N]`` of each run, whether its seeds are right."""
    first, *others = (seed.target for seeds in runs for seed in seeds)
    if not all(torch.equal(first, other) for other in others):
        raise SystemExit("the runs have other test examples, or in another order")
    return [torch.stack([seed.right for seed in seeds]) for seeds in runs]


def difference(one: Tensor, other: Tensor) -> tuple[float, float]:
    """The mean difference over examples, and its standard error, from ``[S, N]`` of each."""
    apart = one.mean(0) - other.mean(0)
    return float(apart.mean()), float(apart.std() / len(apart) ** 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path, nargs=2, metavar="RUN")
    folders = parser.parse_args().runs
    both = on_the_same([of_seeds(folder) for folder in folders])
    for folder, found in zip(folders, both, strict=True):
        each = 100 * found.mean(1)
        spread = f" ± {each.std():.2f} %, {len(each)} seeds" if len(each) > 1 else " %, one seed"
        print(f"{folder.name}: {each.mean():.2f}{spread}")
    mean, error = difference(*both)
    print(f"difference {100 * mean:+.2f} points, standard error {100 * error:.2f}")


if __name__ == "__main__":
    main()
