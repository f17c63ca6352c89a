"""Items recommended to users, with the items that support each recommendation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise.app.kinds.items.data import Interactions
from edgewise.app.kinds.items.task import Recommendation
from edgewise.app.predict.node_ids import KnownIds, Neighbours
from edgewise.app.predict.predictor import Answer, Predictor
from edgewise.app.train.edge_splits import both_ways
from edgewise.graphs import Graph, edges
from edgewise.layers import Recommender


class Recommendations(Predictor):
    """Items with the highest scores for a user, except the items the user already has.

    The embeddings of users and items are computed once, from all interactions in the data.
    """

    data, task, input = Interactions, Recommendation, "a user's id"

    @torch.no_grad()
    def set_up(self) -> None:
        kept = self.preprocessing.values
        self.users, self.items = KnownIds(kept["users"], "user"), KnownIds(kept["items"], "item")
        known, first_item = kept["known"], len(kept["users"])
        self.chosen = Neighbours(known, first_item)
        assert isinstance(self.model, Recommender)
        pairs = both_ways(known + torch.tensor([[0], [first_item]]))
        self.graph = edges(pairs, first_item + len(kept["items"]))
        self.states = self.model.embed(self.graph)
        self.directions = F.normalize(self.states[first_item:], dim=-1)

    def node_labels(self, value: Any) -> tuple[list[str], int | None]:
        return [*map(str, self.users.ids), *map(str, self.items.ids)], self.users.number(value)

    def graph_outputs(self) -> tuple[Callable[[], Tensor], Graph, list[str]]:
        model: Any = self.model
        ids = [*self.users.ids, *self.items.ids]
        return lambda: model.embed(self.graph), self.graph, ids

    def columns(self) -> tuple[str, ...]:
        return (self.preprocessing.values["columns"][0],)

    def prepare(self, value: Any) -> int:
        return self.users.number(value)

    def answer(self, examples: list[int], *, top: int = 10, evidence: int = 3) -> list[Answer]:
        check_range("top", top, "choose a number of items, such as 10", least=1)
        check_range("evidence", evidence, "choose 0 for none", least=0)
        assert isinstance(self.model, Recommender)
        every = torch.arange(len(self.directions))
        scores = self.model.scores(self.states, torch.tensor(examples), every, self.graph)
        answers: list[Answer] = []
        for user, score in zip(examples, scores, strict=True):
            own = self.chosen[user]
            score[own] = -torch.inf
            values, items = score.topk(min(top, len(score) - len(own.unique())))
            reasons = self._reasons(items, own, evidence)
            found = [
                {"item": self.items[item], "score": value}
                | ({"evidence": [self.items[other] for other in reason]} if evidence else {})
                for item, value, reason in zip(
                    items.tolist(), values.tolist(), reasons, strict=True
                )
            ]
            answers.append({"items": found})
        return answers

    def _reasons(self, items: Tensor, own: Tensor, count: int) -> list[list[int]]:
        """Return the user's items that are most similar to each recommended item.

        Args:
            items: indices of the recommended items.
            own: indices of the items that the user already has.
            count: number of items to return for each recommended item.

        Returns:
            Indices of the items by decreasing cosine similarity, for each recommended item.
        """
        alike = self.directions[items] @ self.directions[own].t()
        nearest: list[list[int]] = own[alike.topk(min(count, len(own))).indices].tolist()
        return nearest
