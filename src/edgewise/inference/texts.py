"""What all answers on texts have in common: the column that texts are in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise.errors import ArgumentError
from edgewise.inference.predictor import Predictor


class OfTexts(Predictor):
    """Answers on texts, which tables have in the column that the training table had them in."""

    def columns(self) -> tuple[str, ...]:
        return (self.fitted.values.get("text", "text"),)

    def from_row(self, row: Mapping[str, Any]) -> Any:
        return of_column(row, self.columns()[0])


def of_column(row: Mapping[str, Any], column: str) -> Any:
    """What a row, such as a dict in Python, has in this column.

    Raises:
        ArgumentError: it has no such column.

    """
    if column not in row:
        raise ArgumentError(
            "input",
            expected=f"a row with a column {column!r}, as the run was trained on",
            got=f"one with {', '.join(map(str, row)) or 'none'}",
            remedy=f"name it {column!r}",
        )
    return row[column]
