"""Cross-validation of a recipe: one run a fold, and their mean."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

pytest.importorskip("lightning", reason="Lightning is not installed")
pytest.importorskip("rdkit", reason="RDKit is not installed (the extra chem)")

from edgewise import load, models
from edgewise._utils.errors import RunExistsError
from edgewise.app import runs
from edgewise.app.kinds import find
from edgewise.app.runs.seeds import summarise
from edgewise.app.runs.train_recipe import prepare
from edgewise.app.train import Recipe, RunFolder
from tests.errors import refused

SMILES = ["C", "CC", "CCO", "c1ccccc1", "Cc1ccccc1", "O", "CO", "CN", "N", "CCC", "CCCC", "C.C"]
FOLDS = 2


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    path = tmp_path / "table.csv"
    rows = [f"{smiles},{i / 2}" for i, smiles in enumerate(SMILES)]
    path.write_text("\n".join(["smiles,y", *rows]))
    values = {"data.path": str(path), "data.target": "y", "data.folds": FOLDS, "data.val": 0.5}
    values |= {"trainer.epochs": 2, "model.width": 8, "model.heads": 2, "model.depth": 1}
    return runs.with_values(find("attentive-esol"), values)


@pytest.mark.slow
def test_each_fold_is_trained_once_and_summarised(recipe: Recipe, tmp_path: Path) -> None:
    out = tmp_path / "run"
    summary = runs.train_folds(recipe, out)
    own = [json.loads((out / f"fold-{k}" / "metrics.json").read_text()) for k in range(FOLDS)]
    assert summary["test/rmse"]["values"] == [metrics["test/rmse"] for metrics in own]
    tested = [json.loads((out / f"fold-{k}" / "recipe.json").read_text()) for k in range(FOLDS)]
    assert [record["data"]["fold"] for record in tested] == list(range(FOLDS))
    assert json.loads((out / "metrics.json").read_text()) == summary
    again = runs.evaluate_run(out)
    assert again["test/rmse"]["values"] == pytest.approx(summary["test/rmse"]["values"], abs=1e-5)
    with pytest.raises(RunExistsError, match="never overwritten"):
        runs.train_folds(recipe, out)
    assert runs.train_folds(recipe, out, resume=True) == summary
    with refused("--resume", expected="--folds", got="--seeds N", remedy="--out"):
        runs.train_seeds(recipe, 2, out, resume=True)
    with refused("--resume", expected="--folds", got="neither", remedy="--out"):
        runs.train(recipe, out, resume=True)


def test_outputs_are_in_the_unit_of_the_targets(recipe: Recipe) -> None:
    model, splits = prepare(recipe)
    batch = next(iter(splits.loaders(recipe.seed)["train"]))
    assert float(model.mean) == pytest.approx(float(batch.target.mean()), abs=1e-5)
    assert float(model.std) == pytest.approx(float(batch.target.std(correction=0)), abs=1e-5)


@pytest.mark.slow
def test_a_graph_network_trains_where_a_molecule_transformer_does(tmp_path: Path) -> None:
    """On bonds and conditions, with molecules that were measured several times."""
    path = tmp_path / "table.csv"
    rows = [f"{smiles},{i / 2},{300 + i}" for i, smiles in enumerate(SMILES[:6] * 3)]
    path.write_text("\n".join(["smiles,y,T", *rows]))
    values = {"data.path": str(path), "data.target": "y", "data.conditions": "T", "data.val": 0.5}
    recipe = runs.with_values(
        find("attentive-esol"), {**values, "data.folds": 3, "trainer.epochs": 1}
    )
    recipe = replace(recipe, model=partial(models.graph_network, width=8))
    assert runs.train(recipe, tmp_path / "run")["test/rmse"] >= 0
    assert runs.load_recipe(RunFolder(tmp_path / "run")).model.func is models.graph_network


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gps", "graphormer"])
def test_a_graph_transformer_trains_where_nothing_but_bonds_is_known(
    model: str, tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["smiles,y", *(f"{s},{i / 2}" for i, s in enumerate(SMILES))]))
    values = {"data.path": str(path), "data.target": "y", "data.val": 0.5, "data.folds": 3}
    recipe = runs.with_values(find("attentive-esol"), {**values, "trainer.epochs": 1})
    build = partial(models.MODELS[model], width=8, depth=1, heads=2)
    assert runs.train(replace(recipe, model=build), tmp_path / "run")["test/rmse"] >= 0
    (answer,) = load(tmp_path / "run").predict(["CCO"])
    assert isinstance(answer["y"], float)


def test_a_model_that_wants_more_than_the_data_say_is_refused(recipe: Recipe) -> None:
    def needs_more(
        in_width: int,  # noqa: ARG001 - it is asked for what it takes, and not called
        out_width: int,  # noqa: ARG001
        edge_width: int,  # noqa: ARG001
        global_width: int,  # noqa: ARG001
        season: int,  # noqa: ARG001
    ) -> nn.Module:
        raise AssertionError

    with refused(
        "model", expected="data that determine season", got="in_width", remedy="another model"
    ):
        prepare(replace(recipe, model=partial(needs_more)))


def test_data_with_one_split_have_no_folds(tmp_path: Path) -> None:
    with refused("--folds", expected="data.folds", got="digits", remedy="--seeds"):
        runs.train_folds(find("digits"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_each_fold_of_several_seeds_is_evaluated_on_their_mean_prediction(
    recipe: Recipe, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    summary = runs.train_folds(recipe, out, seeds=2)
    assert len(summary["test/rmse"]["values"]) == FOLDS
    for fold, rmse in enumerate(summary["test/rmse"]["values"]):
        run = load(out / f"fold-{fold}")
        (batch,) = run.splits.loaders(0)["test"]
        with torch.no_grad():
            outputs = run.model(*batch.inputs, **batch.keywords)
        wanted = (outputs - batch.target).square().mean().sqrt()
        assert rmse == pytest.approx(float(wanted), abs=1e-5)
        assert run.metrics["test/rmse"] == rmse
    seconds = json.loads((out / "fold-0" / "metrics.json").read_text())["cpu_seconds"]["values"]
    assert summary["cpu_seconds"]["values"][0] == pytest.approx(sum(seconds))
    assert runs.evaluate_run(out)["test/rmse"]["values"] == pytest.approx(
        summary["test/rmse"]["values"], abs=1e-5
    )
    assert runs.train_folds(recipe, out, seeds=2, resume=True) == summary
    with refused("--resume", expected="--seeds N", got="neither", remedy="--out"):
        runs.train_folds(recipe, out, resume=True)


def test_columns_are_named_with_commas_between_them(recipe: Recipe) -> None:
    changed = runs.with_values(recipe, {"data.conditions": "T,P", "data.log_conditions": "P"})
    assert changed.data.conditions == ("T", "P")
    assert changed.data.log_conditions == ("P",)
    assert runs.from_record(runs.to_record(changed)).data == changed.data
    assert runs.with_values(changed, {"data.conditions": ""}).data.conditions == ()


def test_a_seed_without_a_number_leaves_none_for_all() -> None:
    """``statistics`` ends with an AttributeError there."""
    summary = summarise([{"a": 1.0, "b": math.nan}, {"a": 3.0, "b": 2.0}])
    assert summary["a"]["mean"] == 2
    assert math.isnan(summary["b"]["mean"])
    assert math.isnan(summary["b"]["std"])
