"""Expressions from strangers: a named error for any text, and patterns that are not too deep."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from edgewise import graphs
from edgewise._utils.errors import ArgumentError
from edgewise.graphs.expression import MAX_DEPTH
from tests.errors import case


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


VALUES = ("0", "-1", "3", "9007199254740991", "1.5", "True", "None", "'a'", "[]", "[99]", "[None]")
VALUES += ("['a']", "[[0]]", "{0: 1}", "b'x'", "window(1)", "[window(1)]", "...", "1j")


@pytest.mark.parametrize("name", graphs.PATTERNS)
def test_any_arguments_give_a_graph_or_a_named_error(name: str) -> None:
    """A recipe may hold any text; large random graphs and blocks are not built here."""
    for values in (*itertools.product(VALUES, repeat=1), *itertools.product(VALUES, repeat=2)):
        if name not in ("window", "hubs") and any(len(value) > 12 for value in values):
            continue
        text = f"{name}({', '.join(values)})"
        with case(text), contextlib.suppress(ArgumentError):
            graphs.parse(text).bind(16)
