"""What the last token of a row reads, layer by layer, drawn over the row: where word can come from.

For models of images that are one row of patches and that answer at the last of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from edgewise.cli.table import Measured, measured, shown_metric
from edgewise.errors import require
from edgewise.layers import MultiHeadAttention, PatchEmbedding, Pool
from edgewise.runs import Comparison, load_recipe
from edgewise.runs.comparison import Outcome
from edgewise.runs.train_recipe import prepare
from edgewise.training import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, READS, RIGHT, WRONG = "#16202c", "#1f6feb", "#2a9d7c", "#d1495b"
LIFT = 1.15  # from one layer to the next, in widths of a patch


def answers_at_the_last_of_a_row(model: nn.Module) -> bool:
    """Whether there is such a picture of a model."""
    modules = list(model.modules())
    rows = [m.grid[0] == 1 and m.grid[1] > 1 for m in modules if isinstance(m, PatchEmbedding)]
    return rows == [True] and any(isinstance(m, Pool) and m.pool == "last" for m in modules)


def row_picture(found: Comparison, split: Measured = "val") -> Figure | None:
    """The first row of the test split as the first seed of each value reads it.

    Returns:
        ``None`` where the models do not answer at the last patch of a row.

    Raises:
        MissingExtraError: Matplotlib is not installed.

    """
    readings = [Reading.of(outcome) for outcome in found.outcomes]
    drawn = [one for one in readings if one is not None]
    if not drawn:
        return None
    require("matplotlib", extra="plot", purpose="drawing a report")
    from matplotlib.figure import Figure

    columns = min(2, len(drawn))
    lines = -(-len(drawn) // columns)
    figure = Figure(figsize=(5.4 * columns, 2.75 * lines + 0.7), layout="constrained")
    panels = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes in panels:
        axes.set_axis_off()
    name = measured(found, split)[0]
    for reading, axes in zip(drawn, panels, strict=False):
        _draw(reading, shown_metric(reading.outcome, name), axes)
    figure.suptitle(
        f"{found.recipe.summary}\n"
        "lines: attention of the last token, and of those that it reads, mean over the heads",
        fontsize=10,
    )
    return figure


class Reading:
    """One row as one trained model reads it.

    Attributes:
        outcome: whose model it is.
        image: ``[C, height, width]``.
        patch: side of a patch in pixels.
        weights: of each layer ``[N, N]``: what token i reads, the mean over the heads.
        answer, target: what the model says, and what is right.

    """

    def __init__(self, outcome: Outcome, model: nn.Module, image: Tensor, target: Tensor) -> None:
        self.outcome, self.image, self.target = outcome, image, int(target)
        (patches,) = (m for m in model.modules() if isinstance(m, PatchEmbedding))
        self.patch = image.shape[-1] // patches.num_patches
        self.weights, scores = attention_by_layer(model, image[None])
        self.answer = int(scores.argmax())

    @classmethod
    def of(cls, outcome: Outcome) -> Reading | None:
        """Of the first test row and the first seed; ``None`` where a model answers elsewhere."""
        folder = RunFolder(outcome.runs[0])
        model, splits = prepare(load_recipe(folder))
        if not answers_at_the_last_of_a_row(model):
            return None
        folder.load_weights(model)
        batch = next(iter(splits.loaders(0)["test"]))
        return cls(outcome, model.eval(), batch.inputs[0][0], batch.target[0])


@torch.no_grad()
def attention_by_layer(model: nn.Module, images: Tensor) -> tuple[list[Tensor], Tensor]:
    """Of one image: the weights ``[N, N]`` of each layer, mean over the heads; and the outputs."""
    found: list[Tensor] = []

    def keep(layer: nn.Module, arguments: tuple[Any, ...]) -> None:
        assert isinstance(layer, MultiHeadAttention)
        x, pattern = arguments
        graph = pattern.bind(x.shape[-2])
        dense = x.new_zeros(graph.num_targets, graph.num_sources)
        dense[graph.target, graph.source] = layer.weights(x, graph)[0].mean(-1)
        found.append(dense)

    layers = [layer for layer in model.modules() if isinstance(layer, MultiHeadAttention)]
    hooks = [layer.register_forward_pre_hook(keep) for layer in layers]
    try:
        outputs: Tensor = model(images)
    finally:
        for hook in hooks:
            hook.remove()
    return found, outputs


def _draw(reading: Reading, metric: str, axes: Axes) -> None:
    """Patches below, a token above each for every layer, and lines as thick as attention is."""
    layers, count = len(reading.weights), len(reading.weights[0])
    for place, patch in enumerate(reading.image.mean(0).split(reading.patch, dim=-1)):
        box = (place - 0.46, place + 0.46, -0.46, 0.46)
        axes.imshow((1 - patch).numpy(), cmap="gray", vmin=0, vmax=1, extent=box, zorder=1)
    heights = [0.62 + LIFT * layer for layer in range(layers + 1)]
    for height in heights:
        axes.scatter(range(count), [height] * count, s=14, color="#c3ccd6", zorder=3)
    reached = torch.zeros(count)
    reached[-1] = 1.0
    axes.scatter([count - 1], [heights[-1]], s=46, color=INK, zorder=5)
    for layer in reversed(range(layers)):
        told = reached[:, None] * reading.weights[layer]
        for target, source in (told > 0.004).nonzero().tolist():
            strength = float(told[target, source])
            ends = [target, source], [heights[layer + 1], heights[layer]]
            axes.plot(*ends, color=READS, linewidth=0.4 + 5 * strength, alpha=0.75, zorder=2)
        # Besides what it reads, a token keeps what it has been.
        reached = told.sum(0) + reached * (told.sum(1) == 0)
    for place in (reached > 0.004).nonzero().flatten().tolist():
        axes.scatter(
            [place], [heights[0]], s=14 + 60 * float(reached[place]), color=READS, zorder=4
        )
    said = f"says {reading.answer}, it is {reading.target}"
    colour = RIGHT if reading.answer == reading.target else WRONG
    axes.set_title(
        reading.outcome.label, fontsize=10, loc="left", family="monospace", weight="bold"
    )
    axes.set_title(
        f"right on {metric} of all rows" if "%" in metric else metric, fontsize=9, loc="right"
    )
    axes.annotate(said, (count - 0.6, heights[-1] + 0.3), ha="right", color=colour, fontsize=10)
    axes.set_xlim(-0.6, count - 0.4)
    axes.set_ylim(-0.6, heights[-1] + 0.75)
    axes.set_aspect("equal")
