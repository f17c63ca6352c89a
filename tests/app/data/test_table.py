"""Tables: what cannot be used is named with its row."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import zipfile
from pathlib import Path

import pytest
import torch

from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.files import label_lists
from edgewise.app.files.frames import FrameSource
from edgewise.app.files.read_table import read_table, table_rows
from edgewise.app.files.table import as_number
from edgewise.app.kinds.graphs.predict import _object
from tests.errors import refused
from tests.imports import blocking, run_code


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
        ("\na\n1\n", "1 value under 0 names in row 2"),
        ("a\n1,2\n", "row 2"),
        ("a,b,a\n1,2,3\n", "two columns with the name 'a'"),
        ('a,b\n1,"2\n', "unexpected end of data"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, text: str, got: str) -> None:
    path = written(tmp_path, text)
    with refused("data.path", expected="a header and values", got=got, remedy="CSV"):
        read_table(path)


def test_empty_lines_at_the_end_do_not_count(tmp_path: Path) -> None:
    assert read_table(written(tmp_path, "a\n1\n2\n\n\n")).texts("data.column", "a") == ["1", "2"]


def test_a_file_without_text_and_a_broken_archive_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    with refused(str(path), expected="not blank", got="white space", remedy="again"):
        read_table(path)
    path = written(tmp_path, "a,b\n1,2\n" * 999, "t.csv.gz")
    path.write_bytes(path.read_bytes()[:-12])
    with refused(str(path), expected="gzip", got="ended", remedy="again"):
        read_table(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"none\.csv: no such file\. Remedy"):
        read_table(tmp_path / "none.csv")


AS_PEOPLE_HAVE_THEM = {
    "tabs": 'name\tvalue\n\u201cCafé\u201d, black\t1.5\n"Tea" he said\t2\n',
    "semicolons": 'name;value;\n"\u201cCafé\u201d, black";1,5;\n"""Tea"" he said";2;\n;;\n',
    "bars": 'name|value\r\n\u201cCafé\u201d, black|1.5\r\n"""Tea"" he said"|2\r\n\r\n',
    "spaces": '"name", "value"\n"\u201cCafé\u201d, black", 1.5\n"""Tea"" he said", 2\n',
}


@pytest.mark.parametrize("text", AS_PEOPLE_HAVE_THEM.values(), ids=AS_PEOPLE_HAVE_THEM)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_delimiters_and_encodings_are_recognised(text: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(text.encode(encoding))
    table = read_table(path)
    assert table.texts("data.text", "name") == ["\u201cCafé\u201d, black", '"Tea" he said']
    assert table.numbers("data.target", ["value"])[:, 0].tolist() == [1.5, 2]
    assert table.numeric == ["value"]
    assert [line for line, _ in table_rows(path)] == [2, 3]


def test_latin_1_is_read_with_a_warning_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("drink,price\ntea,1\ncafé,2\n".encode("cp1252"))
    with pytest.warns(UserWarning, match=r"t\.csv is not UTF-8.*Latin-1.*'é' in line 3"):
        assert read_table(path).texts("data.text", "drink") == ["tea", "café"]


def test_a_text_that_is_utf_8_up_to_its_middle_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("a,b\né,1\n".encode() + b"\xe9,2\n")
    with refused(str(path), expected="UTF-8", got="(0xe9) in line 3", remedy="UTF-8"):
        read_table(path)


@pytest.mark.parametrize("content", [b"a,b\n\x00\x01,2\n", b"PK\x03\x04" + bytes(60)])
def test_what_is_no_text_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with refused(str(path), expected="a text", got="binary data", remedy="CSV"):
        read_table(path)


@pytest.mark.parametrize("name", ["t.xls", "t.ods", "t.json"])
def test_a_table_of_another_form_is_refused(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, "PK", name)
    with refused("data.path", expected="text", got=name, remedy="as CSV"):
        read_table(path)


def test_packed_files(tmp_path: Path) -> None:
    content = b"a,b\n1,2\n"
    for end, pack in ((".bz2", bz2.compress), (".xz", lzma.compress)):
        (tmp_path / f"t.csv{end}").write_bytes(pack(content))
        assert read_table(tmp_path / f"t.csv{end}").numeric == ["a", "b"]
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("folder/t.csv", content)
        archive.writestr("__MACOSX/t.csv", "")
    assert read_table(path).numeric == ["a", "b"]
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("second.csv", content)
    with refused(str(path), expected="one file", got="folder/t.csv, second.csv", remedy="unpack"):
        read_table(path)


def test_a_table_that_memory_cannot_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "a,b\n" + "1,2\n" * 999)
    monkeypatch.setattr("edgewise._utils.limits.available_memory", lambda: 1e5)
    with refused("data.path", expected="memory", got="t.csv", remedy="part of the rows"):
        read_table(path)


def test_a_column_is_chosen_where_there_is_no_doubt(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "a,b,two words\n1,x,\n2,y,3\n"))
    assert table.choose("data.target", "", ["b"], "the target") == "b"
    assert table.choose("data.target", "a", ["b"], "the target") == "a"
    assert table.numeric == ["a", "two words"]
    with refused("data.target", expected="the target", got="2 possible columns: 'a'", remedy=" a"):
        table.choose("data.target", "", table.numeric, "the target")
    with refused(
        "data.target", expected="the target", got="'b', 'two words'", remedy="data.target"
    ):
        table.choose("data.target", "", [], "the target")
    with refused("data.text", expected="texts", got="'b', 'two words'", remedy="--data.text b"):
        table.choose("data.text", "", [], "the texts", of_words=True)
    with refused("data.text", expected="texts", got="no such column", remedy="add a column"):
        table.choose("data.text", "", [], "the texts", ["b"], of_words=True)
    with refused("data.target", expected="column", got="'c'", remedy="choose"):
        table.choose("data.target", "c", [], "the target")


def test_a_comma_is_that_of_decimals_beside_a_semicolon_alone() -> None:
    assert as_number("-1,5e3", ";") == -1500
    assert math.isnan(as_number("1,5"))
    assert math.isnan(as_number("1,234,567", ";"))


def test_tabs_separate_texts_that_have_a_comma_each(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"a film, number {i}\tgood, or so, {i}\n" for i in range(30)))
    assert list(read_table(path).columns) == ["a film, number 0", "good, or so, 0"]


FORMS = {
    "t.csv": lambda frame, path: frame.to_csv(path, index=False),
    "t.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "t.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "t.parquet": lambda frame, path: frame.to_parquet(path),
    "t.feather": lambda frame, path: frame.to_feather(path),
    "t.xlsx": lambda frame, path: frame.to_excel(path, index=False),
    "t.jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "t.jsonl.gz": lambda frame, path: frame.to_json(path, orient="records", lines=True),
}


@pytest.mark.parametrize("name", FORMS)
def test_formats_of_tables(name: str, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl" if "xlsx" in name else "pyarrow")
    frame = pandas.DataFrame({"text": ["NA", "", "a, b"], "y": [1.5, -2.0, 1e-7], "n": [1, 2, 3]})
    FORMS[name](frame, tmp_path / name)
    table = read_table(tmp_path / name)
    assert table.texts("data.text", "text") == frame["text"].tolist()
    assert table.texts("data.text", "n") == ["1", "2", "3"]
    numbers = torch.tensor([1.5, -2, 1e-7], dtype=torch.float64)
    assert torch.equal(table.numbers("data.target", ["y"])[:, 0], numbers)
    rows = [row for _, row in table_rows(tmp_path / name)]
    assert [str(row["n"]) for row in rows] == ["1", "2", "3"]
    text = name.endswith(("csv", "tsv", "csv.gz", "xlsx"))
    lines = [2, 3, 4] if text else [1, 2, 3] if "json" in name else [0, 1, 2]
    assert table.lines[:2] == lines[:2]
    with refused("data.target", expected="finite", got=f"row {lines[0]} of {name}", remedy="row"):
        table.numbers("data.target", ["text"])


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.xlsx"])
def test_a_damaged_binary_file_is_named(name: str, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl" if "xlsx" in name else "pyarrow")
    path = tmp_path / name
    path.write_bytes(b"PK\x03\x04 no table")
    with refused(str(path), expected="a complete", got="", remedy="again"):
        read_table(path)


def test_whole_numbers_beside_missing_ones_stay_whole() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"label": [1, None, 2], "y": [1.5, None, 2.0]})
    table = read_table(FrameSource.of(frame))
    assert table.texts("data.label", "label") == ["1", "", "2"]
    assert table.texts("data.target", "y") == ["1.5", "", "2.0"]
    with refused("data.target", expected="finite", got="'' in row 1 of the DataFrame", remedy=""):
        table.numbers("data.target", ["y"])
    frame.columns = ["a", "a"]
    with refused("data.path", expected="different names", got="'a'", remedy="rename"):
        FrameSource.of(frame)


def test_rows_after_a_cell_of_several_lines_keep_their_line_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, 'a,b\n"x\ny\r\nz",1\nw,high\n')
    assert read_table(path).lines == [4, 5]
    assert [line for line, _ in table_rows(path)] == [4, 5]
    with refused("data.target", expected="finite", got="'high' in row 5", remedy="row"):
        read_table(path).numbers("data.target", ["b"])


@pytest.mark.slow
@pytest.mark.parametrize(("package", "name"), [("pandas", "t.csv"), ("openpyxl", "t.xlsx")])
def test_a_missing_package_is_named(package: str, name: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    path = written(tmp_path, "a,b\n1,2\n", name)
    code = f"from edgewise.app.files.read_table import read_table; read_table({str(path)!r})"
    done = run_code(f"{blocking([package])}\n{code}")
    assert f"needs the package `{package}`" in done.stderr
    assert "pip install" in done.stderr


def test_deeply_nested_json_is_named(tmp_path: Path) -> None:
    nested = "[" * 100_000
    path = tmp_path / "t.jsonl"
    path.write_text(f'{{"text": "a"}}\n{nested}\n')
    with refused(str(path), expected="a JSON object", got="in line 2", remedy=""):
        list(table_rows(path))
    assert label_lists._array(nested) is None
    with pytest.raises(ArgumentError, match="graph"):
        _object(nested)
