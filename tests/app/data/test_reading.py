"""Reading files: what is damaged is named with its file, line and column, whoever reads it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from edgewise._utils.errors import EdgewiseError, MissingDataError
from edgewise.app.files.edges import read_edges, read_interactions
from edgewise.app.files.read_table import read_table
from edgewise.app.files.reading import (
    check_line_count,
    read_bytes,
    read_lines,
    read_numbers,
    read_own_text,
    read_text,
)
from edgewise.app.kinds.translation.data import read_parallel
from tests.errors import refused

READERS: dict[str, Callable[[Path], object]] = {
    "bytes": read_bytes,
    "edges": read_edges,
    "interactions": read_interactions,
    "lines": read_lines,
    "numbers": read_numbers,
    "own text": read_own_text,
    "parallel": lambda path: read_parallel(path, path),
    "table": read_table,
    "text": read_text,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("damage", ["bits", "cut", "empty", "plain", "missing"])
def test_a_damaged_gzip_file_is_named_by_every_reader(
    read: Callable[[Path], object], damage: str, tmp_path: Path
) -> None:
    path = tmp_path / "data.gz"
    whole = gzip.compress(b"".join(b"%d,%d\n" % (i, i * i % 977) for i in range(999)), mtime=0)
    contents = {
        "bits": whole[:40] + bytes(byte ^ 255 for byte in whole[40:50]) + whole[50:],  # zlib.error
        "cut": whole[:-9],
        "empty": b"",
        "plain": b"0,1\n",
    }
    if damage in contents:
        path.write_bytes(contents[damage])
    with pytest.raises(EdgewiseError, match=r"data\.gz"):
        read(path)


def test_text_that_is_not_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\nthr\xe9e\n")
    with refused(str(path), expected="UTF-8", got="(0xe9) in line 3", remedy="UTF-8"):
        read_text(path)


def test_a_persons_own_text_may_be_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\nthr\xe9e\n")
    with pytest.warns(UserWarning, match="Windows-1252"):
        assert read_own_text(path) == "one\nthrée\n"
    path.write_bytes("é\nthr".encode() + b"\xe9e\n")
    with refused(str(path), expected="UTF-8", got="(0xe9) in line 2", remedy="UTF-8"):
        read_own_text(path)


def test_a_text_that_memory_cannot_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a line\n" * 100)
    monkeypatch.setattr("edgewise._utils.limits.available_memory", lambda: 1000)
    with refused(str(path), expected="free memory", got="a.txt", remedy="a part of the file"):
        read_own_text(path)


def test_lines_end_with_a_line_feed_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\r\n\ntwo\rthree\u2028\n\r\n\n".encode())
    assert read_lines(path) == ["one", "", "two\rthree\u2028"]
    assert read_text(path) == "one\n\ntwo\nthree\u2028\n\n\n"


def test_numbers(tmp_path: Path) -> None:
    path = tmp_path / "n.txt"
    path.write_text("1, 2.5\n-3,4e3\n\n")
    assert torch.equal(read_numbers(path), torch.tensor([[1, 2.5], [-3, 4000]]))
    path.write_text("1, 2\n3,40000000\n")
    assert torch.equal(read_numbers(path, integers=True), torch.tensor([[1, 2], [3, 40000000]]))


@pytest.mark.parametrize(
    ("text", "whole", "expected", "got"),
    [
        ("1,2\n3,x\n", False, "finite numbers", "'x' in column 2 in line 2"),
        ("1,2\n3,nan\n", False, "finite numbers", "'nan' in column 2 in line 2"),
        ("1,2\n1e39,4\n", False, "up to 3.4e38", "'1e39' in column 1 in line 2"),
        ("1\n\n2\n", False, "finite numbers", "'' in column 1 in line 2"),
        ("1,2\n3\n", False, "2 numbers in each line", "1 number in line 2"),
        ("1\n2.5\n", True, "integers", "'2.5' in column 1 in line 2"),
        ("1\n9007199254740993\n", True, "integers", "'9007199254740993' in column 1 in line"),
    ],
)
def test_a_value_that_is_no_number_is_named(
    text: str, whole: bool, expected: str, got: str, tmp_path: Path
) -> None:
    path = tmp_path / "n.txt"
    path.write_text(text)
    with refused(str(path), expected=expected, got=got, remedy="correct this line"):
        read_numbers(path, integers=whole)


def test_a_line_for_each(tmp_path: Path) -> None:
    check_line_count(tmp_path / "n.txt", [1, 2], 2, "graphs")
    with refused(
        str(tmp_path / "n.txt"), expected="3 graphs", got="2 lines", remedy="same data set"
    ):
        check_line_count(tmp_path / "n.txt", [1, 2], 3, "graphs")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"a folder, not a file\. Remedy"):
        read_text(tmp_path)
    with pytest.raises(MissingDataError, match=r"none\.txt: no such file\. Remedy"):
        read_text(tmp_path / "none.txt")
