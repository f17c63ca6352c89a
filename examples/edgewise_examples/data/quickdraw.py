"""Quick, Draw!: sketches as graphs of the points that the pen was at, 25 of each of 344 things.

A selection of Google's data set, in its simplified form: 25 drawings a category as they were
collected in a public repository. The first 15 of each are to train, five to validate, five to test.

Papers: Ha and Eck, A neural representation of sketch drawings, 2018; Xu, Joshi and Bresson,
Multigraph Transformer for free-hand sketch recognition, 2019 (the graphs).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from edgewise.arguments import check_choice, check_least, check_share
from edgewise.batches import Batch
from edgewise.data.files import find_raw, not_published, unreadable
from edgewise.data.images.warping import affine_maps
from edgewise.data.packed import PackedGraphs
from edgewise.data.reading import read_text
from edgewise.data.splits import Data, Split, Splits
from edgewise.encodings import sinusoidal_positions
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, batch, complete
from edgewise.ragged import run_of_each
from edgewise_examples.data.strokes import SIDE, Stroke, read_strokes

NAME, FILES = "quickdraw_25x344", ["quickdraw_25x344.ndjson.gz", "categories.txt"]
TRAIN, VAL = 15, 5  # of each category; the rest is to test
POINTS = 100  # of a sketch; those after it are left out, as in the paper
GRAPHS = 3
PLACE = 2  # the first numbers of a point: x and y
WAVES = 16

Joined = Literal["multi", "two_hop", "complete"]


@dataclass(frozen=True)
class QuickDraw(Data):
    """A sketch an example: its points in their order, who is joined to whom, and what it shows.

    A model is called ``model(x, graph, batch=, edge_attr=)``. A point has its place, and whether it
    begins or ends a stroke. ``edge_attr`` ``[E, 3]`` says in which graphs an edge is, of three that
    each have every point joined to itself, too; all pairs are a graph without it.

    Attributes:
        joined: ``multi``: points one step apart on a stroke; up to two steps; the end of each
            stroke and the beginning of the next. ``two_hop``: the second of these in the place of
            each; ``complete``: all pairs.
        order: whether a point also has waves of its number: when it was drawn.
        categories: how many, the first in alphabetical order.
        flip: whether sketches to train on are mirrored, half of them, differently every time.
        warp: how much sketches to train on are turned, stretched, sheared and moved; at 0.1 by up
            to a tenth of their size.
        batch_size: sketches in a batch.

    """

    joined: Joined = "multi"
    order: bool = False
    categories: int = 344
    flip: bool = False
    warp: float = 0.0
    batch_size: int = 64

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width", "edge_width")

    def __post_init__(self) -> None:
        check_choice("data.joined", self.joined, get_args(Joined))
        check_least("data.categories", self.categories, 2, "choose 344 for all")
        check_share("data.warp", self.warp, "choose for example 0.1")
        check_least("data.batch_size", self.batch_size, 1, "choose for example 64")

    def load(self) -> Splits:
        raw = find_raw(NAME, FILES, not_published(NAME, FILES))
        names = read_text(raw / FILES[1]).split("\n")
        names = [name for name in names if name][: self.categories]
        if len(names) < self.categories:
            raise ArgumentError(
                "data.categories",
                expected=f"at most {len(names)}, as {FILES[1]} has them",
                got=str(self.categories),
                remedy="choose fewer",
            )
        drawings = [one for one in _drawings(raw / FILES[0]) if one[0] in names]
        graphs = packed([strokes for _, strokes in drawings], self.joined, self.order)
        y = torch.tensor([names.index(name) for name, _ in drawings])
        # How many of its category came before each: their order in the file.
        of_same = (y[:, None] == y).tril(-1).sum(1)
        bounds = [(0, TRAIN), (TRAIN, TRAIN + VAL), (TRAIN + VAL, len(y))]
        train, val, test = (
            self._part(graphs, ((of_same >= first) & (of_same < last)).nonzero()[:, 0], y, vary)
            for (first, last), vary in zip(bounds, (self._varied, None, None), strict=True)
        )
        sizes = {"in_width": graphs.x.shape[1], "out_width": len(names), "edge_width": GRAPHS}
        return Splits(sizes, train, val, test, self.batch_size, fitted={"labels": names})

    def _varied(self, x: Tensor, sizes: Tensor) -> Tensor:
        """The points of sketches of so many, each under a map of its own."""
        maps = affine_maps(len(sizes), self.warp)
        if self.flip:
            maps[:, 0] *= torch.where(torch.rand(len(sizes)) < 0.5, -1.0, 1.0)[:, None]
        maps = maps[run_of_each(sizes)]
        place = (maps[:, :, :2] @ x[:, :PLACE, None])[:, :, 0]
        place = place + maps[:, :, 2] / 2  # a place is from -1/2 to 1/2
        return torch.cat([place, x[:, PLACE:]], dim=1)

    def _part(
        self,
        graphs: PackedGraphs,
        which: Tensor,
        y: Tensor,
        vary: Callable[[Tensor, Tensor], Tensor] | None,
    ) -> Split:
        def make(index: Tensor) -> Batch:
            x, graph, keywords = inputs(graphs, which[index], self.joined)
            if vary is not None:
                x = vary(x, graphs.sizes[which[index].unique()])
            return Batch((x, graph), y[which[index]], keywords=keywords)

        return Split(len(which), make)


def packed(drawings: Sequence[Sequence[Stroke]], joined: Joined, order: bool) -> PackedGraphs:
    """The graphs of drawings; see :func:`sketch`."""
    made = [sketch(strokes, joined, order) for strokes in drawings]
    return PackedGraphs.of(*map(list, zip(*made, strict=True)))


def inputs(
    graphs: PackedGraphs, which: Tensor, joined: Joined
) -> tuple[Tensor, Graph, dict[str, Any]]:
    """Of these drawings: points, their graph, and what a model is given by name."""
    x, graph, members, flags = graphs.take(which)
    if joined == "complete":  # runs of points, which need no memory for each pair
        assert graph.segments is not None
        return x, batch(complete(), graph.segments[0]), {"batch": members}
    return x, graph, {"batch": members, "edge_attr": flags}


def sketch(strokes: Sequence[Stroke], joined: Joined, order: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Points ``[n, 4]`` or with waves, edges ``[2, E]``, and the graphs of each, ``[E, 3]``.

    All pairs are not listed: :func:`inputs` joins them.
    """
    places, stroke, begins, ends = [], [], [], []
    for number, (xs, ys) in enumerate(strokes):
        places += list(zip(xs, ys, strict=True))
        stroke += [number] * len(xs)
        begins += [1.0] + [0.0] * (len(xs) - 1)
        ends += [0.0] * (len(xs) - 1) + [1.0]
    n = min(len(places), POINTS)
    pen = torch.tensor([begins[:n], ends[:n]]).T
    parts = [torch.tensor(places[:n]).float() / SIDE - 0.5, pen]
    if order:
        parts.append(sinusoidal_positions(torch.arange(n), WAVES).float())
    graphs = adjacency(torch.tensor(stroke[:n]), joined)
    target, source = graphs.any(0).nonzero().T
    return torch.cat(parts, 1), torch.stack([source, target]), graphs[:, target, source].T.float()


def adjacency(stroke: Tensor, joined: Joined) -> Tensor:
    """``[3, n, n]``, who reads whom in each graph, from the number of each point's stroke."""
    n = len(stroke)
    if joined == "complete":
        return torch.zeros(GRAPHS, n, n, dtype=torch.bool)
    number = torch.arange(n)
    apart = (number[:, None] - number).abs()
    same = stroke[:, None] == stroke
    two = same & (apart <= 2)
    if joined == "two_hop":
        return two.expand(GRAPHS, n, n)
    between = ~same & (apart == 1)  # the end of a stroke and the beginning of the next
    return torch.stack([same & (apart <= 1), two, between | (apart == 0)])


def _drawings(path: Path) -> Iterator[tuple[str, list[Stroke]]]:
    """What each line is of, and its strokes."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line:
            continue
        try:
            drawn = json.loads(line)
            strokes, name = read_strokes(drawn["drawing"]), str(drawn["word"])
        except (ValueError, KeyError, TypeError, ArgumentError) as error:
            raise unreadable(
                path,
                expected="a drawing a line: its word, and strokes of as many x as y",
                got=error.got if isinstance(error, ArgumentError) else str(error),
                line=number,
            ) from error
        yield name, strokes
