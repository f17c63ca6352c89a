"""Check that a model is suitable for text tasks."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from edgewise._utils.errors import ArgumentError
from edgewise.encodings import Learned
from edgewise.layers import TextModel


def text_model(model: nn.Module, data_sizes: Mapping[str, int]) -> TextModel:
    """Return the model, after checking that it is a text model for texts of this length."""
    if not isinstance(model, TextModel) or "longest_text" not in data_sizes:
        raise ArgumentError(
            "model",
            expected="a text model, such as bert or gpt, and text data",
            got=f"{type(model).__name__}, and data with {', '.join(data_sizes) or 'no sizes'}",
            remedy="use a text model, text data and a text task together",
        )
    longest = data_sizes["longest_text"]
    positions, padding = model.embedding.positions, model.embedding.padding
    if isinstance(positions, Learned):
        taken = 0 if padding is None else padding + 1  # Number of rows reserved for padding.
        if positions.table.shape[0] - taken < longest:
            raise ArgumentError(
                "model.max_length",
                expected=f"at least {longest + taken}, because the longest text has {longest} "
                "tokens",
                got=str(positions.table.shape[0]),
                remedy="increase model.max_length, or truncate texts with data.max_length",
            )
    return model
