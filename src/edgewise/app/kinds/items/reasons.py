"""Reasons for recommended items: the interactions of users and items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from edgewise.app.kinds.items.predict import Recommendations
from edgewise.explain.attribution import Case, Claim
from edgewise.layers import Recommender


def recommended_items(predictor: Recommendations, value: Any, top: int) -> Iterator[Case]:
    """Yield a user's items as reasons for each recommended item."""
    user = predictor.prepare(value)
    model, first = predictor.model, len(predictor.users.ids)
    assert isinstance(model, Recommender)
    graph, labels = predictor.graph, [*predictor.users.ids, *predictor.items.ids]
    with torch.no_grad():
        items = predictor.answer([user], top=top, evidence=0)[0]["items"]
    for item in items:
        number = predictor.items.number(item["item"])
        ends = torch.tensor([user, first + number])

        def score(ends: Tensor = ends, number: int = number) -> Tensor:
            return model.scores(model.embed(graph), ends[:1], torch.tensor([number]), graph)[0]

        member = torch.arange(len(labels))
        yield Case(
            score,
            member,
            labels,
            item["item"],
            ends,
            by_edge=True,
            is_odds=False,
            whole_graph=True,
            claim=Claim(
                f"{item['item']} for {labels[user]}", "score", "a higher score ranks first"
            ),
        )
