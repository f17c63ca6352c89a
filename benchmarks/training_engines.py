"""Training time of recipes with different attention engines.

    EDGEWISE_DATA=../shared/data python -m benchmarks.training_engines gat-cora gcn-cora

The times are those of a whole training, including Lightning and the optimizer. Engines alternate,
and the fastest run with each engine is compared.
"""

from __future__ import annotations

import argparse

import edgewise as ew
from benchmarks.training_overhead import ours
from edgewise.app import runs
from edgewise.app.kinds import find


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recipes", nargs="+", help="names of recipes")
    parser.add_argument(
        "--engines", nargs="+", default=["reference", "auto", "rows"], help="engines to time"
    )
    parser.add_argument("--rounds", type=int, default=3, help="number of runs per engine")
    parser.add_argument("--epochs", default="100", help="number of epochs per run")
    arguments = parser.parse_args()
    for name in arguments.recipes:
        values = {"trainer.epochs": arguments.epochs, "trainer.patience": 0}
        recipe = runs.with_values(find(name), values)
        times: dict[str, list[float]] = {engine: [] for engine in arguments.engines}
        for _ in range(arguments.rounds):
            for engine, seconds in times.items():
                with ew.using_engine(engine):
                    seconds.append(ours(recipe))
        first = min(times[arguments.engines[0]])
        for engine, seconds in times.items():
            print(f"{name:12} {engine:10} {min(seconds):7.2f} s   {first / min(seconds):5.2f}×")


if __name__ == "__main__":
    main()
