"""Several labels of a text: columns with gaps, lists of labels, reasons, seeds and baselines."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightning")
pytest.importorskip("tokenizers")

import edgewise
from edgewise.app.cli import main
from edgewise.app.cli.baseline import comparison
from edgewise.app.kinds import find
from edgewise.app.kinds.texts import TextTable
from edgewise.app.runs import (
    Run,
    baselines,
    best_of,
    compare,
    lower_is_better,
    train,
    train_seeds,
    with_values,
)
from edgewise.app.train import Recipe
from tests.errors import refused

WORDS = {"sport": "ball", "politics": "vote", "music": "song"}
NAMES = tuple(WORDS)
SMALL = {
    "model.width": 16,
    "model.depth": 1,
    "model.heads": 2,
    "model.ffn_dim": 32,
    "data.kind": "words",
    "data.word_dropout": 0.0,
    "optimizer.lr": 1e-2,
    "trainer.epochs": 6,
    "trainer.accelerator": "cpu",
}


def rows(count: int = 160) -> list[tuple[str, list[str]]]:
    """Texts with a word for each of their labels, of which a text may have none."""
    own, found = random.Random(0), []
    for i in range(count):
        labels = [name for name in NAMES if own.random() < 0.4]
        words = ["the", "day", f"n{i % 7}", *(WORDS[name] for name in labels)]
        own.shuffle(words)
        found.append((" ".join(words), labels))
    return found


def write(path: Path, header: list[str], cells: list[list[str]]) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *cells])
    return str(path)


def by_column(path: Path) -> str:
    """A column for each label, with gaps in one of them."""
    cells = [
        [
            text,
            *("" if name == "music" and i % 5 == 0 else str(int(name in labels)) for name in NAMES),
        ]
        for i, (text, labels) in enumerate(rows())
    ]
    return write(path, ["comment", *NAMES], cells)


def in_lists(path: Path, separator: str = "|") -> str:
    return write(path, ["text", "labels"], [[text, separator.join(own)] for text, own in rows()])


def recipe(path: str, **fields: Any) -> Recipe:
    return with_values(find("texts"), {"data.path": path, **SMALL, **fields})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds on three columns, without their table."""
    folder = tmp_path_factory.mktemp("texts")
    path = by_column(folder / "mine.csv")
    train_seeds(recipe(path, **{"data.target": ",".join(NAMES)}), 2, folder / "seeds")
    (folder / "mine.csv").unlink()
    return folder / "seeds"


@pytest.fixture(scope="module")
def one(folder: Path) -> Run:
    return edgewise.load(folder / "seed-0")


@pytest.mark.slow
def test_several_labels_are_learned_and_measured(one: Run) -> None:
    assert one.metrics["test/roc_auc"] > 0.9
    names = {"average_precision", "brier", "calibration_error", "sport/roc_auc", "music/accuracy"}
    assert {f"test/{name}" for name in names} <= set(one.metrics)


def test_each_label_has_its_columns(one: Run) -> None:
    both, none = one.predict(["the ball was a song", "the day"])
    keys = [key for name in NAMES for key in (name, f"P({name}=1)")]
    assert list(both) == ["input", *keys]
    assert both["P(sport=1)"] > both["P(politics=1)"]
    assert both["P(sport=1)"] > none["P(sport=1)"]
    assert all(both[name] == str(int(both[f"P({name}=1)"] > 0.5)) for name in NAMES)
    (long,) = one.predict(["the day " * 90])
    assert long["read"].startswith("the first")
    with refused("option", expected="interval", got="'top'", remedy="choose"):
        one.predict(["the day"], top=2)


def test_each_label_has_its_reasons(one: Run, capsys: pytest.CaptureFixture[str]) -> None:
    found = one.explain(["the day a ball n3"], top=5)
    assert [each.answer.split()[0] for each in found] == list(NAMES)
    sport = {reason.part: reason.contribution for reason in found[0].reasons}
    sign = 1 if found[0].answer == "sport 1" else -1
    assert max(sport, key=lambda word: sign * sport[word]) == "ball"
    assert main(["predict", str(one.path), "the ball", "--why", "1"]) == 0
    assert "P(sport=1)" in capsys.readouterr().out


def test_seeds_answer_together(folder: Path, one: Run) -> None:
    together, other = edgewise.load(folder), edgewise.load(folder / "seed-1")
    given = "the ball was a song"
    key = "P(sport=1)"
    each = [run.predict(given)[0][key] for run in (one, other)]
    (answer,) = together.predict(given)
    assert answer[key] == pytest.approx(sum(each) / 2, abs=1e-6)
    assert answer[f"{key}_std"] == pytest.approx(abs(each[0] - each[1]) / 2**0.5, abs=1e-6)


@pytest.mark.parametrize("separator", ["|", "; ", ","])
def test_labels_in_one_cell_are_the_same_as_in_columns(tmp_path: Path, separator: str) -> None:
    found = TextTable(path=in_lists(tmp_path / "lists.csv", separator)).load()
    wanted = TextTable(path=by_column(tmp_path / "own.csv"), target=NAMES).load()
    assert [target.name for target in found.targets] == sorted(NAMES)
    assert found.model_arguments == wanted.model_arguments
    assert found.targets[2].counts == wanted.targets[0].counts, "sport has no gap"
    one_label = TextTable(path=str(tmp_path / "lists.csv"), separator="none", target="labels")
    with refused(
        str(tmp_path / "lists.csv"), expected="a text in each row", got="none", remedy="row"
    ):
        one_label.load()


def test_a_column_of_lists_is_read_from_parquet(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    texts, labels = zip(*rows(), strict=True)
    pandas.DataFrame({"text": texts, "labels": labels}).to_parquet(tmp_path / "a.parquet")
    found = TextTable(path=str(tmp_path / "a.parquet")).load()
    assert found.targets == TextTable(path=in_lists(tmp_path / "a.csv")).load().targets


def test_files_for_validation_and_test_have_the_labels_of_the_training_file(tmp_path: Path) -> None:
    path = in_lists(tmp_path / "a.csv")
    few = write(tmp_path / "b.csv", ["text", "labels"], [["a song", "music"], ["a day", ""]])
    splits = TextTable(path=path, test_path=few).load()
    target = splits.test.make(splits.test.lengths.argsort()).target
    assert target.tolist() == [[1, 0, 0], [0, 0, 0]]
    new = write(tmp_path / "c.csv", ["text", "labels"], [["a film", "film|music"]])
    with refused("data.target", expected="training table", got="'film' in row 2", remedy="add"):
        TextTable(path=path, test_path=new).load()


@pytest.mark.slow
def test_numbers_of_a_text_are_predicted(tmp_path: Path) -> None:
    cells = [[text, f"{len(labels) + 0.5}"] for text, labels in rows()]
    path = write(tmp_path / "a.csv", ["text", "stars"], cells)
    given = recipe(path, **{"data.target": "stars", "data.task_type": "regression"})
    metrics = train(given, tmp_path / "run")
    assert metrics["test/r2"] > 0.5
    (answer,) = edgewise.load(tmp_path / "run").predict("a ball", interval=0.8)
    assert answer["stars_low"] < answer["stars"] < answer["stars_high"]
    (found,) = baselines(given)
    assert found.name == "TF-IDF with ridge regression"
    assert found.metrics["test/r2"] > 0.9


@pytest.mark.slow
def test_the_baseline_is_a_regression_of_each_label(tmp_path: Path) -> None:
    given = recipe(by_column(tmp_path / "own.csv"), **{"data.target": ",".join(NAMES)})
    (found,) = baselines(given)
    assert found.name == "TF-IDF with logistic regression"
    assert found.metrics["test/roc_auc"] > 0.95
    assert not lower_is_better(given, "test/sport/roc_auc")
    better = replace(found, metrics={**found.metrics, "val/roc_auc": 1.1})
    assert best_of(given, [found, better]) is better


@pytest.mark.slow
def test_a_run_behind_the_baseline_says_what_to_do(tmp_path: Path) -> None:
    given = recipe(in_lists(tmp_path / "own.csv"))
    said = comparison(given, {"test/roc_auc": 0.5}, tmp_path)
    assert "test/roc_auc 0.5000 is WORSE than TF-IDF with logistic regression" in said
    assert "`edgewise train texts --data." in said
    assert f" --data.path {given.data.path} " in said
    assert "--from FOLDER`" in said
    assert json.loads((tmp_path / "baseline.json").read_text())["metric"] == "roc_auc"


@pytest.mark.slow
def test_a_metric_of_the_labels_can_be_monitored(tmp_path: Path) -> None:
    given = recipe(
        in_lists(tmp_path / "own.csv"),
        **{"trainer.epochs": 1, "trainer.monitor": "val/roc_auc", "trainer.mode": "max"},
    )
    assert train(given, tmp_path / "run")["kept_epoch"] == 1


@pytest.mark.slow
def test_several_labels_and_numbers_monitor_the_loss(tmp_path: Path) -> None:
    given = recipe(in_lists(tmp_path / "own.csv"), **{"trainer.epochs": 3})
    assert given.trainer.monitor == "val/accuracy"
    found = compare(given, "optimizer.lr", ["1e-3", "1e-2"], tmp_path / "runs")
    assert (found.recipe.trainer.monitor, found.recipe.trainer.mode) == ("val/loss", "min")
    for outcome in found.outcomes:
        losses = [row["val/loss"] for row in outcome.logs[0]]
        assert outcome.metrics[0]["kept_epoch"] == 1 + losses.index(min(losses))
