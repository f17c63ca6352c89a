"""Reasons for the class of a graph: its nodes and edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from edgewise.app.kinds.graphs.predict import GraphClasses
from edgewise.app.predict.cases import class_case, log_odds, model_call, output_rows
from edgewise.explain.attribution import Case


def graph_class(predictor: GraphClasses, value: Any, _: int) -> Iterator[Case]:
    """Yield the nodes of a graph as reasons for its class."""
    inputs, out, scores = output_rows(predictor, value)
    count = inputs[0].shape[-2]
    labels = [f"node {node}" for node in range(count)]
    example, best = predictor.prepare(value), out.argmax(-1)

    def copies(count: int) -> Tensor:
        return log_odds(model_call(predictor, *[example] * count)[1], best.expand(count))

    member = torch.arange(count)
    yield class_case(predictor, out, scores, member, labels, by_edge=True, score_copies=copies)
