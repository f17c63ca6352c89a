"""Predictor for sketches: the most probable classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.reading import read_json
from edgewise.app.predict import Answer, Predictor
from edgewise.app.predict.predictor import top_labels
from edgewise.app.train import Classification
from edgewise_examples.data.quickdraw import QuickDraw, inputs, packed
from edgewise_examples.data.strokes import Stroke, read_strokes


class SketchClasses(Predictor):
    """Predictor of the most probable classes of a drawing.

    A drawing is a list of strokes. A stroke is a list of x coordinates and a list of y coordinates.
    The drawing may also be a JSON string, or an object with this list under the key ``drawing``, as
    in the files of Quick, Draw!. See :func:`edgewise_examples.data.strokes.read_strokes`.
    """

    data, task = QuickDraw, Classification
    input = "a drawing, such as [[[0, 90], [0, 60]], [[20, 40], [30, 30]]]: x and y of each stroke"

    def columns(self) -> tuple[str, ...]:
        return ("drawing",)

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """Read one drawing per row of a table or line of a file; answers keep other columns."""
        for line, row, value in super().from_file(path):
            other_columns = {name: cell for name, cell in row.items() if name not in self.columns()}
            yield line, other_columns or {"input": self.show(value)}, value

    def prepare(self, value: Any) -> list[Stroke]:
        if isinstance(value, str):
            try:
                value = read_json(value)
            except ValueError as error:
                raise ArgumentError(
                    "input",
                    expected=self.input,
                    got=value[:60],
                    remedy="write JSON of this form, or pass a file with drawings by --input",
                ) from error
        return read_strokes(self._of_row(value) if isinstance(value, Mapping) else value)

    def answer(self, examples: list[list[Stroke]], *, top: int = 1) -> list[Answer]:
        data = self.recipe.data
        assert isinstance(data, QuickDraw)
        graphs = packed(examples, data.joined, data.order)
        x, graph, keywords = inputs(graphs, torch.arange(len(graphs)), data.joined)
        scores = self.model(x, graph, **keywords)
        return top_labels(scores.softmax(-1), self.preprocessing.values["labels"], top)

    def show(self, value: Any) -> str:  # noqa: ARG002 - inputs are too long to show
        return "drawing"
