"""Figures of recorded weights, by matplotlib: a head, all heads, and rollout over layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
    explanation: Explanation | Recorded,
    layer: int | str,
    head: int | None = None,
    *,
    member: int = 0,
    path: str | Path | None = None,
) -> Figure:
    """Draw the weights of a head as a matrix and, if the nodes have positions, on the graph.

    Without ``head``, draw the mean over the recorded heads; ``member`` is an example of the batch.

    Raises:
        ArgumentError: the layer, head or member does not exist.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=1, heads=2, ffn_dim=32).eval()
        >>> shown = explain.explanation(bert, torch.randint(100, (1, 6)))
        >>> figure = explain.draw_head(shown, layer=0, head=1)  # a matplotlib figure
    """
    explanation = _as_explanation(explanation)
    record = explanation.recorded[layer]
    weights = _weights(record, head, member)
    positions = explanation.positions_of(record)
    figure = _figure(5.4 if positions is None else 8.8, 4.8)
    if positions is None:
        axes = figure.subplots()
    else:
        nodes, axes = figure.subplots(1, 2)
        sizes = record.graph.num_sources, record.graph.num_targets
        graph = edges(record.edge_index.cpu(), sizes)
        draw_nodes(graph, nodes, weights.cpu(), positions.cpu())
        nodes.set_title("edges, darker for larger weights", fontsize=9)
    image = _draw_matrix(axes, _matrix(record, weights), explanation, record)
    figure.colorbar(image, ax=axes, label="attention weight", shrink=0.8)
    head_name = "mean over heads" if head is None else f"head {head}"
    _title(figure, explanation, f"{record.name}, {head_name}")
    return _saved(figure, path)


def draw_heads(
    explanation: Explanation | Recorded,
    layers: Sequence[int | str] | None = None,
    *,
    member: int = 0,
    path: str | Path | None = None,
) -> Figure:
    """Draw the matrices of all heads: a row for each layer and a column for each head.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=1, heads=2, ffn_dim=32).eval()
        >>> ids = torch.randint(100, (1, 6))
        >>> figure = explain.draw_heads(explain.explanation(bert, ids))  # a matplotlib figure
    """
    explanation = _as_explanation(explanation)
    recorded = explanation.recorded
    chosen = list(recorded) if layers is None else [recorded[layer] for layer in layers]
    columns = max((len(record.heads) for record in chosen), default=1)
    figure = _figure(1.2 + 1.1 * columns, 0.9 + 1.1 * max(len(chosen), 1))
    grid = figure.subplots(max(len(chosen), 1), columns, squeeze=False)
    images: list[AxesImage] = []
    for row, record in zip(grid, chosen, strict=False):
        for axes, head in zip(row, record.heads, strict=False):
            matrix = _matrix(record, _weights(record, head, member))
            images.append(axes.imshow(matrix.numpy(), cmap=CMAP, vmin=0, vmax=1))
            axes.set_title(f"head {head}", fontsize=7, pad=2)
        row[0].set_ylabel(f"layer {recorded.number(record)}\ntarget", fontsize=7)
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
    explanation: Explanation | Recorded,
    layers: str | Sequence[str] | None = None,
    *,
    member: int = 0,
    path: str | Path | None = None,
) -> Figure:
    """Draw attention rollout from the input to each layer (Abnar and Zuidema, 2020).

    For ``layers``, see :meth:`Recorded.rollout`.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=2, heads=2, ffn_dim=32).eval()
        >>> shown = explain.explanation(bert, torch.randint(100, (1, 6)))
        >>> figure = explain.draw_rollout(shown)  # a matplotlib figure
    """
    explanation = _as_explanation(explanation)
    recorded = explanation.recorded
    rollouts: list[tuple[LayerRecord, Tensor]] = []
    for number, record in enumerate(recorded, 1):
        up_to_record = Recorded()
        up_to_record.layers = recorded.layers[:number]
        try:
            product = up_to_record.rollout(layers)
        except ArgumentError:
            if number == len(recorded):
                raise
            continue
        product = product.to_dense() if product.is_sparse else product
        rollouts.append((record, _smaller(_member(product, member, 2))))
    figure = _figure(1.4 + 2.6 * len(rollouts), 3.4)
    grid = figure.subplots(1, len(rollouts), squeeze=False)[0]
    images: list[AxesImage] = []
    for axes, (record, matrix) in zip(grid, rollouts, strict=True):
        images.append(_draw_matrix(axes, matrix, explanation, record))
        axes.set_title(f"up to layer {recorded.number(record)}", fontsize=9)
        axes.set(xlabel="input node", ylabel="node of the layer")
    for image in images:  # All images have the same colour scale.
        image.set_clim(0, max(float(matrix.max()) for _, matrix in rollouts))
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

    Heads of pruned layers keep their numbers. ``importance`` is that of
    :func:`edgewise.explain.importance`. Unless the nodes are ``ordered``, distances and the weight
    of the first node are not drawn.

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
    layers = statistics(recorded)
    width = 1 + max(head for layer in layers for head in layer.heads)
    panels: dict[str, list[Tensor]] = {}
    if importance is not None:
        panels["importance"] = [_importance_of(record, importance) for record in recorded]
    for name, title in STATISTICS.items():
        if ordered or name not in OF_ORDER:
            panels[title] = [getattr(layer, name) for layer in layers]
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = _figure(1.2 + columns * (1.4 + 0.3 * width), rows * (1.2 + 0.3 * len(layers)))
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, values) in zip(grid.flat, panels.items(), strict=False):
        matrix = torch.full((len(layers), width), torch.nan)
        for row, layer, value in zip(matrix, layers, values, strict=True):
            row[layer.heads] = value.float()
        # Axes with a fixed aspect ratio would overlap in this layout.
        image = axes.imshow(matrix.numpy(), cmap=CMAP, aspect="auto")
        image.set_clim(min(float(matrix.nan_to_num(0.0).min()), 0.0), _upper(matrix))
        axes.set_title(title, fontsize=8)
        axes.set_xlabel("head", fontsize=7)
        axes.set_ylabel("layer", fontsize=7)
        axes.set_xticks(range(width), range(width))
        axes.set_yticks(range(len(layers)), map(recorded.number, recorded))
        axes.tick_params(labelsize=7)
        figure.colorbar(image, ax=axes, shrink=0.9).ax.tick_params(labelsize=7)
    figure.suptitle(f"attention heads of {counted(len(layers), 'layer')}", fontsize=9)
    return _saved(figure, path)


def _importance_of(record: LayerRecord, importance: Mapping[str, Tensor]) -> Tensor:
    """Return the importance of each recorded head of a layer, ``[H]``; NaN if it is unknown."""
    values = importance.get(record.module, torch.full((len(record.heads),), torch.nan))
    if len(values) == len(record.heads):
        return values
    raise ArgumentError(
        "recorded",
        expected=f"all {len(values)} heads of {record.name}, one for each value of importance",
        got=counted(len(record.heads), "head"),
        remedy="record all heads: omit heads= in explain.record",
    )


def _upper(matrix: Tensor) -> float:
    """Return the upper end of a colour scale from 0: the maximum, or 1 if all values are 0."""
    return float(matrix.nan_to_num(0.0).max()) or 1.0


def _as_explanation(explanation: Explanation | Recorded) -> Explanation:
    if isinstance(explanation, Explanation):
        return explanation
    count = max((layer.graph.num_sources for layer in explanation), default=0)
    return Explanation(explanation, [str(number) for number in range(count)], "graph")


def _figure(width: float, height: float) -> Figure:
    require("matplotlib", extra="plot", purpose="drawing weights")
    from matplotlib.figure import Figure

    return Figure(figsize=(min(width, 24), min(height, 24)), layout="constrained")


def _title(figure: Figure, explanation: Explanation, text: str) -> None:
    answer = explanation.answer
    if answer:
        text += f"\nanswer: {answer[:70]}{'…' * (len(answer) > 70)}"
    figure.suptitle(text, fontsize=10)


def _saved(figure: Figure, path: str | Path | None) -> Figure:
    if path is not None:
        write_figure(path, figure)
    return figure


def _member(values: Tensor, member: int, dims: int) -> Tensor:
    """Select one example of a batch, whose values have ``dims`` dimensions."""
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


def _weights(record: LayerRecord, head: int | None, member: int) -> Tensor:
    weights = _member(record.weights, member, 2)
    return weights.mean(-1) if head is None else weights[:, record.position(head)]


def _matrix(record: LayerRecord, weights: Tensor) -> Tensor:
    """Return weights ``[K]`` as a matrix (of means, if large), NaN where there is no edge."""
    source, target = record.edge_index.cpu()
    num_targets, num_sources = record.graph.num_targets, record.graph.num_sources
    rows, columns = min(num_targets, MAX_PIXELS), min(num_sources, MAX_PIXELS)
    row = target * rows // num_targets
    column = source * columns // num_sources
    total = torch.zeros(rows * columns).index_add(0, row * columns + column, weights)
    count = torch.bincount(row * columns + column, minlength=rows * columns)
    mean = total / count if num_targets > rows else total
    return mean.masked_fill(count == 0, torch.nan).view(rows, columns)


def _smaller(matrix: Tensor) -> Tensor:
    if max(matrix.shape) <= MAX_PIXELS:
        return matrix
    size = min(matrix.shape[0], MAX_PIXELS), min(matrix.shape[1], MAX_PIXELS)
    return torch.nn.functional.adaptive_avg_pool2d(matrix[None], size)[0]


def _draw_matrix(
    axes: Axes, matrix: Tensor, explanation: Explanation, record: LayerRecord
) -> AxesImage:
    image = axes.imshow(matrix.numpy(), cmap=CMAP, vmin=0, interpolation="nearest")
    averaged = max(record.graph.num_targets, record.graph.num_sources) > MAX_PIXELS
    axes.set_xlabel("source" + " (pixels are means over nodes)" * averaged)
    axes.set_ylabel("target")
    axes.tick_params(labelsize=7)
    targets, sources = explanation.labels_of(record)
    has_names = explanation.kind != "graph" or explanation.positions is not None
    most = MAX_LABELS if has_names else 8
    for axis, names, pixels in (
        (axes.xaxis, sources, matrix.shape[1]),
        (axes.yaxis, targets, matrix.shape[0]),
    ):
        chosen = range(0, len(names), -(-len(names) // most))
        positions = [(node + 0.5) * pixels / len(names) - 0.5 for node in chosen]
        axis.set_ticks(positions, _plain([names[node] for node in chosen]))
    axes.tick_params("x", rotation=90 if has_names else 0)
    return image


def _plain(labels: Sequence[str]) -> list[str]:
    """Return labels for Matplotlib, with escaped ``$`` and with ``⏎`` in place of line breaks."""
    return [label.replace("$", r"\$").replace("\n", "⏎") for label in labels]
