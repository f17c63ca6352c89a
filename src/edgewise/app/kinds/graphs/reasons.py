"""Reasons for the class of a graph: its nodes and edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from edgewise.app.kinds.graphs.predict import GraphClasses
from edgewise.app.predict.cases import class_case, output_rows
from edgewise.explain.attribution import Case


def graph_class(predictor: GraphClasses, value: Any, _: int) -> Iterator[Case]:
    """Yield the nodes of a graph as reasons for its class."""
    inputs, out, scores = output_rows(predictor, value)
    count = inputs[0].shape[-2]
    labels = [f"node {node}" for node in range(count)]
    yield class_case(predictor, out, scores, torch.arange(count), labels, by_edge=True)
