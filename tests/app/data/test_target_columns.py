"""Target columns: numbers, classes, gaps, and candidates."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from edgewise.app.files.read_table import read_table
from edgewise.app.files.table import Table
from edgewise.app.files.target_columns import TargetColumns, target_names
from tests.errors import refused


def table(**columns: str) -> Table:
    return Table.of("mine.csv", {name: cells.split("|") for name, cells in columns.items()})


def columns(cells: str, **fields: str) -> TargetColumns:
    return TargetColumns(table(y=cells), ["y"], **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cells", "classes"),
    [
        ("0|1|1|0", ("0", "1")),
        ("0.0|1.0||0.0", ("0.0", "1.0")),
        ("0|1|NA|0", ("0", "1")),
        ("active|inactive|active|inactive", ("inactive", "active")),
        ("toxic|Non-toxic|toxic|", ("Non-toxic", "toxic")),
        ("K|Na|Li|K|Na|Li", ("K", "Li", "Na")),
        ("no|yes|no|yes", ("no", "yes")),
        ("b|a|c|a|b|c", ("a", "b", "c")),
        ("1|2|1|2", ()),
        ("0|1|2|0", ()),
        ("0|0|0|0", ()),
        ("1.5|2.5||0", ()),
    ],
)
def test_a_column_of_0_and_1_or_of_few_texts_has_classes(
    cells: str, classes: tuple[str, ...]
) -> None:
    assert columns(cells).classes == [classes]


def test_values_are_numbers_or_indices_of_classes() -> None:
    found = TargetColumns(table(y="0.5||2", a="yes|no|", b="1|0|1"), ["b", "y", "a"])
    wanted = [[1, 0.5, 1], [0, math.nan, 0], [1, 2, math.nan]]
    expected = torch.tensor(wanted, dtype=torch.float64)
    torch.testing.assert_close(found.values, expected, equal_nan=True)


def test_the_type_of_a_target_can_be_set() -> None:
    assert columns("0|1|1|0", task_type="regression").classes == [()]
    assert columns("3|1|2|10", task_type="classification").classes == [("1", "2", "3", "10")]
    with refused("data.target", expected="2 to 20", got="1: 0", remedy="regression"):
        columns("0|0|0", task_type="classification")
    many = "|".join(map(str, range(21)))
    with refused("data.target", expected="2 to 20", got="21: 0, 1", remedy="regression"):
        columns(many, task_type="classification")


def test_a_cell_that_is_no_number_is_named() -> None:
    with refused("data.target", expected="finite numbers", got="'>5' in row 1", remedy="correct"):
        columns("1.5|>5|2|3.5|4|7")


def test_the_description_has_the_statistics_of_the_training_rows() -> None:
    found = TargetColumns(table(y="1|3||100", a="0|1|1|0"), ["y", "a"])
    number, classes = found.describe(found.values[:3])
    assert (number.mean, number.std) == (2, 1)
    assert classes.counts == (1, 2)
    assert found.describe(found.values[:2], fraction=True)[0][2:4] == (0, 1)


def test_training_rows_without_two_values_are_refused() -> None:
    own = columns("1|3||")
    with refused("data.target", expected="a value of 'y'", got="none", remedy="another"):
        own.describe(own.values[2:])
    own = columns("0|1|1|0")
    with refused("data.target", expected="two classes of 'y'", got="1 in all 2", remedy="rows"):
        own.describe(own.values[1:3])


def test_columns_are_named_with_commas_between_them() -> None:
    own = table(a="1|2", b="3|4", **{"c, at 25": "5|6"})
    assert target_names(own, "b,a", ()) == ["b", "a"]
    assert target_names(own, ("a",), ()) == ["a"]
    assert target_names(own, "c, at 25", ()) == ["c, at 25"]
    with refused("data.target", expected="one of a, b", got="'d'", remedy=""):
        target_names(own, "a,d", ())
    with refused("data.target", expected="no other field", got="'a'", remedy="name"):
        target_names(own, "a", ("a",))


def test_several_candidates_are_listed() -> None:
    own = table(id="0|1|2|3", logS="1|2|3|5", active="no|yes|no|yes", note="w|x|y|z")
    with refused(
        "data.target",
        expected="mine.csv",
        got="2 candidates: 'logS', 'active'",
        remedy="--data.target logS or --data.target logS,active",
    ):
        target_names(own, "", ())
    assert target_names(own, "", ("active",)) == ["logS"]
    assert target_names(own, "", ("logS",), skip=lambda texts: "w" in texts) == ["active"]
    with refused("data.target", expected="few classes", got="no such column", remedy="note"):
        target_names(own, "", ("logS", "active", "id"))


def test_decimal_commas_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;y\nw;1,5\nx;2,5\ny;1,5\nz;2,5\n")
    own = read_table(path)
    assert target_names(own, "", ()) == ["y"]
    assert TargetColumns(own, ["y"]).values[:, 0].tolist() == [1.5, 2.5, 1.5, 2.5]


def test_columns_of_a_single_class_are_named_in_a_warning_beside_others() -> None:
    found = TargetColumns(table(a="0|1|1|0", b="0|1|0|0"), ["a", "b"])
    with pytest.warns(UserWarning, match="two classes of 'b' in the training rows; got 0 in all 2"):
        targets = found.describe(found.values[2:])
    assert [target.counts for target in targets] == [(1, 1), (2, 0)]


def test_another_table_has_the_classes_of_the_training_table() -> None:
    own = columns("b|a|c|a|b|c")
    other = TargetColumns(table(y="c|"), ["y"], classes=own.classes)
    assert other.values[0, 0] == 2
    assert math.isnan(other.values[1, 0])
    with refused("data.target", expected="classes a, b, c", got="'d' in row 0", remedy="training"):
        TargetColumns(table(y="d"), ["y"], classes=own.classes)
