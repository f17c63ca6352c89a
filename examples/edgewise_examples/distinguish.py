"""Show which encodings and models distinguish pairs of similar graphs.

python -m edgewise_examples.distinguish --models gin gps --runs runs/gin-csl --draw pairs.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError, EdgewiseError, require
from edgewise.app.cli.output import table
from edgewise.app.runs.record import check_finished, load_recipe
from edgewise.app.runs.train_recipe import build_model
from edgewise.app.train import RunFolder
from edgewise.app.train.preprocessing import load_preprocessing
from edgewise.graphs import Graph, batch, edges
from edgewise.layers import PooledNodes
from edgewise.models import MODELS, NODE_MODELS, READOUT_MODELS
from edgewise_examples.hard_pairs import LOOKS, Drawn, hard_pairs, tells_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Verdict = Literal["apart", "alike", "unsure"]
NUM_ORDERS = 4
"""Number of node orders in which the output for each graph is computed."""
NUM_SEEDS = 3
"""Number of random initialisations of a model without a run."""
NOISE_FACTOR = 1e3
"""Graphs are distinguished if outputs differ this many times more than between node orders."""
ROUNDING = 1e-9
"""Differences of outputs below this, relative to the largest output, are rounding errors."""
UNSTABLE = 1e-3
"""If node orders differ more, relative to the largest output, it is not a rounding error."""

GRAPH_MODELS = {**NODE_MODELS, **READOUT_MODELS}
"""Models with one output per node (which is summed) or one per graph."""


class Model(NamedTuple):
    """Model with one output per graph, and the number of node features of its input."""

    network: nn.Module
    in_width: int


def distinguish(
    models: list[str] | None = None, folders: list[Path] | None = None
) -> dict[str, dict[str, Verdict]]:
    """Return for each pair of :func:`hard_pairs` which encodings and models distinguish it.

    The result maps the name of an encoding or model to ``{pair: verdict}``.

    Args:
        models: names of models, each tested with three random initialisations.
        folders: folders of finished runs of graph models.

    Raises:
        ArgumentError: a model or run does not accept graphs.
    """
    columns: dict[str, Callable[[Graph, Graph], Verdict]] = {}
    for name in LOOKS:
        columns[name] = _by_encoding(name)
    for name in models or []:
        _check_of_graphs("model", name, name)
        columns[f"{name}, fresh"] = _by_models([fresh(name, seed) for seed in range(NUM_SEEDS)])
    for folder in folders or []:
        columns[str(folder)] = _by_models([trained(folder)])
    return {
        title: {name: says(first.graph, second.graph) for name, says in columns.items()}
        for title, (first, second) in hard_pairs().items()
    }


def fresh(name: str, seed: int) -> Model:
    """Return a model with random weights, one input feature and four outputs."""
    torch.manual_seed(seed)
    return Model(_of_graphs(name, GRAPH_MODELS[name](1, 4)), 1)


def trained(path: Path) -> Model:
    """Return the model of a finished run.

    Raises:
        ArgumentError: the model does not accept graphs.
    """
    folder = RunFolder(path)
    recipe = load_recipe(folder)
    check_finished(folder, recipe)
    name = recipe.model.func.__name__
    _check_of_graphs(str(path), name, f"a run of {name}")
    preprocessing = load_preprocessing(folder)
    network = build_model(recipe, preprocessing)
    folder.load_weights(network)
    return Model(_of_graphs(name, network), preprocessing.model_arguments["in_width"])


def _check_of_graphs(argument: str, name: str, got: str) -> None:
    """Check that a model accepts graphs with cycles.

    Raises:
        ArgumentError: it is for other inputs, such as texts or trees.
    """
    if name in MODELS.keys() - GRAPH_MODELS.keys():
        raise ArgumentError(
            argument,
            expected=f"a graph model: {', '.join(GRAPH_MODELS)}",
            got=got,
            remedy="choose one of these models, because the inputs are graphs with cycles",
        )
    check_choice(argument, name, GRAPH_MODELS)


def _of_graphs(name: str, network: nn.Module) -> nn.Module:
    """Return a model with one output per graph, the sum of its outputs per node if it has these."""
    return network if name in READOUT_MODELS else PooledNodes(network, "sum")


def _by_encoding(name: str) -> Callable[[Graph, Graph], Verdict]:
    return lambda graph, other: "apart" if tells_apart(name, graph, other) else "alike"


def _by_models(several: list[Model]) -> Callable[[Graph, Graph], Verdict]:
    """Return a function that returns "apart" if one of these models distinguishes two graphs."""

    def says(graph: Graph, other: Graph) -> Verdict:
        verdicts = [verdict(model, graph, other) for model in several]
        if "apart" in verdicts:
            return "apart"
        return "unsure" if "unsure" in verdicts else "alike"

    return says


@torch.no_grad()
def verdict(model: Model, first: Graph, second: Graph) -> Verdict:
    """Return "apart" if a model distinguishes two graphs, "alike" if not, or "unsure".

    Outputs are computed in float64 for several node orders, with features 1, 0, 0, … at every node.
    If the outputs for one graph depend on the node order, such as with eigenvectors of random sign,
    the result is "unsure", unless the outputs for the two graphs differ much more.
    """
    network = model.network.double().eval()
    first_outs, second_outs = (
        torch.stack([_answer(network, graph, model.in_width, seed) for seed in range(NUM_ORDERS)])
        for graph in (first, second)
    )
    both = torch.stack([first_outs, second_outs])
    size = float(both.abs().max())
    within = float((both - both[:, :1]).abs().max())
    between = float((first_outs.mean(0) - second_outs.mean(0)).abs().max())
    if between > max(NOISE_FACTOR * within, ROUNDING * size):
        return "apart"
    return "unsure" if within > UNSTABLE * size else "alike"


def _answer(network: nn.Module, graph: Graph, in_width: int, seed: int) -> Tensor:
    """Return the output for a graph whose nodes are permuted with this seed."""
    n = graph.num_targets
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    moved = batch([edges(order[graph.edge_index], n)])
    x = torch.zeros(n, in_width, dtype=torch.double)
    x[:, 0] = 1
    out: Tensor = network(x, moved, batch=[n])
    return out.flatten()


INK, LINE, APART, ALIKE, UNSURE = "#16202c", "#9aa7b5", "#2a9d7c", "#e9edf1", "#f2c14e"
MARKS = {"apart": "✓", "alike": "–", "unsure": "±"}
COLOURS = {"apart": APART, "alike": ALIKE, "unsure": UNSURE}
LEGEND = """\
✓ distinguished   – not distinguished   ± unsure: the output depends on the order of the nodes
A model without a run has random weights. It counts as ✓ if one of three initialisations does."""

Found = Mapping[str, Mapping[str, Verdict]]


def verdict_table(verdicts: Found) -> str:
    """Return a table with a row per encoding or model and a column per pair, with a legend."""
    pairs = list(verdicts)
    rows = [["", *pairs]]
    for name in verdicts[pairs[0]]:
        rows.append([name, *(MARKS[verdicts[pair][name]] for pair in pairs)])
    return f"{table(rows)}\n\n{LEGEND}"


def draw_verdicts(verdicts: Found, path: Path) -> None:
    """Save a figure with the graphs of each pair, and below them a mark per encoding and model.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    require("matplotlib", extra="plot", purpose="drawing graphs")
    from matplotlib.figure import Figure

    drawn, names = hard_pairs(), list(verdicts[next(iter(verdicts))])
    height = 2.6 + 0.34 * len(names)
    figure = Figure(figsize=(2.6 * len(verdicts) + 2.2, height))
    wide, tall = 2.2 / figure.get_figwidth(), 2.2 / height
    pair_width = (1 - wide) / len(verdicts)
    for column, pair in enumerate(verdicts):
        left = wide + column * pair_width
        for side, graph in enumerate(drawn[pair]):
            axes = figure.add_axes(
                (left + side * pair_width / 2, 1 - tall, pair_width / 2 * 0.92, tall * 0.8)
            )
            _draw_graph(graph, axes)
        figure.text(left + pair_width / 2 * 0.96, 1 - tall * 0.14, pair, ha="center", fontsize=9)
    axes = figure.add_axes((wide, 0.02, 1 - wide, 1 - tall - 0.04))
    axes.set(xlim=(0, len(verdicts)), ylim=(len(names), 0))
    axes.set_axis_off()
    for row, name in enumerate(names):
        axes.text(-0.04, row + 0.5, name, ha="right", va="center", fontsize=9, color=INK)
        for column, pair in enumerate(verdicts):
            mark: str = verdicts[pair][name]
            axes.barh(row + 0.5, 0.94, 0.86, left=column + 0.01, color=COLOURS[mark])
            axes.text(column + 0.48, row + 0.5, MARKS[mark], ha="center", va="center", fontsize=9)
    figure.savefig(path, dpi=100)


def _draw_graph(drawn: Drawn, axes: Axes) -> None:
    axes.set_axis_off()
    axes.set_aspect("equal")
    for source, target in drawn.graph.edge_index.T.tolist():
        if source < target:
            axes.plot(*drawn.places[[source, target]].T.tolist(), color=LINE, lw=0.8, zorder=1)
    x, y = drawn.places.T.tolist()
    axes.scatter(x, y, s=14, color=INK, zorder=2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m edgewise_examples.distinguish", description=(__doc__ or "").split("\n")[0]
    )
    help_ = "graph models to test with random weights"
    parser.add_argument("--models", nargs="+", metavar="MODEL", help=help_)
    help_ = "run folders of graph models"
    parser.add_argument("--runs", nargs="+", type=Path, metavar="DIR", help=help_)
    parser.add_argument(
        "--draw", type=Path, metavar="FILE", help="save a figure of the results to FILE"
    )
    arguments = parser.parse_args(argv)
    try:
        verdicts = distinguish(arguments.models, arguments.runs)
        print(verdict_table(verdicts))
        if arguments.draw is not None:
            draw_verdicts(verdicts, arguments.draw)
            print(arguments.draw)
    except EdgewiseError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
