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
    """Items with the highest scores for a user, except the items the user already has."""

    data, task, input = Interactions, Recommendation, "a user's id"

    @torch.no_grad()
    def set_up(self) -> None:
        saved = self.preprocessing.values
        self.users, self.items = KnownIds(saved["users"], "user"), KnownIds(saved["items"], "item")
        interactions, first_item = saved["known"], len(saved["users"])
        self.chosen = Neighbours(interactions, first_item)
        assert isinstance(self.model, Recommender)
        pairs = both_ways(interactions + torch.tensor([[0], [first_item]]))
        self.graph = edges(pairs, first_item + len(saved["items"]))
        self.states = self.model.embed(self.graph)
        self.directions = F.normalize(self.states[first_item:], dim=-1)

    def node_labels(self, value: Any) -> tuple[list[str], int | None]:
        return [*map(str, self.users.ids), *map(str, self.items.ids)], self.users.number(value)

    def graph_outputs(self) -> tuple[Callable[[], Tensor], Graph, list[str]]:
        model: Any = self.model
        ids = [*self.users.ids, *self.items.ids]
        return lambda: model.embed(self.graph), self.graph, ids

    def output_of(self, answer: str) -> int:
        return self.items.number(answer)

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
            user_items = self.chosen[user]
            score[user_items] = -torch.inf
            values, items = score.topk(min(top, len(score) - len(user_items.unique())))
            reasons = self._reasons(items, user_items, evidence)
            recommended = [
                {"item": self.items[item], "score": value}
                | ({"evidence": [self.items[other] for other in reason]} if evidence else {})
                for item, value, reason in zip(
                    items.tolist(), values.tolist(), reasons, strict=True
                )
            ]
            answers.append({"items": recommended})
        return answers

    def _reasons(self, items: Tensor, user_items: Tensor, count: int) -> list[list[int]]:
        """Return the ``count`` items of the user that are most similar to each recommended item."""
        similarity = self.directions[items] @ self.directions[user_items].t()
        nearest: list[list[int]] = user_items[
            similarity.topk(min(count, len(user_items))).indices
        ].tolist()
        return nearest
