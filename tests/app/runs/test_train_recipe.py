"""Runs into folders: what is refused before anything is written, several seeds, comparisons."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from importlib import import_module

import pytest
import torch

from edgewise._utils.errors import EdgewiseError, Interrupted, MissingDataError, RunExistsError
from edgewise.app.kinds import find
from edgewise.app.kinds.images import Digits
from edgewise.app.runs import compare, evaluate_run, train, train_seeds, with_values
from edgewise.app.train import Classification
from tests.errors import refused

pytest.importorskip("lightning")
pytest.importorskip("sklearn")

TINY = with_values(
    find("digits"),
    {
        "model.width": 8,
        "model.depth": 1,
        "model.heads": 1,
        "model.ffn_dim": 8,
        "data.batch_size": 500,
        "trainer.epochs": 2,
        "trainer.accelerator": "cpu",
    },
)


def same_but_time(one: dict, other: dict) -> bool:
    times = {"seconds": 0, "cpu_seconds": 0}
    return {**one, **times} == {**other, **times}


def test_same_seed_same_numbers(tmp_path):
    first = train(TINY, tmp_path / "a")
    torch.rand(5)
    assert same_but_time(train(TINY, tmp_path / "b"), first)
    other = train(with_values(TINY, {"seed": 1}), tmp_path / "c")
    assert other["test/loss"] != first["test/loss"]


@pytest.mark.slow
def test_a_folder_alone_can_be_tested(tmp_path):
    metrics = train(with_values(TINY, {"data.batch_size": 50}), tmp_path / "run")
    for name in ("metrics.json", "log.csv", "curves.png"):
        (tmp_path / "run" / name).unlink()
    tested = evaluate_run(tmp_path / "run")
    assert tested == {name: metrics[name] for name in tested}
    assert {"test/accuracy", "test/loss"} <= tested.keys()
    (tmp_path / "run" / "model.safetensors").unlink()
    with pytest.raises(
        MissingDataError,
        match=r"finish the run: .* train digits \.\.\.`\), with --out .*run --resume",
    ):
        evaluate_run(tmp_path / "run")


def test_weights_of_another_model(tmp_path):
    train(TINY, tmp_path / "run")
    path = tmp_path / "run" / "recipe.json"
    path.write_text(path.read_text().replace('"width": 8', '"width": 16'))
    with pytest.raises(EdgewiseError, match="weights of the model"):
        evaluate_run(tmp_path / "run")


@pytest.mark.parametrize(
    "bad",
    [
        {"model.heads": 3},
        {"model.patch": 3},
        {"model.graph": "grid(3, 3)"},
        {"optimizer.decay_only": "nothing-like-it"},
        {"trainer.monitor": "val/acuracy"},
        {"trainer.devices": 100},
        {"model.dropout": 1.5},
        {"model.width": 0},
        {"model.patch": 0},
        {"model.depth": -1},
    ],
)
def test_bad_input_leaves_nothing(bad, tmp_path):
    recipe = with_values(TINY, bad)
    with pytest.raises(EdgewiseError, match="Remedy"):
        train(recipe, tmp_path / "run")
    with pytest.raises(EdgewiseError, match="Remedy"):
        train_seeds(recipe, 2, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


class OwnDigits(Digits):
    """Data of a class that no record can name."""


class OwnClassification(Classification):
    """A task of such a class."""


OWN_PARTS = {"data": OwnDigits(batch_size=500), "task": OwnClassification()}


@pytest.mark.parametrize("part", OWN_PARTS)
def test_a_class_that_no_record_can_name_leaves_nothing(part, tmp_path):
    recipe = replace(TINY, **{part: OWN_PARTS[part]})
    for start in (
        lambda: train(recipe, tmp_path / "run"),
        lambda: train_seeds(recipe, 2, tmp_path / "run"),
    ):
        with refused(part, expected="one of", got="Own", remedy="own_recipes.md"):
            start()
    assert list(tmp_path.iterdir()) == []


def test_folder_that_exists(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").touch()
    for start in (
        lambda: train(TINY, tmp_path / "run"),
        lambda: train_seeds(TINY, 2, tmp_path / "run"),
        lambda: compare(TINY, "seed", ["1", "2"], tmp_path / "run"),
    ):
        with pytest.raises(RunExistsError, match="--resume"):
            start()
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["precious"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "start",
    [
        train,
        lambda recipe, path: train_seeds(recipe, 1, path),
        lambda recipe, path: compare(recipe, "trainer.epochs", ["1", "2"], path),
    ],
    ids=["train", "seeds", "compare"],
)
def test_of_two_that_begin_at_once_one_has_the_folder(start, tmp_path, monkeypatch):
    """Each has seen that there is nothing; the other one is faster."""
    module = import_module("edgewise.app.runs.train_recipe")
    original, slow = module._prepare, with_values(TINY, {"seed": 7})

    def prepared(recipe, folder):
        found = original(recipe, folder)
        if recipe.seed == 7 and not (tmp_path / "run").exists():
            start(TINY, tmp_path / "run")
        return found

    monkeypatch.setattr(module, "_prepare", prepared)
    with pytest.raises(RunExistsError, match="--resume"):
        start(slow, tmp_path / "run")
    records = [json.loads(path.read_text()) for path in tmp_path.rglob("recipe.json")]
    assert records
    assert {record["seed"] for record in records} == {0}
    alone = tmp_path / "alone"
    start(TINY, alone)
    for path in alone.rglob("model.safetensors"):
        assert (tmp_path / "run" / path.relative_to(alone)).read_bytes() == path.read_bytes()


def test_what_fails_before_the_first_checkpoint_leaves_nothing(tmp_path, monkeypatch):
    from edgewise.app.train import TrainingModule

    def training_step(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(TrainingModule, "training_step", training_step)
    for start in (
        lambda: train(TINY, tmp_path / "deep" / "run"),
        lambda: train_seeds(TINY, 2, tmp_path / "run"),
        lambda: compare(TINY, "seed", ["1", "2"], tmp_path / "run"),
    ):
        with pytest.raises(ZeroDivisionError):
            start()
        assert list(tmp_path.iterdir()) == []


def test_nothing_to_resume(tmp_path):
    with pytest.raises(MissingDataError, match=r"recipe\.json"):
        train(TINY, tmp_path / "run", resume=True)
    with pytest.raises(MissingDataError, match=r"recipe\.json"):
        evaluate_run(tmp_path / "run")


def test_resuming_as_another_recipe(tmp_path):
    train(TINY, tmp_path / "run")
    other = with_values(TINY, {"model.heads": 2})
    got = "model.heads: 1 in the run, 2 now"
    with refused("--resume", expected="was started", got=got, remedy="--out"):
        train(other, tmp_path / "run", resume=True)


@pytest.mark.slow
def test_seeds_are_summarised_and_finished_ones_skipped(tmp_path, monkeypatch):
    from edgewise.app.train import TrainingModule

    original = TrainingModule.training_step

    def breaks_in_the_second_run(self, batch, batch_idx):
        if (tmp_path / "runs" / "seed-1").exists():
            raise KeyboardInterrupt
        return original(self, batch, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingModule, "training_step", breaks_in_the_second_run)
        with pytest.raises(Interrupted):
            train_seeds(TINY, 2, tmp_path / "runs")
    done = (tmp_path / "runs" / "seed-0" / "metrics.json").stat().st_mtime_ns
    summary = train_seeds(TINY, 2, tmp_path / "runs", resume=True)
    assert (tmp_path / "runs" / "seed-0" / "metrics.json").stat().st_mtime_ns == done
    assert json.loads((tmp_path / "runs" / "metrics.json").read_text()) == summary
    assert same_but_time(
        train(with_values(TINY, {"seed": 1}), tmp_path / "alone"),
        {name: value["values"][1] for name, value in summary.items()},
    )
    accuracy = summary["test/accuracy"]
    assert accuracy["mean"] == statistics.fmean(accuracy["values"])
    assert accuracy["std"] == statistics.stdev(accuracy["values"])
    assert evaluate_run(tmp_path / "runs")["test/accuracy"] == accuracy


@pytest.mark.slow
def test_one_run_is_not_several(tmp_path):
    train(TINY, tmp_path / "one")
    with refused("--resume", expected="neither", got="--seeds N", remedy="--out"):
        train_seeds(TINY, 2, tmp_path / "one", resume=True)
    train_seeds(TINY, 1, tmp_path / "several")
    with refused("--resume", expected="--seeds", got="neither", remedy="--out"):
        train(TINY, tmp_path / "several", resume=True)


@pytest.mark.slow
def test_comparison_differs_in_one_field_only(tmp_path):
    found = compare(TINY, "model.graph", ["empty()", "complete()"], tmp_path / "runs")
    assert [outcome.edges_per_token for outcome in found.outcomes] == [0, 16]
    assert [outcome.label for outcome in found.outcomes] == ["empty()", "complete()"]
    assert [len(log) for outcome in found.outcomes for log in outcome.logs] == [2, 2]
    records = [json.loads(path.read_text()) for path in tmp_path.glob("runs/*/recipe.json")]
    assert {record["model"].pop("graph") for record in records} == {"empty()", "complete()"}
    assert records[0] == records[1]
    again = compare(TINY, "model.graph", ["empty()", "complete()"], tmp_path / "runs", resume=True)
    assert [o.metrics for o in again.outcomes] == [o.metrics for o in found.outcomes]


@pytest.mark.parametrize(
    ("field", "values", "argument"),
    [
        ("model.graf", ["empty()"], "field"),
        ("model.graph", ["empty()", "grid(3, 3)"], "graph"),
        ("model.heads", ["1", "three"], "model.heads"),
        ("model.heads", ["1", "1"], "VALUE"),
    ],
)
def test_bad_comparisons_leave_nothing(field, values, argument, tmp_path):
    with refused(argument, expected="", got="", remedy=""):
        compare(TINY, field, values, tmp_path / "runs")
    assert list(tmp_path.iterdir()) == []
