"""Molecules: a run answers with the numbers that its data were scaled to, wherever it lies."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("rdkit", reason="RDKit is not installed (the extra chem)")
pytest.importorskip("lightning")

import edgewise
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.runs import Run, train, with_values
from tests.errors import refused

SMILES = ["C", "CC", "CCO", "c1ccccc1", "Cc1ccccc1", "O", "C[N+](C)(C)C.[Cl-]", "CO", "CN", "N"]
SMALL = {
    "model.width": 8,
    "model.depth": 1,
    "model.heads": 2,
    "data.val": 0.25,
    "trainer.epochs": 1,
    "trainer.accelerator": "cpu",
}
AT = {"data.conditions": "T,P", "data.log_conditions": "P", "data.target": "y"}


def table(folder: Path) -> Path:
    path = folder / "mine.csv"
    rows = [f"{s};{i * 1.5};{300 + i},5;{10**i}" for i, s in enumerate(SMILES)]
    path.write_text("\n".join(["structure;y;T;P", *rows]))
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run with conditions and one without, whose table is gone."""
    folder = tmp_path_factory.mktemp("runs")
    path = table(folder)
    found = {}
    for name, more in {"at": AT, "plain": {"data.target": "y", "data.unit": "g/l"}}.items():
        recipe = with_values(find("molecules"), {"data.path": str(path), **SMALL, **more})
        train(recipe, folder / "first" / name)
        found[name] = shutil.move(folder / "first" / name, folder / f"moved-{name}")
    path.unlink()
    return found


@pytest.fixture(scope="module")
def run(runs: dict[str, Path]) -> Run:
    return edgewise.load(runs["at"])


@pytest.fixture(scope="module")
def plain(runs: dict[str, Path]) -> Run:
    return edgewise.load(runs["plain"])


def rows() -> list[dict[str, Any]]:
    return [{"structure": s, "T": 300.5 + i, "P": 10**i} for i, s in enumerate(SMILES)]


def test_answers_are_the_outputs_of_the_model_on_its_data(run: Run, tmp_path: Path) -> None:
    from dataclasses import replace

    splits = replace(run.recipe.data, path=str(table(tmp_path))).load()
    wanted = {}
    for part in (splits.train, splits.val, splits.test):
        batch = part.make(torch.arange(part.count))
        with torch.no_grad():
            outputs = run.model(*batch.inputs, **batch.keywords)
        wanted |= dict(zip(batch.target[:, 0].tolist(), outputs[:, 0].tolist(), strict=True))
    answers = run.predict(rows(), batch_size=3)
    assert [answer["input"] for answer in answers] == SMILES
    found = torch.tensor([answer["y"] for answer in answers])
    torch.testing.assert_close(found, torch.tensor([wanted[i * 1.5] for i in range(len(SMILES))]))
    assert found.std() > 0.01, "they differ"


def test_words_and_units(plain: Run) -> None:
    one, same, other = plain.predict(["CCO", "OCC", "c1ccccc1"])
    assert set(one) == {"input", "y", "unit"}
    assert one["unit"] == "g/l"
    assert one["y"] == pytest.approx(same["y"], abs=1e-5), "the same molecule"
    assert one["y"] != other["y"]
    assert plain.predict("CCO") == [one]


def test_what_cannot_be_read_is_named_and_the_others_are_answered(
    plain: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    answers = plain.predict(["CCO", "C(C", "", None, {"smiles": "C"}, "C"])
    assert ["error" in answer for answer in answers] == [False, True, True, True, True, False]
    assert "'C(C', which RDKit cannot read" in answers[1]["error"]
    assert "a row with structure" in answers[4]["error"]
    assert capfd.readouterr().err == "", "RDKit says nothing by itself"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("CCO", "`T`: expected a number for the condition 'T' of CCO; got none"),
        ({"structure": "CCO", "T": 300}, "a row without P"),
        ({"structure": "CCO", "T": "hot", "P": 1}, "`T`: expected a number"),
        ({"structure": "CCO", "T": "", "P": 1}, "`T`: expected a number"),
        ({"structure": "CCO", "T": 300, "P": 0}, "`P`: expected a number above 0"),
    ],
)
def test_a_condition_that_is_missing_is_named(run: Run, row: Any, said: str) -> None:
    (answer,) = run.predict([row])
    assert said in answer["error"]


def test_the_shell(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(runs["at"]), "CCO", "C=O", "T=300", "P=1e2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["input", lines[1].split()[0], "CCO", "C=O"]
    new = tmp_path / "new.csv"
    text = 'P;note;structure;T\n10;a;CCO;299,5\n1000;"b;c";C(;300\n10;d;O;301\n'
    new.write_bytes(text.encode("utf-16"))
    out = tmp_path / "answers.jsonl"
    assert main(["predict", str(runs["at"]), "--input", str(new), "--out", str(out)]) == 1
    assert "line 3 of new.csv" in capsys.readouterr().err
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["note"] for row in found] == ["a", "b;c", "d"]
    assert ["y" in row for row in found] == [True, False, True]
    assert main(["predict", str(runs["plain"]), "CCO", "--out", str(tmp_path / "a.csv")]) == 0
    with (tmp_path / "a.csv").open() as file:
        assert next(csv.DictReader(file)).keys() == {"input", "y", "unit"}


def test_a_file_without_its_columns_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("structure,T\nC,300\n")
    with refused(str(path), expected="'P'", got="structure, T", remedy="P"):
        run.predict(path)
    path.write_text("Structure,T,P\nC,300,1\n")
    remedy = "rename 'Structure' to 'structure'"
    with refused(str(path), expected="'structure'", got="Structure, T, P", remedy=remedy):
        run.predict(path)


def test_a_table_without_rows_is_refused_and_nothing_is_written(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "out.csv"
    new.write_text("structure\n")
    assert main(["predict", str(runs["plain"]), "--input", str(new), "--out", str(out)]) == 2
    assert "expected at least one input; got none" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [new]


def test_columns_of_the_user_are_kept_beside_those_of_the_answer(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "out.jsonl"
    new.write_text("structure,y,error\nC,7,0.1\nC(,8,\n")
    assert main(["predict", str(runs["plain"]), "--input", str(new), "--out", str(out)]) == 1
    good, bad = map(json.loads, out.read_text().splitlines())
    assert (good["y"], good["own_error"], "error" in good) == ("7", "0.1", False)
    assert isinstance(good["predicted_y"], float)
    assert (bad["y"], bad["own_error"]) == ("8", "")
    assert bad["error"] == capsys.readouterr().err.removeprefix("edgewise: ").strip()


def test_answers_do_not_take_the_place_of_their_inputs(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    new = tmp_path / "new.csv"
    new.write_text("structure\nC\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert main(["predict", str(runs["plain"]), "--input", "new.csv", "--out", str(new)]) == 2
    assert new.read_text() == "structure\nC\n"


def test_a_picture_that_there_is_not_is_refused_before_anything_is_answered(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, picture = tmp_path / "a.csv", tmp_path / "a.png"
    command = ["predict", str(runs["plain"]), "C", "--out", str(out), "--draw", str(picture)]
    assert main(command) == 2
    assert "a run whose predictions can be plotted" in capsys.readouterr().err
    assert not out.exists()


def test_options_may_come_before_inputs(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(runs["plain"]), "--batch-size", "1", "CCO", "CC"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]] == ["CCO", "CC"]
    assert main(["predict", str(runs["plain"]), "CCO", "--tpo", "1"]) == 2
    assert "got 'tpo'" in capsys.readouterr().err


@pytest.mark.parametrize("lost", ["values", "tensors"])
def test_what_a_run_has_lost_is_named(runs: dict[str, Path], tmp_path: Path, lost: str) -> None:
    folder = shutil.copytree(runs["at"], tmp_path / "run")
    path = folder / "preprocessing.json"
    record = json.loads(path.read_text())
    if lost == "values":
        del record["values"]["smiles"]
    else:
        record["tensors"].append("more")
    path.write_text(json.dumps(record))
    name = {"values": "'smiles'", "tensors": "'more'"}[lost]
    with refused(
        str(path), expected="that `edgewise train` wrote", got=name, remedy="restore the file"
    ):
        edgewise.load(folder)


def test_an_option_of_other_runs_is_refused(plain: Run) -> None:
    with refused("option", expected="interval", got="'top'", remedy=""):
        plain.predict(["C"], top=2)
