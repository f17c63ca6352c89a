"""Predictors for nodes of a graph: classes and links, with the lookup of ids."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise.arguments import check_from_zero, check_least
from edgewise.data.graphs.edge_splits import both_ways
from edgewise.data.graphs.links import Links
from edgewise.data.graphs.node_data import NodeData, NodeGraph, graph_kept
from edgewise.errors import ArgumentError
from edgewise.graphs import edges
from edgewise.inference.predictor import Answer, Predictor, top_labels
from edgewise.inference.properties import Properties
from edgewise.models.link_predictor import LinkPredictor
from edgewise.ragged import starts
from edgewise.recipes.recipe import Recipe
from edgewise.tasks import Classification, Consistency, LinkPrediction

MAX_LENGTH_DIFFERENCE = 2
"""Maximum difference in length between an unknown id and a suggested id, which avoids most of the
slow comparisons."""
CHUNK = 65536
"""Maximum number of pairs scored at once, which limits the memory."""


class KnownIds:
    """Map between the node ids in the training file and node indices.

    Args:
        ids: the ids, ordered by index.
        what: noun that error messages use for an id, such as "user".
        remedy: remedy for an unknown id that is not similar to any known id.
    """

    def __init__(
        self, ids: Sequence[str], what: str, remedy: str = "train again on data with this id"
    ) -> None:
        self.ids, self.what, self.remedy = ids, what, remedy
        self._number = {name: number for number, name in enumerate(ids)}

    def __getitem__(self, number: int) -> str:
        return self.ids[number]

    def number(self, value: Any) -> int:
        """Return the index of a node id, which is a text or an integer.

        Raises:
            ArgumentError: the id is unknown; the error suggests the most similar one.
        """
        text = str(value).strip()
        if text in self._number:
            return self._number[text]
        alike = [
            known for known in self.ids if abs(len(known) - len(text)) <= MAX_LENGTH_DIFFERENCE
        ]
        # Suggest nothing for a number, because ids with similar digits are unrelated.
        near = [] if text.isdecimal() else difflib.get_close_matches(text, alike, n=1, cutoff=0.5)
        raise ArgumentError(
            "input",
            expected=f"one of the {len(self.ids):,} {self.what}s in the training data of the run, "
            f"such as {near[0] if near else self.ids[0]}",
            got=repr(text[:60]),
            remedy=f"did you mean {near[0]!r}?" if near else self.remedy,
        )


class Neighbours:
    """Neighbours of each node, sorted once for fast lookup.

    Args:
        pairs: E pairs of node indices, ``[2, E]``: a node in row 0, its neighbour in row 1.
        count: number of nodes, of which the indices in row 0 are a subset.
    """

    def __init__(self, pairs: Tensor, count: int) -> None:
        order = pairs[0].argsort(stable=True)
        self._other = pairs[1][order]
        self._count = torch.bincount(pairs[0], minlength=count)
        self._start = starts(self._count)

    def __getitem__(self, node: int) -> Tensor:
        start = int(self._start[node])
        return self._other[start : start + int(self._count[node])]


class NewNode(NamedTuple):
    """Node of a graph other than the training graph: its id and the model outputs for it."""

    id: str
    outputs: Tensor


class OnNodes(Predictor):
    """Base of predictors on nodes of the training graph or of a new graph.

    The outputs for all nodes of the training graph are computed when the run is loaded.
    """

    data, input = NodeData, "a node's id"

    def set_up(self) -> None:
        super().set_up()
        kept = graph_kept(self.preprocessing.values)
        self.nodes = KnownIds(kept.ids, "node", "give the folder or .npz file of a new graph")
        self.all_outputs = self._all_outputs(kept)

    @torch.no_grad()
    def _all_outputs(self, found: NodeGraph) -> Tensor:
        """Return the model outputs for all N nodes of a graph, ``[N, out_width]``."""
        outputs: Tensor = self.model(found.x, found.graph)
        return outputs

    def values(self, outputs: Tensor) -> Tensor:
        """Convert outputs ``[N, out_width]`` to numbers, or to probabilities of classes."""
        return outputs

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """Read the nodes to predict.

        A table or text file lists node ids of the training graph. A folder or ``.npz`` file
        contains a new graph, all of whose nodes are predicted.
        """
        if not path.is_dir() and path.suffix != ".npz":
            yield from super().from_file(path)
            return
        assert isinstance(self.recipe.data, NodeData)
        found = self.recipe.data.read_new(path, self.preprocessing.values)
        rows = self._all_outputs(found)
        for name, row in zip(found.ids, rows, strict=True):
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
    """Predicted number for a node."""

    ensembles = True

    @torch.no_grad()
    def _all_outputs(self, found: NodeGraph) -> Tensor:
        """Return the predicted number of each node.

        An ensemble of models adds a column with the prediction of each model.

        Returns:
            ``[N, 1]``, or ``[N, 1 + models]`` for an ensemble.
        """
        outputs, each = self.called(found.x, found.graph)
        return outputs if each is None else torch.cat([outputs, *each], dim=1)

    def answer(self, examples: list[Tensor], *, interval: float = 0.0) -> list[Answer]:
        outputs = torch.stack(examples)
        each = outputs[:, 1:].T[..., None] if outputs.shape[1] > 1 else None
        return self.described(outputs[:, :1], each, interval)


class LinkSuggestions(Predictor):
    """Nodes with the highest scores for a node, except the nodes it is already linked to.

    The embeddings of the nodes are computed once, from all links in the data. A score is the
    sigmoid of the model's logit: the probability of a link if links are as frequent as in the
    training batches (one link for ``negatives`` pairs without a link; see
    :class:`edgewise.data.edge_list`).
    """

    data, task, input = Links, LinkPrediction, "a node's id"

    @torch.no_grad()
    def set_up(self) -> None:
        kept = self.preprocessing.values
        self.nodes = KnownIds(kept["ids"], "node")
        self.left, self.right = range(*kept["left"]), range(*kept["right"])
        pairs = both_ways(kept["known"])
        self.linked = Neighbours(pairs, len(kept["ids"]))
        assert isinstance(self.model, LinkPredictor)
        self.graph = edges(pairs, len(kept["ids"]))
        self.states = self.model.embed(self.graph)

    def columns(self) -> tuple[str, ...]:
        return (self.preprocessing.values["column"],)

    def prepare(self, value: Any) -> int:
        return self.nodes.number(value)

    def answer(self, examples: list[int], *, top: int = 10, evidence: int = 3) -> list[Answer]:
        check_least("top", top, 1, "choose a number of links, such as 10")
        check_from_zero("evidence", evidence, "choose 0 for none")
        return [{"links": list(self._proposed(node, top, evidence))} for node in examples]

    def _proposed(self, node: int, top: int, evidence: int) -> Iterator[Answer]:
        # In a bipartite graph, a node can be linked only to nodes of the other kind.
        others = self.right if node in self.left else self.left
        scores = self._scores(node, others)
        linked = self.linked[node]
        scores[linked - others.start] = -torch.inf
        if node in others:
            scores[node - others.start] = -torch.inf
        free = int(scores.isfinite().sum())
        values, places = scores.topk(min(top, free))
        for value, other in zip(values.tolist(), (places + others.start).tolist(), strict=True):
            found: Answer = {"id": self.nodes[other], "score": value}
            if evidence:
                common = linked[torch.isin(linked, self.linked[other])]
                # Common neighbours with fewer links are stronger evidence (Adamic and Adar, 2003).
                rare = sorted(common.tolist(), key=lambda one: len(self.linked[one]))
                found |= {
                    "common": len(common),
                    "evidence": [self.nodes[n] for n in rare[:evidence]],
                }
            yield found

    def _scores(self, node: int, others: range) -> Tensor:
        """Return the probability of a link from one node to each of several nodes.

        Args:
            node: index of the first node.
            others: indices of the other nodes.
        """
        assert isinstance(self.model, LinkPredictor)
        other = torch.arange(others.start, others.stop)
        parts = [
            torch.stack([part.new_full(part.shape, node), part]) for part in other.split(CHUNK)
        ]
        found = [self.model.score(self.states, pairs, self.graph) for pairs in parts]
        return torch.cat(found).sigmoid()
