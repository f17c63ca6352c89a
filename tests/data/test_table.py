"""Tables: what cannot be used is named with its row."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from edgewise.data.table import read_table
from edgewise.errors import MissingDataError
from tests.errors import refused


def written(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_columns_are_read_in_their_order(tmp_path: Path, name: str) -> None:
    table = read_table(written(tmp_path, 'a,b,c\n1,"x,y",-2\n3.5,z,1e3\n', name))
    assert table.texts("data.smiles", "b") == ["x,y", "z"]
    assert table.numbers("data.target", ["c", "a"]).tolist() == [[-2, 1], [1000, 3.5]]
    assert table.numbers("data.conditions", []).shape == (2, 0)


def test_a_missing_column_suggests_the_nearest(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "smiles,logS\nC,1\n"))
    with refused("data.target", expected="logS", got="'logs'", remedy="'logS'"):
        table.numbers("data.target", ["logs"])


def test_a_column_without_a_name_is_a_column(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, ",sales\n0,3\n1,4\n"))  # what pandas.to_csv() writes
    assert table.numbers("data.column", ["sales"])[:, 0].tolist() == [3, 4]
    assert table.texts("data.column", "") == ["0", "1"]


@pytest.mark.parametrize("value", ["", "high", "nan", "inf", "1e39", "-1e39", "1_0"])
def test_a_value_that_is_no_number_is_named_with_its_row(tmp_path: Path, value: str) -> None:
    table = read_table(written(tmp_path, f"smiles,y\nC,1\nCC,{value}\n"))
    with refused("data.target", expected="column 'y'", got=f"{value!r} in row 3", remedy="drop"):
        table.numbers("data.target", ["y"])


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n3\n", "row 3"),
        ("a,b\n1,2\n\n3,4\n", "an empty line, row 3"),
        ("a\n1\n\n3\n", "an empty line, row 3"),
        ("\na\n1\n", "1 values under 0 names in row 2"),
        ("a\n1,2\n", "row 2"),
        ("a,b,a\n1,2,3\n", "two columns of the name 'a'"),
        ('a,b\n1,"2\n', "unexpected end of data"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, text: str, got: str) -> None:
    path = written(tmp_path, text)
    with refused("data.path", expected="separated by commas", got=got, remedy="CSV"):
        read_table(path)


def test_empty_lines_at_the_end_do_not_count(tmp_path: Path) -> None:
    assert read_table(written(tmp_path, "a\n1\n2\n\n\n")).texts("data.column", "a") == ["1", "2"]


def test_a_file_without_text_and_a_broken_archive_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    with refused(str(path), expected="a text", got="none", remedy="again"):
        read_table(path)
    path = written(tmp_path, "a,b\n1,2\n" * 999, "t.csv.gz")
    path.write_bytes(path.read_bytes()[:-12])
    with refused(str(path), expected="gzip", got="ended", remedy="again"):
        read_table(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"none\.csv: no such file\. Remedy"):
        read_table(tmp_path / "none.csv")
