"""RMSE on ESOL of the recipe molecules and of chemprop, on the same folds.

    python -m pip install --target DIR chemprop==2.3.1
    python -m benchmarks.molecules_beside_chemprop --chemprop DIR [--folds 5] [--seeds 3]

Both train with their default settings on the same training, validation and test rows of the first
``--folds`` of five folds. All rows of a molecule are in the same fold. The baselines are those of
``edgewise baseline``, each with the setting of the lowest validation RMSE.

The table has the mean and standard deviation over the folds, for a single model (the mean RMSE of
all seeds) and for the mean prediction of all seeds. Processor time is for all folds and, except for
the baselines, all seeds. It includes start-up and descriptors. Finished runs in ``--folder`` are
used again.

Paper: Heid et al., Chemprop: a machine learning package for chemical property prediction, 2024
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from edgewise.app import runs
from edgewise.app.kinds import find
from edgewise.app.kinds.molecules import ESOL, MoleculeTable
from edgewise.app.kinds.molecules.data import read_molecules
from edgewise.app.runs.seeds import fold_recipes, mean_and_std
from edgewise.app.train import Recipe

CHEMPROP = "from chemprop.cli.main import main; main()"
OPTIONS = {"chemprop": (), "chemprop, descriptors": ("--molecule-featurizers", "rdkit_2d")}
"""Options of chemprop, by the name of the row."""
Result = dict[str, float]
"""RMSE of a single model, RMSE of the mean prediction, and processor time of a fold."""


def chemprop(recipe: Recipe, folder: Path, seeds: int, options: tuple[str, ...]) -> Result:
    """Train chemprop on the splits of a recipe; ``seeds`` is the number of models."""
    folder.mkdir(parents=True, exist_ok=True)
    data = recipe.data
    assert isinstance(data, MoleculeTable)
    table, lines = read_molecules(data.source()), data.load().preprocessing
    split_of = {line: name for name in ("val", "test") for line in lines[f"{name}_lines"].tolist()}
    columns = {
        "smiles": table.columns[data.smiles],
        "y": [float(cell) for cell in table.columns[str(data.target)]],
        "split": [split_of.get(line, "train") for line in table.lines],
    }
    rows = pandas.DataFrame(columns)
    rows.to_csv(folder / "rows.csv", index=False)
    arguments = ["-i", folder / "rows.csv", "-o", folder, "--splits-column", "split"]
    arguments += ["-s", "smiles", "--target-columns", "y", "--accelerator", "cpu", "-n", "0", "-q"]
    arguments += ["--ensemble-size", seeds, "--pytorch-seed", "0", *options]
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", CHEMPROP, "train", *map(str, arguments)], check=True)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    test = rows[rows["split"] == "test"].reset_index()
    predictions = []
    for k in range(seeds):
        predicted = pandas.read_csv(folder / f"model_{k}/test_predictions.csv")
        assert predicted["smiles"].tolist() == test["smiles"].tolist()
        predictions.append(predicted["y"])
    errors = np.stack(predictions) - test["y"].to_numpy()
    return {
        "single": float(np.sqrt((errors**2).mean(1)).mean()),
        "ensemble": float(np.sqrt((errors.mean(0) ** 2).mean())),
        "cpu_seconds": sum(ended[:2]) - sum(began[:2]),
    }


def edgewise(recipe: Recipe, folder: Path, seeds: int) -> Result:
    """Train a recipe with several seeds, unless they are in the folder, and return the result."""
    began = time.process_time()
    metrics: dict[str, Any] = runs.train_seeds(recipe, seeds, folder, resume=folder.exists())
    rmse = metrics["test/rmse"]
    return {
        "single": rmse["mean"],
        "ensemble": rmse.get("ensemble", rmse["mean"]),
        "cpu_seconds": time.process_time() - began,
    }


def kept(measure: Callable[[], Any], path: Path) -> Any:
    """Return the value in a JSON file, or measure it and write the file."""
    if not path.is_file():
        value = measure()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    return json.loads(path.read_text())


def baseline_results(recipe: Recipe) -> dict[str, Result]:
    """Return the result of each baseline of a recipe."""
    return {
        baseline.name: {"single": baseline.metrics["test/rmse"], "cpu_seconds": baseline.seconds}
        for baseline in runs.baselines(recipe)
    }


def lines(measured: dict[str, list[Result]]) -> Iterator[str]:
    """Yield a table of the results of each method on each fold."""
    yield "| method | single model | mean prediction | minutes |"
    yield "| --- | ---: | ---: | ---: |"
    for name, results in measured.items():
        cells = [
            "{:.3f} ± {:.3f}".format(*mean_and_std([result[key] for result in results]))
            if key in results[0]
            else ""
            for key in ("single", "ensemble")
        ]
        minutes = sum(result["cpu_seconds"] for result in results) / 60
        yield f"| {name} | {' | '.join(cells)} | {minutes:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chemprop", type=Path, required=True, help="folder with chemprop")
    parser.add_argument("--folds", type=int, default=5, help="number of folds to measure")
    parser.add_argument("--seeds", type=int, default=3, help="number of models for each fold")
    parser.add_argument("--folder", type=Path, default=Path("runs/chemprop"), help="run folders")
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = str(arguments.chemprop.resolve())
    folder, seeds = arguments.folder, arguments.seeds
    data = ESOL()
    values = {"path": data.source(), "smiles": data.smiles, "target": data.target}
    recipe = runs.with_values(
        find("molecules"), {f"data.{name}": str(value) for name, value in values.items()}
    )
    measured: dict[str, list[Result]] = {}
    for fold, of_fold in list(fold_recipes(recipe).items())[: arguments.folds]:
        methods: dict[str, Callable[[Path], Result]] = {
            "molecules": partial(edgewise, of_fold, seeds=seeds),
            **{
                name: partial(chemprop, of_fold, seeds=seeds, options=options)
                for name, options in OPTIONS.items()
            },
        }
        for name, train in methods.items():
            to = folder / f"{name}-{fold}"
            result = kept(partial(train, to), folder / f"{name}-{fold}.json")
            measured.setdefault(name, []).append(result)
        simple = kept(partial(baseline_results, of_fold), folder / f"baselines-{fold}.json")
        for name, result in simple.items():
            measured.setdefault(name, []).append(result)
    print("\n".join(lines(measured)))


if __name__ == "__main__":
    main()
