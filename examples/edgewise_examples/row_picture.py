"""Draw the attention of the last token of a row of patches, layer by layer.

    python -m edgewise_examples.row_picture runs/demo

reads a comparison of image models on rows of patches, and writes ``attention.png`` and
``attention.html`` into its folder: a picture of all models, and a page of the one whose last token
reads the first digit most. The models pool the last token.
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

from edgewise.errors import ArgumentError, EdgewiseError, require
from edgewise.explain import explanation, record, write_page
from edgewise.layers import PatchEmbedding, Pool
from edgewise.runs import fields_of, load_recipe
from edgewise.runs.parsing import show_value
from edgewise.runs.seeds import mean_and_std
from edgewise.runs.train_recipe import prepare
from edgewise.training import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, BLUE, GREEN, RED = "#16202c", "#1f6feb", "#2a9d7c", "#d1495b"
LAYER_HEIGHT = 1.15  # in widths of a patch
FILE, PAGE = "attention.png", "attention.html"


def pools_last_of_a_row(model: nn.Module) -> bool:
    """Return whether a model reads one row of patches and pools the last token."""
    modules = list(model.modules())
    rows = [m.grid[0] == 1 and m.grid[1] > 1 for m in modules if isinstance(m, PatchEmbedding)]
    return rows == [True] and any(isinstance(m, Pool) and m.pool == "last" for m in modules)


@dataclass
class Reading:
    """Attention of one trained model on one image.

    Attributes:
        label: the compared value.
        accuracy: accuracy on the test set, as text.
        image: ``[C, height, width]``.
        patch: side of a patch in pixels.
        weights: attention weights ``[N, N]`` of each layer, averaged over heads.
        answer: predicted class.
        target: true class.
        model: the model.
        edges: number of edges of a layer.
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
        """Return how much of each token reaches the last one, ``[N]``, over all layers."""
        reached = torch.zeros(len(self.weights[0]))
        reached[-1] = 1.0
        for weights in reversed(self.weights):
            # A token without neighbours keeps its own state.
            reached = reached @ weights + reached * (weights.sum(1) == 0)
        return reached


def readings(path: Path) -> list[Reading]:
    """Return the attention of the first run of each compared value on the first test image.

    Raises:
        ArgumentError: the models do not pool the last token of a row of patches.
        MissingDataError: the folder has no comparison.
    """
    about = RunFolder(path).read_json("comparison.json")
    runs: dict[str, list[RunFolder]] = {str(value): [] for value in about["values"]}
    for file in sorted(path.rglob("recipe.json")):
        run = RunFolder(file.parent)
        if run.weights.is_file():  # the folder above several seeds has none
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
            expected="a comparison of image models that pool the last token of a row of patches",
            got=f"the model in {runs[0].path}",
            remedy="compare values of the recipe digit-rows",
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


def row_picture(found: Sequence[Reading], title: str) -> Figure:
    """Return a figure with one panel for each reading.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    require("matplotlib", extra="plot", purpose="drawing attention")
    from matplotlib.figure import Figure

    columns = min(2, len(found))
    lines = -(-len(found) // columns)
    figure = Figure(figsize=(5.4 * columns, 2.75 * lines + 0.7), layout="constrained")
    panels = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes in panels:
        axes.set_axis_off()
    for reading, axes in zip(found, panels, strict=False):
        _draw(reading, axes)
    figure.suptitle(
        f"{title}\nlines: attention of the last token and of the tokens it attends to, averaged "
        "over heads",
        fontsize=10,
    )
    return figure


@torch.no_grad()
def attention_by_layer(model: nn.Module, images: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the weights ``[N, N]`` of each layer, averaged over heads, and the model outputs."""
    with record(model) as recorded:
        outputs: Tensor = model(images)
    found = []
    for layer in recorded:
        dense = torch.zeros(layer.graph.num_targets, layer.graph.num_sources)
        dense[layer.graph.target, layer.graph.source] = layer.weights[0].mean(-1)
        found.append(dense)
    return found, outputs


def write_attention_page(found: Sequence[Reading], path: Path) -> str:
    """Write the page of one model; return a sentence that says what is seen there."""
    first = [float(one.read()[0]) for one in found]
    best = found[max(range(len(found)), key=lambda place: (first[place], -found[place].edges))]
    shown = explanation(best.model, (best.image[None],))
    shown.details["node"] = len(best.weights[0]) - 1
    shown.answer = f"{best.label}: predicted {best.answer}, true {best.target}"
    write_page(shown, path)
    without = [one.label for one, share in zip(found, first, strict=True) if share == 0.0]
    sentence = (
        f"With {best.label}, {max(first):.0%} of the attention of the last token, followed down "
        f"{len(best.weights)} layers, goes to the first digit, which it must name: accuracy "
        f"{best.accuracy}."
    )
    if without:
        sentence += f" With {', '.join(without)}, none can get there, and the model guesses."
    return sentence


def _draw(reading: Reading, axes: Axes) -> None:
    """Draw the patches, the tokens of each layer above them, and lines as wide as the attention."""
    layers, count = len(reading.weights), len(reading.weights[0])
    for place, patch in enumerate(reading.image.mean(0).split(reading.patch, dim=-1)):
        box = (place - 0.46, place + 0.46, -0.46, 0.46)
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
        # A token without neighbours keeps its own state.
        reached = attended.sum(0) + reached * (attended.sum(1) == 0)
    for place in (reached > 0.004).nonzero().flatten().tolist():
        axes.scatter([place], [heights[0]], s=14 + 60 * float(reached[place]), color=BLUE, zorder=4)
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
        found = readings(folder)
        summary = load_recipe(RunFolder(next(folder.rglob("recipe.json")).parent)).summary
        RunFolder(folder).write_figure(FILE, row_picture(found, summary))
        print(folder / FILE)
        sentence = write_attention_page(found, folder / PAGE)
        print(f"{folder / PAGE}\n{sentence}")
    except EdgewiseError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
