"""Reasons for suggested links: the edges around both nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from edgewise.app.kinds.links.predict import LinkSuggestions
from edgewise.app.train.edge_splits import both_ways
from edgewise.explain.attribution import Case, Claim
from edgewise.explain.removal import edges_around, remaining
from edgewise.graphs import Graph, edges
from edgewise.models.link_predictor import LinkPredictor


def suggested_links(predictor: LinkSuggestions, value: Any, top: int) -> Iterator[Case]:
    """Yield edges around a node as reasons for each suggested link."""
    node = predictor.prepare(value)
    model, ids = predictor.model, predictor.nodes.ids
    assert isinstance(model, LinkPredictor)
    graph = edges(both_ways(predictor.preprocessing.values["known"]), len(ids))
    with torch.no_grad():
        links = predictor.answer([node], top=top, evidence=0)[0]["links"]
    data: Any = predictor.recipe.data
    note = (
        f"the score is the probability of a link if 1 in {1 + data.negatives} pairs is linked, "
        "as in training"
    )
    for link in links:
        ends = torch.tensor([node, predictor.nodes.number(link["id"])])
        around_ends, to_common = edges_around(graph, ends)
        around = edges(graph.edge_index[:, around_ends], len(ids))

        def score(ends: Tensor = ends, around: Graph = around) -> Tensor:
            return model.score(model.embed(graph), ends[:, None], remaining(around))

        member = torch.arange(len(ids))
        yield Case(
            score,
            member,
            ids,
            link["id"],
            ends,
            by_edge=True,
            whole_graph=True,
            best="left_out",
            claim=Claim(f"a link between {ids[node]} and {link['id']}", "score", note),
            exact_pairs=graph.edge_index[:, to_common],  # The other methods do not see these.
        )
