"""Drawings of graphs and their adjacency matrices."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError, require
from edgewise._utils.writing import write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    from edgewise.graphs.graph import Graph

INK, LINE, LOOP = "#1f3a5f", "#4c78a8", "#e45756"
MOST_LINES = 4000  # Maximum number of drawn edges; more are unreadable and slow.
SMALL, FEW = 64, 800  # A notebook draws a graph with at most 64 nodes and 800 edges.
SIDE = 220  # Width and height in pixels of the drawing in a notebook.


def draw(graph: Graph, path: str | Path | None = None, weights: Tensor | None = None) -> Figure:
    """Draw the graph and its adjacency matrix side by side; see :meth:`Pattern.draw`."""
    if weights is not None:
        weights = _check_weights(graph, weights)
    require("matplotlib", extra="plot", purpose="drawing a graph")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_nodes(graph, left, weights)
    image = draw_matrix(graph, right, weights)
    if weights is not None:
        figure.colorbar(image, ax=right, label="weight", shrink=0.8)
    figure.suptitle(repr(graph).strip("<>"), fontsize=10)
    if path is not None:
        _check_format(figure, Path(path))
        write_figure(path, figure)
    return figure


def _check_format(figure: Figure, path: Path) -> None:
    formats = figure.canvas.get_supported_filetypes()
    if path.suffix and path.suffix[1:].lower() not in formats:
        raise ArgumentError(
            "path",
            expected=f"an image file: {', '.join(f'.{name}' for name in formats)}",
            got=str(path),
            remedy=f"choose for example {path.with_suffix('.png')}",
        )


def _check_weights(graph: Graph, weights: Tensor) -> Tensor:
    """Return one weight per edge, ``[E]`` on the CPU; ``[E, H]`` is averaged over the heads."""
    weights = weights.detach().float().cpu()
    if weights.dim() == 2:
        weights = weights.mean(-1)
    if weights.shape != (graph.num_edges,):
        raise ArgumentError(
            "weights",
            expected=f"shape [{graph.num_edges}], or [{graph.num_edges}, heads]",
            got=f"shape {list(weights.shape)}",
            remedy="give one weight per edge, in the order of graph.edge_index",
        )
    return weights


def draw_nodes(
    graph: Graph, axes: Axes, weights: Tensor | None = None, positions: Tensor | None = None
) -> None:
    """Draw nodes, at ``positions [N, 2]`` if given, edges, darker with ``weights``, and loops."""
    from matplotlib.collections import LineCollection

    axes.set_axis_off()
    axes.set_aspect("equal")
    targets, sources = _layout(graph) if positions is None else (positions, positions)
    edge_index = graph.edge_index.cpu()
    is_loop = edge_index[0] == edge_index[1]
    square = graph.num_targets == graph.num_sources
    is_link = ~is_loop if square else torch.ones_like(is_loop)
    links = edge_index[:, is_link]
    if weights is None:
        links = links[:, :: max(1, math.ceil(links.shape[1] / MOST_LINES))]
        style: dict[str, Any] = {"alpha": min(0.9, 0.08 + 12 / max(links.shape[1], 1))}
        style["linewidths"] = 0.9
    else:  # Edges with the largest weights are drawn last, on top.
        order = weights[is_link].argsort()[-MOST_LINES:]
        links, shade = links[:, order], weights[is_link][order].clamp(min=0)
        shade = shade / shade.max().clamp(min=1e-9) if len(shade) else shade
        style = {"alpha": (0.03 + 0.87 * shade).numpy(), "linewidths": (0.3 + 2 * shade).numpy()}
    ends = torch.stack([sources[links[0]], targets[links[1]]], dim=1)
    axes.add_collection(LineCollection(list(ends.numpy()), colors=LINE, **style))
    size = max(12.0, 260 / math.sqrt(max(graph.num_targets, 1)))
    if square and is_loop.any():
        loops = targets[edge_index[0, is_loop]]
        ring = axes.scatter(loops[:, 0], loops[:, 1], s=2.6 * size, facecolors="none")
        width: Any = 0.9
        if weights is not None:
            width = 3 * weights[is_loop].clamp(0, 1).numpy()
        ring.set(edgecolors=LOOP, linewidths=width)
    for nodes in (targets,) if square else (targets, sources):
        axes.scatter(nodes[:, 0], nodes[:, 1], s=size, color=INK, zorder=3)
    axes.margins(0.12)


def draw_matrix(graph: Graph, axes: Axes, weights: Tensor | None = None) -> AxesImage:
    """Draw the adjacency matrix, one row per target, coloured by ``weights`` ``[E]`` if given."""
    if weights is None or not graph.num_edges:
        shown = graph.dense().cpu().numpy() if graph.num_targets and graph.num_sources else [[0]]
        image = axes.imshow(shown, cmap="Blues", vmin=0, vmax=1.4, interpolation="nearest")
    else:
        matrix = torch.zeros(graph.num_targets, graph.num_sources)
        matrix.index_put_((graph.target.cpu(), graph.source.cpu()), weights, accumulate=True)
        # Pairs without an edge are white, unlike edges of weight 0.
        hidden = matrix.masked_fill(~graph.dense().cpu(), torch.nan)
        image = axes.imshow(hidden.numpy(), cmap="viridis", vmin=0, interpolation="nearest")
    axes.set_xlabel("source", fontsize=8)
    axes.set_ylabel("target (attends)", fontsize=8)
    axes.tick_params(labelsize=7)
    return image


def _layout(graph: Graph) -> tuple[Tensor, Tensor]:
    """Return the coordinates of the targets and sources: their own, a circle, or two lines."""
    positions = graph.positions()
    if positions is not None:
        return positions, positions
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


def html(graph: Graph) -> str:
    """Return HTML for notebooks: a drawing of a small graph, statistics of a large graph."""
    name = repr(graph).strip("<>")
    if not graph.is_numbered:
        return html_figure("", name)
    if max(graph.num_targets, graph.num_sources) <= SMALL and graph.num_edges <= FEW:
        return html_figure(svg(graph), name)
    return html_figure(_summary(graph), name)


def html_figure(inner: str, caption: str) -> str:
    """Return a figure of HTML with an escaped caption."""
    return f"<figure>{inner}<figcaption><code>{escape(caption)}</code></figcaption></figure>"


def svg(graph: Graph) -> str:
    """Return the drawing of :func:`draw_nodes` as SVG, without matplotlib."""
    targets, sources = _layout(graph)
    square = graph.num_targets == graph.num_sources
    both = targets if square else torch.cat([targets, sources])
    if not len(both):
        return ""
    low, high = both.min(0).values, both.max(0).values
    margin, size = 12, max(2.0, min(5.0, 30 / math.sqrt(len(both))))
    scale = (SIDE - 2 * margin) / float((high - low).max().clamp(min=1e-9))
    # A single node has extent 0, so the scale is limited.
    scale = min(scale, SIDE - 2 * margin)

    def to_pixels(positions: Tensor) -> list[list[float]]:
        middle = (low + high) / 2
        flipped = (positions - middle) * torch.tensor([1.0, -1.0])  # In SVG, y increases downwards.
        return (flipped * scale + SIDE / 2).tolist()

    ends = list(zip(*graph.edge_index.cpu().tolist(), strict=True))
    target, source = to_pixels(targets), to_pixels(sources)
    fade = min(0.9, 0.08 + 12 / max(len(ends), 1))
    lines = "".join(
        f'<line x1="{source[j][0]:.1f}" y1="{source[j][1]:.1f}" x2="{target[i][0]:.1f}" '
        f'y2="{target[i][1]:.1f}"/>'
        for j, i in ends
        if not (square and i == j)
    )
    rings = "".join(
        f'<circle cx="{target[i][0]:.1f}" cy="{target[i][1]:.1f}" r="{size + 3:.1f}"/>'
        for j, i in ends
        if square and i == j
    )
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}"/>' for x, y in to_pixels(both)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIDE}" height="{SIDE}" '
        f'viewBox="0 0 {SIDE} {SIDE}"><g stroke="{LINE}" stroke-opacity="{fade:.2f}">{lines}</g>'
        f'<g fill="none" stroke="{LOOP}">{rings}</g><g fill="{INK}">{dots}</g></svg>'
    )


def _summary(graph: Graph) -> str:
    degree = graph.in_degree().double()
    pairs = max(graph.num_targets * graph.num_sources, 1)
    rows = [("without sources", f"{int((degree == 0).sum()):,} nodes")]
    rows += [("density", f"{graph.num_edges / pairs:.2%} of all pairs")]
    if len(degree):
        spread = f"{int(degree.min()):,} to {int(degree.max()):,}, mean {degree.mean():.1f}"
        rows.insert(0, ("a node reads", spread))
    cells = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"
