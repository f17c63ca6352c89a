"""Predictor of links."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise.app.kinds.links.data import Links
from edgewise.app.kinds.links.task import LinkPrediction
from edgewise.app.predict.node_ids import KnownIds, Neighbours
from edgewise.app.predict.predictor import Answer, Predictor
from edgewise.app.train.edge_splits import both_ways
from edgewise.graphs import Graph, edges
from edgewise.models.link_predictor import LinkPredictor

CHUNK = 65536
"""Maximum number of pairs scored at once, which limits the memory."""


class LinkSuggestions(Predictor):
    """Nodes with the highest scores for a node, except the nodes it is already linked to. A score
    is the sigmoid of the model's logit: the probability of a link if links are as frequent as in
    the training batches (one link for ``negatives`` pairs without a link).
    """

    data, task, input = Links, LinkPrediction, "a node's id"

    @torch.no_grad()
    def set_up(self) -> None:
        saved = self.preprocessing.values
        self.nodes = KnownIds(saved["ids"], "node")
        self.left, self.right = range(*saved["left"]), range(*saved["right"])
        pairs = both_ways(saved["known"])
        self.linked = Neighbours(pairs, len(saved["ids"]))
        assert isinstance(self.model, LinkPredictor)
        self.graph = edges(pairs, len(saved["ids"]))
        self.states = self.model.embed(self.graph)

    def node_labels(self, value: Any) -> tuple[list[str], int | None]:
        return list(map(str, self.nodes.ids)), self.nodes.number(value)

    def graph_outputs(self) -> tuple[Callable[[], Tensor], Graph, list[str]]:
        model: Any = self.model
        return lambda: model.embed(self.graph), self.graph, list(self.nodes.ids)

    def columns(self) -> tuple[str, ...]:
        return (self.preprocessing.values["column"],)

    def prepare(self, value: Any) -> int:
        return self.nodes.number(value)

    def answer(self, examples: list[int], *, top: int = 10, evidence: int = 3) -> list[Answer]:
        check_range("top", top, "choose a number of links, such as 10", least=1)
        check_range("evidence", evidence, "choose 0 for none", least=0)
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
        values, positions = scores.topk(min(top, free))
        for value, other in zip(values.tolist(), (positions + others.start).tolist(), strict=True):
            link: Answer = {"id": self.nodes[other], "score": value}
            if evidence:
                common = linked[torch.isin(linked, self.linked[other])]
                # Common neighbours with fewer links are stronger evidence (Adamic and Adar, 2003).
                rarest = sorted(common.tolist(), key=lambda node: len(self.linked[node]))[:evidence]
                link |= {"common": len(common), "evidence": [self.nodes[n] for n in rarest]}
            yield link

    def _scores(self, node: int, others: range) -> Tensor:
        """Return the probability of a link from one node to each of several nodes."""
        assert isinstance(self.model, LinkPredictor)
        logits = []
        for targets in torch.arange(others.start, others.stop).split(CHUNK):
            pairs = torch.stack([torch.full_like(targets, node), targets])
            logits.append(self.model.score(self.states, pairs, self.graph))
        return torch.cat(logits).sigmoid()
