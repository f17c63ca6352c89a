"""Comparison of models by the pairs of graphs that they distinguish."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from edgewise.arguments import check_choice
from edgewise.encodings.separation import LOOKS, hard_pairs, tells_apart
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, batch, edges
from edgewise.layers import PooledNodes
from edgewise.models import MODELS, NODE_MODELS, READOUT_MODELS
from edgewise.runs.fitted import load_fitted
from edgewise.runs.record import check_finished, load_recipe
from edgewise.runs.train_recipe import build_model
from edgewise.training import RunFolder

Verdict = Literal["apart", "alike", "unsure"]
ORDERS, SEEDS = 4, 3  # number of node orders, and of random initialisations
BEYOND = 1e3  # two graphs are distinct if they differ by 1000 times the node-order noise
LEAST = 1e-9  # relative differences below this are rounding errors
STRAYS = 1e-3  # relative node-order noise above which the output is no function of the graph

GRAPH_MODELS = {**NODE_MODELS, **READOUT_MODELS}
"""Models with an output for a graph, or for each node, which is summed."""


class Model(NamedTuple):
    """A model of graphs, and its number of node features."""

    network: nn.Module
    in_width: int


def separation(
    models: list[str] | None = None, folders: list[Path] | None = None
) -> dict[str, dict[str, Verdict]]:
    """Return which pairs of :func:`hard_pairs` each encoding, model and run distinguishes.

    Args:
        models: names of graph models, tested with three random initialisations.
        folders: run folders of trained graph models.

    Raises:
        ArgumentError: a model or run is not one of a graph model.

    """
    columns: dict[str, Callable[[Graph, Graph], Verdict]] = {}
    for name in LOOKS:
        columns[name] = _by_encoding(name)
    for name in models or []:
        _check_of_graphs("model", name, name)
        columns[f"{name}, fresh"] = _by_models([fresh(name, seed) for seed in range(SEEDS)])
    for folder in folders or []:
        columns[str(folder)] = _by_models([trained(folder)])
    return {
        title: {name: says(one.graph, other.graph) for name, says in columns.items()}
        for title, (one, other) in hard_pairs().items()
    }


def fresh(name: str, seed: int) -> Model:
    """Build a model with one input, four outputs and random weights."""
    torch.manual_seed(seed)
    return Model(_of_graphs(name, GRAPH_MODELS[name](1, 4)), 1)


def trained(path: Path) -> Model:
    """Load the model of a finished run.

    Raises:
        ArgumentError: it is not a graph model.

    """
    folder = RunFolder(path)
    recipe = load_recipe(folder)
    check_finished(folder, recipe)
    name = recipe.model.func.__name__
    _check_of_graphs(str(path), name, f"a run of {name}")
    fitted = load_fitted(folder)
    network = build_model(recipe, fitted)
    folder.load_weights(network)
    return Model(_of_graphs(name, network), fitted.model_arguments["in_width"])


def _check_of_graphs(argument: str, name: str, got: str) -> None:
    """Check that a model reads graphs, and not texts or trees."""
    if name in MODELS.keys() - GRAPH_MODELS.keys():
        raise ArgumentError(
            argument,
            expected=f"a model of graphs: {', '.join(GRAPH_MODELS)}",
            got=got,
            remedy="name one of them, because the pairs are graphs with cycles and without text",
        )
    check_choice(argument, name, GRAPH_MODELS)


def _of_graphs(name: str, network: nn.Module) -> nn.Module:
    """Add a sum over the nodes to a model with an output for each node."""
    return network if name in READOUT_MODELS else PooledNodes(network, "sum")


def _by_encoding(name: str) -> Callable[[Graph, Graph], Verdict]:
    return lambda one, other: "apart" if tells_apart(name, one, other) else "alike"


def _by_models(several: list[Model]) -> Callable[[Graph, Graph], Verdict]:
    """Apart where one of the models says so."""

    def says(one: Graph, other: Graph) -> Verdict:
        verdicts = [verdict(model, one, other) for model in several]
        if "apart" in verdicts:
            return "apart"
        return "unsure" if "unsure" in verdicts else "alike"

    return says


@torch.no_grad()
def verdict(model: Model, one: Graph, other: Graph) -> Verdict:
    """Return whether a model's outputs for two graphs differ by more than the node-order noise.

    The outputs are computed in float64 for several node orders, with the features 1, 0, 0, … for
    every node. The verdict is ``unsure`` if the outputs depend on the node order, for example by
    the arbitrary signs of eigenvectors, and the graphs do not differ by far more.
    """
    network = model.network.double().eval()
    one_outs, other_outs = (
        torch.stack([_answer(network, graph, model.in_width, seed) for seed in range(ORDERS)])
        for graph in (one, other)
    )
    both = torch.stack([one_outs, other_outs])
    size = float(both.abs().max())
    within = float((both - both[:, :1]).abs().max())
    between = float((one_outs.mean(0) - other_outs.mean(0)).abs().max())
    if between > max(BEYOND * within, LEAST * size):
        return "apart"
    return "unsure" if within > STRAYS * size else "alike"


def _answer(network: nn.Module, graph: Graph, in_width: int, seed: int) -> Tensor:
    """Compute the output for a graph with permuted nodes."""
    n = graph.num_targets
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    moved = batch([edges(order[graph.edge_index], n)])
    x = torch.zeros(n, in_width, dtype=torch.double)
    x[:, 0] = 1
    out: Tensor = network(x, moved, batch=[n])
    return out.flatten()
