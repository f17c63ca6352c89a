"""Paired tests of a cross-validated run on molecules against the best baseline of its recipe.

    edgewise train ionic-liquids-co2 --folds --seeds 3
    edgewise baseline ionic-liquids-co2 --folds
    python -m benchmarks.paired_molecules runs/ionic-liquids-co2 runs/ionic-liquids-co2-baseline

All rows of a molecule are in one fold, so rows are not independent, but folds and molecules are.
The benchmark fits the baseline again with the settings that the validation set chose, and prints
the mean absolute error of both methods, with p-values of the paired t-test and of the Wilcoxon
signed-rank test: over the folds, and over the molecules, each with the mean error over its rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas
import torch
from scipy.stats import ttest_rel, wilcoxon

from edgewise.baselines.candidate import batches_of
from edgewise.baselines.kinds import kind_of
from edgewise.data import Splits
from edgewise.recipes import Recipe
from edgewise.runs import load_recipe
from edgewise.runs.held_out import read_held_out
from edgewise.training import RunFolder


def errors_of_baseline(recipe: Recipe, splits: Splits, name: str, setting: str) -> np.ndarray:
    """Return the absolute errors of a baseline on the test rows of a fold."""
    candidates = kind_of(recipe).candidates(recipe, splits)
    candidate = next(one for one in candidates if (one.name, one.setting) == (name, setting))
    score = candidate.fit()
    parts = [(score(batch) - batch.target).abs() for batch in batches_of(splits.test)]
    return torch.cat(parts)[:, 0].numpy()


def errors_of_folds(run: Path, baseline: Path) -> Iterator[pandas.DataFrame]:
    """Yield the molecule of each test row of a fold, and the errors of run and baseline."""
    found = json.loads((baseline / "baseline.json").read_text())
    chosen = [one["name"] for one in found["baselines"]].index(found["best"])
    for fold, known in zip(RunFolder(run).runs(), found["folds"], strict=True):
        recipe = load_recipe(RunFolder(fold))
        splits = recipe.data.load()
        held_out = read_held_out(RunFolder(fold).runs() or [fold], "test", splits.targets)
        table = pandas.read_csv(recipe.data.source())
        rows = splits.preprocessing["test_lines"].numpy() - 2  # The header is line 1.
        best = known[chosen]
        yield pandas.DataFrame(
            {
                "molecule": table[splits.preprocessing["smiles"]].to_numpy()[rows],
                "run": (held_out.outputs - held_out.target).abs()[:, 0].numpy(),
                "baseline": errors_of_baseline(recipe, splits, best["name"], best["setting"]),
            }
        )


def line(name: str, errors: pandas.DataFrame) -> str:
    """Return the means of both columns of errors, and the p-values of their difference."""
    run, baseline = errors["run"], errors["baseline"]
    p = ttest_rel(run, baseline).pvalue, wilcoxon(run, baseline).pvalue
    return (
        f"{len(errors)} {name}: run {run.mean():.4f}, baseline {baseline.mean():.4f}, "
        f"paired t-test p = {p[0]:.3f}, Wilcoxon p = {p[1]:.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of edgewise train RECIPE --folds")
    parser.add_argument("baseline", type=Path, help="folder of edgewise baseline RECIPE --folds")
    arguments = parser.parse_args()
    folds = list(errors_of_folds(arguments.run, arguments.baseline))
    columns = ["run", "baseline"]
    print(line("folds", pandas.DataFrame([fold[columns].mean() for fold in folds])))
    print(line("molecules", pandas.concat(folds).groupby("molecule")[columns].mean()))


if __name__ == "__main__":
    main()
