"""Labelled texts of your own: columns found or asked for, three parts of one file, refusals."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from edgewise.app.files.read_table import read_table
from edgewise.app.kinds.texts import TextTable
from edgewise.app.kinds.texts.files import Columns, find_columns
from tests.errors import refused

pytest.importorskip("tokenizers")

REVIEWS = [f"film number {i} was {'fine' if i % 3 else 'a bore, really'}" for i in range(60)]
STARS = ["5" if i % 3 else "1" for i in range(60)]


def written(path: Path, header: str, *columns: list[str], delimiter: str = ",") -> str:
    rows = [delimiter.join(f'"{cell}"' for cell in row) for row in zip(*columns, strict=True)]
    path.write_text("\n".join(([header] if header else []) + rows) + "\n")
    return str(path)


def found(path: str, text: str = "", label: str = "") -> Columns:
    return find_columns(read_table(Path(path)), text, label)


@pytest.mark.parametrize("turned", [False, True])
def test_two_columns_are_text_and_label_with_a_header_or_without(tmp_path, turned):
    columns = [STARS, REVIEWS] if turned else [REVIEWS, STARS]
    header = "stars,words" if turned else "words,stars"
    assert found(written(tmp_path / "a.csv", header, *columns)) == ("words", "stars", None)
    given = ("label", "text") if turned else ("text", "label")
    for delimiter in (",", "\t"):
        path = written(tmp_path / "b.csv", "", *columns, delimiter=delimiter)
        assert found(path) == ("text", "label", given)
        parts = TextTable(path=path).read_splits().texts
        pairs = sorted(pair for part in parts.values() for pair in part)
        assert pairs == sorted(zip(REVIEWS, STARS, strict=True)), "the first row, too"


def test_of_more_columns_the_only_ones_that_it_can_be(tmp_path):
    ids, days = [str(i) for i in range(60)], [f"2020-01-{i % 14 + 1:02d}" for i in range(60)]
    path = written(tmp_path / "a.csv", "id,review,stars", ids, REVIEWS, STARS)
    assert found(path) == ("review", "stars", None)
    path = written(tmp_path / "b.csv", "id,body,stars,day", ids, REVIEWS, STARS, days)
    with refused(
        "data.target", expected="b.csv", got="'stars', 'day'", remedy="--data.target stars"
    ):
        found(path)
    assert found(path, label="day") == ("body", "day", None)
    path = written(tmp_path / "c.csv", "title,body,label", REVIEWS, REVIEWS, STARS)
    with refused("data.text", expected="c.csv", got="'title', 'body'", remedy="--data.text title"):
        found(path)
    assert found(path, text="title") == ("title", "label", None)
    with refused("data.text", expected="title", got="'titel'", remedy="did you mean 'title'"):
        found(path, text="titel")
    taken = "'title', which another field uses"
    with refused("data.target", expected="c.csv", got=taken, remedy="--data.target label"):
        found(path, text="title", label="title")
    short, numbers = [f"film{i}" for i in range(60)], [f"{i}.5" for i in range(60)]
    path = written(tmp_path / "e.csv", "name,rate,stars", short, numbers, STARS)
    with refused("data.text", expected="e.csv", got="no such column", remedy="--data.text name"):
        found(path)
    path = written(tmp_path / "d.csv", "body,stars", REVIEWS, STARS)
    with refused("data.target", expected="stars", got="'star'", remedy="did you mean 'stars'"):
        found(path, label="star")


def test_one_file_is_dealt_into_three_parts_with_their_share_of_every_label(tmp_path):
    path = written(tmp_path / "a.csv", "text,label", REVIEWS, STARS)
    parts = TextTable(path=path, folds=5, val=0.25).read_splits().texts
    assert {name: len(part) for name, part in parts.items()} == {"train": 36, "val": 12, "test": 12}
    for part in parts.values():
        assert sum(label == "1" for _, label in part) * 3 == len(part)
    assert len({text for part in parts.values() for text, _ in part}) == 60
    other = TextTable(path=path, folds=5, val=0.25, split_seed=1).read_splits().texts
    assert other["test"] != parts["test"]
    test = gzip.compress(b"text,label\nso so,1\n")
    (tmp_path / "test.csv.gz").write_bytes(test)
    parts = TextTable(path=path, test_path=str(tmp_path / "test.csv.gz")).read_splits().texts
    assert parts["test"] == [("so so", "1")]
    assert len(parts["train"]) == 54
    assert len(parts["val"]) == 6


def test_what_is_kept_for_predictions(tmp_path):
    path = written(tmp_path / "a.csv", "review,stars", REVIEWS, STARS)
    splits = TextTable(path=path).load()
    assert splits.preprocessing == {"labels": ["1", "5"], "text": "review"}


def test_files_that_cannot_be_used(tmp_path):
    path = written(tmp_path / "a.csv", "text,label", ["", *REVIEWS], ["1", *STARS])
    with refused(path, expected="column 'text'", got="none in line 2", remedy="drop this row"):
        TextTable(path=path).load()
    path = written(tmp_path / "b.csv", "text", REVIEWS)
    with refused(
        path, expected="a label column", got="one column, 'text'", remedy="commas or tabs"
    ):
        TextTable(path=path).load()
    path = written(tmp_path / "c.csv", "text,label", REVIEWS, [str(i) for i in range(60)])
    with refused("data.target", expected="labels", got="60 different", remedy="--data.target"):
        TextTable(path=path).load()
    path = written(tmp_path / "d.csv", "text,label", REVIEWS, ["1"] * 60)
    with refused("data.target", expected="two labels", got="'1' in each of 60", remedy="another"):
        TextTable(path=path).load()
    with refused("data.fold", expected="0, because", got="3", remedy="omit data.fold"):
        TextTable(path=path, test_path=path, fold=3)
    one, two = (written(tmp_path / f"{n}.csv", "", REVIEWS, STARS) for n in "ef")
    (tmp_path / "f.csv").write_text("a,b,c\nd,e,f\n")
    with refused(
        two,
        expected="2 columns, as in the table of data.path",
        got="3 columns",
        remedy="same columns",
    ):
        TextTable(path=one, test_path=two).load()
