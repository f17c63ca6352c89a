"""Cells with several labels: separators that are found, and columns of 0 and 1."""

from __future__ import annotations

import pytest

from edgewise.app.files.label_lists import find_separator, label_columns, split_labels
from edgewise.app.files.table import Table
from tests.errors import refused


@pytest.mark.parametrize(
    ("cells", "separator"),
    [
        (["a|b", "a", "b", ""], "|"),
        (["a; b, c", "a", "b, c", "d", "a; d"], ";"),
        (["red, green", "red", "green"], ","),
        (['["a", "b"]', "[]", '["b"]'], "["),
        (["good", "bad", "good"], ""),
        (["news, world", "news, sport", "news, tech"], ""),  # one label with a comma
        (["A, x", "A, y", "A, z", "B, x", "B, y", "B, z"], ""),  # always two parts
        (["Rome", "Rome, Italy"], ""),  # as many labels as cells
        (["", "NA"], ""),
    ],
)
def test_the_separator_is_found_by_labels_that_come_again(cells: list[str], separator: str) -> None:
    assert find_separator(cells) == separator


def test_labels_are_stripped_and_blank_cells_have_none() -> None:
    assert split_labels(" a | b|", "|") == ["a", "b"]
    assert split_labels('["a", "b|c"]', "[") == ["a", "b|c"]
    assert split_labels(" ", "|") == []
    assert split_labels("NA", "|") == ["NA"]


def test_each_label_has_a_column_of_0_and_1() -> None:
    own = Table.of("mine.csv", {"tags": ["b|a", "", "b"]})
    found = label_columns(own, "tags", "|", "data.target")
    assert found.columns == {"a": ["1", "0", "0"], "b": ["1", "0", "1"]}
    few = label_columns(own.only([2]), "tags", "|", "data.target", ["a", "b"])
    assert few.columns == {"a": ["0"], "b": ["1"]}
    with refused("data.target", expected="training table", got="'a' in row 0", remedy="training"):
        label_columns(own, "tags", "|", "data.target", ["b"])
