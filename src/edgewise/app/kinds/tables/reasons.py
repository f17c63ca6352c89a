"""Reasons for the prediction of a row: the cells of the database that it sees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from edgewise.app.kinds.tables.predict import RowProperties
from edgewise.app.predict.cases import output_rows, target_cases
from edgewise.explain.attribution import Case


def row_properties(predictor: RowProperties, value: Any, _: int) -> Iterator[Case]:
    """Yield the visible cells, except the one to predict, as reasons for the prediction."""
    out, scores = output_rows(predictor, value)[1:]
    labels, _node = predictor.node_labels(value)
    member = torch.arange(len(labels)) - 1
    yield from target_cases(predictor, out, scores, member, labels[1:])
