"""Predictors for nodes of a graph: classes and links, with the lookup of ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.app.kinds.nodes.data import NodeData, NodeGraph, saved_graph
from edgewise.app.kinds.nodes.task import Consistency
from edgewise.app.predict.node_ids import KnownIds
from edgewise.app.predict.predictor import Answer, Predictor, top_labels
from edgewise.app.predict.properties import Properties
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.tasks.classification import Classification
from edgewise.graphs import Graph


class NewNode(NamedTuple):
    """Node of a graph other than the training graph: its id and the model outputs for it."""

    id: str
    outputs: Tensor


class OnNodes(Predictor):
    """Base of predictors on nodes of the training graph, whose outputs are computed once, or a new
    one.
    """

    data, input = NodeData, "a node's id"

    def set_up(self) -> None:
        super().set_up()
        training = saved_graph(self.preprocessing.values)
        self.nodes = KnownIds(training.ids, "node", "give the folder or .npz file of a new graph")
        self.all_outputs = self._all_outputs(training)

    @torch.no_grad()
    def _all_outputs(self, nodes: NodeGraph) -> Tensor:
        """Return the model outputs for all N nodes of a graph, ``[N, out_width]``."""
        outputs: Tensor = self.model(nodes.x, nodes.graph)
        return outputs

    def node_labels(self, value: Any) -> tuple[list[str], int | None]:
        return list(map(str, self.nodes.ids)), self.nodes.number(value)

    def graph_outputs(self) -> tuple[Callable[[], Tensor], Graph, list[str]]:
        training, model = saved_graph(self.preprocessing.values), self.model
        return (
            lambda: self.values(model(training.x, training.graph)),
            training.graph,
            list(training.ids),
        )

    def values(self, outputs: Tensor) -> Tensor:
        """Convert outputs ``[N, out_width]`` to numbers, or to probabilities of classes."""
        return outputs

    def classes(self) -> list[str]:
        """Return the names of the classes; none if the model predicts a number."""
        raise NotImplementedError

    def logits(self, outputs: Tensor) -> Tensor:
        """Convert outputs ``[N, out_width]`` to a logit for each class."""
        return outputs

    def details(self, value: Any) -> dict[str, Any]:  # noqa: ARG002
        best = self.logits(self.all_outputs).argmax(-1).tolist()
        return {"classes": (self.classes(), best)} if self.classes() else {}

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """Read ids of the training graph, or all nodes of a new graph from a folder or ``.npz``
        file.
        """
        if not path.is_dir() and path.suffix != ".npz":
            yield from super().from_file(path)
            return
        assert isinstance(self.recipe.data, NodeData)
        new_graph = self.recipe.data.read_new(path, self.preprocessing.values)
        rows = self._all_outputs(new_graph)
        for name, row in zip(new_graph.ids, rows, strict=True):
            yield None, {"input": name}, NewNode(name, row)

    def columns(self) -> tuple[str, ...]:
        return (self.preprocessing.values.get("column", "id"),)

    def prepare(self, value: Any) -> Tensor:
        if isinstance(value, NewNode):
            return value.outputs
        return self.all_outputs[self.nodes.number(value)]

    def show(self, value: Any) -> str:
        return value.id if isinstance(value, NewNode) else str(value)


class NodeClasses(OnNodes):
    """Most probable classes of a node."""

    task = Classification

    def classes(self) -> list[str]:
        return list(map(str, self.preprocessing.values["labels"]))

    @classmethod
    def serves(cls, recipe: Recipe) -> bool:
        known_task = type(recipe.task) in (Classification, Consistency)
        return isinstance(recipe.data, NodeData) and known_task

    def values(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(-1)

    def answer(self, examples: list[Tensor], *, top: int = 1) -> list[Answer]:
        chances = self.values(torch.stack(examples))
        return top_labels(chances, self.preprocessing.values["labels"], top)


class NodeProperties(OnNodes, Properties):
    """Predicted number for a node, or one of two classes."""

    ensembles = True

    def classes(self) -> list[str]:
        return list(self.targets[0].classes)

    def logits(self, outputs: Tensor) -> Tensor:
        """Return logits ``[N, 2]`` of two classes, of which the first has the logit 0."""
        return F.pad(outputs[:, :1], (1, 0))

    @torch.no_grad()
    def _all_outputs(self, nodes: NodeGraph) -> Tensor:
        """Return predictions ``[N, 1]``; an ensemble adds a column for each model."""
        outputs, model_outputs = self.called(nodes.x, nodes.graph)
        return outputs if model_outputs is None else torch.cat([outputs, *model_outputs], dim=1)

    def answer(self, examples: list[Tensor], *, interval: float = 0.0) -> list[Answer]:
        outputs = torch.stack(examples)
        model_outputs = outputs[:, 1:].T[..., None] if outputs.shape[1] > 1 else None
        return self.described(outputs[:, :1], model_outputs, interval)
