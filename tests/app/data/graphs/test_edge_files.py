"""Text files of edges: what is read, and which line is named where it cannot be."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from edgewise._utils.errors import MissingDataError
from edgewise.app.files import edges
from edgewise.app.files.edges import RATING, TIME, read_edges, read_interactions
from tests.errors import refused


def written(folder: Path, text: str, name: str = "edges.txt") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("between", [" ", "\t", ",", ";", " , ", "; "])
def test_separators_comments_and_empty_lines(tmp_path, between):
    lines = ("# a comment", "% another", "", "0_1", " 3_4 ", "// the last", "0_1")
    path = written(tmp_path, "\n".join(lines).replace("_", between))
    pairs, ids = read_edges(path)[:2]
    assert pairs.tolist() == [[0, 2, 0], [1, 3, 1]]
    assert ids == {"0": 0, "1": 1, "3": 2, "4": 3}


@pytest.mark.parametrize("largest", [900_000_000, 3_100_000_000, 2**63 - 1, 2**64 - 1])
def test_large_ids_are_numbered_without_gaps_and_kept(tmp_path, largest):
    path = written(tmp_path, f"5 {largest}\n{largest - 1} 5\n{largest} {largest - 1}\n")
    pairs, ids = read_edges(path)[:2]
    assert pairs.tolist() == [[0, 1, 2], [2, 0, 1]]
    assert ids == {"5": 0, str(largest - 1): 1, str(largest): 2}
    (chosen,), users, items, *_ = read_interactions(path)
    assert chosen.tolist() == [[0, 1, 2], [2, 0, 1]]
    assert list(users) == list(items) == ["5", str(largest - 1), str(largest)]


def test_names_are_numbered_by_the_alphabet(tmp_path):
    text = 'Vronsky,Anna Karenina\nLevin,Kitty\n"Oblonsky, Stiva",Anna Karenina\nLevin,007\n'
    pairs, ids = read_edges(written(tmp_path, text))[:2]
    assert list(ids) == ["007", "Anna Karenina", "Kitty", "Levin", "Oblonsky, Stiva", "Vronsky"]
    assert pairs.tolist() == [[5, 3, 4, 3], [1, 2, 1, 0]]


def test_names_among_numbers_only_where_that_is_said(tmp_path):
    path = written(tmp_path, "17 8\n9 8\n9 bradshaw97\n")
    with refused(
        str(path), expected="integers", got="'9 bradshaw97' in line 3", remedy="names=True"
    ):
        read_edges(path)
    assert list(read_edges(path, names=True).ids) == ["17", "8", "9", "bradshaw97"]


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("source,target\n5,6\n", None),
        ("Anna,Bert\n5,6\n6,5\n", None),
        ("user_id;item_id\nAnna;Emma\n", None),
        ("wer;was\nAnna;Emma\n", True),
        ("5,7\n5,6\n", True),
    ],
)
def test_a_header(tmp_path, text, header):
    path = written(tmp_path, text, "edges.csv.gz")
    listed = [re.split("[,;]", line) for line in text.split()[1:]]
    pairs, ids = read_edges(path, header=header)[:2]
    assert [[list(ids)[end] for end in pair] for pair in pairs.T.tolist()] == listed
    read = read_interactions(path, header=header)
    assert read.pairs[0].shape == (2, len(listed))


def test_whether_words_are_a_header_is_asked_where_there_is_doubt(tmp_path):
    rows = "".join(f"p{i},p{(i + 1) % 9}\n" for i in range(9))
    path = written(tmp_path, "wer,wen\n" + rows)
    with refused("data.header", expected="edges.txt", got="'wer,wen'", remedy="--data.header true"):
        read_edges(path)
    assert len(read_edges(path, header=True).ids) == 9
    assert len(read_edges(path, header=False).ids) == 11
    assert len(read_edges(written(tmp_path, "p0,p5\n" + rows)).ids) == 9


def test_other_encodings(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_bytes("source;target\nMüller;Groß\n".encode("cp1252"))
    with pytest.warns(UserWarning, match="Windows-1252"):
        assert list(read_edges(path).ids) == ["Groß", "Müller"]
    path.write_bytes("source;target\nMüller;Groß\n".encode("utf-16"))
    assert list(read_edges(path).ids) == ["Groß", "Müller"]


def test_what_is_no_header(tmp_path):
    path = written(tmp_path, "Anna,Bert\nCarl,12\n")
    pairs, ids = read_edges(path)[:2]
    assert sorted(ids) == ["12", "Anna", "Bert", "Carl"]
    assert pairs.tolist() == [[ids["Anna"], ids["Carl"]], [ids["Bert"], ids["12"]]]
    assert read_edges(written(tmp_path, "source,target\n1,2\n"), header=False, names=True).ids == {
        "1": 0,
        "2": 1,
        "source": 2,
        "target": 3,
    }


@pytest.mark.parametrize(
    ("text", "expected", "got"),
    [
        ("0 1\n# fine\n2 Anna\n", "integers", "'2 Anna' in line 3"),
        ("0 1\n2\n", "two ids", "'2' in line 2"),
        ("0 1 0.5\n", "two ids", "'0 1 0.5' in line 1"),
        ("2 3\n0 -1\n", "integers from 0", "'0 -1' in line 2"),
        ("2 3\n0 1.5\n", "integers", "'0 1.5' in line 2"),
        ("0 1\n4 07\n", "integers", "'4 07' in line 2"),
        ("0 1\n0 \u0661\n", "integers", "line 2"),
        ("0 1\n0 123456789012345678901\n", "integers", "line 2"),
        ("0,1\n0,\n", "an id in every field", "'0,' in line 2"),
        ('a,b\n"c,d\n', "an id in every field", "'\"c,d' in line 2"),
        ('a,b\n\n"c\nd",e\n', "quotes only around a whole field", "'\"c' in line 3"),
        ("0 1\n\n# fine\n3 007\n", "integers", "'3 007' in line 4"),
        ("source,target,weight\n0,1,0.5\n1,2\n", "3 columns, as in the header", "line 3"),
    ],
)
def test_a_bad_line_is_named(tmp_path, text, expected, got):
    path = written(tmp_path, text)
    with refused(str(path), expected=expected, got=got, remedy="correct this line"):
        read_edges(path)


TABLE = "when;stars;Film;person\n2020-01-02;4.5;Up;ann\n2019-07-01 10:30;;Alien;bob\n"


def test_columns_of_a_table_are_known_by_their_usual_names(tmp_path):
    path = written(tmp_path, "userId,movieId,rating,note\n1,31,2,\n1,1029,3,a b\n")
    stars = RATING
    (pairs,), users, items, (numbers,), columns, _ = read_interactions(path, further=[stars])
    assert (pairs.tolist(), list(users), list(items)) == ([[0, 0], [0, 1]], ["1"], ["31", "1029"])
    assert numbers["data.rating"].tolist() == [2, 3]
    assert columns == ("userId", "movieId")
    path = written(tmp_path, "weight,to,from\n0.5,a,b\n", "edges.csv")
    assert read_edges(path).pairs.tolist() == [[1], [0]]


def test_columns_of_a_table_by_name(tmp_path):
    path = written(tmp_path, TABLE)
    (pairs,), users, _, (numbers,), *_ = read_interactions(path, user="person", further=[TIME])
    assert (pairs.tolist(), list(users)) == ([[0, 1], [1, 0]], ["ann", "bob"])
    assert numbers["data.time"].tolist() == [1577923200, 1561977000]
    with refused("data.user", expected="person", got="'persn'", remedy="did you mean 'person'?"):
        read_interactions(path, user="persn", item="Film", header=True)
    table = "who,what,how\na,b,c\nd,e,f\n"
    with refused(
        "data.user, data.item", expected="two", got="who, what, how", remedy="--data.user"
    ):
        read_interactions(written(tmp_path, table), header=True)
    path = written(tmp_path, TABLE)
    expected, remedy = "a number or a date for data.rating", "correct or drop this line"
    with refused(str(path), expected=expected, got="line 3", remedy=remedy):
        read_interactions(path, user="person", further=[RATING])


def test_a_table_without_a_header_has_numbers_for_its_columns(tmp_path):
    """As MovieLens' u.data: user, item, rating and time, which are no three items of a user."""
    path = written(
        tmp_path, "196\t242\t3\t88\n196\t302\t3\t89\n22\t377\t1\t87\n22\t1\t1\t8\n22\t2\t5\t9\n"
    )
    with refused(
        "data.user, data.item",
        expected="column numbers of users",
        got="repeated users",
        remedy="--data.user 1",
    ):
        read_interactions(path)
    (pairs,), _, _, (numbers,), *_ = read_interactions(
        path, user="1", item="2", further=[TIME.named("4")]
    )
    assert pairs.tolist() == [[1, 1, 0, 0, 0], [2, 3, 4, 0, 1]]
    assert numbers["data.time"].tolist() == [88, 89, 87, 8, 9]
    with refused("data.item", expected="from 1 to 4", got="'5'", remedy="number"):
        read_interactions(path, user="1", item="5")
    path = written(tmp_path, "1::1193::5::978300760\n2::661::3::978302109\n", "ratings.dat")
    assert read_interactions(path, user="1", item="2").pairs[0].tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("factor", [edges.FACTOR, np.uint64(0)], ids=["hashes", "equal hashes"])
@pytest.mark.parametrize("longest", [9, 64, 65])
def test_ids_that_differ_only_at_one_byte(tmp_path, monkeypatch, factor, longest):
    monkeypatch.setattr(edges, "FACTOR", factor)
    monkeypatch.setattr(edges, "BLOCK", 2)
    ids = ["a", "a\0", "a" * 7, "a" * 8, "a" * 8 + "b", "ä", "a" * longest, "b" + "a" * longest]
    ids = sorted(set(ids))
    lines = [f"{source},{destination}" for source in ids for destination in ids]
    comment = "#" * 64  # NUL is accepted only after the first bytes.
    path = written(tmp_path, "\n".join([comment, "source,target", *lines, "a ,a"]))
    read = read_edges(path)
    assert list(read.ids) == ids
    assert [",".join(ids[node] for node in pair) for pair in read.pairs.T[:-1].tolist()] == lines
    assert read.pairs[:, -1].tolist() == [0, 0]


@pytest.mark.parametrize("read", [read_edges, read_interactions])
def test_nothing_to_read(tmp_path, read):
    path = written(tmp_path, "# nothing\n")
    with refused(str(path), expected="at least one edge", got="none", remedy="name a text file"):
        read(path)
    with pytest.raises(MissingDataError, match="missing: no such file"):
        read(tmp_path / "missing")


def test_a_user_without_an_item_is_a_user(tmp_path):
    path = written(tmp_path, "0 7 8\n2 8\n1\n")
    (pairs,), users, items, *_ = read_interactions(path)
    assert pairs.tolist() == [[0, 0, 2], [0, 1, 1]]
    assert (users, items) == ({"0": 0, "1": 1, "2": 2}, {"7": 0, "8": 1})


def test_two_files_share_their_ids(tmp_path):
    paths = written(tmp_path, "ann x y\n", "a.txt"), written(tmp_path, "bob w\nann z\n", "b.txt")
    (train, test), users, items, *_ = read_interactions(*paths)
    assert (list(users), list(items)) == (["ann", "bob"], ["w", "x", "y", "z"])
    assert (train.tolist(), test.tolist()) == ([[0, 0], [1, 2]], [[1, 0], [0, 3]])
