"""Paired comparison of the test accuracy of two runs.

    python benchmarks/paired.py RUN OTHER

RUN and OTHER are run folders. For each test example, the accuracy is averaged over the seeds of a
run. The benchmark prints the mean difference over examples and its standard error. This is smaller
than without pairing, because examples that are equally hard for both runs do not contribute. It
also prints mean and standard deviation over the seeds of each run. Both runs must have the same
test examples in the same order.
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
    """Test results of a run: whether the answer is correct, and the target, ``[N]`` each."""

    right: Tensor
    target: Tensor


def answered(folder: Path) -> Answers:
    """Return the test results of the run in a folder."""
    run = edgewise.load(folder)
    if "test/accuracy" not in run.metrics:
        raise SystemExit(f"{folder}: expected a classifier, but its metrics lack test/accuracy")
    right, target = [], []
    with torch.inference_mode():
        for batch in run.recipe.data.load().loaders(run.recipe.seed)["test"]:
            outputs = batch.select_outputs(run.model(*batch.inputs, **batch.keywords))
            counts = batch.target != UNLABELLED
            right.append((outputs.argmax(-1) == batch.target)[counts])
            target.append(batch.target[counts])
    return Answers(torch.cat(right).double(), torch.cat(target))


def of_seeds(folder: Path) -> list[Answers]:
    """Return the test results of each seed of a run; one result if it was run without --seeds."""
    return [answered(seed) for seed in sorted(folder.glob("seed-*")) or [folder]]


def on_the_same(runs: Sequence[Sequence[Answers]]) -> list[Tensor]:
    """Return for each run whether its answers are correct, ``[seeds, N]``.

    The program exits if the test examples differ.
    """
    first, *others = (seed.target for seeds in runs for seed in seeds)
    if not all(torch.equal(first, other) for other in others):
        raise SystemExit("the runs have different test examples, or the same in another order")
    return [torch.stack([seed.right for seed in seeds]) for seeds in runs]


def difference(one: Tensor, other: Tensor) -> tuple[float, float]:
    """Return the mean difference ``one - other`` over the N examples, and its standard error.

    Both arguments are ``[seeds, N]``.
    """
    differences = one.mean(0) - other.mean(0)
    return float(differences.mean()), float(differences.std() / len(differences) ** 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path, nargs=2, metavar="RUN", help="folders of the two runs")
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
