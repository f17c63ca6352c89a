"""Train a recipe for each combination of values, as jobs of a cluster or of this machine.

submitit (``pip install submitit``) sends the jobs to SLURM, or with ``--cluster local`` runs them
as processes of this machine. A job that is stopped at its time limit resumes from its checkpoint.

python examples/scripts/sweep.py digits runs/sweep optimizer.lr=0.001,0.003 model.depth=2,4
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import Any

import submitit

from edgewise.app import runs
from edgewise.app.kinds import find
from edgewise.app.train import RunFolder


class Training:
    """A training that submitit starts; after a time limit, it is sent again and resumes."""

    def __call__(self, name: str, values: dict[str, str], out: Path) -> dict[str, float]:
        """Train or resume, and return the metrics."""
        begun = RunFolder(out).has("recipe.json")
        return runs.train(runs.with_values(find(name), values), out, resume=begun)

    def checkpoint(self, *arguments: Any) -> submitit.helpers.DelayedSubmission:
        """Return the call that continues this job."""
        return submitit.helpers.DelayedSubmission(self, *arguments)


def main() -> None:
    """Send all jobs, wait, and print the metrics, best first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    parser.add_argument("out", type=Path)
    parser.add_argument("fields", nargs="+", metavar="FIELD=VALUE,VALUE")
    parser.add_argument("--cluster", help="slurm or local; by default what the machine has")
    parser.add_argument("--minutes", type=int, default=60)
    options = parser.parse_args()
    names, choices = zip(*(field.split("=", 1) for field in options.fields), strict=True)
    trainer = find(options.recipe).trainer

    executor = submitit.AutoExecutor(folder=options.out / "jobs", cluster=options.cluster)
    executor.update_parameters(timeout_min=options.minutes, cpus_per_task=1)
    jobs = {}
    with executor.batch():
        for values in itertools.product(*(choice.split(",") for choice in choices)):
            label = " ".join(map("=".join, zip(names, values, strict=True)))
            folder = options.out / label.replace(" ", "_")
            values_of = dict(zip(names, values, strict=True))
            jobs[label] = executor.submit(Training(), options.recipe, values_of, folder)
    results = {label: job.result()[trainer.monitor] for label, job in jobs.items()}
    for label in sorted(results, key=results.__getitem__, reverse=trainer.mode == "max"):
        print(f"{results[label]:.4f}  {label}")


if __name__ == "__main__":
    main()
