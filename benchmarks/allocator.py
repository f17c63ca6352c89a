"""Processor time and memory of a training step, with and without keeping freed memory.

    EDGEWISE_DATA=../shared/data python -m benchmarks.allocator [--rounds N] [--steps N]

The model is `transformer-multi30k` with width 128, 4 + 4 layers and a vocabulary of 10,000, on one
thread. Each measurement runs in a process of its own, because the setting cannot be undone; the two
kinds alternate. Processor time is compared, because other load on the machine hardly changes it.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from itertools import islice
from typing import NamedTuple

import torch

from benchmarks.cpu.measure import status
from benchmarks.gpt import stepper
from edgewise.app import runs
from edgewise.app.kinds import find
from edgewise.app.runs.train_recipe import prepare
from edgewise.app.train.process import keep_freed_memory

SMALL = {
    "model.width": 128,
    "model.depth": 4,
    "model.ffn_dim": 256,
    "model.dropout": 0.3,
    "data.vocab_size": 10_000,
}


class Measured(NamedTuple):
    """Processor seconds of a step, peak memory in MiB, and loss of the last step."""

    seconds: float
    memory: float
    loss: float


def measure(steps: int) -> Measured:
    """Measure training steps in this process; the first three are not timed.

    Args:
        steps: number of steps.
    """
    torch.set_num_threads(1)
    recipe = runs.with_values(find("transformer-multi30k"), SMALL)
    model, splits = prepare(recipe)
    step = stepper(recipe, model, lambda batch: model(*batch.inputs, **batch.keywords))
    batches = iter(splits.loaders(recipe.seed)["train"])
    for batch in islice(batches, 3):
        step(batch)
    start = time.process_time()
    losses = [step(batch).item() for batch in islice(batches, steps)]
    seconds = (time.process_time() - start) / steps
    return Measured(seconds, status("VmHWM") / 2**20, losses[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="number of processes of each kind")
    parser.add_argument("--steps", type=int, default=100, help="number of steps per process")
    parser.add_argument("--kind", choices=("default", "keep"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.kind:
        if arguments.kind == "keep":
            keep_freed_memory()
        print(*measure(arguments.steps))
        return
    by_kind: dict[str, list[Measured]] = {"default": [], "keep": []}
    for _ in range(arguments.rounds):
        for kind, measured in by_kind.items():
            command = [sys.executable, "-m", "benchmarks.allocator", *sys.argv[1:], "--kind", kind]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            measured.append(Measured(*map(float, done.stdout.split()[-3:])))
            print(f"{kind:8} {measured[-1]}", flush=True)
    pairs = list(zip(by_kind["default"], by_kind["keep"], strict=True))
    for name in ("seconds", "memory"):
        ratios = [getattr(keep, name) / getattr(default, name) for default, keep in pairs]
        spread = statistics.stdev(ratios) if len(ratios) > 1 else 0.0
        print(f"{name}, keep / default: {statistics.mean(ratios):.2f} ± {spread:.2f}")
    same = all(default.loss == keep.loss for default, keep in pairs)
    print("the losses are equal" if same else "THE LOSSES DIFFER")


if __name__ == "__main__":
    main()
