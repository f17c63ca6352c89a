"""The check of a text model that the tasks of texts share."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from edgewise.encodings import Learned
from edgewise.errors import ArgumentError
from edgewise.layers import TextModel


def text_model(model: nn.Module, data_sizes: Mapping[str, int]) -> TextModel:
    """The model, if it is one of texts and reaches as far as the longest text.

    Args:
        model: what the recipe has made.
        data_sizes: ``longest``, the most tokens of a text, and more.

    Raises:
        ArgumentError: it is of another kind, or has learned fewer positions.
    """
    if not isinstance(model, TextModel) or "longest" not in data_sizes:
        raise ArgumentError(
            "model",
            expected="a model of texts, such as bert or gpt, and texts",
            got=f"{type(model).__name__}, and data with {', '.join(data_sizes) or 'no sizes'}",
            remedy="combine models, data and tasks of one kind",
        )
    longest = data_sizes["longest"]
    positions, padding = model.embedding.positions, model.embedding.padding
    if isinstance(positions, Learned):
        taken = 0 if padding is None else padding + 1  # rows that are no position
        if positions.table.shape[0] - taken < longest:
            raise ArgumentError(
                "model.length",
                expected=f"at least {longest + taken}, as the longest text has {longest} tokens",
                got=str(positions.table.shape[0]),
                remedy="raise it, or let the data cut longer texts",
            )
    return model
