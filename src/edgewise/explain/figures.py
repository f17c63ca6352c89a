"""Figures of recorded weights, by matplotlib: a head, all heads, and rollout over layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError, counted, require
from edgewise._utils.writing import write_figure
from edgewise.explain.explanation import Explanation
from edgewise.explain.heads import statistics
from edgewise.explain.record import LayerRecord, Recorded
from edgewise.graphs import edges
from edgewise.graphs.drawing import draw_nodes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

MAX_PIXELS = 512
"""Largest number of rows and columns of a drawn matrix; larger matrices are averaged."""
MAX_LABELS = 48
CMAP = "viridis"
STATISTICS = {
    "relative_entropy": "entropy / entropy of equal weights",
    "distance": "distance",
    "own": "weight of the node itself",
    "first": "weight of the first node",
    "hubs": "weight of hubs",
}
"""Titles of :func:`draw_statistics`, by the attribute of a :class:`HeadStatistics`."""
OF_ORDER = ("distance", "first")
"""Statistics that are defined only for nodes with an order."""


def draw_head(
    found: Explanation | Recorded,
    layer: int | str,
    head: int | None = None,
    *,
    member: int = 0,
    path: str | Path | None = None,
) -> Figure:
    """Draw the weights of a head as a matrix and, if the nodes have positions, on the graph.

    Args:
        found: an explanation, or recorded weights without names of nodes.
        layer: index or name of the layer.
        head: the head; the mean over recorded heads by default.
        member: index of an example in the batch.
        path: file to which the figure is saved.

    Raises:
        ArgumentError: the layer, head or member does not exist.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=1, heads=2, ffn_dim=32).eval()
        >>> shown = explain.explanation(bert, torch.randint(100, (1, 6)))
        >>> figure = explain.draw_head(shown, layer=0, head=1)  # a matplotlib figure
    """
    explanation = _explanation(found)
    one = explanation.recorded[layer]
    weights = _weights(one, head, member)
    figure = _figure(8.8 if explanation.positions_of(one) is not None else 5.4, 4.8)
    places = explanation.positions_of(one)
    if places is None:
        axes = figure.subplots()
    else:
        nodes, axes = figure.subplots(1, 2)
        shown = edges(one.edge_index.cpu(), (one.graph.num_sources, one.graph.num_targets))
        draw_nodes(shown, nodes, weights.cpu(), places.cpu())
        nodes.set_title("edges, darker for larger weights", fontsize=9)
    image = _draw_matrix(axes, _matrix(one, weights), explanation, one)
    figure.colorbar(image, ax=axes, label="attention weight", shrink=0.8)
    named = "mean over heads" if head is None else f"head {head}"
    _title(figure, explanation, f"{one.name}, {named}")
    return _saved(figure, path)


def draw_heads(
    found: Explanation | Recorded,
    layers: Sequence[int | str] | None = None,
    *,
    member: int = 0,
    path: str | Path | None = None,
) -> Figure:
    """Draw the matrices of all heads: a row for each layer and a column for each head.

    Args:
        found: an explanation, or recorded weights.
        layers: indices or names of the layers; all by default.
        member: index of an example in the batch.
        path: file to which the figure is saved.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=1, heads=2, ffn_dim=32).eval()
        >>> ids = torch.randint(100, (1, 6))
        >>> figure = explain.draw_heads(explain.explanation(bert, ids))  # a matplotlib figure
    """
    explanation = _explanation(found)
    recorded = explanation.recorded
    chosen = list(recorded) if layers is None else [recorded[layer] for layer in layers]
    columns = max((len(one.heads) for one in chosen), default=1)
    figure = _figure(1.2 + 1.1 * columns, 0.9 + 1.1 * max(len(chosen), 1))
    grid = figure.subplots(max(len(chosen), 1), columns, squeeze=False)
    images: list[AxesImage] = []
    for row, one in zip(grid, chosen, strict=False):
        for axes, head in zip(row, one.heads, strict=False):
            matrix = _matrix(one, _weights(one, head, member))
            images.append(axes.imshow(matrix.numpy(), cmap=CMAP, vmin=0, vmax=1))
            axes.set_title(f"head {head}", fontsize=7, pad=2)
        row[0].set_ylabel(f"layer {recorded.number(one)}\ntarget", fontsize=7)
        for axes in row:
            axes.set(xticks=[], yticks=[])
            axes.set_visible(bool(axes.images))
    for axes in grid[-1]:
        axes.set_xlabel("source", fontsize=7)
    if images:
        figure.colorbar(images[-1], ax=grid, label="attention weight", shrink=0.8)
    _title(figure, explanation, "attention of all heads")
    return _saved(figure, path)


def draw_rollout(
    found: Explanation | Recorded,
    layers: str | Sequence[str] | None = None,
    *,
    member: int = 0,
    path: str | Path | None = None,
) -> Figure:
    """Draw attention rollout from the input to each layer (Abnar and Zuidema, 2020).

    Args:
        found: an explanation, or recorded weights.
        layers: see :meth:`Recorded.rollout`.
        member: index of an example in the batch.
        path: file to which the figure is saved.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=2, heads=2, ffn_dim=32).eval()
        >>> shown = explain.explanation(bert, torch.randint(100, (1, 6)))
        >>> figure = explain.draw_rollout(shown)  # a matplotlib figure
    """
    explanation = _explanation(found)
    whole = explanation.recorded
    matrices = []
    for count in range(1, len(whole) + 1):
        part = Recorded()
        part.layers = whole.layers[:count]
        try:
            matrices.append((whole.layers[count - 1], part.rollout(layers)))
        except ArgumentError:
            if count == len(whole):
                raise
    dense = [(one, x.to_dense() if x.is_sparse else x) for one, x in matrices]
    shown = [(one, _smaller(_member(x, member, 2))) for one, x in dense]
    figure = _figure(1.4 + 2.6 * len(shown), 3.4)
    grid = figure.subplots(1, len(shown), squeeze=False)[0]
    images: list[AxesImage] = []
    for axes, (one, matrix) in zip(grid, shown, strict=True):
        images.append(_draw_matrix(axes, matrix, explanation, one))
        axes.set_title(f"up to layer {whole.number(one)}", fontsize=9)
        axes.set(xlabel="input node", ylabel="node of the layer")
    for image in images:  # All images have the same colour scale.
        image.set_clim(0, max(float(product.max()) for _, product in shown))
    figure.colorbar(images[-1], ax=grid, label="rollout", shrink=0.8)
    _title(figure, explanation, "attention rollout")
    return _saved(figure, path)


def draw_statistics(
    recorded: Recorded,
    importance: Mapping[str, Tensor] | None = None,
    *,
    ordered: bool = True,
    path: str | Path | None = None,
) -> Figure:
    """Draw statistics of all heads: a row for each layer and a column for each head.

    Heads of pruned layers keep their numbers; removed heads are blank.

    Args:
        recorded: recorded weights.
        importance: importance of the heads by layer, of :func:`edgewise.explain.importance`.
        ordered: whether the nodes have an order. If not, distances and the weight of the first node
            mean nothing and are not drawn.
        path: file to which the figure is saved.

    Raises:
        ArgumentError: ``importance`` has more heads of a layer than were recorded.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=2, heads=2, ffn_dim=32).eval()
        >>> with explain.record(bert) as recorded:
        ...     _ = bert(torch.randint(100, (1, 6)))
        >>> figure = explain.draw_statistics(recorded)  # a matplotlib figure
    """
    found = statistics(recorded)
    width = 1 + max(head for one in found for head in one.heads)
    panels: dict[str, list[Tensor]] = {}
    if importance is not None:
        panels["importance"] = [_importance_of(one, importance) for one in recorded]
    for name, title in STATISTICS.items():
        if ordered or name not in OF_ORDER:
            panels[title] = [getattr(one, name) for one in found]
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = _figure(1.2 + columns * (1.4 + 0.3 * width), rows * (1.2 + 0.3 * len(found)))
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, values) in zip(grid.flat, panels.items(), strict=False):
        matrix = torch.full((len(found), width), torch.nan)
        for row, own, value in zip(matrix, found, values, strict=True):
            row[own.heads] = value.float()
        # Axes with a fixed aspect ratio would overlap in this layout.
        image = axes.imshow(matrix.numpy(), cmap=CMAP, aspect="auto")
        image.set_clim(min(float(matrix.nan_to_num(0.0).min()), 0.0), _upper(matrix))
        axes.set_title(title, fontsize=8)
        axes.set_xlabel("head", fontsize=7)
        axes.set_ylabel("layer", fontsize=7)
        axes.set_xticks(range(width), range(width))
        axes.set_yticks(range(len(found)), map(recorded.number, recorded))
        axes.tick_params(labelsize=7)
        figure.colorbar(image, ax=axes, shrink=0.9).ax.tick_params(labelsize=7)
    figure.suptitle(f"attention heads of {counted(len(found), 'layer')}", fontsize=9)
    return _saved(figure, path)


def _importance_of(one: LayerRecord, importance: Mapping[str, Tensor]) -> Tensor:
    """Return the importance of each recorded head of a layer, ``[H]``; NaN if it is unknown.

    Args:
        one: recorded weights of the layer.
        importance: importance of the heads of each layer, by name of the layer.
    """
    values = importance.get(one.module, torch.full((len(one.heads),), torch.nan))
    if len(values) == len(one.heads):
        return values
    raise ArgumentError(
        "recorded",
        expected=f"all {len(values)} heads of {one.name}, one for each value of importance",
        got=counted(len(one.heads), "head"),
        remedy="record all heads: omit heads= in explain.record",
    )


def _upper(matrix: Tensor) -> float:
    """Return the upper end of a colour scale from 0: the maximum, or 1 if all values are 0."""
    return float(matrix.nan_to_num(0.0).max()) or 1.0


def _explanation(found: Explanation | Recorded) -> Explanation:
    if isinstance(found, Explanation):
        return found
    count = max((layer.graph.num_sources for layer in found), default=0)
    return Explanation(found, [str(number) for number in range(count)], "graph")


def _figure(width: float, height: float) -> Figure:
    require("matplotlib", extra="plot", purpose="drawing weights")
    from matplotlib.figure import Figure

    return Figure(figsize=(min(width, 24), min(height, 24)), layout="constrained")


def _title(figure: Figure, explanation: Explanation, text: str) -> None:
    answer = explanation.answer
    shown = f"{text}\nanswer: {answer[:70]}{'…' * (len(answer) > 70)}" if answer else text
    figure.suptitle(shown, fontsize=10)


def _saved(figure: Figure, path: str | Path | None) -> Figure:
    if path is not None:
        write_figure(path, figure)
    return figure


def _member(values: Tensor, member: int, dims: int) -> Tensor:
    """Select one example of a batch.

    Args:
        values: tensor with any number of batch dimensions before the last ``dims`` dimensions.
        member: index of the example, counted over all batch dimensions.
        dims: number of dimensions of one example.
    """
    flat = values.detach().float().cpu()
    flat = flat.flatten(0, -dims - 1) if flat.dim() > dims else flat[None]
    if 0 <= member < len(flat):
        return flat[member]
    raise ArgumentError(
        "member",
        expected=f"a member of the batch, from 0 to {len(flat) - 1}",
        got=str(member),
        remedy="choose an index in this range",
    )


def _weights(one: LayerRecord, head: int | None, member: int) -> Tensor:
    weights = _member(one.weights, member, 2)
    return weights.mean(-1) if head is None else weights[:, one.position(head)]


def _matrix(one: LayerRecord, weights: Tensor) -> Tensor:
    """Return the weights of one head as a matrix of targets and sources.

    Args:
        one: record of the layer.
        weights: weights of its K recorded edges, ``[K]``.

    Returns:
        Matrix with NaN where there is no edge. If there are many nodes, an entry is for several.
    """
    source, target = one.edge_index.cpu()
    rows, columns = (
        min(size, MAX_PIXELS) for size in (one.graph.num_targets, one.graph.num_sources)
    )
    row = target * rows // one.graph.num_targets
    column = source * columns // one.graph.num_sources
    total = torch.zeros(rows * columns).index_add(0, row * columns + column, weights)
    count = torch.bincount(row * columns + column, minlength=rows * columns)
    mean = total / count if one.graph.num_targets > rows else total
    return mean.masked_fill(count == 0, torch.nan).view(rows, columns)


def _smaller(matrix: Tensor) -> Tensor:
    if max(matrix.shape) <= MAX_PIXELS:
        return matrix
    size = min(matrix.shape[0], MAX_PIXELS), min(matrix.shape[1], MAX_PIXELS)
    return torch.nn.functional.adaptive_avg_pool2d(matrix[None], size)[0]


def _draw_matrix(
    axes: Axes, matrix: Tensor, explanation: Explanation, one: LayerRecord
) -> AxesImage:
    image = axes.imshow(matrix.numpy(), cmap=CMAP, vmin=0, interpolation="nearest")
    averaged = max(one.graph.num_targets, one.graph.num_sources) > MAX_PIXELS
    axes.set_xlabel("source" + " (pixels are means over nodes)" * averaged)
    axes.set_ylabel("target")
    axes.tick_params(labelsize=7)
    targets, sources = explanation.labels_of(one)
    named: Any = explanation.kind != "graph" or isinstance(explanation.positions, Tensor)
    if named and max(len(targets), len(sources)) <= MAX_LABELS:
        axes.set_xticks(range(len(sources)), _plain(sources), rotation=90)
        axes.set_yticks(range(len(targets)), _plain(targets))
    return image


def _plain(labels: Sequence[str]) -> list[str]:
    """Return labels for Matplotlib, with escaped ``$`` and with ``⏎`` in place of line breaks."""
    return [label.replace("$", r"\$").replace("\n", "⏎") for label in labels]
