"""Baselines of graphs and molecules: trees and linear models on counts of node neighbourhoods.

As in Morgan fingerprints, a neighbourhood of radius r is represented by the color of a node after r
steps of Weisfeiler–Lehman refinement with edge types (Rogers and Hahn, Extended-connectivity
fingerprints, 2010). The first color is a hash of those node features that are integers. Further
features of a graph are the sums and means of its other node features, and the conditions and
descriptors in the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import Tensor

from edgewise.app.train.baseline import Candidate, Score, batches_of
from edgewise.app.train.batches import Batch
from edgewise.app.train.column_baselines import columns_of, fit_columns, linear_model, linear_name
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits

RADIUS = 2
COUNTS = 2048  # Maximum number of neighbourhoods to count, those in most training graphs first.
LEAST = 3  # Minimum number of training graphs in which a neighbourhood must occur.
LEAVES = (15, 63)
TREES, PATIENCE = 1000, 20
RATE = 0.1
FOREST = 100  # Randomised trees.
STRENGTHS = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
MIXERS = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
"""Odd multipliers of the hash function of splitmix64 (Steele et al., 2014)."""


class Table(NamedTuple):
    """Colors of nodes ``[N, RADIUS + 1]``, graph of each node ``[N]``, further features ``[B, K]``
    and targets ``[B, T]`` of a batch.
    """

    colors: Tensor
    graph: Tensor
    other: Tensor
    target: Tensor


def candidates(recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield a linear model and gradient-boosted trees with each setting, and randomised trees."""
    features = Features(splits, recipe)
    kinds = {bool(column.classes) for column in features.columns}
    name = linear_name(features.columns)
    for strength in STRENGTHS:
        fit = partial(_fitted, features, partial(_linear, strength))
        yield Candidate(name, f"penalty {strength:g}", fit)
    losses = ("squared_error", "absolute_error") if False in kinds else ("log_loss",)
    for loss, leaves in product(losses, LEAVES):
        fit = partial(_fitted, features, partial(boosted_trees, loss, leaves))
        yield Candidate("gradient-boosted trees", f"{loss}, {leaves} leaves", fit)
    yield Candidate("randomised trees", f"{FOREST} trees", partial(_fitted, features, _forest))


class Features:
    """Features of graphs for scikit-learn: counts of neighbourhoods, and further features. Of
    features that are equal in the whole training set, only one is kept.
    """

    def __init__(self, splits: Splits, recipe: Recipe) -> None:
        self.columns = columns_of(splits, recipe)
        batches = list(batches_of(splits.train))
        x = torch.cat([batch.inputs[0] for batch in batches])
        self.whole = (x == x.round()).all(0)
        tables = [self.table(batch) for batch in batches]
        graph_counts: dict[int, int] = {}
        for table in tables:
            pairs = torch.stack([table.graph.repeat(RADIUS + 1), table.colors.T.flatten()])
            for color in pairs.unique(dim=1)[1].tolist():
                graph_counts[color] = graph_counts.get(color, 0) + 1
        least = min(LEAST, sum(len(table.target) for table in tables))
        common = sorted(
            (c for c in graph_counts if graph_counts[c] >= least),
            key=lambda c: (-graph_counts[c], c),
        )
        self.known = torch.tensor(common[:COUNTS], dtype=torch.long).sort().values
        self.kept: Any = slice(None)
        rows = np.concatenate([self.rows(table) for table in tables])
        # With few molecules, many columns are equal; trees would spend half of their time on them.
        self.kept = np.sort(np.unique(rows, axis=1, return_index=True)[1])
        self.train = rows[:, self.kept]
        self.target = torch.cat([table.target for table in tables]).numpy()
        val = [self.table(batch) for batch in batches_of(splits.val)]
        self.val = np.concatenate([self.rows(table) for table in val])
        self.val_target = torch.cat([table.target for table in val]).numpy()

    def table(self, batch: Batch) -> Table:
        """Return the colors and the further features of the graphs in a batch."""
        x, graph = batch.inputs
        # Rows with the same molecule share its nodes, so features are gathered by membership.
        node, of_node = batch.keywords["batch"].edge_index
        edge_attr = batch.keywords.get("edge_attr")
        colors = neighbourhoods(x[:, self.whole], graph.edge_index, edge_attr)[node]
        real = x[node][:, ~self.whole]
        count = len(batch.target)
        size = torch.bincount(of_node, minlength=count)[:, None]
        total = torch.zeros(count, real.shape[1]).index_add(0, of_node, real)
        graph_features = [
            batch.keywords[n] for n in ("global_attr", "descriptors") if n in batch.keywords
        ]
        other = torch.cat([size, total, total / size.clamp(min=1), *graph_features], dim=1)
        return Table(colors, of_node, other, batch.target.reshape(count, -1))

    def rows(self, table: Table) -> np.ndarray:
        """Return the features for scikit-learn, ``[B, F]``."""
        if not len(self.known):
            return table.other.numpy()[:, self.kept]
        column = torch.searchsorted(self.known, table.colors).clamp(max=len(self.known) - 1)
        is_counted = self.known[column] == table.colors
        count = torch.zeros(len(table.target), len(self.known))
        graph = table.graph[:, None].expand_as(column)
        count.index_put_(
            (graph[is_counted], column[is_counted]), torch.ones(int(is_counted.sum())), True
        )
        return torch.cat([table.other, count], dim=1).numpy()[:, self.kept]


def neighbourhoods(x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> Tensor:
    """Return the Weisfeiler–Lehman colors of each node after 0 to :data:`RADIUS` steps. Colors of
    different neighbourhoods differ, except for collisions of 64-bit hashes.
    """
    color = _row_hash(x.long())
    kind = 0 if edge_attr is None else _row_hash((1000 * edge_attr).round().long())
    source, target = edge_index
    colors = [color]
    for _ in range(RADIUS):
        received = _mixed(color[source] + kind)
        color = _mixed(3 * color + torch.zeros_like(color).index_add(0, target, received))
        colors.append(color)
    return torch.stack(colors, dim=1)


def _row_hash(rows: Tensor) -> Tensor:
    """Return a hash of each row of integers, ``[N]``."""
    weight = _mixed(torch.arange(1, rows.shape[1] + 1))
    return _mixed((rows * weight).sum(1))


def _mixed(value: Tensor) -> Tensor:
    """Return a hash of each 64-bit integer. The arithmetic overflows on purpose."""
    for multiplier in MIXERS:
        value = (value ^ (value >> 29)) * (multiplier - 2**64)
    return value ^ (value >> 32)


def _linear(strength: float, classes: int) -> Any:
    clip = FunctionTransformer(np.clip, kw_args={"a_min": -10, "a_max": 10})
    return make_pipeline(StandardScaler(), clip, linear_model(strength, classes))


def boosted_trees(loss: str, leaves: int, classes: int) -> Any:
    """Return gradient-boosted trees with early stopping; ``loss`` is that of numbers."""
    kind: Any = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return kind(
        loss="log_loss" if classes else loss,
        max_leaf_nodes=leaves,
        learning_rate=RATE,
        max_iter=TREES,
        early_stopping=True,
        n_iter_no_change=PATIENCE,
        random_state=0,
    )


def _forest(classes: int) -> Any:
    """Return extremely randomised trees (Geurts et al., 2006)."""
    # Numbers have far larger errors with a random part of the features at each split.
    kind: Any = ExtraTreesClassifier if classes else partial(ExtraTreesRegressor, max_features=1.0)
    return kind(FOREST, random_state=0)


def _fitted(features: Features, make: Callable[[int], Any]) -> Score:
    val = features.val, features.val_target
    outputs = fit_columns(make, features.columns, features.train, features.target, val)
    return lambda batch: outputs(features.rows(features.table(batch)))
