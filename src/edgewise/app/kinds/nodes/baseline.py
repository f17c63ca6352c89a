"""Baselines of node prediction: label propagation, linear models, SGC, Correct & Smooth.

SGC is logistic regression on features that are averaged over neighbours k times (Wu et al.,
Simplifying graph convolutional networks, 2019). Correct & Smooth corrects the probabilities of
logistic regression (Huang et al., Combining label propagation and simple models out-performs graph
neural networks, 2021). It and label propagation are those of PyTorch Geometric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch_geometric.nn import CorrectAndSmooth, LabelPropagation

from edgewise.app.train.baseline import Candidate, Score, batches_of, class_scores
from edgewise.app.train.batches import Batch
from edgewise.app.train.column_baselines import (
    Column,
    columns_of,
    fit_columns,
    linear_model,
    linear_name,
)
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits
from edgewise.graphs import TypedGraph

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Settings: inverse penalty C of logistic regression."""
STEPS = (1, 2, 4, 8)
PROPAGATION = (0.5, 0.9, 0.99)


class LabelledGraph(NamedTuple):
    """Graph with features ``[N, F]`` (NumPy or SciPy CSR), edges ``[2, E]``, and labels: the class
    ``[N]`` or numbers ``[N, T]`` of each node, valid only for training nodes.
    """

    x: Any
    edge_index: Tensor
    labels: Tensor
    train: Tensor
    classes: int
    neighbours: Any = None
    """Counts ``[N, pairs]`` of pairs of a relation and a source, of a typed graph (SciPy CSR)."""


def candidates(recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield each baseline with each setting; for numbers, ridge regression on features and on
    features that are averaged over neighbours.
    """
    graph = known_labels(splits)
    smoothed = cache(partial(smooth, graph))
    regression = cache(partial(_regression, graph, smoothed))
    methods: list[tuple[str, str, Callable[[], Tensor]]] = []
    if splits.targets:
        columns = columns_of(splits, recipe)
        for steps, strength in product((0, *STEPS), STRENGTHS):
            name, setting = linear_name(columns), f"penalty {1 / strength:g}"
            if steps:
                name, setting = f"{name} on smoothed features", f"{steps} steps, {setting}"
            fit = partial(_numbers, graph, columns, smoothed, steps, strength)
            methods.append((name, setting, fit))
    else:
        for alpha in PROPAGATION:
            fit = partial(propagated, graph, alpha)
            methods.append(("label propagation", f"α = {alpha:g}", fit))
        for strength in STRENGTHS:
            fit = partial(regression, 0, strength)
            methods.append(("logistic regression", f"C = {strength:g}", fit))
        for strength in () if graph.neighbours is None else STRENGTHS:
            fit = partial(_logits, graph, graph.neighbours, strength)
            methods.append(("logistic regression on neighbours", f"C = {strength:g}", fit))
        for steps, strength in product(STEPS, STRENGTHS):
            fit = partial(regression, steps, strength)
            methods.append(("SGC", f"{steps} steps, C = {strength:g}", fit))
        for steps, strength in product((0, 2), STRENGTHS):
            fit = partial(corrected, graph, partial(regression, steps, strength))
            methods.append(("Correct & Smooth", f"{steps} steps, C = {strength:g}", fit))
    for name, setting, outputs in methods:
        yield Candidate(name, setting, partial(_score, outputs))


def _score(fit: Callable[[], Tensor]) -> Score:
    """Return a function that selects, from the outputs of all nodes, those of a batch's targets."""
    return partial(Batch.select_outputs, outputs=fit())


def known_labels(splits: Splits) -> LabelledGraph:
    """Return the graph and its training labels."""
    batches = list(batches_of(splits.train))
    x, graph = batches[0].inputs
    target = torch.cat([batch.target for batch in batches])
    everything = torch.arange(len(x))
    select = torch.cat([everything if b.select is None else b.select for b in batches])
    labels = target.new_full((len(x), *target.shape[1:]), -1)
    labelled = torch.ones(len(select), dtype=torch.bool) if splits.targets else target >= 0
    labels[select[labelled]] = target[labelled]
    train = select[labelled].sort().values
    classes = splits.model_arguments["out_width"]
    if x.layout is not torch.strided:
        csr_arrays = x.values(), x.col_indices(), x.crow_indices()
        features = sparse.csr_matrix(tuple(array.numpy() for array in csr_arrays), tuple(x.shape))
    elif float((x != 0).float().mean()) > 0.1:
        features = x.numpy()
    else:
        features = sparse.csr_matrix(x.numpy())
    neighbours = counts_of_neighbours(graph) if isinstance(graph, TypedGraph) else None
    return LabelledGraph(features, graph.edge_index, labels, train, classes, neighbours)


def counts_of_neighbours(graph: TypedGraph) -> Any:
    """Return the number of edges of each relation from each source to a node, and of each relation,
    as a SciPy matrix ``[N, columns]``.
    """
    types = graph.edge_type.numpy()
    source, target = graph.edge_index.numpy()
    columns = np.unique(types.astype(np.int64) * graph.num_sources + source, return_inverse=True)[1]
    shapes = (columns, int(columns.max(initial=-1)) + 1), (types, len(graph.relations))
    blocks = [
        sparse.csr_matrix((np.ones(len(target)), (target, column)), (graph.num_targets, width))
        for column, width in shapes
    ]
    return sparse.hstack(blocks, format="csr")


def smooth(graph: LabelledGraph, steps: int) -> Any:
    """Return features averaged over neighbours k times, :math:`(D^{-1/2} (A + I) D^{-1/2})^k X`,
    where D are the row sums of A + I.
    """
    count = len(graph.labels)
    source, target = graph.edge_index.numpy()
    a = sparse.csr_matrix((np.ones(len(source)), (target, source)), (count, count))
    a = a + sparse.eye(count)
    scale = sparse.diags(np.ravel(a.sum(axis=1)) ** -0.5)
    a, x = scale @ a @ scale, graph.x
    for _ in range(steps):
        x = a @ x
    return x


def propagated(graph: LabelledGraph, alpha: float) -> Tensor:
    """Return the class scores of all nodes, ``[N, classes]``, by PyG's label propagation."""
    labels = torch.zeros(len(graph.labels), graph.classes)
    labels[graph.train, graph.labels[graph.train]] = 1
    scores: Tensor = LabelPropagation(50, alpha)(labels, graph.edge_index)
    return scores


def corrected(graph: LabelledGraph, fit: Callable[[], Tensor]) -> Tensor:
    """Return the class probabilities of all nodes, ``[N, classes]``, by PyG's Correct & Smooth."""
    post = CorrectAndSmooth(50, 0.9, 50, 0.8, autoscale=True)
    soft, labels = fit().softmax(-1), graph.labels[graph.train]
    soft = post.correct(soft, labels, graph.train, graph.edge_index)
    smoothed: Tensor = post.smooth(soft, labels, graph.train, graph.edge_index)
    return smoothed


def _regression(
    graph: LabelledGraph, smoothed: Callable[[int], Any], steps: int, strength: float
) -> Tensor:
    """Return the logits of all nodes by logistic regression on averaged features."""
    return _logits(graph, smoothed(steps), strength)


def _logits(graph: LabelledGraph, x: Any, strength: float) -> Tensor:
    """Return the logits of all nodes by logistic regression on features x ``[N, F]``."""
    model = LogisticRegression(C=strength, max_iter=1000)
    model.fit(x[graph.train.numpy()], graph.labels[graph.train].numpy())
    return class_scores(model.predict_log_proba(x), model.classes_, graph.classes)


def _numbers(
    graph: LabelledGraph,
    columns: list[Column],
    smoothed: Callable[[int], Any],
    steps: int,
    strength: float,
) -> Tensor:
    """Return the outputs of linear models on averaged features for all nodes."""
    x, train = smoothed(steps), graph.train.numpy()
    y = graph.labels[graph.train].numpy()
    return fit_columns(partial(linear_model, 1 / strength), columns, x[train], y)(x)
