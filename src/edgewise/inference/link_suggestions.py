"""Links proposed to a node, such as friends to a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from edgewise.arguments import check_from_zero, check_least
from edgewise.data.graphs.edge_splits import both_ways
from edgewise.data.graphs.links import Links
from edgewise.graphs import edges
from edgewise.inference.ids import KnownIds, Neighbours
from edgewise.inference.predictor import Answer, Predictor
from edgewise.models.link_predictor import LinkPredictor
from edgewise.tasks import LinkPrediction

SCORED = 65536  # pairs whose states are in memory at once


class LinkSuggestions(Predictor):
    """The nodes of the highest scores for a node, without those that it is linked to already.

    The states of the nodes are computed once, over all links that the run knows. A score is what
    the model takes for the probability that a pair is linked, among as many linked as unlinked
    pairs.
    """

    data, task, input = Links, LinkPrediction, "a node's id"

    @torch.no_grad()
    def set_up(self) -> None:
        kept = self.fitted.values
        self.nodes = KnownIds(kept["ids"], "node")
        self.left, self.right = range(*kept["left"]), range(*kept["right"])
        pairs = both_ways(kept["known"])
        self.linked = Neighbours(pairs, len(kept["ids"]))
        assert isinstance(self.model, LinkPredictor)
        self.states = self.model.embed(edges(pairs, len(kept["ids"])))

    def columns(self) -> tuple[str, ...]:
        return (self.fitted.values["column"],)

    def prepare(self, value: Any) -> int:
        return self.nodes.number(value)

    def answer(self, examples: list[int], *, top: int = 10, because: int = 3) -> list[Answer]:
        check_least("top", top, 1, "choose how many links you want")
        check_from_zero("because", because, "choose 0 for none")
        return [{"links": list(self._proposed(node, top, because))} for node in examples]

    def _proposed(self, node: int, top: int, because: int) -> Iterator[Answer]:
        # Of two kinds of node, the other kind; of one kind, all.
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
            if because:
                common = linked[torch.isin(linked, self.linked[other])]
                # Those with fewer links say more about this pair (Adamic and Adar, 2003).
                rare = sorted(common.tolist(), key=lambda one: len(self.linked[one]))
                found |= {"common": len(common), "because": [self.nodes[n] for n in rare[:because]]}
            yield found

    def _scores(self, node: int, others: range) -> Tensor:
        """``[len(others)]``."""
        assert isinstance(self.model, LinkPredictor)
        other = torch.arange(others.start, others.stop)
        parts = [
            torch.stack([part.new_full(part.shape, node), part]) for part in other.split(SCORED)
        ]
        found = [self.model.score(self.states, pairs) for pairs in parts]
        return torch.cat(found).sigmoid()
