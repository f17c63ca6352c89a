"""Expressions from strangers: a named error for any text, and patterns that are not too deep."""

from __future__ import annotations

import pytest

from edgewise import graphs
from edgewise.errors import ArgumentError
from edgewise.graphs.expression import MAX_DEPTH


def test_the_deepest_expression_is_bound_shown_and_read_back() -> None:
    text = " | ".join(f"window({i})" for i in range(MAX_DEPTH))
    pattern = graphs.parse(text)
    assert graphs.parse(repr(pattern)) == pattern
    assert pattern.bind(3).num_edges == 9
    assert isinstance(hash(pattern), int)


@pytest.mark.parametrize(
    "text",
    [
        " | ".join(["window(1)"] * 20_000),
        " | ".join(["window(1)"] * 300),
        "(" * 10_000 + "window(1)" + ")" * 10_000,
        "window(1)" + ".transpose()" * 20_000,
        "-" * 100_000 + "1",
        "x" * 2_000_000,
        "window(" + "9" * 5000 + ")",
        f"hubs([{2**70}])",
        "window(1e999)",
        "1 | window(1)",
        "tree(1.5)",
        "\0",
    ],
)
def test_any_other_text_is_refused_in_a_short_message(text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        graphs.parse(text)
    assert len(str(caught.value)) < 600
