r"""Paired t-test of two runs, or of a run and its best baseline, on the same test examples.

    edgewise train ionic-liquids-co2 --folds --seeds 3
    edgewise baseline ionic-liquids-co2 --folds
    python -m benchmarks.paired runs/ionic-liquids-co2 runs/ionic-liquids-co2-baseline \
        --by "Canonical SMILES"

For each metric with a value for one example, the benchmark prints both means, their difference
with its standard error, and the p-value. Several seeds of a run are averaged first, so p leaves out
the variation between seeds. With --by, the values of all test rows of a molecule table with the
same entry in a column are averaged first, because rows of the same molecule are not independent.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas
import torch
from torch import Tensor

from edgewise.app import runs
from edgewise.app.cli.baseline import EXAMPLES
from edgewise.app.kinds.molecules import MoleculeTable
from edgewise.app.kinds.molecules.data import read_molecules
from edgewise.app.train import RunFolder
from edgewise.app.train.folder import METRICS


def per_example_metrics(folder: Path) -> dict[str, Tensor]:
    """Return metrics and target of each test example, of a run or of a baseline."""
    if RunFolder(folder).has(METRICS):
        return runs.per_example_metrics(folder)
    return RunFolder(folder).read_tensors(EXAMPLES)


def tested_entries(run: Path, column: str) -> list[str]:
    """Return the entry of a column of the molecule table for each test row of a run."""
    folders = RunFolder(run).runs()
    if not folders or folders[0].name.startswith("seed-"):
        folders = folders[:1] or [run]  # All seeds have the same rows.
    entries = []
    for folder in folders:
        run_folder = next(iter(RunFolder(folder).runs()), folder)
        data = runs.load_recipe(RunFolder(run_folder)).data
        if not isinstance(data, MoleculeTable):
            raise SystemExit(f"--by: expected a run on a molecule table, got {run}")
        table = read_molecules(data.source())
        entry_of = dict(zip(table.lines, table.columns[column], strict=True))
        entries += [entry_of[line] for line in data.load().preprocessing["test_lines"].tolist()]
    return entries


def by_entry(values: Tensor, entries: list[str]) -> Tensor:
    """Return the mean value of the examples with the same entry, for each entry."""
    return torch.tensor(pandas.Series(values.numpy()).groupby(entries).mean().to_numpy())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("other", type=Path, help="run folder, or folder of `edgewise baseline`")
    parser.add_argument("--by", metavar="COLUMN", help="column of the run's molecule table")
    arguments = parser.parse_args()
    first, second = (per_example_metrics(metrics) for metrics in (arguments.run, arguments.other))
    if arguments.by:
        entries = tested_entries(arguments.run, arguments.by)
        first, second = (
            {name: by_entry(values, entries) for name, values in metrics.items()}
            for metrics in (first, second)
        )
    for name, test in runs.paired_tests(first, second).items():
        squared = " (mean squares)" if name == "rmse" else ""
        print(
            f"{name}{squared}: {first[name].mean():.4f} and {second[name].mean():.4f}, difference "
            f"{test.difference:+.4f} ± {test.standard_error:.4f} (standard error), "
            f"p = {test.p:.2g}, {test.examples:,} {arguments.by or 'examples'}"
        )


if __name__ == "__main__":
    main()
