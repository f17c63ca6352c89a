"""Classes of the nodes of a graph, with their probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise.data.graphs.node_data import NodeData, NodeGraph, graph_kept
from edgewise.inference.ids import KnownIds
from edgewise.inference.predictor import Answer, Predictor
from edgewise.inference.sentences import labelled
from edgewise.recipes.recipe import Recipe
from edgewise.tasks import Classification, Consistency


class NewNode(NamedTuple):
    """A node of a new graph: its id, and the probabilities ``[classes]`` of its class."""

    id: str
    probabilities: Tensor


class NodeClasses(Predictor):
    """The likeliest classes of a node, of the graph that was trained on or of a new one.

    All nodes of a graph are answered at once: those that the run knows when it is loaded.
    """

    data, task, input = NodeData, Classification, "a node's id"

    @classmethod
    def serves(cls, recipe: Recipe) -> bool:
        known_task = type(recipe.task) in (Classification, Consistency)
        return isinstance(recipe.data, NodeData) and known_task

    def set_up(self) -> None:
        kept = graph_kept(self.fitted.values)
        self.nodes = KnownIds(kept.ids, "node", "ask for a new graph by its folder or .npz file")
        self.probabilities = self._probabilities(kept)

    @torch.no_grad()
    def _probabilities(self, found: NodeGraph) -> Tensor:
        """``[N, classes]``."""
        scores: Tensor = self.model(found.x, found.graph)
        return scores.softmax(-1)

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """Ids from a table or from lines; or all nodes of a new graph, a folder or ``.npz``."""
        if not path.is_dir() and path.suffix != ".npz":
            yield from super().from_file(path)
            return
        assert isinstance(self.recipe.data, NodeData)
        found = self.recipe.data.read_new(path, self.fitted.values)
        rows = self._probabilities(found)
        for name, row in zip(found.ids, rows, strict=True):
            yield None, {"input": name}, NewNode(name, row)

    def columns(self) -> tuple[str, ...]:
        return (self.fitted.values.get("column", "id"),)

    def prepare(self, value: Any) -> Tensor:
        if isinstance(value, NewNode):
            return value.probabilities
        return self.probabilities[self.nodes.number(value)]

    def answer(self, examples: list[Tensor], *, top: int = 1) -> list[Answer]:
        return labelled(torch.stack(examples), self.fitted.values["labels"], top)

    def show(self, value: Any) -> str:
        return value.id if isinstance(value, NewNode) else str(value)
