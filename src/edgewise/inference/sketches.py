"""What a sketch shows: classes of drawings, with their probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from edgewise.data.images.quickdraw import QuickDraw, inputs, packed
from edgewise.data.images.strokes import Stroke, read_strokes
from edgewise.data.tables.read import read_json
from edgewise.errors import ArgumentError
from edgewise.inference.predictor import Answer, Predictor
from edgewise.inference.sentences import labelled
from edgewise.tasks import Classification


class SketchClasses(Predictor):
    """The likeliest things that a drawing shows.

    A drawing is its strokes, each a list of x and one of y: as a list, as JSON, or as ``drawing``
    of an object such as Quick, Draw!'s files have in each line, simplified or raw. See
    :func:`edgewise.data.images.strokes.read_strokes`.
    """

    data, task = QuickDraw, Classification
    input = "a drawing, such as [[[0, 90], [0, 60]], [[20, 40], [30, 30]]]: x and y of each stroke"

    def columns(self) -> tuple[str, ...]:
        return ("drawing",)

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """A drawing in each row or line, of which all other columns are kept beside the answer."""
        for line, row, value in super().from_file(path):
            named = {name: given for name, given in row.items() if name not in self.columns()}
            yield line, named or {"input": self.show(value)}, value

    def prepare(self, value: Any) -> list[Stroke]:
        if isinstance(value, str):
            try:
                value = read_json(value)
            except ValueError as error:
                raise ArgumentError(
                    "input",
                    expected=self.input,
                    got=value[:60],
                    remedy="give files of drawings with --input",
                ) from error
        return read_strokes(self._of_row(value) if isinstance(value, Mapping) else value)

    def answer(self, examples: list[list[Stroke]], *, top: int = 1) -> list[Answer]:
        data = self.recipe.data
        assert isinstance(data, QuickDraw)
        graphs = packed(examples, data.joined, data.order)
        x, graph, keywords = inputs(graphs, torch.arange(len(graphs)), data.joined)
        scores = self.model(x, graph, **keywords)
        return labelled(scores.softmax(-1), self.fitted.values["labels"], top)

    def show(self, value: Any) -> str:  # noqa: ARG002 - hundreds of numbers say nothing
        return "drawing"
