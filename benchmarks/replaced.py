"""Effects of parts that are replaced in the input itself, beside the contributions of each method.

    python -m benchmarks.replaced runs/digits --inputs 40
    python -m benchmarks.replaced runs/series --inputs 10

Patches of 8 × 8 digits are replaced by their mean over images, or painted black; values of a series
by the mean of the history.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice
from typing import Any, get_args

import torch
from torch import Tensor

import edgewise
from benchmarks.fidelity import inputs_of
from edgewise.app.explain import cases
from edgewise.app.kinds.series.predict import Forecasts
from edgewise.app.predict.cases import log_odds, output_rows
from edgewise.app.runs import Run
from edgewise.explain.attribution import Case, Method, contributions


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", help="folder of a run on digits, or on a series")
    parser.add_argument("--inputs", type=int, default=40)
    arguments = parser.parse_args()
    run = edgewise.load(arguments.run)
    inputs = list(islice(inputs_of(run, None), arguments.inputs))
    effects = (
        of_steps(run, inputs) if isinstance(run.predictor, Forecasts) else of_patches(run, inputs)
    )
    rows: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for case, by_replacement in effects:
        for method in [name for name in get_args(Method) if name != "auto"]:
            members = contributions(case, method).members
            strongest = int(members.abs().argmax())
            for replacement, values in by_replacement.items():
                rank = int((values.abs() >= values[strongest].abs()).sum())
                is_same_sign = bool(values[strongest] * members[strongest] > 0)
                row = correlation(members, values), rank, is_same_sign
                rows.setdefault((method, replacement), []).append(row)
    for (method, replacement), columns in rows.items():
        spearman, ranks, signs = torch.tensor(columns, dtype=torch.double).T
        first, in_three = ((ranks <= most).double().mean() for most in (1, 3))
        print(
            f"{method:21} {replacement:6} Spearman {spearman.nanmean():6.3f}, strongest: rank "
            f"{ranks.mean():4.1f} of {len(case.labels)}, first in {first:.0%}, in first three in "
            f"{in_three:.0%}, sign {signs.mean():.0%}"
        )


def of_patches(run: Run, images: list[Any]) -> Iterator[tuple[Case, dict[str, Tensor]]]:
    """Yield the case of each image, and the decrease of its log-odds without each patch."""
    prepared = torch.stack([run.predictor.prepare(image) for image in images])
    black = run.predictor.prepare(images[0].point(lambda _: 0))
    for image, x in zip(images, prepared, strict=True):
        (case,) = cases(run.predictor, image)
        side = x.shape[-1] // round(len(case.labels) ** 0.5)
        corners = [
            (slice(top, top + side), slice(left, left + side))
            for top in range(0, x.shape[-2], side)
            for left in range(0, x.shape[-1], side)
        ]
        by_replacement = {}
        for name, fill in (("mean", prepared.mean(0)), ("black", black)):
            replaced = x.repeat(len(corners) + 1, 1, 1, 1)
            for patch, (rows, columns) in enumerate(corners):
                replaced[patch, :, rows, columns] = fill[:, rows, columns]
            with torch.no_grad():
                out = run.model(replaced)
            odds = log_odds(out, out[-1:].argmax(-1).expand(len(out)))
            by_replacement[name] = odds[-1] - odds[:-1]
        yield case, by_replacement


def of_steps(run: Run, histories: list[Any]) -> Iterator[tuple[Case, dict[str, Tensor]]]:
    """Yield the first and the last forecast of each history, and its decrease without each step."""
    for values in histories:
        (history,), out, _ = output_rows(run.predictor, values)
        count = history.shape[-1]
        steps = torch.arange(count)
        replaced = history.repeat(count, 1)
        replaced[steps, steps] = history.mean()
        with torch.no_grad():
            decrease = out - run.model(replaced)
        explained = list(cases(run.predictor, values))
        for ahead in (0, -1):
            yield explained[ahead], {"mean": decrease[:, ahead]}


def correlation(first: Tensor, second: Tensor) -> float:
    """Return Spearman's rank correlation of two vectors."""
    ranks = torch.stack([x.double().argsort().argsort().double() for x in (first, second)])
    return float(torch.corrcoef(ranks)[0, 1])


if __name__ == "__main__":
    main()
