"""Several properties of molecules: classes, gaps, ensembles, intervals, reasons, baselines."""

from __future__ import annotations

import csv
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("rdkit", reason="RDKit is not installed (the extra chem)")
pytest.importorskip("lightning")

import edgewise
from edgewise import explain
from edgewise._utils.digits import rounded
from edgewise._utils.errors import MissingDataError
from edgewise.app.cli import main
from edgewise.app.explain import save_pruned
from edgewise.app.files.targets import mean_prediction, split_outputs
from edgewise.app.kinds import find
from edgewise.app.kinds.molecules import MoleculeTable
from edgewise.app.runs import Run, baselines, train, train_seeds, with_values
from edgewise.app.train.held_out import read_held_out
from tests.errors import refused

SIZES = {
    "model.width": 8,
    "model.depth": 1,
    "model.heads": 2,
    "data.val": 0.25,
    "data.descriptors": False,
    "trainer.accelerator": "cpu",
}
GROUPS = ("N(=O)=O", "O", "N", "Cl", "C(=O)O", "C#N")


def rows() -> list[dict[str, str]]:
    """Derivatives of benzene and of hexane: aromatic or not, with gaps in each column."""
    found = []
    for length in range(8):
        for ring in ("c1ccccc1", "C1CCCCC1"):
            for group in GROUPS:
                place = len(found)
                aromatic = "1" if ring.islower() else "0"
                found.append(
                    {
                        "smiles": f"{'C' * length}{ring}{group}",
                        "length": "" if place % 7 == 1 else str(length + 0.5),
                        "aromatic": "" if place % 5 == 0 else aromatic,
                        "group": "" if place % 4 == 0 else ("acid", "base", "other")[place % 3],
                    }
                )
    return found


def write(path: Path, *columns: str, keep: bool = True) -> Path:
    names = ["smiles", *columns]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        full = [row for row in rows() if keep or all(row[name] for name in columns)]
        writer.writerows(full)
    return path


def recipe(path: Path, target: str, **fields: Any) -> Any:
    values = {"data.path": str(path), "data.target": target, "trainer.epochs": 2}
    return with_values(find("molecules"), {**SIZES, **values, **fields})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folders: two seeds on three targets with gaps."""
    folder = tmp_path_factory.mktemp("runs")
    path = write(folder / "mine.csv", "length", "aromatic", "group")
    train_seeds(recipe(path, "length,aromatic,group"), 2, folder / "seeds")
    return folder


@pytest.fixture(scope="module")
def one(folder: Path) -> Run:
    return edgewise.load(folder / "seeds" / "seed-0")


@pytest.fixture(scope="module")
def both(folder: Path) -> Run:
    return edgewise.load(folder / "seeds")


@pytest.mark.slow
def test_targets_with_gaps_are_trained_together(one: Run) -> None:
    names = {"rmse", "roc_auc", "length/rmse", "aromatic/roc_auc", "group/brier", "loss"}
    assert {f"test/{name}" for name in names} <= set(one.metrics)
    assert (one.path / "curves.png").is_file()
    header = (one.path / "log.csv").read_text().splitlines()[0]
    assert "val/group/calibration_error" in header


@pytest.mark.slow
def test_two_classes_are_learned(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.csv", "aromatic", keep=False)
    fields = {"trainer.epochs": 15, "optimizer.lr": 0.01, "task.class_weight": "balanced"}
    metrics = train(recipe(path, "", **fields), tmp_path / "run")
    assert metrics["test/roc_auc"] > 0.95
    assert metrics["test/brier"] < 0.2
    assert set(metrics) >= {"test/average_precision", "test/calibration_error", "val/loss"}
    (answer,) = edgewise.load(tmp_path / "run").predict("Cc1ccccc1")
    assert set(answer) == {"input", "aromatic", "P(aromatic=1)"}
    assert answer["aromatic"] == "1"
    assert 0.5 < answer["P(aromatic=1)"] <= 1


def test_each_target_has_its_columns(one: Run) -> None:
    (answer,) = one.predict("CCc1ccccc1O")
    chances = [answer[f"P(group={kind})"] for kind in ("acid", "base", "other")]
    assert list(answer)[:4] == ["input", "length", "aromatic", "P(aromatic=1)"]
    assert sum(chances) == pytest.approx(1, abs=1e-6)
    assert answer["group"] == ("acid", "base", "other")[chances.index(max(chances))]
    assert isinstance(answer["length"], float)


def test_answers_are_the_outputs_on_the_test_set(one: Run) -> None:
    held_out = read_held_out([one.path], "test", one.predictor.targets)
    lines = one.predictor.preprocessing.values["test_lines"].tolist()
    given = [rows()[line - 2]["smiles"] for line in lines]
    answers = one.predict(given)
    numbers, binary, _ = split_outputs(one.predictor.targets, held_out.outputs)
    for name, wanted in (("length", numbers), ("P(aromatic=1)", binary.sigmoid())):
        found = torch.tensor([answer[name] for answer in answers]).double()
        torch.testing.assert_close(found, wanted[:, 0].double(), atol=1e-5, rtol=1e-4)


def test_seeds_are_an_ensemble(folder: Path, both: Run) -> None:
    members = [edgewise.load(folder / "seeds" / f"seed-{seed}") for seed in (0, 1)]
    each = [member.predict("CCc1ccccc1O")[0] for member in members]
    (answer,) = both.predict("CCc1ccccc1O")
    for name in ("length", "P(aromatic=1)", "P(group=base)"):
        values = torch.tensor([one[name] for one in each])
        assert answer[name] == pytest.approx(float(values.mean()), rel=1e-4)
        assert answer[f"{name}_std"] == pytest.approx(float(values.std()), rel=1e-3, abs=1e-6)
    assert "<table>" in both._repr_html_()


@pytest.mark.slow
def test_metrics_of_an_ensemble_are_those_of_its_mean_prediction(
    folder: Path, both: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = [*both.splits.loaders(0)["test"]]
    target = torch.cat([batch.target for batch in batches])[:, 0]
    with torch.no_grad():
        outputs = torch.cat([both.model(*one.inputs, **one.keywords)[:, 0] for one in batches])
    known = ~target.isnan()
    mae = float((outputs - target)[known].abs().mean())
    recorded = json.loads((folder / "seeds" / "metrics.json").read_text())["test/length/mae"]
    assert recorded["ensemble"] == pytest.approx(mae, abs=2e-6)
    assert recorded["ensemble"] != pytest.approx(recorded["mean"], abs=1e-4)
    assert both.metrics["test/length/mae"] == recorded["ensemble"]
    assert main(["test", str(folder / "seeds")]) == 0
    assert f"ensemble {rounded(mae)}" in capsys.readouterr().out


def test_folds_are_no_ensemble(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for seed in (0, 1):
        shutil.copytree(folder / "seeds" / f"seed-{seed}", tmp_path / "run" / f"fold-{seed}")
    shutil.copy(folder / "seeds" / "recipe.json", tmp_path / "run")
    with refused(str(tmp_path / "run"), expected="one run", got="fold-0", remedy="fold-0"):
        edgewise.load(tmp_path / "run")


@pytest.mark.parametrize("seeds", [1, 2])
def test_an_interval_has_the_coverage_that_it_reports(
    one: Run, both: Run, seeds: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = one if seeds == 1 else both
    found = run.predictor.intervals(0.8)["length"]
    folders = [run.path] if seeds == 1 else sorted(run.path.glob("seed-*"))
    val, test = (read_held_out(folders, split, run.predictor.targets) for split in ("val", "test"))
    errors, tested = ((part.outputs[:, 0] - part.target[:, 0]).abs() for part in (val, test))
    errors, tested = errors[~errors.isnan()], tested[~tested.isnan()]
    assert found.rows == len(errors)
    assert int((errors <= found.half_width + 1e-6).sum()) == math.ceil((len(errors) + 1) * 0.8)
    assert found.covered == int((tested <= found.half_width).sum())
    (answer,) = run.predict("CCO", interval=0.8)
    assert answer["length_high"] - answer["length"] == pytest.approx(found.half_width)
    assert answer["length"] - answer["length_low"] == pytest.approx(found.half_width)
    assert main(["predict", str(run.path), "CCO", "--interval", "0.8"]) == 0
    written = capsys.readouterr()
    assert "length_low" in written.out
    assert f"contains {found.covered} of {found.tested} test rows" in written.err


@pytest.mark.slow
def test_an_interval_that_cannot_be_computed_is_refused(one: Run, tmp_path: Path) -> None:
    with refused("interval", expected="between 0 and 1", got="1.5", remedy="0.9"):
        one.predict("C", interval=1.5)
    with refused("interval", expected="at most 0.9", got="0.999", remedy="data.val"):
        one.predict("C", interval=0.999)
    path = write(tmp_path / "mine.csv", "aromatic")
    path.write_text("\n".join(t for t in path.read_text().splitlines() if t[-1] != ",") + "\n")
    train(recipe(path, "aromatic", **{"trainer.epochs": 1}), tmp_path / "run")
    with refused("interval", expected="numbers", got="classes", remedy="omit"):
        edgewise.load(tmp_path / "run").predict("C", interval=0.9)


def test_a_run_of_an_earlier_version_has_no_interval(one: Run, tmp_path: Path) -> None:
    folder = shutil.copytree(one.path, tmp_path / "run")
    (folder / "held_out.safetensors").unlink()
    with pytest.raises(MissingDataError, match="Intervals need this file"):
        edgewise.load(folder).predict("C", interval=0.9)


def test_intervals_of_a_pruned_run_are_its_own(folder: Path, tmp_path: Path) -> None:
    run = edgewise.load(folder / "seeds" / "seed-0")
    layer, heads = next(iter(explain.layers_with_heads(run).items()))
    explain.prune(run, {layer: heads[1:]})
    pruned = edgewise.load(save_pruned(run, tmp_path / "pruned"))
    targets = run.predictor.targets
    for name, split in (("val", run.splits.val), ("test", run.splits.test)):
        found = read_held_out([pruned.path], name, targets).outputs
        batches = list(split.loader(run.splits.batch_size, None))
        with torch.no_grad():
            outputs = torch.cat([run.model(*batch.inputs, **batch.keywords) for batch in batches])
        expected = mean_prediction(targets, outputs[None])
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("change", ["moved", "longer", "other columns"])
def test_without_its_data_a_pruned_run_has_no_intervals(
    change: str, folder: Path, tmp_path: Path
) -> None:
    run = edgewise.load(folder / "seeds" / "seed-0")
    layer, heads = next(iter(explain.layers_with_heads(run).items()))
    explain.prune(run, {layer: heads[1:]})
    table = folder / "mine.csv"
    text = table.read_text()
    try:
        if change == "moved":
            table.unlink()
        elif change == "longer":
            table.write_text(text + "\n".join(text.splitlines()[1:]) + "\n")
        else:
            table.write_text(text.replace("length", "size", 1))
        alone = save_pruned(run, tmp_path / "alone")
    finally:
        table.write_text(text)
    assert edgewise.load(alone).predict(["CCO"]) == run.predict(["CCO"])
    with pytest.raises(MissingDataError, match="prune where"):
        edgewise.load(alone).predict("C", interval=0.5)


@pytest.mark.slow
def test_reasons_name_the_target(both: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(both.path), "CCc1ccccc1O", "--why", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:16] for line in lines[5:]] == ["why: decrease of"] * 2  # log-odds, and value
    (answer,) = both.predict("CCc1ccccc1O")
    for line, name in zip(lines[2:5], ("length", "aromatic", "group"), strict=True):
        shown = answer[name] if isinstance(answer[name], str) else f"{answer[name]:.4g}"
        assert f"{name} {shown}" in line


def test_all_forms_of_a_table_agree(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(rows()).replace("", None)
    frame["length"] = frame["length"].astype(float)
    frame["aromatic"] = frame["aromatic"].astype(float)
    frame.to_parquet(tmp_path / "mine.parquet")
    sources = [write(tmp_path / "mine.csv", "length", "aromatic", "group")]
    sources += [tmp_path / "mine.parquet", frame]
    loaded = [
        MoleculeTable(path=one, target="length,aromatic,group", split="molecule").load()
        for one in sources
    ]
    for other in loaded[1:]:
        assert other.targets == loaded[0].targets
        batches = [one.test.make(torch.arange(one.test.count)) for one in (loaded[0], other)]
        torch.testing.assert_close(batches[0].target, batches[1].target, equal_nan=True)


@pytest.mark.slow
def test_baselines_have_the_metrics_of_each_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sklearn")
    path = write(tmp_path / "mine.csv", "length", "aromatic", "group")
    found = {one.name: one.metrics for one in baselines(recipe(path, "length,aromatic,group"))}
    assert set(found) == {
        "ridge regression and logistic regression",
        "gradient-boosted trees",
        "randomised trees",
    }
    linear = found["ridge regression and logistic regression"]
    assert linear["test/aromatic/roc_auc"] > 0.95
    assert linear["test/length/rmse"] < 1
    fields = [f"--{name}={str(value).lower()}" for name, value in SIZES.items()]
    argv = ["train", "molecules", f"--data.path={path}", "--data.target=aromatic", *fields]
    path = write(tmp_path / "mine.csv", "aromatic", keep=False)
    assert main([*argv, "--trainer.epochs=1", f"--out={tmp_path / 'run'}"]) == 0
    assert "baseline: test/roc_auc" in capsys.readouterr().out
    assert json.loads((tmp_path / "run" / "baseline.json").read_text())["metric"] == "roc_auc"


@pytest.mark.slow
def test_a_run_answers_on_an_sdf_file_and_on_the_fragments_that_it_was_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rdkit import Chem

    path = write(tmp_path / "mine.csv", "aromatic", keep=False)
    fields = {"trainer.epochs": 1, "data.fragments": "largest"}
    train(recipe(path, "aromatic", **fields), tmp_path / "run")
    run = edgewise.load(tmp_path / "run")
    one, salt = run.predict(["CCO", "CCO.[Na+].[Cl-]"])
    assert one["P(aromatic=1)"] == pytest.approx(salt["P(aromatic=1)"], abs=1e-6)
    new = tmp_path / "new.sdf"
    writer = Chem.SDWriter(str(new))
    for smiles in ("CCO", "c1ccccc1"):
        molecule = Chem.MolFromSmiles(smiles)
        molecule.SetProp("note", smiles)
        writer.write(molecule)
    writer.close()
    new.write_text(new.read_text().replace("V2000", "V2OOO", 1))
    answers = run.predict(new)
    assert "line 1 of new.sdf" in answers[0]["error"]
    assert answers[1]["note"] == "c1ccccc1"
    assert answers[1]["P(aromatic=1)"] == run.predict("c1ccccc1")[0]["P(aromatic=1)"]
    assert main(["predict", str(run.path), "--input", str(new), "--why", "1"]) == 1
    assert "c1ccccc1" in capsys.readouterr().out
