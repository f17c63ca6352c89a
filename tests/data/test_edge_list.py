"""Text files of edges: what is read, and which line is named where it cannot be."""

from __future__ import annotations

import gzip

import pytest

from edgewise.data.edge_list import read_edges, read_interactions, read_memberships
from edgewise.errors import MissingDataError
from tests.errors import refused


@pytest.mark.parametrize("line", ["3 4", "3\t4", "3,4", "3;4", " 3 , 4 "])
def test_separators_comments_and_empty_lines(tmp_path, line):
    path = tmp_path / "edges.txt"
    path.write_text(f"# a comment\n% another\n\n0 1\n{line}\n// the last\n0 1\n")
    assert read_edges(path).tolist() == [[0, 3, 0], [1, 4, 1]]


def test_gzip_and_header(tmp_path):
    path = tmp_path / "edges.csv.gz"
    path.write_bytes(gzip.compress(b"source,target\n5,6\n"))
    assert read_edges(path, header=True).tolist() == [[5], [6]]


@pytest.mark.parametrize(
    ("text", "expected", "got"),
    [
        ("0 1\n# fine\n2 Anna\n", "whole numbers", "'2 Anna' in line 3"),
        ("0 1\n2\n", "two numbers", "'2' in line 2"),
        ("0 1 0.5\n", "two numbers", "'0 1 0.5' in line 1"),
        ("0 -1\n", "numbers from 0", "'0 -1' in line 1"),
        ("0 1.5\n", "whole numbers", "'0 1.5' in line 1"),
        ("0 1\n\xff\xfe 2\n", "whole numbers", "line 2"),
    ],
)
def test_a_bad_line_is_named(tmp_path, text, expected, got):
    path = tmp_path / "edges.txt"
    path.write_text(text)
    with refused("path", expected=expected, got=got, remedy="number the nodes from 0"):
        read_edges(path)


def test_a_header_that_was_not_announced(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("source,target\n5,6\n")
    with refused("path", expected="whole", got="'source target' in line 1", remedy="header=True"):
        read_edges(path)


@pytest.mark.parametrize("read", [read_edges, read_interactions, read_memberships])
def test_nothing_to_read(tmp_path, read):
    (tmp_path / "empty").write_text("# nothing\n")
    with refused("path", expected="at least one edge", got="none", remedy="name a text file"):
        read(tmp_path / "empty")
    with pytest.raises(MissingDataError, match="missing: no such file"):
        read(tmp_path / "missing")


def test_a_broken_gzip_file(tmp_path):
    path = tmp_path / "edges.txt.gz"
    path.write_bytes(gzip.compress(b"0 1\n" * 1000)[:-9])
    with refused("path", expected="a whole gzip file", got="ended", remedy="again"):
        read_edges(path)
    path.write_bytes(b"<html>not found</html>")
    with refused("path", expected="a whole gzip file", got="Not a gzipped", remedy="again"):
        read_edges(path)


def test_interactions_and_memberships(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("0 7 8\n2 8\n1\n")
    assert read_interactions(path).tolist() == [[0, 0, 2], [7, 8, 8]]
    assert read_memberships(path).tolist() == [[0, 0, 0, 1, 1, 2], [0, 7, 8, 2, 8, 1]]
    path.write_text("0 7\n1 x\n")
    with refused("path", expected="whole numbers", got="'1 x' in line 2", remedy="number"):
        read_interactions(path)
