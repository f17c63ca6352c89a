"""Baseline of ``sketches`` without a graph: trees on histograms of stroke positions and directions.

    EDGEWISE_DATA=<folder> python benchmarks/sketch_trees.py [--json FILE]

The 578 features of a drawing are the amount of ink in each cell of a grid for each of four stroke
directions, and the numbers of strokes and points. Data, splits, mirroring and warping are those of
the recipe; each training drawing is used once unchanged and ``VARIED`` times augmented. The number
of features per split is chosen by the validation accuracy.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from edgewise_examples.data.quickdraw import PLACE
from sklearn.ensemble import ExtraTreesClassifier
from torch import Tensor

from edgewise.batches import Batch
from edgewise.data.splits import Split
from edgewise.ragged import segment_index
from edgewise.recipes import find

CELLS, DIRECTIONS = 12, 4
BETWEEN = 16  # sampled positions on each line between two points
VARIED, TREES, CHOICES = 4, 200, ("sqrt", 60)


def described(batch: Batch) -> Tensor:
    """Return features ``[B, DIRECTIONS * CELLS * CELLS + 2]`` of the drawings of a batch."""
    x, graph = batch.inputs
    sizes = graph.segments[0]
    drawing = segment_index(sizes, len(x))
    place, begins, ends = x[:, :PLACE], x[:, PLACE], x[:, PLACE + 1].clone()
    ends[sizes.cumsum(0) - 1] = 1  # the last stroke of a truncated drawing ends, too
    step = place.diff(dim=0, append=place[-1:]) * (1 - ends[:, None])
    along = (torch.arange(BETWEEN) + 0.5) / BETWEEN
    place = place[:, None] + along[:, None] * step[:, None]
    place = ((place + 0.5) * CELLS - 0.5).clamp(0, CELLS - 1.001)
    turn = torch.atan2(step[:, 1], step[:, 0]) % math.pi / math.pi * DIRECTIONS
    ink = torch.zeros(len(sizes), DIRECTIONS, CELLS, CELLS)
    # Linear interpolation between neighbouring cells and directions.
    for across in (0, 1):
        for down in (0, 1):
            for after in (0, 1):
                cell, way = place.long(), turn.long()
                weight = (1 - (place - cell - torch.tensor([across, down])).abs()).prod(-1)
                weight = weight * (1 - (turn - way - after).abs())[:, None]
                weight = weight * step.norm(dim=1)[:, None] / BETWEEN
                index = (
                    drawing[:, None].expand_as(weight),
                    ((way + after) % DIRECTIONS)[:, None].expand_as(weight),
                    cell[..., 1] + down,
                    cell[..., 0] + across,
                )
                ink.index_put_(index, weight, accumulate=True)
    strokes = torch.zeros(len(sizes)).index_add(0, drawing, begins)
    return torch.cat([ink.sqrt().flatten(1), strokes[:, None], sizes[:, None]], dim=1)


def read(split: Split, times: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return features and labels of all drawings of a split, ``times`` times."""
    batches = [split.make(torch.arange(split.count)) for _ in range(times)]
    x = torch.cat([described(batch) for batch in batches])
    return x.numpy(), torch.cat([batch.target for batch in batches]).numpy()


def right(model: ExtraTreesClassifier, x: np.ndarray, y: np.ndarray) -> float:
    """Return the accuracy of a model."""
    return float((model.predict(x) == y).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the metrics for docs/results.py"
    )
    options, started = parser.parse_args(), time.process_time()
    torch.manual_seed(0)
    varied = find("sketches").data
    splits = replace(varied, flip=False, warp=0.0).load()
    parts = [read(splits.train), read(varied.load().train, VARIED)]
    x, y = (np.concatenate(of) for of in zip(*parts, strict=True))
    val, test = read(splits.val), read(splits.test)
    best = (-1.0, 0.0)
    for choice in CHOICES:
        model = ExtraTreesClassifier(TREES, max_features=choice, random_state=0).fit(x, y)
        found = right(model, *val), right(model, *test)
        best = max(best, found, key=lambda accuracies: accuracies[0])
        print(f"{choice} features: val {found[0]:.4f}, test {found[1]:.4f}", flush=True)
    if options.json:
        spent = round(time.process_time() - started, 1)
        metrics = {"test/accuracy": best[1], "cpu_seconds": spent}
        options.json.write_text(json.dumps({"metrics": metrics}, indent=2) + "\n")


if __name__ == "__main__":
    main()
