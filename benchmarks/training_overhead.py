"""Training overhead: time of a recipe in Edgewise versus a plain PyTorch loop with its model.

    EDGEWISE_DATA=../shared/data python benchmarks/training_overhead.py [--recipe NAME] [--rounds N]

The recipe is `gcn-cora` by default. Both train for the same number of epochs and validate after
each one. Runs alternate. The fastest run of each is compared, because other load on the machine
only makes runs slower.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from edgewise.app import runs
from edgewise.app.kinds import find
from edgewise.app.runs.train_recipe import prepare
from edgewise.app.train import Recipe, RunFolder, fit


def bare(recipe: Recipe) -> float:
    """Return the seconds of a plain loop with one training step and one validation per epoch."""
    model, splits = prepare(recipe)
    loaders = splits.loaders(recipe.seed)
    (train,), (val,) = list(loaders["train"]), list(loaders["val"])
    optimizer = recipe.optimizer.build(model)
    start = time.perf_counter()
    for _ in range(recipe.trainer.epochs):
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(
            train.select_outputs(model(*train.inputs, **train.keywords)), train.target
        ).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            answers = val.select_outputs(model(*val.inputs, **val.keywords)).argmax(-1)
            (answers == val.target).float().mean().item()
    return time.perf_counter() - start


def ours(recipe: Recipe) -> float:
    """Return the seconds that a training in Edgewise takes from the first to the last step."""
    model, splits = prepare(recipe)
    loaders = splits.loaders(recipe.seed)
    with tempfile.TemporaryDirectory() as folder:
        metrics = fit(
            model,
            recipe.task,
            loaders,
            RunFolder(Path(folder)),
            optimizer=recipe.optimizer,
            schedule=recipe.schedule,
            trainer=recipe.trainer,
        )
    return metrics["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--recipe", default="gcn-cora", help="recipe with one batch per epoch")
    parser.add_argument("--rounds", type=int, default=3, help="number of runs of each")
    parser.add_argument("--epochs", default="200", help="number of epochs per run")
    arguments = parser.parse_args()
    values = {"trainer.epochs": arguments.epochs, "trainer.patience": 0}
    recipe = runs.with_values(find(arguments.recipe), values)
    times: dict[str, list[float]] = {"bare": [], "edgewise": []}
    for _ in range(arguments.rounds):
        times["bare"].append(bare(recipe))
        times["edgewise"].append(ours(recipe))
    fastest = {name: min(values) for name, values in times.items()}
    for name, values in times.items():
        print(f"{name:9} {min(values):7.2f} s   of {', '.join(f'{v:.2f}' for v in values)}")
    print(f"ratio     {fastest['edgewise'] / fastest['bare']:7.2f}   (target: at most 1.5)")


if __name__ == "__main__":
    main()
