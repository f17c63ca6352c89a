"""The baseline for ``ionic-liquids-co2``: gradient-boosted trees on RDKit descriptors, T and P.

    EDGEWISE_DATA=<folder> python benchmarks/descriptor_trees.py [--parts] [--json FILE]

The splits are those of the recipe: the trees are fitted on the training liquids; loss, size of the
trees and number of trees are chosen by the error on the validation liquids; the test liquids are
looked at once. Logarithms and scales do not matter to trees, so T and P are given as they are.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from edgewise.data import ionic_liquids
from edgewise.data.folds import Folds
from edgewise.data.molecules.chem import descriptors, ions, parse
from edgewise.data.table import Table, read_table
from edgewise.runs.seeds import summarise

LOSSES = ("squared_error", "absolute_error")
LEAVES = (31, 63)
TREES, STEP = 400, 20  # the most trees, and how finely their number is chosen


def features(table: Table, data: ionic_liquids, parts: bool) -> np.ndarray:
    """``[rows, 2 + descriptors]``, of the whole liquid or of the cation and of the anion."""
    names = table.texts("data.smiles", data.smiles)
    known = {}
    for name in set(names):
        liquid = parse(name)
        known[name] = np.concatenate(
            [descriptors(p) for p in (ions(liquid) if parts else [liquid])]
        )
    measured = table.numbers("data.conditions", data.conditions).numpy()
    return np.concatenate([measured, np.array([known[name] for name in names])], axis=1)


def tuned(x: np.ndarray, y: np.ndarray, split: dict[str, np.ndarray]) -> tuple[np.ndarray, str]:
    """Predictions on the test liquids, and the choice that was best on the validation liquids."""
    best = (np.inf, np.empty(0), "")
    for loss, leaves in itertools.product(LOSSES, LEAVES):
        trees = HistGradientBoostingRegressor(
            loss=loss, max_leaf_nodes=leaves, max_iter=TREES, early_stopping=False, random_state=0
        )
        trees.fit(x[split["train"]], y[split["train"]])
        stages = zip(
            trees.staged_predict(x[split["val"]]),
            trees.staged_predict(x[split["test"]]),
            strict=True,
        )
        for count, (val, test) in enumerate(stages, 1):
            error = mean_absolute_error(y[split["val"]], val)
            if count % STEP == 0 and error < best[0]:
                best = (error, test.copy(), f"{loss}, {leaves} leaves, {count} trees")
    return best[1], best[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", action="store_true", help="describe cation and anion apart")
    parser.add_argument("--json", type=Path, metavar="FILE", help="for docs/results.py")
    arguments = parser.parse_args()
    parts = arguments.parts
    data, started = ionic_liquids(), time.process_time()
    table = read_table(data.source())
    x, names = features(table, data, parts), table.texts("data.smiles", data.smiles)
    y = table.numbers("data.target", [data.target])[:, 0].numpy().astype(float)
    rows = []
    for fold in range(data.folds):
        index = Folds(data.folds, fold, data.val, data.split_seed).split("group", names)
        split = {name: part.numpy() for name, part in index.items()}
        predicted, choice = tuned(x, y, split)
        truth = y[split["test"]]
        metrics = (mean_absolute_error, root_mean_squared_error, r2_score)
        rows.append([metric(truth, predicted) for metric in metrics])
        shown = "  ".join(f"{v:.4f}" for v in rows[-1])
        print(f"fold {fold}  MAE, RMSE, R²: {shown}  ({choice})", flush=True)
    names = ("test/mae", "test/rmse", "test/r2")
    summary = summarise([dict(zip(names, map(float, row), strict=True)) for row in rows])
    for name, value in summary.items():
        print(f"{name:<10}{value['mean']:.4f} ± {value['std']:.4f}")
    spent = time.process_time() - started
    print(f"{spent / 60:.1f} minutes of the processor")
    if arguments.json:
        found = {"metrics": {**summary, "cpu_seconds": round(spent, 1)}}
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
