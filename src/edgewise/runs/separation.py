"""Which models tell which graphs apart: of fresh weights, or of finished runs."""

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
ORDERS, SEEDS = 4, 3  # orders of the nodes, and draws of fresh weights
BEYOND = 1e3  # how many times the difference between orders of one graph two graphs must differ
LEAST = 1e-9  # of the size of the outputs: what differs less is rounding
STRAYS = 1e-3  # of that size: an output that differs so much between orders is none of the graph

GRAPH_MODELS = {**NODE_MODELS, **READOUT_MODELS}
"""Models that say something of a graph: of each node, then summed, or of the whole."""


class Model(NamedTuple):
    """A model of whole graphs, and how many features of a node it reads."""

    network: nn.Module
    in_width: int


def separation(
    models: list[str] | None = None, folders: list[Path] | None = None
) -> dict[str, dict[str, Verdict]]:
    """Each pair of :func:`hard_pairs`, by each encoding, each model and each run.

    Args:
        models: names; with fresh weights, of which three draws are tried.
        folders: finished runs of models of graphs.

    Raises:
        ArgumentError: a model or run that says nothing of graphs.

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
    """A model of one input and four outputs, with weights as they are drawn."""
    torch.manual_seed(seed)
    return Model(_of_graphs(name, GRAPH_MODELS[name](1, 4)), 1)


def trained(path: Path) -> Model:
    """The model of a finished run.

    Raises:
        ArgumentError: it is not one of graphs.

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
    """Refuse a model that reads no graphs, such as one of texts or of trees."""
    if name in MODELS.keys() - GRAPH_MODELS.keys():
        raise ArgumentError(
            argument,
            expected=f"a model of graphs: {', '.join(GRAPH_MODELS)}",
            got=got,
            remedy="name one of them, as the graphs to tell apart have cycles and no words",
        )
    check_choice(argument, name, GRAPH_MODELS)


def _of_graphs(name: str, network: nn.Module) -> nn.Module:
    """A model of nodes answers by the sum over all of them."""
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
    """Whether a model's outputs of two graphs differ, and by more than the order of nodes explains.

    In float64, with the features 1, 0, 0, … of every node, in several orders of the nodes. A model
    that has no output of the graph as such, as it reads eigenvectors of free sign, is ``unsure``
    where graphs do not differ by far more than orders do.
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
    """Of the graph with its nodes in another order."""
    n = graph.num_targets
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    moved = batch([edges(order[graph.edge_index], n)])
    x = torch.zeros(n, in_width, dtype=torch.double)
    x[:, 0] = 1
    out: Tensor = network(x, moved, batch=[n])
    return out.flatten()
