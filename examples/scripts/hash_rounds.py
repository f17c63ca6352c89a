"""Reformer's duplication, trained with some rounds of hashes and asked with others.

    python examples/scripts/hash_rounds.py runs/hash-rounds

Trains the recipe `duplication` with one round and with four, three seeds each, and tests all of
them with one, two, four and eight rounds, each with five seeds of the hashes. Runs that are in the
folder are not trained again.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean, stdev

import edgewise as ew
from edgewise import training
from edgewise.models.reformer import LSHAttention
from edgewise.recipes import RECIPES
from edgewise.runs import train_seeds

TRAINED, ASKED, SEEDS, HASH_SEEDS = (1, 4), (1, 2, 4, 8), 3, 5


def found(run: ew.inference.Run, rounds: int, seed: int) -> float:
    """The share of symbols that the run finds with so many rounds, of the hashes of this seed."""
    for layer in run.model.modules():
        if isinstance(layer, LSHAttention):
            layer.hashing = replace(layer.hashing, rounds=rounds, seed=seed)
    loaders = run.recipe.data.load().loaders(0)
    return training.evaluate(run.model, run.recipe.task, loaders)["test/accuracy"]


def main() -> None:
    recipe = RECIPES["duplication"]
    print("| trained with |", " | ".join(f"asked with {n}" for n in ASKED), "|")
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
