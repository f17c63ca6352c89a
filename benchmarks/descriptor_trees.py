"""Baseline of ``ionic-liquids-co2``: gradient-boosted trees on RDKit descriptors, T and P.

    EDGEWISE_DATA=<folder> python benchmarks/descriptor_trees.py
        [--parts] [--fingerprints] [--json FILE]

With ``--fingerprints`` the features are counts of the neighbourhoods of up to two bonds around each
atom (Morgan fingerprints; Rogers and Hahn, 2010) in place of descriptors, so that the trees know
the structure only, like the model without descriptors.

The splits are those of the recipe. Loss, tree size and number of trees are chosen by the error on
the validation liquids; the test liquids are used once. T and P are not transformed, because trees
are invariant to monotonic transformations.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from edgewise.data import ionic_liquids
from edgewise.data.folds import Folds
from edgewise.data.molecules.chem import descriptors, ions, parse, rdkit
from edgewise.data.tables.read import read_table
from edgewise.data.tables.table import Table
from edgewise.runs.seeds import summarise

LOSSES = ("squared_error", "absolute_error")
LEAVES = (31, 63)
TREES, STEP = 400, 20  # max number of trees, and the step of its grid
BITS = 2048  # size of a fingerprint


def fingerprint(molecule: Any) -> np.ndarray:
    """Return the counts of neighbourhoods of up to two bonds, hashed to ``BITS`` features."""
    rdkit()
    from rdkit.Chem import rdFingerprintGenerator

    made = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=BITS)
    return made.GetCountFingerprintAsNumPy(molecule).astype(float)


def features(
    table: Table, data: ionic_liquids, parts: bool, describe: Callable[[Any], Any] = descriptors
) -> np.ndarray:
    """Return features ``[rows, 2 + descriptors]`` of the liquid, or of cation and anion separately.

    Constant columns are left out, because trees cannot split on them.
    """
    names = table.texts("data.smiles", data.smiles)
    known = {}
    for name in set(names):
        liquid = parse(name)
        known[name] = np.concatenate([describe(p) for p in (ions(liquid) if parts else [liquid])])
    described = np.array([known[name] for name in names])
    described = described[:, np.ptp(described, axis=0) > 0]
    measured = table.numbers("data.conditions", data.conditions).numpy()
    return np.concatenate([measured, described], axis=1)


def tuned(x: np.ndarray, y: np.ndarray, split: dict[str, np.ndarray]) -> tuple[np.ndarray, str]:
    """Return test predictions of the hyperparameters with the best validation error, and these."""
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
    parser.add_argument("--parts", action="store_true", help="describe cation and anion separately")
    parser.add_argument(
        "--fingerprints", action="store_true", help="use Morgan fingerprints, not descriptors"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the metrics for docs/results.py"
    )
    arguments = parser.parse_args()
    parts = arguments.parts
    data, started = ionic_liquids(), time.process_time()
    table = read_table(data.source())
    describe = fingerprint if arguments.fingerprints else descriptors
    x, names = features(table, data, parts, describe), table.texts("data.smiles", data.smiles)
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
    print(f"{spent / 60:.1f} minutes of CPU time")
    if arguments.json:
        found = {"metrics": {**summary, "cpu_seconds": round(spent, 1)}}
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
