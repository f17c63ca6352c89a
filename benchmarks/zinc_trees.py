"""Baselines of ``zinc``: ridge regression and gradient-boosted trees on molecular fingerprints.

    EDGEWISE_DATA=<folder> python benchmarks/zinc_trees.py [--descriptors] [--json FILE]

The features are Morgan fingerprints, the counts of neighbourhoods of up to two bonds, hashed to
2,048 numbers. ``--descriptors`` adds all RDKit descriptors, which take minutes to compute; they
contain logP, a term of the target. The splits are those of the recipes. The strength of the ridge
penalty is chosen by the validation error. Trees stop early after ``PATIENCE`` without a lower
validation error, or at ``TREES``; to limit their time they use only features of at least ``LEAST``
training molecules.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path

import numpy as np
from rdkit.Chem import rdFingerprintGenerator
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error

from edgewise.data.files import data_root
from edgewise.data.molecules.chem import descriptors, parse
from edgewise.data.molecules.zinc import NAME, PARTS

BITS, RADIUS = 2048, 2
STRENGTHS = (0.1, 1.0, 10.0, 100.0)
TREES, PATIENCE, LEAST = 1000, 20, 100

Parts = dict[str, np.ndarray]


def described(described_too: bool) -> tuple[Parts, Parts]:
    """Return features ``[molecules, features]`` and targets of each split."""
    root, count = data_root(), rdFingerprintGenerator.GetMorganGenerator(RADIUS, fpSize=BITS)
    assert root is not None, "set EDGEWISE_DATA"
    x, y = {}, {}
    for part in PARTS:
        with (root / NAME / "raw" / f"{part}.csv").open() as file:
            rows = list(csv.DictReader(file))
        molecules = [parse(row["smiles"]) for row in rows]
        x[part] = np.array([count.GetCountFingerprintAsNumPy(m) for m in molecules], np.float32)
        if described_too:
            x[part] = np.concatenate([x[part], [descriptors(m) for m in molecules]], axis=1)
        y[part] = np.array([float(row["y"]) for row in rows])
    return x, y


def ridge(x: Parts, y: Parts) -> tuple[float, str]:
    """Return the test error of the penalty with the best validation error, and that penalty."""
    mean, std = x["train"].mean(0), x["train"].std(0) + 1e-6
    scaled = {part: np.clip((rows - mean) / std, -10, 10) for part, rows in x.items()}
    best = (np.inf, np.inf, "")
    for strength in STRENGTHS:
        model = Ridge(alpha=strength * 100).fit(scaled["train"], y["train"])
        val, test = (
            mean_absolute_error(y[part], model.predict(scaled[part])) for part in ("val", "test")
        )
        best = min(best, (val, test, f"strength {strength * 100:g}"))
    return best[1], best[2]


def trees(x: Parts, y: Parts) -> tuple[float, str]:
    """Return the test error of gradient-boosted trees, and their number."""
    common = (x["train"] != 0).sum(0) >= LEAST
    x = {part: rows[:, common] for part, rows in x.items()}
    model = HistGradientBoostingRegressor(
        loss="absolute_error",
        max_iter=TREES,
        early_stopping=True,
        n_iter_no_change=PATIENCE,
        random_state=0,
    ).fit(x["train"], y["train"], X_val=x["val"], y_val=y["val"])
    test = mean_absolute_error(y["test"], model.predict(x["test"]))
    return test, f"{model.n_iter_} trees of {common.sum()} counts"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the metrics for docs/results.py"
    )
    parser.add_argument("--descriptors", action="store_true", help="add RDKit's descriptors")
    options, started = parser.parse_args(), time.process_time()
    x, y = described(options.descriptors)
    errors = {}
    for fit in (ridge, trees):
        errors[fit], choice = fit(x, y)
        print(f"{fit.__name__}: test MAE {errors[fit]:.4f} ({choice})", flush=True)
    if options.json:
        spent = round(time.process_time() - started, 1)
        found = {"metrics": {"test/mae": errors[trees], "cpu_seconds": spent}}
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    print(f"{(time.process_time() - started) / 60:.1f} minutes of CPU time")


if __name__ == "__main__":
    main()
