"""Test accuracy of naive Bayes alone, the part that a recipe of texts adds to its network.

python -m benchmarks.naive_bayes sst2 [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from edgewise._utils.errors import ArgumentError
from edgewise.app.kinds import find
from edgewise.app.train.baseline import batches_of
from edgewise.app.train.text.naive_bayes import NaiveBayes


def measure(name: str) -> dict[str, float]:
    """Return the test accuracy of the naive Bayes classifier of a recipe, and processor seconds."""
    begin = time.process_time()
    splits = find(name).data.load()
    values = splits.preprocessing.items()
    prefix = "naive_bayes."
    counts = {key.removeprefix(prefix): x for key, x in values if key.startswith(prefix)}
    if not counts:
        raise ArgumentError(
            "recipe",
            expected="a recipe whose data have naive_bayes",
            got=name,
            remedy="choose for example sst2",
        )
    model, correct = NaiveBayes(**counts), 0
    for batch in batches_of(splits.test):
        correct += int((model(*batch.inputs).argmax(1) == batch.target).sum())
    accuracy = correct / splits.test.count
    return {"test/accuracy": accuracy, "cpu_seconds": round(time.process_time() - begin, 1)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("recipe", help="recipe whose data have naive_bayes, such as sst2")
    parser.add_argument("--json", type=Path, metavar="FILE", help="file to write")
    arguments = parser.parse_args()
    metrics = measure(arguments.recipe)
    print(f"accuracy {metrics['test/accuracy']:.4f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"metrics": metrics}))
