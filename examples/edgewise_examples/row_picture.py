"""Draw the attention of the last token of a row of patches, layer by layer.

    python -m edgewise_examples.row_picture runs/demo

The folder is that of a comparison of image models on rows of patches, whose output is computed from
the last token. The command writes two files there: ``attention.png``, a picture of all models, and
``attention.html``, a page about the model whose last token attends most to the first digit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError, EdgewiseError, require
from edgewise.app.runs import fields_of, load_recipe
from edgewise.app.runs.seeds import mean_and_std
from edgewise.app.runs.train_recipe import prepare
from edgewise.app.train import RunFolder
from edgewise.app.train.parsing import show_value
from edgewise.explain.explanation import explanation
from edgewise.explain.page import write_page
from edgewise.explain.record import record
from edgewise.layers import PatchEmbedding, Pool

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, BLUE, GREEN, RED = "#16202c", "#1f6feb", "#2a9d7c", "#d1495b"
LAYER_HEIGHT = 1.15  # Height of a layer in the picture, relative to the width of a patch.
FILE, PAGE = "attention.png", "attention.html"


def pools_last_of_a_row(model: nn.Module) -> bool:
    """Return whether the input of a model is one row of patches and its output the last token's."""
    modules = list(model.modules())
    rows = [m.grid[0] == 1 and m.grid[1] > 1 for m in modules if isinstance(m, PatchEmbedding)]
    return rows == [True] and any(isinstance(m, Pool) and m.pool == "last" for m in modules)


@dataclass
class Reading:
    """Attention of one trained model on one image.

    Attributes:
        label: the value of the compared field, such as "window(2)".
        accuracy: accuracy on the test set, as text.
        image: pixels ``[C, height, width]``.
        patch: side of a patch in pixels.
        weights: attention weights ``[N, N]`` of each layer, averaged over heads.
        answer: predicted class.
        target: true class.
        model: the trained model.
        edges: number of edges in the graph of a layer.
    """

    label: str
    accuracy: str
    image: Tensor
    patch: int
    weights: list[Tensor]
    answer: int
    target: int
    model: nn.Module
    edges: int

    def read(self) -> Tensor:
        """Return the product of the attention weights of all layers, as seen from the last token.

        Entry j of the result ``[N]`` says how much of the last output comes from token j.
        """
        reached = torch.zeros(len(self.weights[0]))
        reached[-1] = 1.0
        for weights in reversed(self.weights):
            # A token that attends to nothing keeps its own state.
            reached = reached @ weights + reached * (weights.sum(1) == 0)
        return reached


def readings(path: Path) -> list[Reading]:
    """Return the attention on the first test image, for the first run of each compared value.

    Raises:
        ArgumentError: the models are not for rows of patches with the output at the last token.
        MissingDataError: the folder is not that of a comparison.
    """
    about = RunFolder(path).read_json("comparison.json")
    runs: dict[str, list[RunFolder]] = {str(value): [] for value in about["values"]}
    for file in sorted(path.rglob("recipe.json")):
        run = RunFolder(file.parent)
        if run.weights.is_file():  # The folder that contains several seeds has no weights.
            value = show_value(fields_of(load_recipe(run))[about["field"]].value)
            runs[str(value)].append(run)
    return [_reading(label, folders) for label, folders in runs.items()]


def _reading(label: str, runs: Sequence[RunFolder]) -> Reading:
    mean, std = mean_and_std([100 * run.read_metrics()["test/accuracy"] for run in runs])
    accuracy = f"{mean:.1f}{f' ± {std:.1f}' if len(runs) > 1 else ''} %"
    model, splits = prepare(load_recipe(runs[0]))
    if not pools_last_of_a_row(model):
        raise ArgumentError(
            "DIR",
            expected="a comparison of models for one row of patches whose output is the last token",
            got=f"another model, in {runs[0].path}",
            remedy="pass the folder of `edgewise compare digit-rows ...`",
        )
    runs[0].load_weights(model)
    batch = next(iter(splits.loaders(0)["test"]))
    image = batch.inputs[0][0]
    (patches,) = (m for m in model.modules() if isinstance(m, PatchEmbedding))
    weights, scores = attention_by_layer(model.eval(), image[None])
    patch = image.shape[-1] // patches.num_patches
    answer, target = int(scores.argmax()), int(batch.target[0])
    edges = int((weights[0] > 0).sum())
    return Reading(label, accuracy, image, patch, weights, answer, target, model, edges)


def row_picture(readings: Sequence[Reading], title: str) -> Figure:
    """Return a figure with one panel for each model.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    require("matplotlib", extra="plot", purpose="drawing attention")
    from matplotlib.figure import Figure

    columns = min(2, len(readings))
    lines = -(-len(readings) // columns)
    figure = Figure(figsize=(5.4 * columns, 2.75 * lines + 0.7), layout="constrained")
    panels = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes in panels:
        axes.set_axis_off()
    for reading, axes in zip(readings, panels, strict=False):
        _draw(reading, axes)
    figure.suptitle(
        f"{title}\nlines: attention of the last token and of the tokens it attends to, averaged "
        "over heads",
        fontsize=10,
    )
    return figure


@torch.no_grad()
def attention_by_layer(model: nn.Module, images: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the attention weights ``[N, N]`` of each layer, mean over heads, and the outputs."""
    with record(model) as recorded:
        outputs: Tensor = model(images)
    weights = []
    for layer in recorded:
        dense = torch.zeros(layer.graph.num_targets, layer.graph.num_sources)
        dense[layer.graph.target, layer.graph.source] = layer.weights[0].mean(-1)
        weights.append(dense)
    return weights, outputs


def write_attention_page(readings: Sequence[Reading], path: Path) -> str:
    """Write the page about the model whose last token attends most to the first digit.

    Return a sentence that says what the page shows.
    """
    first = [float(reading.read()[0]) for reading in readings]
    best = readings[max(range(len(readings)), key=lambda i: (first[i], -readings[i].edges))]
    shown = explanation(best.model, (best.image[None],))
    shown.details["node"] = len(best.weights[0]) - 1
    shown.answer = f"{best.label}: predicted {best.answer}, true {best.target}"
    write_page(shown, path)
    without = [
        reading.label for reading, fraction in zip(readings, first, strict=True) if fraction == 0.0
    ]
    sentence = (
        f"With {best.label}, {max(first):.0%} of the attention of the last token, followed through "
        f"{len(best.weights)} layers, goes to the first digit, which it must name. Its accuracy is "
        f"{best.accuracy}."
    )
    if without:
        sentence += f" With {', '.join(without)}, no attention can reach it, so the model guesses."
    return sentence


def _draw(reading: Reading, axes: Axes) -> None:
    """Draw the patches, above them the tokens of each layer, and lines for the attention.

    The width of a line is proportional to the attention weight.
    """
    layers, count = len(reading.weights), len(reading.weights[0])
    for position, patch in enumerate(reading.image.mean(0).split(reading.patch, dim=-1)):
        box = (position - 0.46, position + 0.46, -0.46, 0.46)
        axes.imshow((1 - patch).numpy(), cmap="gray", vmin=0, vmax=1, extent=box, zorder=1)
    heights = [0.62 + LAYER_HEIGHT * layer for layer in range(layers + 1)]
    for height in heights:
        axes.scatter(range(count), [height] * count, s=14, color="#c3ccd6", zorder=3)
    reached = torch.zeros(count)
    reached[-1] = 1.0
    axes.scatter([count - 1], [heights[-1]], s=46, color=INK, zorder=5)
    for layer in reversed(range(layers)):
        attended = reached[:, None] * reading.weights[layer]
        for target, source in (attended > 0.004).nonzero().tolist():
            strength = float(attended[target, source])
            ends = [target, source], [heights[layer + 1], heights[layer]]
            axes.plot(*ends, color=BLUE, linewidth=0.4 + 5 * strength, alpha=0.75, zorder=2)
        # A token that attends to nothing keeps its own state.
        reached = attended.sum(0) + reached * (attended.sum(1) == 0)
    for position in (reached > 0.004).nonzero().flatten().tolist():
        axes.scatter(
            [position], [heights[0]], s=14 + 60 * float(reached[position]), color=BLUE, zorder=4
        )
    text = f"predicted {reading.answer}, true {reading.target}"
    colour = GREEN if reading.answer == reading.target else RED
    axes.set_title(reading.label, fontsize=10, loc="left", family="monospace", weight="bold")
    axes.set_title(f"accuracy {reading.accuracy}", fontsize=9, loc="right")
    axes.annotate(text, (count - 0.6, heights[-1] + 0.3), ha="right", color=colour, fontsize=10)
    axes.set_xlim(-0.6, count - 0.4)
    axes.set_ylim(-0.6, heights[-1] + 0.75)
    axes.set_aspect("equal")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m edgewise_examples.row_picture",
        description=(__doc__ or "").partition("\n")[0],
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of a comparison")
    folder = parser.parse_args(argv).folder
    try:
        model_readings = readings(folder)
        summary = load_recipe(RunFolder(next(folder.rglob("recipe.json")).parent)).summary
        RunFolder(folder).write_figure(FILE, row_picture(model_readings, summary))
        print(folder / FILE)
        sentence = write_attention_page(model_readings, folder / PAGE)
        print(f"{folder / PAGE}\n{sentence}")
    except EdgewiseError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
