"""Pictures of who reads whom."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from edgewise.errors import ArgumentError, require
from edgewise.graphs.graph import Graph

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, LINE, LOOP = "#1f3a5f", "#4c78a8", "#e45756"
MOST_LINES = 4000  # beyond this a picture is a blot, and slow


def draw(graph: Graph, path: str | Path | None = None) -> Figure:
    """The graph and its matrix side by side; saved too, where ``path`` names a file."""
    require("matplotlib", extra="plot", purpose="drawing a graph")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_nodes(graph, left)
    draw_matrix(graph, right)
    figure.suptitle(repr(graph).strip("<>"), fontsize=10)
    if path is not None:
        _check_format(figure, Path(path))
        figure.savefig(path, dpi=150)
    return figure


def _check_format(figure: Figure, path: Path) -> None:
    known = figure.canvas.get_supported_filetypes()
    if path.suffix and path.suffix[1:].lower() not in known:
        raise ArgumentError(
            "path",
            expected=f"the name of a picture: {', '.join(f'.{kind}' for kind in known)}",
            got=str(path),
            remedy=f"write {path.with_suffix('.png')}",
        )


def draw_nodes(graph: Graph, axes: Axes) -> None:
    """Nodes and the links between them; a ring marks a node that reads itself."""
    from matplotlib.collections import LineCollection

    axes.set_axis_off()
    axes.set_aspect("equal")
    targets, sources = _places(graph)
    edge_index = graph.edge_index.cpu()
    self_read = edge_index[0] == edge_index[1]
    square = graph.num_targets == graph.num_sources
    links = edge_index[:, ~self_read] if square else edge_index
    links = links[:, :: max(1, math.ceil(links.shape[1] / MOST_LINES))]
    ends = torch.stack([sources[links[0]], targets[links[1]]], dim=1)
    fade = min(0.9, 0.08 + 12 / max(links.shape[1], 1))
    axes.add_collection(LineCollection(list(ends.numpy()), colors=LINE, alpha=fade, linewidths=0.9))
    size = max(12.0, 260 / math.sqrt(max(graph.num_targets, 1)))
    if square and self_read.any():
        loops = targets[edge_index[0, self_read]]
        ring = axes.scatter(loops[:, 0], loops[:, 1], s=2.6 * size, facecolors="none")
        ring.set(edgecolors=LOOP, linewidths=0.9)
    for nodes in (targets,) if square else (targets, sources):
        axes.scatter(nodes[:, 0], nodes[:, 1], s=size, color=INK, zorder=3)
    axes.margins(0.12)


def draw_matrix(graph: Graph, axes: Axes) -> None:
    """The matrix ``dense()``: row i shows what node i reads."""
    shown = graph.dense().cpu().numpy() if graph.num_targets and graph.num_sources else [[0]]
    axes.imshow(shown, cmap="Blues", vmin=0, vmax=1.4, interpolation="nearest")
    axes.set_xlabel("source (is read)", fontsize=8)
    axes.set_ylabel("target (reads)", fontsize=8)
    axes.tick_params(labelsize=7)


def _places(graph: Graph) -> tuple[Tensor, Tensor]:
    """Where the targets and the sources are drawn: one circle, or two facing columns."""
    own = graph.positions()
    if own is not None:
        return own, own
    if graph.num_targets == graph.num_sources:
        turn = torch.arange(graph.num_targets) / max(graph.num_targets, 1)
        angle = math.pi / 2 - 2 * math.pi * turn
        circle = torch.stack([angle.cos(), angle.sin()], dim=1)
        return circle, circle
    columns = []
    for x, count in ((1.0, graph.num_targets), (0.0, graph.num_sources)):
        y = -torch.linspace(0, 1, count) if count > 1 else torch.full((count,), -0.5)
        columns.append(torch.stack([torch.full((count,), x), y], dim=1))
    return columns[0], columns[1]
