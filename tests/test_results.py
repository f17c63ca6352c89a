"""The page of results: what is taken in, what is shown, and what is no longer true."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from edgewise.app.cli.baseline import write
from edgewise.app.kinds import RECIPES, find
from edgewise.app.runs import Baseline, paired_test, to_record, with_values
from edgewise.app.runs.seeds import summarise
from edgewise.app.train import RunFolder
from edgewise.app.train.folder import TEST_EXAMPLES

RESULTS = runpy.run_path(str(Path(__file__).resolve().parent.parent / "docs" / "results.py"))
NAME = "gcn-cora"


def finished(runs: Path, *, seeds: int = 2, **changes: Any) -> None:
    """Some seeds, as `edgewise train --seeds` leaves them."""
    folder = runs / NAME
    folder.mkdir(parents=True, exist_ok=True)
    recipe = with_values(find(NAME), {name.replace("_", ".", 1): v for name, v in changes.items()})
    (folder / "recipe.json").write_text(json.dumps(to_record(recipe)))
    each = [{"test/accuracy": value, "cpu_seconds": 30.0} for value in (0.81, 0.83) * (seeds // 2)]
    (folder / "metrics.json").write_text(json.dumps(summarise(each)))


def test_a_row_has_the_mean_the_reference_and_the_protocol(tmp_path: Path) -> None:
    finished(tmp_path)
    measured: dict[str, Any] = {}
    RESULTS["collect"](measured, tmp_path, [NAME], False)
    (row,) = [line for line in RESULTS["page"](measured).splitlines() if f"| `{NAME}`" in line]
    protocol = find(NAME).protocol
    cells = row.strip("| ").split(" | ")
    ours = ["`gcn`", "accuracy 82.00 ± 1.41 %", "", "not measured"]
    assert cells[1:6] == [*ours, protocol.reference]
    again = f"`python docs/results.py --runs DIR --train {NAME}`"
    assert cells[6:] == [f"{protocol.says}; **stale: 2 of 10 seeds**, {again}", "1.0"]
    assert f"edgewise train {NAME} --seeds 10" in RESULTS["page"](measured)


@pytest.mark.parametrize(
    ("found", "says"), [(10, "seeds 0 to 9"), (3, "**stale: 3 of 10 seeds**"), (0, "1 of 10 seeds")]
)
def test_a_row_says_how_many_seeds_it_is_of(found: int, says: str) -> None:
    each: dict[str, Any] = {"test/accuracy": 0.8, "cpu_seconds": 30.0}
    metrics = summarise([each] * found) if found else each  # 0: one run, not a folder of seeds
    recipe = find(NAME)
    page = RESULTS["page"]({NAME: {"recipe": to_record(recipe), "metrics": metrics}})
    (row,) = [line for line in page.splitlines() if f"| `{NAME}`" in line]
    assert says in row


def with_baseline(accuracy: float, **changes: Any) -> dict[str, Any]:
    """Measurements of ten seeds with 80 %, and of a baseline."""
    recipe = find(NAME)
    metrics = summarise([{"test/accuracy": 0.8, "cpu_seconds": 30.0}] * 10)
    simple = {"name": "SGC", "setting": "", "metrics": {"test/accuracy": accuracy}, "folds": False}
    fields = RESULTS["own_fields"](with_values(recipe, changes))
    return {
        NAME: {"recipe": to_record(recipe), "metrics": metrics},
        "baselines": {NAME: {**simple, "fields": fields, "cpu_seconds": 1.0}},
    }


@pytest.mark.parametrize(
    ("accuracy", "first"),
    [(0.81, f"Behind SGC: `{NAME}`"), (0.8, f"`{NAME}`"), (0.79, f"`{NAME}`")],
)
def test_a_row_behind_its_baseline_says_so_in_its_first_words(accuracy: float, first: str) -> None:
    page = RESULTS["page"](with_baseline(accuracy))
    ours = "`gcn` | accuracy 80.00 ± 0.00 %"
    assert f"| {first} | {ours} |  | SGC: accuracy {100 * accuracy:.2f} % |" in page


def test_a_baseline_of_other_data_is_not_shown() -> None:
    page = RESULTS["page"](with_baseline(0.81, **{"data.name": "CiteSeer"}))
    assert f"| `{NAME}` | `gcn` | accuracy 80.00 ± 0.00 % |  | not measured |" in page


def test_recipes_with_the_same_data_share_a_baseline() -> None:
    found = with_baseline(0.81)
    assert RESULTS["baseline_of"](find("gat-cora"), found)["name"] == "SGC"
    assert RESULTS["baseline_of"](find("gin-mutag"), found) is None


def test_a_baseline_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setattr("edgewise.app.kinds.images.baseline.STRENGTHS", ())
    calls = []
    measure = RESULTS["collect_baseline"].__globals__["measure"]

    def counted(recipe: Any, folder: Path, *, folds: bool) -> str:
        calls.append(recipe.name)
        return str(measure(recipe, folder, folds=folds))

    monkeypatch.setitem(RESULTS["collect_baseline"].__globals__, "measure", counted)
    measured: dict[str, Any] = {}
    for folder in ("one", "other"):
        RESULTS["collect"](measured, tmp_path / folder, ["digits"], False, True)
    assert calls == ["digits"]
    found = measured["baselines"]["digits"]
    assert found["name"] == "k-NN on pixels"
    assert found["metrics"]["test/accuracy"] > 0.9


def test_the_page_names_each_row_that_is_behind() -> None:
    """The committed page against the committed measurements, row by row."""
    measured = json.loads(RESULTS["MEASURED"].read_text())
    rows = [line.strip("| ").split(" | ") for line in RESULTS["PAGE"].read_text().splitlines()]
    known = 0
    for name, recipe in RECIPES.items():
        baseline = recipe.protocol and RESULTS["baseline_of"](recipe, measured)
        row = [cells for cells in rows if cells[0].endswith(f"`{name}`") and len(cells) == 8]
        if not baseline or not row:
            continue
        known += 1
        behind = False
        for metric in recipe.protocol.metrics if recipe.protocol else ():
            ours, theirs = measured[name]["metrics"][metric], baseline["metrics"][metric]
            ours, theirs = (one["mean"] if isinstance(one, dict) else one for one in (ours, theirs))
            error = metric.endswith(("loss", "mae", "rmse", "ratio"))
            behind |= ours > theirs if error else ours < theirs
        assert row[0][0] == f"Behind {baseline['name']}: " * behind + f"`{name}`"
    assert known > 10


def test_a_row_without_a_metric_that_is_now_asked_for_is_not_shown() -> None:
    metrics = summarise([{"test/loss": 0.8, "cpu_seconds": 30.0}] * 10)
    page = RESULTS["page"]({NAME: {"recipe": to_record(find(NAME)), "metrics": metrics}})
    assert f"`{NAME}`" in page.split("no current measurement")[1]


def test_what_was_measured_with_other_numbers_is_not_shown(tmp_path: Path) -> None:
    finished(tmp_path, model_width=8)
    measured: dict[str, Any] = {}
    RESULTS["collect"](measured, tmp_path, [NAME], False)
    assert measured == {}
    record = json.loads((tmp_path / NAME / "recipe.json").read_text())
    metrics = json.loads((tmp_path / NAME / "metrics.json").read_text())
    page = RESULTS["page"]({NAME: {"recipe": record, "metrics": metrics}})
    assert f"| `{NAME}`" not in page
    assert f"`{NAME}`" in page.split("no current measurement")[1]


def test_what_is_missing_or_stale_is_trained_and_what_is_whole_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def train_seeds(recipe: Any, seeds: int, path: Path, *, resume: bool) -> None:
        calls.append((recipe.name, seeds, resume))
        finished(path.parent, seeds=seeds if resume else 2)

    monkeypatch.setattr("edgewise.app.runs.seeds.train_seeds", train_seeds)
    measured: dict[str, Any] = {}
    for _ in range(3):
        RESULTS["collect"](measured, tmp_path, [NAME], True)
    assert calls == [(NAME, 10, False), (NAME, 10, True)], "whole after the second"
    assert len(measured[NAME]["metrics"]["test/accuracy"]["values"]) == 10


def test_how_often_a_run_saved_makes_no_other_recipe_of_it(tmp_path: Path) -> None:
    finished(tmp_path, trainer_save_every=60)
    measured: dict[str, Any] = {}
    RESULTS["collect"](measured, tmp_path, [NAME], False)
    assert NAME in measured


def test_a_row_has_the_p_value_over_test_examples(tmp_path: Path) -> None:
    """Of two seeds, beside the baseline that `edgewise train` leaves in the folder of the run."""
    finished(tmp_path)
    ours, theirs = torch.tensor([[1.0, 1, 0, 1], [1, 1, 1, 1]]), torch.tensor([1.0, 0, 0, 1])
    target = torch.tensor([3.0, 1, 2, 0])
    for seed, right in enumerate(ours):
        folder = RunFolder(tmp_path / NAME / f"seed-{seed}")
        folder.make()
        folder.write_json("recipe.json", to_record(find(NAME)))
        folder.write_tensors(TEST_EXAMPLES, {"target": target, "accuracy": right})
    metrics = {"val/accuracy": 0.5, "test/accuracy": 0.5}
    examples = {"target": target, "accuracy": theirs}
    write(tmp_path / NAME, find(NAME), [Baseline("SGC", "", metrics, 1.0, examples)])
    measured: dict[str, Any] = {}
    RESULTS["collect_baseline"](find(NAME), measured, tmp_path / NAME, False)
    RESULTS["collect"](measured, tmp_path, [NAME], False)
    p = paired_test(ours.mean(0), theirs).p
    assert f"SGC: accuracy 50.00 %; p = {p:.2f} |" in RESULTS["page"](measured)
    measured["baselines"][NAME]["metrics"] = {"test/accuracy": 0.6}
    assert "p = " not in RESULTS["page"](measured).split("## ", 1)[1], "of another baseline"


def test_a_hybrid_model_names_its_parts(tmp_path: Path) -> None:
    model_text = RESULTS["model_text"]
    assert model_text(find(NAME), {}) == "`gcn`"
    assert model_text(find("lightgcn-gowalla"), {}) == "`lightgcn`, hybrid with a low-pass filter"
    finished(tmp_path)
    note = {"parts of the predictions": "60 % naive Bayes, 40 % network (on the validation set)"}
    first = tmp_path / NAME / "seed-0"
    first.mkdir()
    RunFolder(first).write_json("notes.json", note)
    measured: dict[str, Any] = {}
    RESULTS["collect"](measured, tmp_path, [NAME], False)
    assert measured[NAME]["parts"] == "60 % naive Bayes, 40 % network"
    recipe, metrics = find("sst2"), measured[NAME]["metrics"]
    row = {"recipe": to_record(recipe), "metrics": metrics, "parts": measured[NAME]["parts"]}
    alone = {"metrics": {"test/accuracy": 0.7}}
    page = RESULTS["page"]({"sst2": row, "sst2-naive-bayes": alone})
    (cells,) = (line.split(" | ") for line in page.splitlines() if line.startswith("| `sst2`"))
    assert cells[1] == "`bert`, hybrid with naive Bayes (60 % naive Bayes, 40 % network)"
    assert cells[3] == "network: not measured; naive Bayes: accuracy 70.00 %"


def test_the_parts_of_each_hybrid_are_beside_it() -> None:
    hybrids = {
        name
        for name, recipe in RECIPES.items()
        if recipe.protocol and "hybrid" in RESULTS["model_text"](recipe, {})
    }
    assert hybrids == set(RESULTS["PARTS"])
    for name, parts in RESULTS["PARTS"].items():
        for where in parts.values():  # The name of a variant has no space.
            assert " " in where or where in {RESULTS["BASELINE"], *RESULTS["BESIDE"][name]}
