"""Tables with keys: keys, visible rows, splits, damaged files, predictions, reasons, baselines."""

from __future__ import annotations

import csv
import gc
import random
import shutil
import sqlite3
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch

import edgewise
from edgewise._utils.errors import MissingDataError
from edgewise.app.cli import main
from edgewise.app.files.table import Table
from edgewise.app.kinds import find
from edgewise.app.kinds.tables import Shop, Tables
from edgewise.app.kinds.tables import columns as tables_columns
from edgewise.app.kinds.tables.baseline import joined_features, own_features
from edgewise.app.kinds.tables.columns import Column
from edgewise.app.kinds.tables.context import EncodedRows
from edgewise.app.kinds.tables.data import RelationalBatch
from edgewise.app.kinds.tables.files import read_database
from edgewise.app.kinds.tables.keys import Keys, find_keys
from edgewise.app.runs import baselines, train, with_values
from tests.errors import case, refused

pytest.importorskip("lightning")
SMALL = {"model.width": 8, "model.depth": 1, "model.heads": 2, "trainer.epochs": 1}
SMALL |= {"trainer.accelerator": "cpu", "trainer.save_every": 0}
TARGET = "people.moved"
Rows = dict[str, list[str]]


def town(count: int = 40) -> dict[str, Rows]:
    """People, of whom some were recommended by others, their visits, and the places they visit.

    The note of the visit after the date of the question says the answer.
    """
    draw = random.Random(0)
    people: Rows = {"person_id": [], "age": [], "asked": [], "by_person_id": [], "moved": []}
    visits: Rows = {"visit": [], "person_id": [], "place_id": [], "at": [], "note": []}
    places: Rows = {"place_id": [f"s{i}" for i in range(4)], "kind": ["bar", "park"] * 2}
    for i in range(count):
        answer, day = ("yes", "no")[i % 2], 10 + i % 15
        people["person_id"].append(f"n{i}")
        people["age"].append("" if i % 7 == 3 else str(20 + i))
        people["asked"].append(f"2024-03-{day:02}")
        people["by_person_id"].append(f"n{i - 4}" if i % 4 == 0 and i else "")
        people["moved"].append(answer)
        for month, note in (("01", "rain"), ("02", draw.choice(["sun", "rain"])), ("04", answer)):
            visits["visit"].append(f"v{len(visits['visit'])}")
            visits["person_id"].append(f"n{i}")
            visits["place_id"].append(f"s{draw.randrange(4)}")
            visits["at"].append(f"2024-{month}-{day:02}")
            visits["note"].append(note)
    return {"people": people, "visits": visits, "places": places}


def write(folder: Path, tables: dict[str, Rows] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in (tables or town()).items():
        pandas.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)
    return folder


def data(folder: Path, **options: Any) -> Tables:
    return Tables(path=str(folder), **{"target": TARGET, "batch_size": 16, **options})


def changed(table: str, column: str, change: Callable[[list[str]], list[str]]) -> dict[str, Rows]:
    tables = town()
    tables[table][column] = change(tables[table][column])
    return tables


def first(batch: RelationalBatch) -> list[str]:
    """Return the names of the cells of the first example."""
    assert batch.database is not None
    row = batch.rows[:1]
    cells = batch.database.batch(row, hops=2, max_children=16, cells=256)
    return batch.database.cell_names(cells)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a folder that is gone."""
    folder = tmp_path_factory.mktemp("town")
    source = write(folder / "town")
    train(with_values(replace(find("tables"), data=data(source)), SMALL), folder / "run")
    shutil.rmtree(source)
    return folder / "run"


def test_keys_and_times_are_found_and_printed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        splits = data(write(tmp_path)).load()
    assert (
        "people: 40 rows, primary key person_id, foreign keys by_person_id = people.person_id "
        "(refers to itself, 9 deep), time asked" in caplog.text
    )
    assert "person_id = people.person_id, place_id = places.place_id, time at" in caplog.text
    assert splits.model_arguments == {
        "in_width": 2,
        "out_width": 1,
        "num_columns": 6,
        # masked; age and asked; at and note (rain and sun); kind (bar and park)
        "num_values": 1 + 2 + 2 + 2 + 4 + 4,
    }
    assert [split.count for split in (splits.train, splits.val, splits.test)] == [27, 5, 8]
    keys = Keys.read(splits.preprocessing["keys"])
    named = data(
        tmp_path,
        primary_keys=("people.person_id", "places.place_id"),
        foreign_keys=tuple(f"{key.name}={key.refers_to}" for key in keys.foreign),
        times=("people.asked", "visits.at"),
    ).load()
    assert Keys.read(named.preprocessing["keys"])._replace(primary=keys.primary) == keys
    none = data(tmp_path, foreign_keys=("none",), times=("none",), split="random").load()
    assert len(first(none.train.make(torch.arange(1)))) == 4  # moved, age, asked, by
    assert none.preprocessing["keys"]["times"] == {}


@pytest.mark.parametrize(
    ("key", "refers_to"),
    [("customer_id", "customers"), ("buyer_customer_id", "customers"), ("parent_id", "orders")],
)
def test_usual_names_of_keys(key: str, refers_to: str, tmp_path: Path) -> None:
    tables = {"customers": {"id": ["1", "2"]}, "orders": {"id": ["1", "2"], key: ["1", ""]}}
    database = read_database(str(write(tmp_path, tables)))
    keys = find_keys(database, (), (), (), ("orders", "x"))
    assert keys.primary == {"customers": ("id",), "orders": ("id",)}
    assert keys.foreign == (("orders", (key,), refers_to),)


HOURS: dict[str, Rows] = {
    "weather": {
        "origin": ["A", "A", "B"],
        "hour": ["1", "2", "1"],
        "wind": ["10", "20", "30"],
    },
    "flights": {
        "id": [f"f{i}" for i in range(24)],
        "origin": ["A", "B", "A", "B", "A", ""] * 4,
        "hour": ["1", "1", "2", "2", "1.0", "1"] * 4,
        "late": ["yes", "no"] * 12,
    },
}
"""Weather of a place in an hour, a key of two columns; one flight in three refers to none."""


def test_keys_of_several_columns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hours = Tables(path=str(write(tmp_path, HOURS)), target="flights.late")
    hours = replace(hours, primary_keys=("flights.id", "weather.origin+hour"), dangling="missing")
    named = replace(hours, foreign_keys=("flights.origin+hour=weather",))
    with caplog.at_level("INFO"):
        keys = Keys.read(hours.load().preprocessing["keys"])
    assert keys == Keys.read(named.load().preprocessing["keys"])
    assert keys.foreign == (("flights", ("origin", "hour"), "weather"),)
    reordered = replace(hours, foreign_keys=("flights.hour+origin=weather.hour+origin",))
    assert Keys.read(reordered.load().preprocessing["keys"]) == keys
    assert "foreign keys origin+hour = weather.origin+hour, time none" in caplog.text
    assert "flights.origin+hour: 4 of 24 rows refer to no row of weather" in caplog.text
    batch = named.load().train.make(torch.arange(3))
    rows = batch.database.rows
    winds = {
        row: [name for name in cells_of_row(batch.database, row) if "wind" in name]
        for row in range(rows.first["flights"], rows.first["flights"] + 6)
    }
    assert list(winds.values()) == [
        *(["weather.wind of A+1"], ["weather.wind of B+1"], ["weather.wind of A+2"]),
        *([], ["weather.wind of A+1"], []),
    ]
    # Columns that are no key by themselves have cells.
    assert "flights.origin of f0" in cells_of_row(batch.database, rows.first["flights"])
    got = "4 of 24 rows that refer to no row, such as 'B' in row 5 of flights.csv and '2' in row 5"
    with refused("data.foreign_keys", expected="weather.origin+hour", got=got, remedy="missing"):
        replace(hours, dangling="error").load()
    reversed_columns = replace(hours, foreign_keys=("flights.hour+origin=weather",))
    with refused("data.foreign_keys", expected="weather", got="20 of 24", remedy="origin+hour"):
        reversed_columns.load()
    one = replace(hours, foreign_keys=("flights.origin=weather",))
    with refused("data.foreign_keys", expected="a column for each", got="origin", remedy="+"):
        one.load()
    with refused(
        "data.primary_keys", expected="a column of weather.csv", got="'winds'", remedy="'wind'"
    ):
        replace(hours, primary_keys=("weather.origin+winds",)).load()
    sales = {"origin": ["A", "A", "B"], "hour": ["1", "2", "1"], "sold": ["1", "2", "3"]}
    unmatched = {"origin": ["C"] * 4, "hour": ["1"] * 4, "x": ["1", "2", "3", "4"]}
    shared = write(tmp_path / "shared", {**HOURS, "sales": sales, "unmatched": unmatched})
    both = (*hours.primary_keys, "sales.origin+hour")
    keys = find_keys(read_database(str(shared)), both, (), (), ("flights", "late"))
    assert [key.table for key in keys.foreign] == ["flights", "flights"]
    twice = replace(hours, primary_keys=("weather.hour+hour",))
    got = "'1' in row 4 of weather.csv and '1' in row 4 of weather.csv, as in row 2"
    with refused("data.primary_keys", expected="weather.hour+hour", got=got, remedy="correct"):
        twice.load()


def test_declared_keys_of_several_columns(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    with sqlite3.connect(tmp_path / "hours.db") as connection:
        connection.executescript(
            "create table weather (origin text, hour int, wind int, primary key (origin, hour));"
            "create table flights (id text primary key, at int, place text, late text,"
            "foreign key (at, place) references Weather(Hour, Origin));"
            "insert into weather values ('A', 1, 10);"
            "insert into flights values ('f0', 1, 'A', 'yes');"
        )
    connection.close()
    database = read_database(str(tmp_path / "hours.db"))
    keys = find_keys(database, (), (), (), ("flights", "late"))
    assert keys.primary == {"flights": ("id",), "weather": ("origin", "hour")}
    assert keys.foreign == (("flights", ("place", "at"), "weather"),)


def test_a_declared_key_with_missing_values_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("sqlalchemy")
    with sqlite3.connect(tmp_path / "hours.db") as connection:
        connection.executescript(
            "create table weather (origin text, hour int, wind int, primary key (origin, hour));"
            "create table flights (id text primary key, late text);"
            "insert into weather values ('A', 1, 10), ('A', null, 20);"
            "insert into flights values ('f0', 'yes');"
        )
    connection.close()
    database = read_database(str(tmp_path / "hours.db"))
    with caplog.at_level("INFO"):
        keys = find_keys(database, (), (), (), ("flights", "late"))
    assert keys.primary == {"flights": ("id",)}
    assert "the declared primary key is not used" in caplog.text
    assert "weather.origin+hour" in caplog.text
    with refused("data.primary_keys", expected="weather.origin+hour", got="", remedy="correct"):
        find_keys(database, ("weather.origin+hour",), (), (), ("flights", "late"))


def cells_of_row(database: EncodedRows, row: int) -> list[str]:
    return database.cell_names(database.batch(np.array([row]), **FEW))


def test_the_visible_rows_are_near_and_not_later(tmp_path: Path) -> None:
    splits = data(write(tmp_path)).load()
    batch = splits.train.make(torch.arange(27))
    database = batch.database
    rows = database.rows
    cells = database.batch(batch.rows, hops=2, max_children=16, cells=256)
    example = torch.arange(27).repeat_interleave(cells.sizes).numpy()
    assert (rows.time[cells.row] <= database.cutoff(batch.rows)[example]).all()
    names = database.cell_names(database.batch(rows.first["people"] + np.array([4]), **FEW))
    assert names[0] == "people.moved of n4"
    assert {"people.age of n4", "people.age of n0"} <= set(names)
    assert [name for name in names if "visits.note" in name] == [
        *("visits.note of v13", "visits.note of v12"),  # the latest first
        *("visits.note of v1", "visits.note of v0"),  # those of n0
    ]
    assert any(name.startswith("places.kind") for name in names)
    latest = database.batch(rows.first["people"] + np.array([4]), hops=1, max_children=1, cells=256)
    assert sum("visits.note" in name for name in database.cell_names(latest)) == 1
    for most in (3, 8, 20):
        assert (
            3
            <= int(database.batch(batch.rows, hops=2, max_children=16, cells=most).sizes.max())
            <= most
        )


FEW: dict[str, int] = {"hops": 2, "max_children": 16, "cells": 256}


def test_an_answer_in_the_future_is_not_used(tmp_path: Path) -> None:
    """The note of the visit after the question is the answer, in all splits."""
    now, later = data(write(tmp_path / "a")), ("yes", "no")
    splits = now.load()
    note = next(c for c in splits.preprocessing["schema"] if c["name"] == "note")
    assert set(note["values"]) == {"rain", "sun"}  # no value of the future is known
    other = {"yes": "no", "no": "yes"}
    flipped = changed("visits", "note", lambda cells: [other.get(cell, cell) for cell in cells])
    twin = data(write(tmp_path / "b", flipped)).load()
    for name in ("train", "val", "test"):
        split, same = getattr(splits, name), getattr(twin, name)
        batch, copy = split.make(torch.arange(split.count)), same.make(torch.arange(same.count))
        assert batch.inputs[0].equal(copy.inputs[0])
        assert batch.inputs[1].equal(copy.inputs[1])
        np.testing.assert_array_equal(joined_features(batch), joined_features(copy))
    # Without the time of the people, the note is seen, so this test would notice it.
    seen = data(tmp_path / "a", times=("visits.at",), split="random").load()
    note = next(c for c in seen.preprocessing["schema"] if c["name"] == "note")
    assert set(later) < set(note["values"])


def test_the_target_of_other_rows_is_not_read(tmp_path: Path) -> None:
    """People refer to people, but their answers are no cells."""
    splits = data(write(tmp_path / "a")).load()
    swapped = data(write(tmp_path / "b", changed("people", "moved", lambda c: c[::-1]))).load()
    batches = [s.test.make(torch.arange(s.test.count)) for s in (splits, swapped)]
    assert batches[0].inputs[1].equal(batches[1].inputs[1])
    assert not batches[0].target.equal(batches[1].target)


def test_numbers_are_standardised_and_missing_ones_are_a_value(tmp_path: Path) -> None:
    def affine(cells: list[str]) -> list[str]:
        return [cell and str(1000 - 3 * int(cell)) for cell in cells]

    splits = data(write(tmp_path / "a")).load()
    twin = data(write(tmp_path / "b", changed("people", "age", affine))).load()
    batch, other = (s.train.make(torch.arange(27)) for s in (splits, twin))
    (x, cells, _), (y, _, _) = batch.inputs, other.inputs
    ages = cells[:, 0] == 1
    torch.testing.assert_close(y[ages], x[ages] * torch.tensor([-1, 1]), atol=1e-5, rtol=0)
    torch.testing.assert_close(y[~ages], x[~ages])
    assert cells[ages, 1].unique().tolist() == [1, 2]  # missing, and present
    assert (x[ages & (cells[:, 1] == 1)] == 0).all()
    dates = cells[:, 0] == 4  # visits.at: its distance from the date of the question is at least 0
    assert (x[dates, 1] > 0).all()
    assert (x[~dates & (cells[:, 0] != 2), 1] == 0).all()


def test_each_column_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    numbers_of = tables_columns._numbers_of

    def counting(table: Table, column: Column) -> np.ndarray:
        parsed.append(f"{column.table}.{column.name}")
        return numbers_of(table, column)

    monkeypatch.setattr(tables_columns, "_numbers_of", counting)
    data(write(tmp_path)).load()
    assert sorted(parsed) == ["people.age", "people.asked", "visits.at"]


@pytest.mark.slow
def test_databases_and_files_of_other_formats_are_the_same(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("pyarrow")
    expected = data(write(tmp_path / "csv")).load().test.make(torch.arange(8))
    (tmp_path / "parquet").mkdir()
    for name, columns in town().items():
        frame = pandas.DataFrame(columns)
        frame.to_parquet(tmp_path / "parquet" / f"{name}.parquet")
    with sqlite3.connect(tmp_path / "town.db") as connection:
        connection.executescript(
            "create table people (person_id text primary key, age int, asked text, by_person_id "
            "text references people(person_id), moved text);"
            "create table visits (visit text primary key, person_id text references people, "
            "place_id text references places, at text, note text);"
            "create table places (place_id text primary key, kind text);"
        )
        for name, columns in town().items():
            frame = pandas.DataFrame(columns).replace("", None)
            frame.to_sql(name, connection, if_exists="append", index=False)
    connection.close()
    for name in ("parquet", "town.db"):
        splits = data(tmp_path / name).load()
        found = splits.test.make(torch.arange(8))
        with case(name):
            assert found.target.equal(expected.target)
            assert found.inputs[0].shape == expected.inputs[0].shape
            assert found.inputs[0].sum().item() == pytest.approx(expected.inputs[0].sum().item())
    keys = Keys.read(splits.preprocessing["keys"])
    assert keys.primary == {
        "people": ("person_id",),
        "places": ("place_id",),
        "visits": ("visit",),
    }
    content = (tmp_path / "town.db").read_bytes()
    (tmp_path / "cut.db").write_bytes(content[:3000])
    with refused("cut.db", expected="a database", got="", remedy="check the file"):
        data(tmp_path / "cut.db").load()
    with pytest.raises(MissingDataError, match="no such file"):
        data(tmp_path / "gone.db").load()


def test_bad_keys_are_named(tmp_path: Path) -> None:
    def dangling(cells: list[str]) -> list[str]:
        return ["n99", *cells[1:-1], "n98"]

    write(tmp_path, changed("visits", "person_id", dangling))
    got = "2 of 120 rows that refer to no row, such as 'n99' in row 2 of visits.csv"
    with refused("data.foreign_keys", expected="people.person_id", got=got, remedy="add the"):
        data(tmp_path).load()
    ring = changed("people", "by_person_id", lambda c: ["n4", *c[1:]])
    write(tmp_path, ring)
    got = "people n0, which refers to itself by people n4 → people n0"
    with refused("data.foreign_keys", expected="never lead back", got=got, remedy="leave one"):
        data(tmp_path).load()
    twice = changed("people", "person_id", lambda c: [*c[:-1], "n0"])
    write(tmp_path, twice)
    with refused("data.primary_keys", expected="different", got="'n0' in row 41", remedy="correct"):
        data(tmp_path, primary_keys=("people.person_id",)).load()
    tables = town()
    tables["visits"]["seen"] = tables["visits"]["at"]
    write(tmp_path, tables)
    with refused("data.times", expected="visits", got="at, seen", remedy="visits.at"):
        data(tmp_path).load()
    write(tmp_path, changed("people", "asked", lambda c: ["", *c[1:]]))
    with refused("data.times", expected="people.asked", got="people n0", remedy="add the time"):
        data(tmp_path).load()
    write(tmp_path)
    for name, value, argument in (
        ("foreign_keys", "visits.person_id=house", "data.foreign_keys"),
        ("primary_keys", "person_id", "data.primary_keys"),
        ("times", "visits.when", "data.times"),
        ("omit", "houses.x", "data.omit"),
    ):
        with refused(argument, expected="", got="'", remedy=""):
            data(tmp_path, **{name: (value,)}).load()


def test_bad_targets_and_files_are_named(tmp_path: Path) -> None:
    write(tmp_path)
    for target, got in (("moved", "'moved'"), ("person.moved", "'person'"), ("people.x", "'x'")):
        with refused("data.target", expected="", got=got, remedy=""):
            data(tmp_path, target=target).load()
    write(tmp_path, changed("people", "moved", lambda c: ["yes"] * len(c)))
    with refused("data.target", expected="2 to 20 classes", got="1", remedy="another column"):
        data(tmp_path, task_type="classification").load()
    write(tmp_path, changed("people", "moved", lambda c: ["7"] * len(c)))
    with refused("data.target", expected="two different numbers", got="7 in all", remedy=""):
        data(tmp_path).load()
    write(tmp_path)
    file = tmp_path / "visits.csv"
    file.write_text(file.read_text()[:-9])
    with refused("data.path", expected="a header and values", got="in row 121", remedy="correct"):
        data(tmp_path).load()
    with refused("data.split", expected="a time column", got="none", remedy="people.COLUMN"):
        data(write(tmp_path), times=("visits.at",), split="time").load()
    (tmp_path / "visits.tsv").write_text("a\tb\n1\t2\n")
    with refused(
        "data.path", expected="one file", got="visits.csv and visits.tsv", remedy="remove"
    ):
        data(tmp_path).load()
    with pytest.raises(MissingDataError, match="a folder with one CSV"):
        data(file).load()
    (tmp_path / "none").mkdir()
    with refused("data.path", expected="at least one table", got="none", remedy="CSV"):
        data(tmp_path / "none").load()


def test_predictions_on_a_changed_folder(run_folder: Path, tmp_path: Path) -> None:
    run = edgewise.load(run_folder)
    write(tmp_path)
    answers = run.predict(str(tmp_path))
    assert [answer["input"] for answer in answers] == [f"people n{i}" for i in range(40)]
    assert {answer["moved"] for answer in answers} <= {"yes", "no"}
    alone = [run.predict(run.predictor.from_words([str(tmp_path), f"n{i}"]))[0] for i in (5, 8)]
    for answer, i in zip(alone, (5, 8), strict=True):
        assert answer["P(moved=yes)"] == pytest.approx(answers[i]["P(moved=yes)"], abs=1e-6)
    tables = changed("people", "moved", lambda c: [*c[:-2], "", ""])
    tables["people"]["age"][39] = "1000"  # clipped
    tables["visits"]["note"][:2] = ["snow", "snow"]  # unknown
    write(tmp_path, tables)
    last = run.predict(tmp_path)
    assert [answer["input"] for answer in last] == ["people n38", "people n39"]
    assert last[0]["P(moved=yes)"] == pytest.approx(answers[38]["P(moved=yes)"], abs=1e-6)
    tables["people"].pop("moved")
    write(tmp_path, tables)
    assert len(run.predict(str(tmp_path))) == 40
    assert "pass one path" in run.predict([3])[0]["error"]
    with refused("input", expected="n3", got="'x3'", remedy=""):
        list(run.predictor.from_words([str(tmp_path), "x3"]))
    (tmp_path / "places.csv").unlink()
    with refused("input", expected="places", got="only people, visits", remedy="add this table"):
        run.predict(str(tmp_path))
    tables["visits"].pop("note")
    write(tmp_path, tables)
    with refused("input", expected="a column of visits.csv", got="'note'", remedy=""):
        run.predict(str(tmp_path))


def test_commands_and_reasons_name_cells(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(write(tmp_path / "town"))
    assert main(["predict", str(run_folder), folder, "n4", "--why", "20"]) == 0
    assert " of v" in capsys.readouterr().out
    out = tmp_path / "answers.csv"
    assert main(["predict", str(run_folder), "--input", folder, "--out", str(out)]) == 0
    with out.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 40
    run = edgewise.load(run_folder)
    (value,) = run.predictor.from_words([folder, "n4"])
    names = set(run.predictor.node_labels(value)[0])
    (attribution,) = run.explain([value], top=3)
    assert attribution.answer in ("yes", "no")
    assert {reason.part for reason in attribution.reasons} <= names - {"people.moved of n4"}
    page = edgewise.explain.explanation(run, value)
    assert page.kind == "graph"
    assert len(page.labels) == len(names)


@pytest.mark.slow
def test_a_number_is_predicted_from_another_table(tmp_path: Path) -> None:
    tables = town()
    tables["people"]["age"] = [str(20 + i) for i in range(40)]
    recipe = replace(
        find("tables"), data=data(write(tmp_path / "town", tables), target="people.age")
    )
    train(with_values(recipe, SMALL), tmp_path / "run")
    assert len(list(baselines(recipe))) == 2
    answers = edgewise.load(tmp_path / "run").predict(str(tmp_path / "town"))
    assert all(isinstance(answer["age"], float) for answer in answers)
    # A row of a table without a time column sees all rows.
    splits = data(tmp_path / "town", target="visits.note", times=("none",)).load()
    assert splits.test.count == 24
    assert splits.targets[0].classes == ("no", "rain", "sun", "yes")
    assert sum("visits.at" in name for name in first(splits.train.make(torch.arange(1)))) > 2


def test_baselines_see_no_later_row(tmp_path: Path) -> None:
    recipe = replace(find("tables"), data=data(write(tmp_path)))
    results = list(baselines(recipe))
    assert [one.name for one in results] == [
        "gradient-boosted trees on its own table",
        "gradient-boosted trees on joined counts",
    ]
    batch = recipe.data.load().train.make(torch.arange(27))
    own, joined = own_features(batch), joined_features(batch)
    assert own.shape == (27, 3)
    # The recommending person (2), number of recommended people, and 3 of each of their 2 features;
    # number of visits, and 3 of each of the date, rain and sun.
    assert joined.shape == (27, 3 + 2 + 1 + 6 + 1 + 9)
    assert (joined[:, -10] == 2).all()  # two visits before the question


def test_the_shop_has_effects_that_only_keys_show() -> None:
    splits = Shop(customers=400).load()
    split = splits.train
    batch = split.make(torch.arange(split.count))
    names = batch.database.columns
    defects = 1 + [column.name for column in names].index("defects")
    x, cells, _ = batch.inputs
    example = torch.arange(split.count).repeat_interleave(batch.keywords["batch"])
    chosen = cells[:, 0] == defects
    count = torch.bincount(example[chosen], minlength=split.count)
    total = torch.zeros(split.count).index_add(0, example[chosen], x[chosen, 0])
    mean, churned = total / count.clamp(min=1), batch.target[:, 0].float()
    assert torch.corrcoef(torch.stack([mean, churned]))[0, 1] > 0.2
    joined = np.nan_to_num(joined_features(batch))
    assert np.isfinite(joined).all()


def part_tables(connection: sqlite3.Connection) -> None:
    """Uses of parts, of which each refers to another part by its number than by its id."""
    connection.executescript(
        "create table parts (id integer primary key, w integer unique, mass integer);"
        "create table uses (id integer primary key, part_id integer references parts(w), y text);"
        "create table notes (id integer primary key, about integer references Parts(ID));"
        "insert into notes values (1, 2);"
        "insert into parts values (1, 2, 10), (2, 3, 20), (3, 1, 30);"
        "insert into uses values (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'a');"
    )


def test_a_declared_reference_to_another_column_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("sqlalchemy")
    # The name has characters that have a meaning in URLs.
    file = tmp_path / "a#1?%20.db"
    with sqlite3.connect(file) as connection:
        part_tables(connection)
    connection.close()
    content = file.read_bytes()
    database = read_database(str(file))
    assert database.foreign["uses", ("part_id",)] == ("parts", ("w",))
    with caplog.at_level("INFO"):
        keys = find_keys(database, (), (), (), ("uses", "y"))
    assert keys.foreign == (("notes", ("about",), "parts"),)  # part_id neither by its name
    assert "uses.part_id: refers to parts.w, which is not the primary key" in caplog.text
    keys = find_keys(database, ("parts.w",), (), (), ("uses", "y"))
    assert keys.foreign == (("uses", ("part_id",), "parts"),)
    with refused(
        "data.foreign_keys",
        expected="a reference to parts.id",
        got="'uses.part_id=parts.w'",
        remedy="--data.primary_keys parts.w",
    ):
        find_keys(database, (), ("uses.part_id=parts.w",), (), ("uses", "y"))
    keys = find_keys(database, (), ("uses.part_id=parts.id",), (), ("uses", "y"))
    assert keys.foreign == (("uses", ("part_id",), "parts"),)
    plain = file.rename(tmp_path / "plain.data")
    for url in (f"sqlite:///{plain}", f"sqlite+pysqlite:///file:{plain}?mode=rw&uri=true"):
        assert read_database(url).foreign == database.foreign
    for url in ("sqlite:///", "sqlite:///file:"):
        with pytest.raises(MissingDataError, match="no such file"):
            read_database(f"{url}{tmp_path / 'gone.db'}")
    assert [path.name for path in tmp_path.iterdir()] == ["plain.data"]
    assert plain.read_bytes() == content


def test_urls_have_no_password() -> None:
    for url in (
        "postgresql://me:secret@host/shop",
        "postgresql://host/shop?password=secret",
        "postgresql://host/shop?sslpassword=secret",
        "postgresql://host:se/cret@host/shop",
    ):
        with (
            case(url),
            refused(
                "data.path", expected="without a password", got="host", remedy="PGPASSWORD"
            ) as caught,
        ):
            read_database(url)
        assert "cret" not in str(caught.value)
    with refused("data.path", expected="a URL such as", got="malformed", remedy="correct"):
        read_database("postgresql://[::1/shop")


@pytest.mark.parametrize(
    "form", ["%Y%m%d", "%Y%m%d.0", "%d.%m.%Y", "%Y-%m-%dT%H:%M:%S"], ids=lambda form: form[:9]
)
def test_times_in_other_formats_show_no_later_row(form: str, tmp_path: Path) -> None:
    def written(cells: list[str]) -> list[str]:
        return pandas.to_datetime(cells).strftime(form).tolist()

    visible = []
    for folder, tables in (("a", town()), ("b", changed("visits", "at", written))):
        splits = data(write(tmp_path / folder, tables), times=("people.asked", "visits.at")).load()
        visible.append(
            [first(split.make(torch.arange(1))) for split in (splits.train, splits.test)]
        )
    assert visible[0] == visible[1]


def test_numbers_and_dates_are_not_compared(tmp_path: Path) -> None:
    times = ("people.asked", "visits.at")

    def milliseconds(cells: list[str]) -> list[str]:
        return [str(time.value // 10**6) for time in pandas.to_datetime(cells)]

    tables = changed("visits", "at", milliseconds)
    write(tmp_path, tables)
    got = "dates in people.asked, and numbers in visits.at"
    with refused("data.times", expected="of one unit", got=got, remedy='unit="ms"'):
        data(tmp_path, times=times).load()
    tables["people"]["asked"] = milliseconds(tables["people"]["asked"])
    write(tmp_path, tables)
    splits = data(tmp_path, times=times).load()
    assert sum("visits.note" in name for name in first(splits.train.make(torch.arange(1)))) < 4
    write(tmp_path, changed("visits", "at", lambda cells: ["2024", *["2025"] * (len(cells) - 1)]))
    splits = data(tmp_path, times=times).load()
    assert not any("visits.note" in name for name in first(splits.test.make(torch.arange(1))))
    write(tmp_path, changed("visits", "at", lambda cells: [*cells[:-1], "17"]))
    with refused("visits.at", expected="one format", got="the number '17'", remedy="2024-01-31"):
        data(tmp_path, times=times).load()
    ambiguous = ["03/04/2024", "05/06/2024"] * 60
    write(tmp_path, changed("visits", "at", lambda _: ambiguous))
    with refused("visits.at", expected="one format", got="several formats", remedy="2024-01-31"):
        data(tmp_path, times=times).load()


def test_omitted_columns_are_neither_keys_nor_times(tmp_path: Path) -> None:
    tables = town()
    tables["people"]["closed_at"] = tables["people"]["asked"]
    omit = ("people.closed_at", "visits.place_id", "people.by_person_id")
    splits = data(write(tmp_path, tables), omit=omit).load()
    keys = Keys.read(splits.preprocessing["keys"])
    assert keys.times == {"people": "asked", "visits": "at"}
    assert keys.foreign == (("visits", ("person_id",), "people"),)
    columns = {f"{column['table']}.{column['name']}" for column in splits.preprocessing["schema"]}
    assert columns.isdisjoint(omit)
    all_columns = tuple(f"places.{column}" for column in tables["places"])
    omit = ("people.closed_at", "visits.place_id", *all_columns)
    schema = data(tmp_path, omit=omit).load().preprocessing["schema"]
    assert [column["type"] for column in schema if column["table"] == "places"] == ["row"]


def test_primary_keys_are_distinct_as_references_read_them(tmp_path: Path) -> None:
    tables = town()
    tables["places"]["place_id"] = ["0", "1", "1.0", "2"]
    tables["visits"]["place_id"] = ["1"] * 120
    write(tmp_path, tables)
    with refused("data.primary_keys", expected="", got="'1.0' in row 4", remedy="correct"):
        data(tmp_path, primary_keys=("people.person_id", "places.place_id")).load()
    assert "places" not in data(tmp_path, split="random").load().preprocessing["keys"]["primary"]
    # Texts such as versions are not numbers.
    tables["places"]["place_id"] = ["1.0", "1.0.0", "v1", "v1.0"]
    database = read_database(str(write(tmp_path, tables)))
    assert find_keys(database, (), (), (), ("people", "moved")).primary["places"] == ("place_id",)


def test_a_target_without_values_is_named(tmp_path: Path) -> None:
    write(tmp_path, changed("people", "moved", lambda cells: [""] * len(cells)))
    with refused("data.target", expected=TARGET, got="none in 40 rows", remedy="add values"):
        data(tmp_path).load()


def test_names_of_tables_may_have_dots(tmp_path: Path) -> None:
    tables = town()
    dotted = {"town.people": tables["people"], "town": tables["visits"], "places": tables["places"]}
    write(tmp_path, dotted)
    (tmp_path / "town.csv").rename(tmp_path / "town.CSV")
    splits = data(
        tmp_path,
        target="town.people.moved",
        primary_keys=("town.people.person_id",),
        foreign_keys=("town.person_id=town.people", "town.people.by_person_id=town.people"),
        times=("town.people.asked", "town.at"),
        omit=("town.people.age",),
    ).load()
    names = first(splits.train.make(torch.arange(1)))
    assert names[0].startswith("town.people.moved of n")
    assert any(name.startswith("town.note of ") for name in names)
    assert "town.people.age" not in " ".join(names)


def test_joined_features_are_those_of_visible_parents(tmp_path: Path) -> None:
    """A person recommended by someone who was asked later does not see this person."""

    def recommended(cells: list[str]) -> list[str]:
        return ["", "n0", "n5", *[""] * 11, "n16", *[""] * (len(cells) - 15)]

    splits = data(write(tmp_path, changed("people", "by_person_id", recommended))).load()
    database = splits.train.make(torch.arange(1)).database
    rows = np.array([1, 14, 2]) + database.rows.first["people"]
    batch = RelationalBatch((), torch.empty(0), database=database, rows=rows)
    parents = joined_features(batch)[:, 3:5]
    np.testing.assert_array_equal(parents, [[20, 24 * 3600], [36, 13 * 24 * 3600], [np.nan] * 2])
    # The cached arrays do not keep the database in memory.
    reference = weakref.ref(database)
    del splits, database, batch
    gc.collect()
    assert reference() is None
