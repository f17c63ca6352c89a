r"""Paired t-test of two runs, or of a run and its best baseline, on the same test examples.

    edgewise train ionic-liquids-co2 --folds --seeds 3
    edgewise baseline ionic-liquids-co2 --folds
    python -m benchmarks.paired runs/ionic-liquids-co2 runs/ionic-liquids-co2-baseline \
        --by "Canonical SMILES"

For each metric that is a mean over examples, the benchmark prints the mean difference with its
standard error, and the p-value. The difference between seeds of a run is averaged out. With --by,
the scores of all test rows with the same value of a column are averaged first, because rows of the
same molecule are not independent.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas
import torch
from torch import Tensor

from edgewise import runs
from edgewise.cli.baseline import SCORES
from edgewise.training import RunFolder
from edgewise.training.folder import METRICS


def scores(folder: Path) -> dict[str, Tensor]:
    """Return the score of each test example by metric, of a run or of a baseline."""
    if RunFolder(folder).has(METRICS):
        return runs.scores_of_run(folder)
    return RunFolder(folder).read_tensors(SCORES)


def tested_values(run: Path, column: str) -> np.ndarray:
    """Return the value of a column of the data file for each test row of a run, fold by fold."""
    values = []
    for folder in RunFolder(run).runs() or [run]:
        one = next(iter(RunFolder(folder).runs()), folder)  # Seeds of a fold have the same rows.
        data = runs.load_recipe(RunFolder(one)).data
        lines = data.load().preprocessing["test_lines"].numpy()
        values.append(
            pandas.read_csv(data.source())[column].to_numpy()[lines - 2]
        )  # after a header
    return np.concatenate(values)


def by_group(scores: Tensor, values: np.ndarray) -> Tensor:
    """Return the mean score of the examples with the same value, for each value."""
    return torch.tensor(pandas.Series(scores.numpy()).groupby(values).mean().to_numpy())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("other", type=Path, help="run folder, or folder of `edgewise baseline`")
    parser.add_argument("--by", metavar="COLUMN", help="column of the run's data file")
    arguments = parser.parse_args()
    one, other = scores(arguments.run), scores(arguments.other)
    values = tested_values(arguments.run, arguments.by) if arguments.by else None
    for name in one.keys() & other.keys():
        pair = one[name], other[name]
        if values is not None:
            pair = by_group(pair[0], values), by_group(pair[1], values)
        found = runs.paired_test(*pair)
        squared = " (mean squares)" if name == "rmse" else ""
        print(
            f"{name}{squared}: {pair[0].mean():.4f} and {pair[1].mean():.4f}, difference "
            f"{found.difference:+.4f} ± {found.standard_error:.4f} (standard error), "
            f"p = {found.p:.2g}, {found.examples:,} {arguments.by or 'examples'}"
        )


if __name__ == "__main__":
    main()
