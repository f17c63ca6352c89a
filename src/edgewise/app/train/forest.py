"""Randomised trees on counts of neighbourhoods, alone and combined with a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from edgewise._utils.errors import require
from edgewise.app.files.targets import Target
from edgewise.app.train.baseline import batches_of
from edgewise.app.train.neighbourhood_counts import NeighbourhoodCounts
from edgewise.app.train.splits import Split
from edgewise.app.train.task import Task

TREES = 100
LEAF = 3  # Minimum number of training examples in a leaf.
MOST = 10_000  # Maximum number of training examples.
SMOOTHING = 1e-3  # Added to each probability, so that logarithms are finite.
CLEAR = 2.0  # Standard errors by which one part must be better than the average.
AVERAGE = "average of network and randomised trees"
CHOICES = {"network": (1.0, 0.0), AVERAGE: (0.5, 0.5), "randomised trees": (0.0, 1.0)}
"""Weights of the logits of the network and of the trees."""


class Forest(nn.Module):
    """Extremely randomised trees that predict the classes of graphs, called as a graph model is.

    The nodes of all trees are numbered in one sequence, tree by tree. Both children of a leaf are
    the leaf itself.

    Args:
        known, is_integer, kept: see :class:`.NeighbourhoodCounts`.
        roots: root of each tree, ``[targets * TREES]``.
        feature, threshold: in each node, examples with ``feature <= threshold`` go left, ``[N]``.
        branches: left and right child of each node, ``[N, 2]``.
        value: probability of each class in each node, ``[N, C]``.
        widths: number of outputs for each target; see :class:`.Target`.
        depth: depth of the deepest tree.

    Paper: Geurts et al., Extremely randomized trees, 2006
    """

    feature: Tensor
    threshold: Tensor
    branches: Tensor
    value: Tensor
    roots: Tensor

    def __init__(
        self,
        known: Tensor,
        is_integer: Tensor,
        kept: Tensor,
        *,
        widths: Tensor,
        depth: Tensor,
        **nodes: Tensor,
    ) -> None:
        super().__init__()
        self.counts = NeighbourhoodCounts(known, is_integer, kept)
        self.widths, self.depth = widths.tolist(), int(depth)
        # The run folder has these tensors in its preprocessing file, not in the model's weights.
        for name, tensor in nodes.items():
            self.register_buffer(name, tensor, persistent=False)

    def forward(self, x: Tensor, graph: Any, **keywords: Any) -> Tensor:
        """Return logits ``[B, sum of widths]``."""
        features = self.counts(x, graph, **keywords).float()
        row = torch.arange(len(features), device=x.device)[:, None]
        node = self.roots.expand(len(features), -1)
        for _ in range(self.depth):
            goes_right = features[row, self.feature[node]] > self.threshold[node]
            node = self.branches[node, goes_right.long()]
        probability = self.value[node].unflatten(1, (len(self.widths), TREES)).mean(2)
        logs = (probability + SMOOTHING).log().unbind(1)
        columns = [
            log[:, :width] if width > 1 else log[:, 1:2] - log[:, :1]
            for log, width in zip(logs, self.widths, strict=True)
        ]
        return torch.cat(columns, dim=1)


def fit_forest(train: Split, targets: Sequence[Target]) -> dict[str, Tensor]:
    """Fit trees to each target, and return the arguments of :class:`Forest` by name. Of more than
    :data:`MOST` examples, every second or n-th is used.
    """
    require("sklearn", extra="train", purpose="fitting randomised trees")
    from sklearn.ensemble import ExtraTreesClassifier

    batches = list(batches_of(train, math.ceil(train.count / MOST)))
    counts = NeighbourhoodCounts.fit(batches)
    x = np.concatenate([counts(*b.inputs, **b.keywords).float().numpy() for b in batches])
    target = torch.cat([batch.target for batch in batches])
    num_classes = max(len(column.classes) for column in targets)
    trees: list[Any] = []
    values = []
    for y in target.unbind(1):
        has_value = ~y.isnan().numpy()
        forest = ExtraTreesClassifier(TREES, min_samples_leaf=LEAF, random_state=0)
        forest.fit(x[has_value], y[has_value].long().numpy())
        for tree in (estimator.tree_ for estimator in forest.estimators_):
            trees.append(tree)
            value = np.zeros((tree.node_count, num_classes), dtype=np.float32)
            value[:, forest.classes_] = tree.value[:, 0]
            values.append(value)
    roots = [0, *accumulate(tree.node_count for tree in trees[:-1])]
    features, thresholds, branches = [], [], []
    for tree, root in zip(trees, roots, strict=True):
        is_leaf, itself = tree.children_left < 0, np.arange(tree.node_count)
        sides = np.stack([tree.children_left, tree.children_right], axis=1)
        branches.append(root + np.where(is_leaf[:, None], itself[:, None], sides))
        features.append(np.where(is_leaf, 0, tree.feature))
        # Features are float32. Thresholds are rounded down, so that no comparison changes.
        threshold = tree.threshold.astype(np.float32)
        lower = np.nextafter(threshold, np.float32(-np.inf))
        thresholds.append(np.where(threshold > tree.threshold, lower, threshold))
    arrays = {"feature": features, "threshold": thresholds, "branches": branches, "value": values}
    return {
        **dict(counts.named_buffers()),
        **{name: torch.from_numpy(np.concatenate(parts)) for name, parts in arrays.items()},
        "roots": torch.tensor(roots),
        "widths": torch.tensor([column.width for column in targets]),
        "depth": torch.tensor(max(tree.max_depth for tree in trees)),
    }


class NetworkAndForest(nn.Module):
    """Network whose logits are averaged with those of a forest, except in training mode.

    The validation set chooses one part alone if its loss is lower than that of the average by more
    than twice the standard error of the difference.
    """

    weights: Tensor
    losses: Tensor
    part, without_part = "randomised trees", "--data.forest false"

    def __init__(self, network: nn.Module, forest: Forest) -> None:
        super().__init__()
        self.network, self.forest = network, forest
        self.register_buffer("weights", torch.tensor(CHOICES[AVERAGE]))
        self.register_buffer("losses", torch.full((len(CHOICES),), torch.nan))

    def forward(self, *inputs: Any, **keywords: Any) -> Tensor:
        logits: Tensor = self.network(*inputs, **keywords)
        if self.training:
            return logits
        trees: Tensor = self.forest(*inputs, **keywords)
        return self.weights[0] * logits + self.weights[1] * trees

    @property
    def other(self) -> Forest:
        """The part that is not the network."""
        return self.forest

    @torch.no_grad()
    def fit_weights(self, network: Tensor, other: Tensor, target: Tensor, task: Task) -> None:
        """Choose the weights by the losses of held-out logits of both parts."""
        losses = {
            name: torch.stack(
                [
                    task.loss(a * network[i : i + 1] + b * other[i : i + 1], target[i : i + 1])
                    for i in range(len(target))
                ]
            )
            for name, (a, b) in CHOICES.items()
        }
        self.losses.copy_(torch.stack([loss.mean() for loss in losses.values()]))
        best = min(losses, key=lambda name: float(losses[name].mean()))
        gain = losses[AVERAGE] - losses[best]
        is_clear = gain.mean() > CLEAR * gain.std() / math.sqrt(len(gain))
        self.weights.copy_(torch.tensor(CHOICES[best if is_clear else AVERAGE]))

    @property
    def is_alone(self) -> bool:
        """True if the predictions are those of the trees."""
        return not float(self.weights[0])

    def chosen(self) -> str:
        """Return the chosen predictions and the validation losses, as text."""
        (name,) = (name for name, pair in CHOICES.items() if [*pair] == self.weights.tolist())
        losses = zip(CHOICES, self.losses.tolist(), strict=True)
        return f"{name} (validation losses: {', '.join(f'{n} {loss:.4f}' for n, loss in losses)})"
