"""Test Reformer with another number of hash rounds than in training, on the task duplication.

    python examples/scripts/hash_rounds.py runs/hash-rounds

The script trains the recipe `duplication` with one and with four hash rounds, three seeds each. It
tests each model with one, two, four and eight rounds, with five random seeds of the hashes each.
Models that are already in the folder are not trained again.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean, stdev

import edgewise as ew
from edgewise.app.kinds import RECIPES
from edgewise.app.runs import Run, train_seeds
from edgewise.app.train import evaluate
from edgewise.models.reformer import LSHAttention

TRAINED, ASKED, SEEDS, HASH_SEEDS = (1, 4), (1, 2, 4, 8), 3, 5


def found(run: Run, rounds: int, seed: int) -> float:
    """Return the test accuracy of a run with this number of hash rounds and this hash seed."""
    for layer in run.model.modules():
        if isinstance(layer, LSHAttention):
            layer.hashing = replace(layer.hashing, rounds=rounds, seed=seed)
    loaders = run.recipe.data.load().loaders(0)
    return evaluate(run.model, run.recipe.task, loaders)["test/accuracy"]


def main() -> None:
    recipe = RECIPES["duplication"]
    print("| hash rounds in training |", " | ".join(f"{n} rounds in test" for n in ASKED), "|")
    print("| --- |", " | ".join("---:" for _ in ASKED), "|")
    for rounds in TRAINED:
        folder = Path(sys.argv[1]) / f"hashes-{rounds}"
        model = partial(recipe.model, num_hashes=rounds)
        train_seeds(replace(recipe, model=model), SEEDS, folder, resume=folder.exists())
        runs = [ew.load(folder / f"seed-{seed}") for seed in range(SEEDS)]
        cells = []
        for asked in ASKED:
            shares = [100 * found(run, asked, seed) for run in runs for seed in range(HASH_SEEDS)]
            cells.append(f"{mean(shares):.2f} ± {stdev(shares):.2f} %")
        print(f"| {rounds} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
