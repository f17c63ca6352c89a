"""Runs of molecules with randomised trees: the forest, the choice, the run folder, predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import edgewise
from edgewise.app import runs
from edgewise.app.kinds import find
from edgewise.app.runs.train_recipe import prepare
from edgewise.app.train import PropertyPrediction, Recipe, RunFolder
from edgewise.app.train.baseline import batches_of
from edgewise.app.train.forest import AVERAGE, CHOICES, LEAF, TREES, Forest, NetworkAndForest

pytest.importorskip("rdkit")
ensemble = pytest.importorskip("sklearn.ensemble")
FIELDS = {"model.width": 8, "model.depth": 1, "trainer.epochs": 1, "data.descriptors": False}


def recipe(folder: Path, **fields: Any) -> Recipe:
    """Return a recipe on alkanes, alcohols and amines, of which alcohols are active."""
    path = folder / "molecules.csv"
    ends = {"": ("no", "a"), "O": ("yes", "b"), "N": ("no", "")}
    rows = [
        f"{'C' * n}{end},{active},{group},{n}"
        for n in range(1, 31)
        for end, (active, group) in ends.items()
    ]
    path.write_text("\n".join(["smiles,active,group,atoms", *rows]))
    values = {**FIELDS, "data.path": str(path), "data.target": "active,group", **fields}
    return runs.with_values(find("molecules"), values)


def test_a_forest_is_that_of_scikit_learn(tmp_path):
    model, splits = prepare(recipe(tmp_path))
    assert isinstance(model, NetworkAndForest)
    forest = model.forest
    (train,), (test,) = (list(batches_of(split)) for split in (splits.train, splits.test))
    logits = forest(*test.inputs, **test.keywords)
    x, rows = (forest.counts(*b.inputs, **b.keywords).float() for b in (train, test))
    for column in range(2):
        y = train.target[:, column]
        has_value = ~y.isnan()
        reference = ensemble.ExtraTreesClassifier(TREES, min_samples_leaf=LEAF, random_state=0)
        reference.fit(x[has_value].numpy(), y[has_value].numpy())
        expected = torch.from_numpy(reference.predict_proba(rows.numpy()))
        no, yes = (expected + 1e-3).T
        torch.testing.assert_close(logits[:, column], (yes / no).log().float())


def test_a_run_predicts_with_what_validation_chooses(tmp_path):
    pytest.importorskip("lightning")
    metrics = runs.train(recipe(tmp_path, **{"data.target": "active"}), tmp_path / "run")
    assert metrics["test/roc_auc"] == 1.0, "one epoch of the network alone has less"
    note = RunFolder(tmp_path / "run").read_json("notes.json")["predictions"]
    assert note.split(" (")[0] in CHOICES
    run = edgewise.load(tmp_path / "run")
    assert isinstance(run.model, NetworkAndForest)
    answers = run.predict(["CCCCCCO", "CCCCCCN"])
    assert [answer["active"] for answer in answers] == ["yes", "no"]
    assert runs.evaluate_run(tmp_path / "run")["test/roc_auc"] == 1.0
    (why,) = run.explain(["CCCCCCO"], top=1)
    assert why.reasons[0].part.startswith("O"), "removal of an atom changes the trees' answer"


def test_a_part_must_be_clearly_better_than_the_average(tmp_path):
    model, splits = prepare(recipe(tmp_path))
    assert isinstance(model, NetworkAndForest)
    task = PropertyPrediction().with_targets(splits.targets)
    right, wrong = torch.tensor([[4.0, -4.0]]), torch.tensor([[-4.0, 4.0]])
    mixed = torch.tensor([[12.0, 4.0]]), torch.tensor([[-4.0, -12.0]])
    target = torch.tensor([[1.0, 0.0]] * 8)
    for (network, forest), name in (
        ((right, wrong), "network"),
        ((wrong, right), "randomised trees"),
        (mixed, AVERAGE),
        ((right, right), AVERAGE),
    ):
        model.fit_weights(network.expand(8, 2), forest.expand(8, 2), target, task)
        assert tuple(model.weights.tolist()) == CHOICES[name]
        assert model.chosen().startswith(name)
    # Right in five of eight examples only.
    one_better = torch.where(torch.arange(8)[:, None] < 5, right, wrong)
    model.fit_weights(one_better, 0 * one_better, target, task)
    assert tuple(model.weights.tolist()) == CHOICES[AVERAGE]


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"data.forest": False},
        {"data.target": "active,atoms"},
        {"data.target": "atoms"},
        {"task.class_weight": "balanced"},
    ],
)
def test_the_network_alone(tmp_path, fields):
    model, splits = prepare(recipe(tmp_path, **fields))
    assert not any(isinstance(module, Forest) for module in model.modules())
    is_fitted = any(name.startswith("forest.") for name in splits.preprocessing)
    assert is_fitted == ("task.class_weight" in fields)
