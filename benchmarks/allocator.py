"""Processor time and memory of a training step, with and without keeping freed memory.

    EDGEWISE_DATA=../shared/data python -m benchmarks.allocator [RECIPE] [--rounds N] [--fields ...]

Each measurement runs in a process of its own, because the setting cannot be undone; the two kinds
alternate. Processor time is compared, because other load on the machine hardly changes it.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from itertools import islice

from torch.nn.utils import clip_grad_norm_

from edgewise import recipes, runs
from edgewise.runs.train_recipe import prepare
from edgewise.training.allocator import keep_freed_memory

SMALL = [
    *("model.width=128", "model.depth=4", "model.ffn_dim=256"),
    *("model.dropout=0.3", "data.vocab_size=10000"),
]


def measure(name: str, fields: list[str], steps: int) -> None:
    """Print the processor seconds of a training step and the peak memory in MB.

    Args:
        name: recipe.
        fields: changed fields of the recipe, such as ``model.width=128``.
        steps: number of steps.
    """
    recipe = runs.with_values(recipes.find(name), dict(each.split("=", 1) for each in fields))
    model, splits = prepare(recipe)
    optimizer = recipe.optimizer.build(model)
    batches = list(islice(splits.loaders(recipe.seed)["train"], steps))

    def step(batch) -> None:  # type: ignore[no-untyped-def]
        outputs = batch.select_outputs(model(*batch.inputs, **batch.keywords))
        recipe.task.loss(outputs, batch.target).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    for batch in batches[:3]:
        step(batch)
    start = time.process_time()
    for batch in batches:
        step(batch)
    seconds = (time.process_time() - start) / len(batches)
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recipe", nargs="?", default="transformer-multi30k")
    parser.add_argument("--fields", nargs="*", default=SMALL, help="changed fields: model.width=64")
    parser.add_argument("--rounds", type=int, default=3, help="number of processes of each kind")
    parser.add_argument("--steps", type=int, default=20, help="number of steps per process")
    parser.add_argument("--kind", choices=("default", "keep"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.kind:
        if arguments.kind == "keep":
            keep_freed_memory()
        measure(arguments.recipe, arguments.fields, arguments.steps)
        return
    found: dict[str, list[list[float]]] = {"default": [], "keep": []}
    for _ in range(arguments.rounds):
        for kind, rows in found.items():
            command = [sys.executable, "-m", "benchmarks.allocator", *sys.argv[1:], "--kind", kind]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rows.append([float(value) for value in done.stdout.split()[-2:]])
    times, memory = (
        {kind: [row[which] for row in rows] for kind, rows in found.items()} for which in (0, 1)
    )
    for kind in found:
        each = ", ".join(f"{seconds:.3f}" for seconds in times[kind])
        print(f"{kind:8} {each} s per step; at most {max(memory[kind]):.0f} MB")
    ratios = [keep / default for default, keep in zip(*times.values(), strict=True)]
    spread = statistics.stdev(ratios) if len(ratios) > 1 else 0.0
    print(f"keep / default: {statistics.mean(ratios):.2f} ± {spread:.2f}")


if __name__ == "__main__":
    main()
