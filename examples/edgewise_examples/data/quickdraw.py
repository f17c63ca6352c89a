"""Quick, Draw!: sketches as graphs of strokes or points, 25 sketches in each of 344 categories.

The data are a selection of Google's simplified drawings from a public repository. The first 15
sketches of each category are for training, the next five for validation and the last five for
testing.

Papers: Ha and Eck, A neural representation of sketch drawings, 2018; Xu, Joshi and Bresson,
Multigraph Transformer for free-hand sketch recognition, 2019 (the graphs).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from edgewise._utils.arguments import check_choice, check_range
from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import segment_index, starts
from edgewise.app.files.files import find_raw, not_published, unreadable
from edgewise.app.files.reading import read_text
from edgewise.app.kinds.images.data import affine_maps
from edgewise.app.train import Batch, Data, PackedGraphs, Split, Splits
from edgewise.encodings import sinusoidal_positions
from edgewise.graphs import Graph, Intervals, batch, complete
from edgewise_examples.data.strokes import SIDE, Stroke, read_strokes

NAME, FILES = "quickdraw_25x344", ["quickdraw_25x344.ndjson.gz", "categories.txt"]
TRAIN, VAL = 15, 5  # Numbers of sketches per category; the others are for testing.
POINTS = 100  # Maximum number of points in a sketch, as in the paper.
GRAPHS = 3
PLACE = 2  # Number of coordinates, which are the first features of a point.
WAVES = 16
CELLS, DIRECTIONS = 12, 4
INK = DIRECTIONS * CELLS * CELLS
BETWEEN = 8  # Number of positions on each line between two points for which ink is counted.

Joined = Literal["strokes", "multi", "two_hop", "complete"]


@dataclass(frozen=True)
class QuickDraw(Data):
    """Classification data set of sketches, each given as a graph of its strokes or points.

    A model is called as ``model(x, graph, batch=, edge_attr=)``. The nodes of a sketch are either
    its points, or its strokes with an additional first node for the whole sketch. The features of a
    stroke are the amounts of ink in each cell of a grid, separately for four directions; see
    :func:`ink`. The features of a point are its coordinates, and whether it starts or ends a
    stroke. ``edge_attr`` ``[E, 3]`` says to which of three graphs an edge belongs; all three have
    self-loops. If all pairs of nodes are edges, there is no ``edge_attr``.

    Attributes:
        joined: which nodes and edges a sketch has. ``strokes``: all pairs of strokes. ``complete``:
            all pairs of points. ``multi``: three graphs of points. Their edges join points one step
            apart on a stroke, points up to two steps apart on a stroke, and the end of a stroke
            with the start of the next. ``two_hop``: three copies of the second of these graphs.
        order: whether the features of a point include a sinusoidal encoding of its index.
        categories: number of categories; these are the first ones in alphabetical order.
        flip: whether training sketches are mirrored with probability 1/2.
        warp: strength of the random affine maps applied to training sketches; 0.1 changes each
            coefficient of the map by up to 0.1.
        batch_size: number of sketches per batch.
    """

    joined: Joined = "strokes"
    order: bool = False
    categories: int = 344
    flip: bool = False
    warp: float = 0.0
    batch_size: int = 64

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width", "edge_width")

    def __post_init__(self) -> None:
        check_choice("data.joined", self.joined, get_args(Joined))
        check_range("data.categories", self.categories, "choose 344 for all", least=2)
        check_range("data.warp", self.warp, "choose for example 0.1", least=0, below=1)
        check_range("data.batch_size", self.batch_size, "choose for example 64", least=1)

    def load(self) -> Splits:
        raw = find_raw(NAME, FILES, not_published(NAME, FILES))
        names = read_text(raw / FILES[1]).split("\n")
        names = [name for name in names if name][: self.categories]
        if len(names) < self.categories:
            raise ArgumentError(
                "data.categories",
                expected=f"at most {len(names)}, the number of categories in {FILES[1]}",
                got=str(self.categories),
                remedy="choose fewer categories",
            )
        drawings = [drawing for drawing in _drawings(raw / FILES[0]) if drawing[0] in names]
        graphs = packed([strokes for _, strokes in drawings], self.joined, self.order)
        y = torch.tensor([names.index(name) for name, _ in drawings])
        # This is the index of each sketch within its category, in the order of the file.
        of_same = (y[:, None] == y).tril(-1).sum(1)
        bounds = [(0, TRAIN), (TRAIN, TRAIN + VAL), (TRAIN + VAL, len(y))]
        train, val, test = (
            self._part(graphs, ((of_same >= first) & (of_same < last)).nonzero()[:, 0], y, vary)
            for (first, last), vary in zip(bounds, (self._varied, None, None), strict=True)
        )
        sizes = {"in_width": graphs.x.shape[1], "out_width": len(names), "edge_width": GRAPHS}
        if self.joined == "strokes":
            sizes |= {"in_width": INK + 1, "edge_width": 0}
        return Splits(sizes, train, val, test, self.batch_size, preprocessing={"labels": names})

    def _varied(self, x: Tensor, sizes: Tensor) -> Tensor:
        """Return the points x after applying a random affine map to each sketch.

        ``sizes`` holds the number of points of each sketch.
        """
        maps = affine_maps(len(sizes), self.warp)
        if self.flip:
            maps[:, 0] *= torch.where(torch.rand(len(sizes)) < 0.5, -1.0, 1.0)[:, None]
        maps = maps[segment_index(sizes)]
        xy = (maps[:, :, :2] @ x[:, :PLACE, None])[:, :, 0]
        xy = xy + maps[:, :, 2] / 2  # Halve the shift: coordinates are from -1/2 to 1/2.
        return torch.cat([xy, x[:, PLACE:]], dim=1)

    def _part(
        self,
        graphs: PackedGraphs,
        which: Tensor,
        y: Tensor,
        vary: Callable[[Tensor, Tensor], Tensor] | None,
    ) -> Split:
        def make(index: Tensor) -> Batch:
            x, graph, keywords = inputs(graphs, which[index], self.joined, vary)
            return Batch((x, graph), y[which[index]], keywords=keywords)

        return Split(len(which), make)


def packed(drawings: Sequence[Sequence[Stroke]], joined: Joined, order: bool) -> PackedGraphs:
    """Return the graphs of all drawings in one object; see :func:`sketch` for one drawing."""
    sketches = [sketch(strokes, joined, order) for strokes in drawings]
    return PackedGraphs.of(*map(list, zip(*sketches, strict=True)))


def inputs(
    graphs: PackedGraphs,
    which: Tensor,
    joined: Joined,
    vary: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> tuple[Tensor, Graph, dict[str, Any]]:
    """Return the arguments of a model for some drawings: node features, graph, and keywords.

    Args:
        graphs: graphs of the points of all drawings.
        which: indices of the drawings, ``[B]``.
        joined: see :class:`QuickDraw`.
        vary: function that changes the points ``[N, F]``, given the number of points of each
            drawing, ``[B]``; or ``None``.
    """
    x, graph, members, flags = graphs.take(which)
    assert graph.segments is not None
    points = graph.segments[0]
    if vary is not None:
        x = vary(x, points)
    if joined == "strokes":
        x, sizes = strokes_of(x, points)
        position = which.unique(return_inverse=True)[1]  # A repeated drawing has its nodes once.
        start = starts(sizes)
        members = Intervals(start[position], (start + sizes)[position], len(x))
        return x, batch(complete(), sizes), {"batch": members}
    if joined == "complete":  # This graph is made of intervals, so it needs no memory per pair.
        return x, batch(complete(), points), {"batch": members}
    return x, graph, {"batch": members, "edge_attr": flags}


def strokes_of(x: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """Return node features of drawings, ``[nodes, INK + 1]``, and the number of nodes of each.

    The first node of a drawing stands for the whole drawing, and its last feature is 1. The other
    nodes are the strokes.

    Args:
        x: features of the points, ``[N, 4 or more]``.
        points: number of points of each drawing, ``[B]``.
    """
    drawing, begins = segment_index(points, len(x)), x[:, PLACE] > 0
    strokes = torch.bincount(drawing[begins], minlength=len(points))
    first_node = starts(strokes + 1)
    # The node index increases by one where a stroke begins, and where a drawing begins.
    stroke = begins.cumsum(0) + drawing
    count = len(points) + int(strokes.sum())
    lines = ink(x, points)
    histogram = torch.zeros(count, INK).index_add(0, stroke, lines)
    histogram = histogram.index_add(0, first_node[drawing], lines).sqrt()
    mark = torch.zeros(count, 1).index_fill(0, first_node, 1.0)
    return torch.cat([histogram, mark], dim=1), strokes + 1


def ink(x: Tensor, points: Tensor) -> Tensor:
    """Return a histogram of the line from each point to the next, ``[N, INK]``.

    The length of the line is distributed over the cells of a grid and four directions, with linear
    interpolation between neighbouring cells and directions. The arguments are those of
    :func:`strokes_of`.
    """
    xy, ends = x[:, :PLACE], x[:, PLACE + 1].clone()
    ends[points.cumsum(0) - 1] = 1  # If a drawing is truncated, its last stroke ends here, too.
    step = xy.diff(dim=0, append=xy[-1:]) * (1 - ends[:, None])
    along = (torch.arange(BETWEEN) + 0.5) / BETWEEN
    xy = xy[:, None] + along[:, None] * step[:, None]
    xy = ((xy + 0.5) * CELLS - 0.5).clamp(0, CELLS - 1.001)
    turn = torch.atan2(step[:, 1], step[:, 0]) % math.pi / math.pi * DIRECTIONS
    cell, way = xy.long(), turn.long()
    line = INK * torch.arange(len(x))[:, None]
    length = step.norm(dim=1)[:, None] / BETWEEN
    histogram = torch.zeros(len(x) * INK)
    for across, down, after in product((0, 1), repeat=3):
        weight = (1 - (xy - cell - torch.tensor([across, down])).abs()).prod(-1)
        weight = weight * (1 - (turn - way - after).abs())[:, None] * length
        bin_ = ((way + after) % DIRECTIONS)[:, None] * CELLS + cell[..., 1] + down
        index = line + bin_ * CELLS + cell[..., 0] + across
        histogram.index_add_(0, index.flatten(), weight.flatten())
    return histogram.view(-1, INK)


def sketch(strokes: Sequence[Stroke], joined: Joined, order: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the graph of one drawing: point features ``[n, 4 or more]`` and edges ``[2, E]``.

    The third result ``[E, 3]`` says to which of the three graphs each edge belongs. If all pairs
    are edges, none are listed here; :func:`inputs` adds them.
    """
    points, stroke, begins, ends = [], [], [], []
    for number, (xs, ys) in enumerate(strokes):
        points += list(zip(xs, ys, strict=True))
        stroke += [number] * len(xs)
        begins += [1.0] + [0.0] * (len(xs) - 1)
        ends += [0.0] * (len(xs) - 1) + [1.0]
    n = min(len(points), POINTS)
    pen = torch.tensor([begins[:n], ends[:n]]).T
    features = [torch.tensor(points[:n]).float() / SIDE - 0.5, pen]
    if order:
        features.append(sinusoidal_positions(torch.arange(n), WAVES).float())
    graphs = adjacency(torch.tensor(stroke[:n]), joined)
    target, source = graphs.any(0).nonzero().T
    return (
        torch.cat(features, 1),
        torch.stack([source, target]),
        graphs[:, target, source].T.float(),
    )


def adjacency(stroke: Tensor, joined: Joined) -> Tensor:
    """Return the adjacency matrices ``[3, n, n]`` of the three graphs of n points.

    ``stroke`` holds the index of each point's stroke.
    """
    n = len(stroke)
    if joined in ("strokes", "complete"):
        return torch.zeros(GRAPHS, n, n, dtype=torch.bool)
    number = torch.arange(n)
    apart = (number[:, None] - number).abs()
    same = stroke[:, None] == stroke
    two = same & (apart <= 2)
    if joined == "two_hop":
        return two.expand(GRAPHS, n, n)
    between = ~same & (apart == 1)  # Join the end of a stroke with the start of the next.
    return torch.stack([same & (apart <= 1), two, between | (apart == 0)])


def _drawings(path: Path) -> Iterator[tuple[str, list[Stroke]]]:
    """Yield the category and the strokes of the drawing in each line of a file."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line:
            continue
        try:
            drawn = json.loads(line)
            strokes, name = read_strokes(drawn["drawing"]), str(drawn["word"])
        except (ValueError, KeyError, TypeError, ArgumentError) as error:
            raise unreadable(
                path,
                expected='one drawing per line, such as {"word": "cat", "drawing": [[[0, 90], '
                "[0, 60]]]}",
                got=error.got if isinstance(error, ArgumentError) else str(error),
                line=number,
            ) from error
        yield name, strokes
