"""A baseline of ``sketches`` without a graph: trees on where strokes run, and in which direction.

    EDGEWISE_DATA=<folder> python benchmarks/sketch_trees.py [--json FILE]

A drawing is described by how much ink is in each cell of a grid, by four directions of the stroke
there, and by how many strokes and points it has (578 numbers). Drawings, splits, mirroring and
warping are those of the recipe; each drawing to train on is there as it is and ``VARIED`` times
otherwise. How many of the numbers a tree may choose from is chosen on the validation drawings.
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
from edgewise.ragged import run_of_each
from edgewise.recipes import find

CELLS, DIRECTIONS = 12, 4
BETWEEN = 16  # places on each line between two points
VARIED, TREES, CHOICES = 4, 200, ("sqrt", 60)


def described(batch: Batch) -> Tensor:
    """``[B, DIRECTIONS * CELLS * CELLS + 2]`` of the drawings of a batch, in order."""
    x, graph = batch.inputs
    sizes = graph.segments[0]
    drawing = run_of_each(sizes, len(x))
    place, begins, ends = x[:, :PLACE], x[:, PLACE], x[:, PLACE + 1].clone()
    ends[sizes.cumsum(0) - 1] = 1  # of a drawing that was cut, too
    step = place.diff(dim=0, append=place[-1:]) * (1 - ends[:, None])
    along = (torch.arange(BETWEEN) + 0.5) / BETWEEN
    place = place[:, None] + along[:, None] * step[:, None]
    place = ((place + 0.5) * CELLS - 0.5).clamp(0, CELLS - 1.001)
    turn = torch.atan2(step[:, 1], step[:, 0]) % math.pi / math.pi * DIRECTIONS
    ink = torch.zeros(len(sizes), DIRECTIONS, CELLS, CELLS)
    # Each place is shared out between the cells and the directions that it lies between.
    for across in (0, 1):
        for down in (0, 1):
            for after in (0, 1):
                cell, way = place.long(), turn.long()
                share = (1 - (place - cell - torch.tensor([across, down])).abs()).prod(-1)
                share = share * (1 - (turn - way - after).abs())[:, None]
                share = share * step.norm(dim=1)[:, None] / BETWEEN
                where = (
                    drawing[:, None].expand_as(share),
                    ((way + after) % DIRECTIONS)[:, None].expand_as(share),
                    cell[..., 1] + down,
                    cell[..., 0] + across,
                )
                ink.index_put_(where, share, accumulate=True)
    strokes = torch.zeros(len(sizes)).index_add(0, drawing, begins)
    return torch.cat([ink.sqrt().flatten(1), strokes[:, None], sizes[:, None]], dim=1)


def read(split: Split, times: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """What all drawings of a split are described by, and what they show."""
    batches = [split.make(torch.arange(split.count)) for _ in range(times)]
    x = torch.cat([described(batch) for batch in batches])
    return x.numpy(), torch.cat([batch.target for batch in batches]).numpy()


def right(model: ExtraTreesClassifier, x: np.ndarray, y: np.ndarray) -> float:
    """The share of drawings whose likeliest class is theirs."""
    return float((model.predict(x) == y).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="for docs/results.py")
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
        best = max(best, found, key=lambda shares: shares[0])
        print(f"{choice} numbers: val {found[0]:.4f}, test {found[1]:.4f}", flush=True)
    if options.json:
        spent = round(time.process_time() - started, 1)
        metrics = {"test/accuracy": best[1], "cpu_seconds": spent}
        options.json.write_text(json.dumps({"metrics": metrics}, indent=2) + "\n")


if __name__ == "__main__":
    main()
