"""Paired tests on the metrics of each test example, of one run, several seeds and folds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

pytest.importorskip("lightning", reason="Lightning is not installed")
pytest.importorskip("scipy", reason="SciPy is not installed")

from edgewise._utils.errors import MissingDataError
from edgewise.app import runs
from edgewise.app.kinds import find
from edgewise.app.train import RunFolder
from tests.errors import refused

TINY = {"model.width": 8, "model.depth": 1, "model.heads": 1, "trainer.epochs": 1}


def test_the_p_value_is_that_of_scipy() -> None:
    from scipy.stats import ttest_rel

    torch.manual_seed(0)
    ours, theirs = torch.randn(2, 30)
    found = runs.paired_test(ours, theirs)
    assert found.examples == 30
    assert found.p == pytest.approx(float(ttest_rel(ours.double(), theirs.double()).pvalue))
    assert found.difference / found.standard_error == pytest.approx(
        float(ttest_rel(ours.double(), theirs.double()).statistic)
    )


@pytest.mark.parametrize(("shift", "p"), [(0.0, 1.0), (0.5, 0.0)])
def test_equal_differences_have_no_spread(shift: float, p: float) -> None:
    ours = torch.tensor([1.0, 0.0, 1.0])
    assert runs.paired_test(ours + shift, ours) == (3, shift, 0.0, p)


@pytest.mark.parametrize("second", [torch.ones(3), torch.ones(1)])
def test_too_few_or_other_examples_are_refused(second: Tensor) -> None:
    got = f"1 and {len(second)} values"
    with refused("first, second", expected="same examples", got=got, remedy="the same test set"):
        runs.paired_test(torch.ones(1), second)


def test_runs_are_only_compared_on_the_same_examples() -> None:
    first = {"target": torch.tensor([1, 2, 1]), "accuracy": torch.tensor([1.0, 0.0, 1.0])}
    second = {"target": first["target"].double(), "accuracy": torch.ones(3)}
    assert runs.paired_tests(first, second) == {
        "accuracy": runs.paired_test(first["accuracy"], second["accuracy"])
    }
    second["target"] = torch.tensor([2, 1, 1])  # the same examples in another order
    with refused("first, second", expected="order", got="targets differ", remedy="tokenizer"):
        runs.paired_tests(first, second)


@pytest.mark.slow
def test_metrics_are_averaged_over_seeds(tmp_path: Path) -> None:
    recipe = runs.with_values(find("digits"), TINY)
    metrics = runs.train_seeds(recipe, 2, tmp_path)
    found = runs.per_example_metrics(tmp_path)["accuracy"]
    each = [runs.per_example_metrics(tmp_path / f"seed-{seed}")["accuracy"] for seed in (0, 1)]
    assert torch.equal(found, sum(each) / 2)
    assert not torch.equal(*each)
    assert float(found.mean()) == pytest.approx(metrics["test/accuracy"]["mean"], abs=1e-5)
    (tmp_path / "seed-1" / "test_examples.safetensors").unlink()
    with pytest.raises(MissingDataError, match=r"test_examples.safetensors.*edgewise\s+test"):
        runs.per_example_metrics(tmp_path)
    runs.evaluate_run(tmp_path)
    assert torch.equal(runs.per_example_metrics(tmp_path)["accuracy"], found)
    shutil.copytree(tmp_path / "seed-1", tmp_path / "seed-2")
    targets = torch.rand(1000)
    for seed in range(3):
        RunFolder(tmp_path / f"seed-{seed}").write_tensors(
            "test_examples.safetensors", {"target": targets}
        )
    assert torch.equal(runs.per_example_metrics(tmp_path)["target"], targets.double())


@pytest.mark.slow
def test_metrics_of_folds_are_those_of_the_mean_prediction(tmp_path: Path) -> None:
    pytest.importorskip("rdkit", reason="RDKit is not installed (the extra chem)")
    rows = [f"{'C' * count}O,{count}" for count in range(1, 13)]
    (tmp_path / "mine.csv").write_text("\n".join(["smiles,y", *rows]))
    values = {
        "data.path": str(tmp_path / "mine.csv"),
        "data.target": "y",
        "data.folds": 2,
        "data.val": 0.5,
        "data.descriptors": False,
    }
    recipe = runs.with_values(find("molecules"), {**TINY, **values})
    runs.train_folds(recipe, tmp_path / "run", seeds=2)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    found, values = runs.per_example_metrics(tmp_path / "run"), metrics["test/mae"]["values"]
    assert found["mae"].view(2, 6).mean(1).tolist() == pytest.approx(values, abs=1e-5)
    seeds = [
        runs.per_example_metrics(one)["rmse"] for one in RunFolder(tmp_path / "run/fold-0").runs()
    ]
    assert float(found["rmse"][:6].mean()) < float(torch.cat(seeds).mean()), "square is convex"
