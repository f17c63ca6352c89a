"""Reasons for a prediction, and its explanation: graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from edgewise.app.kinds.graphs.predict import GraphClasses
from edgewise.app.predict.cases import output_rows, row_odds
from edgewise.explain.attribution import Case


def graph_class(predictor: GraphClasses, value: Any, _: int) -> Iterator[Case]:
    """Yield the nodes of a graph as reasons for its class."""
    given, out, scores = output_rows(predictor, value)
    count, best = given[0].shape[-2], int(out[0].argmax())
    answer = predictor.preprocessing.values["labels"][best]
    labels = [f"node {node}" for node in range(count)]
    score = row_odds(scores, 0, best)
    yield Case(score, torch.arange(count), labels, str(answer), by_edge=True)
