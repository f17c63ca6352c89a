"""Pairs of texts of your own: columns, files without a header, two files, and refusals."""

from __future__ import annotations

import pytest

from edgewise.app.kinds.translation import PairTable
from tests.errors import refused

PAIRS = [(f"the cat {i} ran", f"die Katze {i} lief") for i in range(40)]


def pairs_of(**fields: object) -> tuple[list[tuple[str, str]], str]:
    parts, column = PairTable(**fields).read_splits()
    assert list(parts) == ["train", "val", "test"]
    assert [len(lines[0]) for lines in parts.values()] == [33, 3, 4]
    return sorted(p for lines in parts.values() for p in zip(*lines, strict=True)), column


def test_two_columns_with_names_and_without(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f"{one},{other}" for one, other in PAIRS]
    path.write_text("\n".join(["english,german", *rows]))
    assert pairs_of(path=str(path)) == (sorted(PAIRS), "english")
    turned = [(other, one) for one, other in PAIRS]
    found = pairs_of(path=str(path), source="german", target="english")
    assert found == (sorted(turned), "german")
    path.write_text("\n".join(rows).replace(",", "\t"))
    assert pairs_of(path=str(path)) == (sorted(PAIRS), "source")
    path.write_text("\n".join(f"{row},x{i}" for i, row in enumerate(rows)))
    assert pairs_of(path=str(path), source="1", target="2") == (sorted(PAIRS), "1")
    with refused("data.source", expected="a.csv", got="'1', '2', '3'", remedy="--data.source"):
        PairTable(path=str(path)).read_splits()


def test_a_header_that_looks_like_none_is_said(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("\n".join(["in English\tin German", *map("\t".join, PAIRS)]))
    parts = PairTable(path=str(path)).read_splits().texts
    assert sum(len(lines[0]) for lines in parts.values()) == len(PAIRS) + 1
    assert pairs_of(path=str(path), header=True) == (sorted(PAIRS), "in English")


def test_two_files_of_lines(tmp_path):
    for name, lines in zip(("a.en", "a.de"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    fields = {"path": str(tmp_path / "a.en"), "target_path": str(tmp_path / "a.de")}
    assert pairs_of(**fields) == (sorted(PAIRS), "source")
    shouted = [(one, f"{other}, ja ö") for one, other in PAIRS]
    (tmp_path / "a.de").write_bytes("\r\n".join(other for _, other in shouted).encode("latin-1"))
    with pytest.warns(UserWarning, match="Windows-1252"):
        assert pairs_of(**fields) == (sorted(shouted), "source")
    with refused(
        "data.val_path, data.test_path", expected="no validation", got="a.en", remedy="omit"
    ):
        PairTable(**fields, test_path=fields["path"]).read_splits()
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    with refused(
        "a.en, a.de",
        expected="same number of lines",
        got="40 and 2",
        remedy="does not match",
    ):
        PairTable(**fields).read_splits()


def test_a_file_to_test_on_and_rows_without_a_text(tmp_path):
    path, test = tmp_path / "a.csv", tmp_path / "test.csv"
    path.write_text("\n".join(["one,two", *map(",".join, PAIRS)]))
    test.write_text("one,two\na,b\n")
    parts = PairTable(path=str(path), test_path=str(test)).read_splits().texts
    assert parts["test"] == (["a"], ["b"])
    assert len(parts["train"][0]) == 36
    test.write_text("one,two\na,\n")
    with refused(str(test), expected="column 'two'", got="none in line 2", remedy="drop this row"):
        PairTable(path=str(path), test_path=str(test)).read_splits()
    test.write_text("uno,two\na,b\n")
    with refused("data.source", expected="test.csv", got="'one'", remedy=""):
        PairTable(path=str(path), test_path=str(test)).read_splits()
    with pytest.raises(FileNotFoundError, match="no such file"):
        PairTable(path=str(tmp_path / "none.csv")).read_splits()
