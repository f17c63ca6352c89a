"""Runs of texts with naive Bayes: training, run folder, predictions, and fine-tuning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import edgewise
from edgewise.app import runs
from edgewise.app.kinds import find
from edgewise.app.runs.train_recipe import prepare
from edgewise.app.train import Recipe, RunFolder
from edgewise.app.train.text.naive_bayes import CombinedClassifier

pytest.importorskip("tokenizers")
FIELDS = {"model.width": 16, "model.depth": 1, "model.ffn_dim": 16, "trainer.epochs": 1}


def recipe(folder: Path, **fields: Any) -> Recipe:
    path = folder / "films.tsv"
    rows = [f"film {i} was {'fine' if i % 3 else 'dull'}\t{min(i % 3, 1)}\t{i}" for i in range(90)]
    path.write_text("\n".join(["text\tlabel\tstars", *rows]))
    values = {**FIELDS, "data.path": str(path), "data.target": "label", **fields}
    return runs.with_values(find("texts"), values)


def test_a_run_combines_the_network_with_naive_bayes(tmp_path):
    pytest.importorskip("lightning")
    mine = recipe(tmp_path)
    metrics = runs.train(mine, tmp_path / "run")
    assert metrics["test/accuracy"] == 1.0, "one epoch of the network alone has less"
    scales = RunFolder(tmp_path / "run").read_tensors("model.safetensors")
    assert scales["naive_bayes.scales"][1] > 0
    run = edgewise.load(tmp_path / "run")
    answers = run.predict(["it was dull", "it was fine"])
    assert [answer["label"] for answer in answers] == ["0", "1"]
    run.model.naive_bayes.scales[0] = 0
    (why,) = run.explain(["film 7 was dull"], top=1)
    assert why.reasons[0].part == "dull"
    assert why.reasons[0].contribution > 1, "removal of a word changes naive Bayes"


def test_the_network_alone(tmp_path):
    assert isinstance(prepare(recipe(tmp_path))[0], CombinedClassifier)
    without = {"data.naive_bayes": False}
    numbers = {"data.target": "stars", "data.task_type": "regression"}
    several = {"data.target": "label,stars"}
    for fields in (without, numbers, several):
        _, splits = prepare(recipe(tmp_path, **fields))
        assert not [name for name in splits.preprocessing if "naive_bayes" in name]


def test_a_fine_tuned_model_does_not_use_naive_bayes(tmp_path):
    pytest.importorskip("lightning")
    runs.train(recipe(tmp_path), tmp_path / "first")
    fields = {"from": str(tmp_path / "first"), "data.tokenizer": str(tmp_path / "first")}
    assert not isinstance(prepare(recipe(tmp_path, **fields))[0], CombinedClassifier)
    runs.train(recipe(tmp_path, **fields), tmp_path / "second")
    assert len(edgewise.load(tmp_path / "second").predict(["it was dull"])) == 1
