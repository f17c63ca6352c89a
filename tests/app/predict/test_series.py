"""Series: a run goes on from its end or from another history, with dates and a picture."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import torch

pytest.importorskip("lightning")
pytest.importorskip("torchmetrics")

import edgewise
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.runs import Run, train, with_values
from tests.errors import refused

SMALL = {"model.width": 8, "model.heads": 2, "model.depth": 1, "trainer.epochs": 1}
START = datetime(2021, 1, 1)


def value(i: int) -> int:
    return 100 + i + 10 * (i % 7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose table is gone, in another place."""
    here = tmp_path_factory.mktemp("runs")
    lines = [f"{START + timedelta(days=i):%d.%m.%Y};shop;{value(i)}" for i in range(140)]
    path = here / "mine.csv"
    path.write_text("\n".join(["Day;where;sold", *lines]))
    train(with_values(find("series"), {"data.path": str(path), **SMALL}), here / "first")
    path.unlink()
    return Path(shutil.move(here / "first", here / "moved"))


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return edgewise.load(folder)


def history(count: int, first: int = 0) -> dict[str, list[object]]:
    numbers = range(first, first + count)
    return {
        "Day": [START + timedelta(days=i) for i in numbers],
        "sold": [value(i) for i in numbers],
    }


def test_it_goes_on_from_its_end(run: Run) -> None:
    (answer,) = run.predict()
    assert answer["input"] == "sold of the training data"
    dates = [row["date"] for row in answer["forecast"]]
    assert dates == [f"{START + timedelta(days=i):%d.%m.%Y}" for i in range(140, 148)][:7]
    values = torch.tensor([[float(value(i)) for i in range(140 - 21, 140)]])
    with torch.no_grad():
        wanted = run.model(values)[0].tolist()
    assert [row["value"] for row in answer["forecast"]] == pytest.approx(wanted)


def test_another_history_with_dates_or_without(run: Run) -> None:
    (own,) = run.predict()
    (given,) = run.predict(history(60, first=80))
    assert given["forecast"] == own["forecast"]
    (alone,) = run.predict([value(i) for i in range(119, 140)])
    assert [row["step"] for row in alone["forecast"]] == list(range(1, 8))
    numbers = [row["value"] for row in alone["forecast"]]
    assert numbers == pytest.approx([row["value"] for row in own["forecast"]])
    both = run.predict([torch.arange(30.0), torch.arange(40.0)])
    assert len(both) == 2


def test_the_truth_where_it_is_known(run: Run) -> None:
    (answer,) = run.predict(backtest=3)
    rows = answer["forecast"]
    assert [row.get("truth") for row in rows] == [value(137), value(138), value(139), *[None] * 4]
    assert rows[0]["date"] == f"{START + timedelta(days=137):%d.%m.%Y}"
    with refused("backtest", expected="from 0 to", got="99", remedy="smaller"):
        run.predict(backtest=99)


def test_what_cannot_be_answered_is_named(run: Run) -> None:
    wrong = {**history(60), "sold": [1.0] * 59}
    short, text, uneven, missing, late = run.predict(
        [[1.0] * 5, ["a"] * 30, wrong, {"sold": [1.0] * 30}, {**history(60), "Day": ["2021"] * 60}]
    )
    assert "at least 21 numbers" in short["error"]
    assert "got 1 number in 1 value" in run.predict(3.5)[0]["error"]
    assert "0 numbers in 30 values" in text["error"]
    assert "as many dates as values" in uneven["error"]
    assert "a row without Day" in missing["error"]
    assert "dates such as 31.12.2020" in late["error"]


def test_a_table_of_something_else_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("smiles,y\nC,1\n")
    with refused(str(path), expected="'Day'", got="smiles, y", remedy="add a column 'Day'"):
        run.predict(path)


@pytest.mark.slow
def test_the_shell(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, out = tmp_path / "f.png", tmp_path / "f.csv"
    assert main(["predict", str(folder), "--backtest", "2", "--draw", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "10.05" not in capsys.readouterr().err
    new = tmp_path / "new.csv"
    lines = [f"shop,{value(i)},{START + timedelta(days=i):%d.%m.%Y}" for i in range(70, 100)]
    new.write_text("\n".join(["where,sold,Day", *reversed(lines)]))
    assert main(["predict", str(folder), "--input", str(new), "--out", str(out)]) == 0
    rows = out.read_text().splitlines()
    assert rows[0] == "input,rank,date,value"
    assert rows[1].startswith("new.csv,1,11.04.2021,")
    assert len(rows) == 8
    lines[3] = lines[3].replace("2021", "21")
    new.write_text("\n".join(["where,sold,Day", *lines]))
    assert main(["predict", str(folder), "--input", str(new), "--out", str(out)]) == 1
    assert "row 5 of new.csv" in capsys.readouterr().err
    new.write_text("when,sold\n1,2\n")
    assert main(["predict", str(folder), "--input", str(new)]) == 2
    assert "expected a column 'Day'" in capsys.readouterr().err
    jsonl = tmp_path / "f.jsonl"
    assert main(["predict", str(folder), "--out", str(jsonl)]) == 0
    assert len(json.loads(jsonl.read_text())["forecast"]) == 7


def test_the_picture_has_history_truth_and_forecast(run: Run) -> None:
    pytest.importorskip("matplotlib")
    figure = run.draw(run.predict(backtest=3))
    (axes,) = figure.axes
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert list(lines) == ["history", "truth", "forecast"]
    assert list(lines["truth"]) == [value(136), value(137), value(138), value(139)]
    assert len(lines["forecast"]) == 8


def test_other_runs_need_an_input() -> None:
    from edgewise.app.kinds.texts.predict import SentenceClasses

    with refused("INPUT", expected="inputs", got="neither", remedy="a sentence"):
        SentenceClasses.default_inputs(SentenceClasses)  # type: ignore[arg-type]
